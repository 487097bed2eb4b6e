"""The numbers of a decoder that memory and speed follow from. Knows config.json, no weights."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

_NAMES = {
    "layers": "num_hidden_layers",
    "hidden": "hidden_size",
    "intermediate": "intermediate_size",
    "heads": "num_attention_heads",
    "kv_heads": "num_key_value_heads",
    "head_dim": "head_dim",
    "vocab": "vocab_size",
    "tied": "tie_word_embeddings",
    "experts": "num_experts",
    "experts_per_token": "num_experts_per_tok",
    "window": "sliding_window",
}


class Shape(BaseModel):
    """Layer and head counts; None where the source did not say. `intermediate` is of one expert."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    layers: int | None = Field(default=None, gt=0)
    hidden: int | None = Field(default=None, gt=0)
    intermediate: int | None = Field(default=None, gt=0)
    heads: int | None = Field(default=None, gt=0)
    kv_heads: int | None = Field(default=None, gt=0)
    head_dim: int | None = Field(default=None, gt=0)
    vocab: int | None = Field(default=None, gt=0)  # rows of the embedding, padding included
    tied: bool | None = None
    experts: int | None = Field(default=None, gt=0)
    experts_per_token: int | None = Field(default=None, gt=0)
    window: int | None = Field(default=None, gt=0)

    @classmethod
    def of_config(cls, config: dict[str, Any]) -> Shape:
        """Read from a config.json, the text part of a model that also sees."""
        text = {**config, **config.get("text_config", {})}
        if "num_local_experts" in text:  # gpt-oss and Mixtral name it so
            text["num_experts"] = text["num_local_experts"]
        if text.get("moe_intermediate_size"):
            text["intermediate_size"] = text["moe_intermediate_size"]
        if text.get("use_sliding_window") is False:
            text["sliding_window"] = None
        values = {ours: text.get(theirs) for ours, theirs in _NAMES.items()}
        if values["kv_heads"] is None:
            values["kv_heads"] = values["heads"]
        if values["head_dim"] is None and values["hidden"] and values["heads"]:
            values["head_dim"] = values["hidden"] // values["heads"]
        return cls.model_validate(values)

    @property
    def attention(self) -> int | None:
        """Weights of one layer's four attention matrices."""
        if not (self.hidden and self.heads and self.kv_heads and self.head_dim):
            return None
        return 2 * self.hidden * self.head_dim * (self.heads + self.kv_heads)

    def decoder(self, experts: int) -> int | None:
        """Weights of all layers when `experts` of a mixture are read."""
        if not (self.attention and self.layers and self.hidden and self.intermediate):
            return None
        return self.layers * (self.attention + 3 * self.hidden * self.intermediate * experts)

    @property
    def embedding(self) -> int | None:
        """Weights of the embedding, and of an output matrix of its own."""
        return self.vocab * self.hidden if self.vocab and self.hidden else None

    @property
    def parameters(self) -> int | None:
        """All weights, norms and biases left out (below 0.1 %); an unknown `tied` counts as not."""
        decoder, embedding = self.decoder(self.experts or 1), self.embedding
        if decoder is None or embedding is None:
            return None
        return decoder + embedding * (1 if self.tied else 2)

    @property
    def step_parameters(self) -> int | None:
        """Weights one step reads: the layers (active experts only) and the output matrix."""
        decoder, embedding = self.decoder(self.experts_per_token or 1), self.embedding
        return None if decoder is None or embedding is None else decoder + embedding
