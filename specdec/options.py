"""What an engine is started with: where files lie, which pair, which device. No torch."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

DTYPES = ("float32", "bfloat16", "float16")
QUANTISED = ("int4", "int8")
WEIGHTS = ("bf16", "packed", "int8")
DRAFT_DTYPES = (*QUANTISED, *DTYPES)


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """None means: choose, and say why. Which pair is no option: `load()` is told."""

    data_dir: Path
    device: str | None = None  # "cuda", "cuda:1", "mps", "cpu"
    dtype: str | None = None  # one of DTYPES
    draft_dtype: str | None = None  # one of DRAFT_DTYPES
    weights: str | None = None  # of the target, one of WEIGHTS; None = as published
    offline: bool = False
    context: int | None = None  # most tokens of prompt + reply; None = what fits
    ngram_store: bool = True  # earlier replies may serve n-gram drafts; False: none read or kept
