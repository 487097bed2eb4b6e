"""A model folder's tokenizer, its end ids and its decode. Knows files and transformers' tokenizers.

Remote code is never run, the network never asked.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from specdec.errors import LoadError


def load_tokenizer(folder: Path) -> Any:
    """The folder's tokenizer.json as it stands, with its template and special tokens.

    Not through AutoTokenizer, which rebuilds the vocabulary and takes three times as long. Raises
    LoadError when it cannot be read.
    """
    if not (folder / "tokenizer.json").exists():
        raise LoadError(
            f"{folder} has no tokenizer.json.", "Use a model that ships a fast tokenizer."
        )
    from transformers import PreTrainedTokenizerFast

    try:
        return PreTrainedTokenizerFast.from_pretrained(folder, local_files_only=True)
    except Exception as error:  # its own errors are of many kinds, most of them long
        first = str(error).strip().splitlines()[0]
        raise LoadError(
            f"The tokenizer in {folder} cannot be read: {first}", "Fetch the model anew."
        ) from error


def end_ids(folder: Path, tokenizer: Any) -> frozenset[int]:
    """Every id the model's files name as an end of a reply (A01): generation, config, tokenizer."""
    found: set[int] = set()
    for name in ("generation_config.json", "config.json"):
        path = folder / name
        if path.exists():
            value = json.loads(path.read_text(encoding="utf-8")).get("eos_token_id")
            found |= set(value if isinstance(value, list) else [value])
    found.add(tokenizer.eos_token_id)
    ids = frozenset(i for i in found if isinstance(i, int))
    if not ids:
        raise LoadError(
            f"{folder} names no end token.", "Add eos_token_id to its generation_config.json."
        )
    return ids


class Decode:
    """Text of ids: special tokens skipped, spaces left as they are."""

    def __init__(self, tokenizer: Any) -> None:
        self._backend = tokenizer.backend_tokenizer

    def __call__(self, ids: Sequence[int]) -> str:
        return str(self._backend.decode(list(ids), skip_special_tokens=True))
