"""Layers inside a checkpoint that predict tokens beyond the next: listed, with why none drafts.

DeepSeek-V3, GLM-4.5 and others ship them ("MTP": DeepSeek-AI 2024, arXiv 2412.19437, section 2.2).
Knows names in a config.json; nothing of weights.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from specdec.pair import DraftOption

COUNTS = ("num_mtp_layers", "num_nextn_predict_layers", "mtp_num_hidden_layers")
"""What configs call their number: transformers' own name first, then those of the checkpoints."""


def prediction_layers(config: Mapping[str, Any]) -> int:
    """How many the config names; 0 where it names none, or something else than a number."""
    text = config.get("text_config")
    inner = text if isinstance(text, Mapping) else {}
    found = (part.get(name) for part in (config, inner) for name in COUNTS)
    return max((count for count in found if type(count) is int), default=0)


def own_layers_option(config: Mapping[str, Any]) -> DraftOption | None:
    """The row that tells of them, or None where there are none."""
    count = prediction_layers(config)
    if count < 1:
        return None
    return DraftOption(
        "mtp",
        "the target's own prediction layers",
        "rejected",
        f"its files name {count} (MTP), which this program does not run yet",
        usable=False,
    )
