"""A trained head as a folder others can load, with its card. Knows the layout, no training.

The names and maps are those of SafeAILab/EAGLE; `eagle_aux_hidden_state_layer_ids` counts layers by
what enters them, as vllm-project/speculators does.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from specdec.training import vocab
from specdec.training.files import write_bytes, write_json, write_tensors
from specdec.training.module import DraftHead, Size


def config(size: Size, rows: int, drafts: int) -> dict[str, Any]:
    """config.json: a Llama of one layer, and what makes it a head."""
    return {
        "architectures": ["LlamaForCausalLMEagle3"],
        "model_type": "llama",
        "hidden_size": size.hidden,
        "intermediate_size": size.intermediate,
        "num_attention_heads": size.heads,
        "num_key_value_heads": size.kv_heads,
        "head_dim": size.head_dim,
        "num_hidden_layers": 1,
        "hidden_act": "silu",
        "rms_norm_eps": size.eps,
        "rope_theta": size.theta,
        "max_position_embeddings": size.context,
        "vocab_size": rows,
        "draft_vocab_size": drafts,
        "eagle_aux_hidden_state_layer_ids": list(size.taps),
        "tie_word_embeddings": False,
        "torch_dtype": "bfloat16",
    }


def write_head(
    out: Path,
    head: DraftHead,
    output: Tensor | None,
    ids: tuple[int, ...],
    rows: int,
    card: dict[str, Any],
) -> None:
    """model.safetensors in bf16, config.json, card.json and README.md.

    `output` float32 [D, hidden] are the target's rows of the draft ids, or None where a reader
    takes them from the target's embedding; `rows` is the target's vocabulary.
    """
    d2t, t2d = vocab.maps(ids, rows)
    tensors: dict[str, Tensor] = {
        name: weight.to(torch.bfloat16) for name, weight in head.named_parameters()
    }
    tensors |= {"d2t": d2t, "t2d": t2d}
    if output is not None:
        tensors["lm_head.weight"] = output.to(torch.bfloat16)
    write_tensors(out / "model.safetensors", tensors, {})
    write_json(out / "config.json", config(head.size, rows, len(ids)))
    write_json(out / "card.json", card)
    write_bytes(out / "README.md", _text(card).encode())


def _text(card: dict[str, Any]) -> str:
    last = card["acceptance"]
    depths = "\n".join(
        f"| {depth} | {greedy:.1%} | {reject:.1%} |"
        for depth, (greedy, reject) in enumerate(
            zip(last["greedy"], last["reject"], strict=True), 1
        )
    )
    return (
        f"# A draft head for {card['target']}\n\n"
        f"EAGLE-3 (arXiv 2503.01840), trained by `{card['command']}`.\n\n"
        f"- Data: {card['data']}; {card['sequences']:,} sequences, {card['tokens_gathered']:,}"
        f" tokens, {card['held_out']} more sequences held out and never trained on.\n"
        f"- Training: {card['updates']:,} updates, {card['tokens_trained']:,} tokens,"
        f" {card['minutes']:.1f} minutes in all, on {card['device']}.\n"
        f"- Draft vocabulary: {card['vocab']:,} ids, {card['covered']:.1%} of the held-out"
        " replies' tokens.\n\n"
        "Of drafts at each depth, those kept on the held-out replies, the earlier ones kept:\n\n"
        "| depth | greedy | temperature 1 |\n|---|---|---|\n"
        f"{depths}\n\n"
        f"Told from {last['rows']:,} places. The target's law is never changed by a head:"
        " a bad one is slow, not wrong.\n"
    )
