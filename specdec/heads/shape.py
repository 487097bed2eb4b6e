"""config.json of an EAGLE-3 head, in either layout -> one `HeadShape`. No torch.

Knows config fields; nothing of tensors or of the target's own config.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from specdec.errors import LoadError
from specdec.families import Shape, shape_of
from specdec.rope import UnknownMathsError

Layout = Literal["eagle", "speculators"]

_USE = "Choose another draft, ngram, or none."


@dataclass(frozen=True, slots=True)
class HeadShape:
    """Everything that sets one head apart.

    `block` is its one layer, whose attention reads 2 * hidden numbers. `states` are the target's
    layers it reads, by what enters them: 0 is the embedding, the number of layers what leaves the
    last; None is the customary (2, n // 2, n - 3). `taps` is how many those are.
    """

    layout: Layout
    block: Shape
    drafts: int  # ids it can draft
    target_hidden: int  # width of the target's states
    states: tuple[int, ...] | None
    taps: int
    target: str = ""  # whom it was trained for, as its config says
    norm_before_residual: bool = False  # the normalised state goes round the attention
    norm_before_fc: bool = False  # one norm over all states
    fc_norm: bool = False  # one norm a state
    norm_output: bool = False  # what is fed back is normalised

    def states_of(self, layers: int) -> tuple[int, ...]:
        """Which states of a target of so many layers. Raises LoadError: it has not got them."""
        chosen = self.states or (2, layers // 2, layers - 3)
        if list(chosen) != sorted(set(chosen)) or not 0 <= chosen[0] <= chosen[-1] <= layers:
            raise LoadError(
                f"The head reads the states {chosen} of a target that has {layers} layers.", _USE
            )
        return chosen


def is_head(config: Mapping[str, Any]) -> bool:
    """Whether a config.json is of a draft head rather than of a whole model."""
    return "speculators_model_type" in config or "draft_vocab_size" in config


def head_shape(config: Mapping[str, Any]) -> HeadShape:
    """Read either layout. Raises LoadError for one that nothing here computes, and why."""
    try:
        return _speculators(config) if "speculators_model_type" in config else _eagle(config)
    except UnknownMathsError as error:
        raise LoadError(f"This head cannot be run: {error}.", _USE) from error
    except (KeyError, TypeError, ValueError) as error:
        raise LoadError(
            f"The head's config.json lacks or misstates {error}.", "Fetch the head anew."
        ) from error


def _speculators(config: Mapping[str, Any]) -> HeadShape:
    """The layout of vllm-project/speculators: the layer's own config is nested."""
    kind = config["speculators_model_type"]
    if kind != "eagle3":
        raise UnknownMathsError(f"it is of kind {kind}, and only eagle3 is known")
    layer = dict(config["transformer_layer_config"])
    verifier = (config.get("speculators_config") or {}).get("verifier") or {}
    states = config.get("eagle_aux_hidden_state_layer_ids")
    return HeadShape(
        layout="speculators",
        block=_block(layer, layer.get("model_type", "qwen3")),
        drafts=int(config["draft_vocab_size"]),
        target_hidden=int(config.get("target_hidden_size") or layer["hidden_size"]),
        states=tuple(map(int, states)) if states else None,
        taps=len(states) if states else 3,
        target=str(verifier.get("name_or_path") or ""),
        norm_before_residual=bool(config.get("norm_before_residual")),
        norm_before_fc=bool(config.get("norm_before_fc")),
        fc_norm=bool(config.get("fc_norm")),
        norm_output=bool(config.get("norm_output")),
    )


def _eagle(config: Mapping[str, Any]) -> HeadShape:
    """The layout of SafeAILab/EAGLE: a flat Llama config, whatever model_type it names.

    SpecForge nests the layers it reads, counted by what leaves them.
    """
    nested = (config.get("eagle_config") or {}).get("eagle_aux_hidden_state_layer_ids")
    flat = config.get("eagle_aux_hidden_state_layer_ids")
    states = [int(i) + 1 for i in nested] if nested else [int(i) for i in flat or ()]
    return HeadShape(
        layout="eagle",
        block=_block({**config, "attention_bias": False, "mlp_bias": False}, "llama"),
        drafts=int(config["draft_vocab_size"]),
        target_hidden=int(config.get("target_hidden_size") or config["hidden_size"]),
        states=tuple(states) or None,
        taps=len(states) or 3,
        norm_before_residual=bool(config.get("norm_before_residual")),
    )


def _block(layer: Mapping[str, Any], family: str) -> Shape:
    if family not in ("llama", "qwen3"):
        raise UnknownMathsError(f"its layer is of family {family}")
    if (count := int(layer["num_hidden_layers"])) != 1:
        raise UnknownMathsError(f"it has {count} layers, and heads of one layer are known")
    block, why = shape_of({**layer, "model_type": family, "tie_word_embeddings": False})
    if block is None:
        raise UnknownMathsError(why)
    return block
