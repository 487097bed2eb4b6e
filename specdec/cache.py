"""The fallback scorer: a transformers model and its cache. The only file that touches that cache.

Knows transformers' cache API (5.24); nothing of rounds or acceptance.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from specdec import threads
from specdec.runner import fit_vocab, prefill_chunk


class FallbackScorer:
    """A `Scorer` over any causal model of transformers; never `exact`.

    Where the cache cannot be shortened, `can_rewind` is False, `rewind_reason` says why, and
    `rewind` reads the tokens again from the first: right, but too slow to speculate with (A13).
    """

    exact = False

    def __init__(self, module: Any, width: int, capacity: int, vocab: int) -> None:
        self.vocab = vocab
        self.capacity = capacity
        self.chunk = prefill_chunk(module.device)
        self._module = module
        self._width = width
        self._ids: list[int] = []
        self._cache = self._new_cache()
        self._singly = False
        self.rewind_reason = self._why_no_rewind()
        self.can_rewind = not self.rewind_reason
        self._singly = not self.can_rewind and not self._continues()

    @property
    def length(self) -> int:
        return len(self._ids)

    @property
    def reusable(self) -> int:
        return len(self._ids)

    def room(self) -> int:
        return min(self._width, self.capacity - len(self._ids))

    def prefill(self, ids: Sequence[int]) -> None:
        start = len(self._ids)
        border = (start // self.chunk + 1) * self.chunk
        if not ids or start + len(ids) > min(border, self.capacity):
            raise ValueError(f"prefill of {len(ids)} tokens at {start}: the chunk ends at {border}")
        with threads.all_of_them():
            self._append(ids, rows=1)

    def score(self, ids: Sequence[int]) -> Tensor:
        if not 1 <= len(ids) <= self.room():
            raise ValueError(f"score of {len(ids)} rows: there is room for {self.room()}")
        return fit_vocab(self._append(ids, rows=len(ids)), self.vocab)

    def score_tensor(self, ids: Tensor) -> Tensor:
        return self.score(ids.tolist())  # read here: what is cached is known by ids

    def rewind(self, length: int) -> None:
        have = len(self._ids)
        if not 0 <= length <= have:
            raise ValueError(f"rewind to {length}: {have} tokens are cached")
        if length == have > 0:
            return
        if self.can_rewind and length > 0:
            self._cache.crop(length - have)  # 5.24: a negative count of tokens to remove
            del self._ids[length:]
            return
        kept, self._ids, self._cache = self._ids[:length], [], self._new_cache()
        for start in range(0, length, self.chunk):
            self._append(kept[start : start + self.chunk], rows=1)

    def _append(self, ids: Sequence[int], rows: int) -> Tensor:
        """Read `ids`; the logits of the last `rows` of them, [rows, V]."""
        if not self._singly or len(ids) == 1:
            return self._call(ids, rows)
        return torch.cat([self._call([token], 1) for token in ids])[-rows:]

    @torch.inference_mode()
    def _call(self, ids: Sequence[int], rows: int) -> Tensor:
        tensor = torch.tensor([list(ids)], dtype=torch.int64).to(self._module.device)
        try:
            out = self._module(
                input_ids=tensor, cache=self._cache, use_cache=True, logits_to_keep=rows
            )
        except BaseException:  # some layers may hold the new tokens and others not
            self._ids, self._cache = [], self._new_cache()
            raise
        self._ids.extend(ids)
        logits: Tensor = out.logits[0, -rows:]  # not every model heeds logits_to_keep
        return logits

    def _continues(self) -> bool:
        """Whether several tokens at once carry a running state on.

        Transformers' Mamba starts from nothing there, without a word; such a model reads singly.
        """
        ids = list(range(2, 10))
        self._call(ids[:4], 1)
        together = self._call(ids[4:], 1)
        self._ids, self._cache = [], self._new_cache()
        for token in ids:
            singly = self._call([token], 1)
        self._ids, self._cache = [], self._new_cache()
        return bool((together - singly).abs().max() <= 0.05 * singly.abs().max())

    def _new_cache(self) -> Any:
        from transformers import DynamicCache  # here: transformers takes seconds to import

        return DynamicCache(config=self._module.config)

    def _why_no_rewind(self) -> str:
        """Read two tokens and look at the cache they left: layers are made on first use."""
        self._call((0, 0), rows=1)
        cache, self._cache, self._ids = self._cache, self._new_cache(), []
        for layer in cache.layers:
            if not layer.is_croppable or not hasattr(layer, "keys"):
                return "its cache holds a running state that cannot be shortened"
            if layer.is_sliding and layer.sliding_window <= self.capacity:
                return f"its cache forgets all but the last {layer.sliding_window} tokens"
        return "" if cache.layers else "it keeps no cache of its own"
