"""Fake scorers whose tables are built to disagree between draft and target, and a byte tokenizer.

Knows no model: logits are a function of the tokens before them, so the true law can be enumerated.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor

from specdec.drafters.base import Context, Draft, Drafter, Offer

Table = Callable[[tuple[int, ...]], Tensor]
"""Tokens so far -> logits of the next, float32 [V]."""


class TableScorer:
    """A Scorer over a table. `calls` holds the row count of every score, `prefills` of prefill."""

    can_rewind = True

    def __init__(
        self,
        table: Table,
        vocab: int,
        capacity: int = 4096,
        chunk: int = 8,
        width: int = 17,
        exact: bool = True,
    ) -> None:
        self.vocab, self.capacity, self.chunk, self.exact = vocab, capacity, chunk, exact
        self.ids: list[int] = []
        self.calls: list[int] = []
        self.prefills: list[int] = []
        self._table, self._width, self._written = table, width, 0

    @property
    def length(self) -> int:
        return len(self.ids)

    @property
    def reusable(self) -> int:
        if not self.exact:
            return self.length
        return min(self._written, self.length) // self.chunk * self.chunk

    def room(self) -> int:
        return min(self._width, self.capacity - self.length)

    def prefill(self, ids: Sequence[int]) -> None:
        border = (self.length // self.chunk + 1) * self.chunk
        if self.length + len(ids) > min(border, self.capacity):
            raise ValueError(f"{len(ids)} tokens from {self.length} cross {border}")
        self.prefills.append(len(ids))
        self.ids += ids
        self._written = self.length

    def score(self, ids: Sequence[int]) -> Tensor:
        if not 1 <= len(ids) <= self.room():
            raise ValueError(f"{len(ids)} rows asked, room for {self.room()}")
        self.calls.append(len(ids))
        rows = []
        for token in ids:
            self.ids.append(token)
            rows.append(self._table(tuple(self.ids)))
        return torch.stack(rows)

    def score_tensor(self, ids: Tensor) -> Tensor:
        return self.score(ids.tolist())

    def rewind(self, length: int) -> None:
        if not 0 <= length <= self.length:
            raise ValueError(f"cannot rewind {self.length} to {length}")
        del self.ids[length:]
        self._written = min(self._written, length)


def random_table(vocab: int, seed: int, spread: float = 1.5, memory: int = 2) -> Table:
    """Normal logits of that spread, other ones for each run of the last `memory` tokens."""

    @cache
    def row(last: tuple[int, ...]) -> Tensor:
        number = seed
        for token in last:
            number = (number * 1_000_003 + token + 1) % 2**61
        return torch.randn(vocab, generator=torch.Generator().manual_seed(number)) * spread

    return lambda tokens: row(tokens[-memory:])


def disagreeing_pair(
    vocab: int, seed: int, agree: float = 0.6, spread: float = 1.5
) -> tuple[Table, Table]:
    """Target and draft tables: equal after a share `agree` of contexts, unrelated else.

    Greedy or sampled, rounds of full, partial and zero acceptance all occur (A39).
    """
    target = random_table(vocab, seed, spread)
    other = random_table(vocab, seed + 1, spread)
    coin = random_table(1, seed + 2, 1.0)
    edge = float(torch.special.ndtri(torch.tensor(agree)))

    def draft(tokens: tuple[int, ...]) -> Tensor:
        return target(tokens) if float(coin(tokens)[0]) < edge else other(tokens)

    return target, draft


def scripted_table(reply: Sequence[int], start: int, vocab: int, height: float = 20.0) -> Table:
    """Says `reply` from position `start` on whatever came before, then id 0 for ever."""

    def table(tokens: tuple[int, ...]) -> Tensor:
        place = len(tokens) - start
        logits = torch.zeros(vocab)
        logits[reply[place] if 0 <= place < len(reply) else 0] = height
        return logits

    return table


class Proposing:
    """A drafter that proposes what it is told: `script(tokens, k)` -> token ids, one-hot laws."""

    name = "proposing"
    wants_hidden = False

    def __init__(self, script: Callable[[Sequence[int], int], Sequence[int]]) -> None:
        self._script = script
        self.settled: list[tuple[tuple[int, ...], int]] = []

    def begin(self, tokens: Sequence[int]) -> None:
        """Nothing to prepare."""

    def offers(self, tokens: Sequence[int]) -> Sequence[Offer]:
        return (Offer(self.name),)

    def catch_up(self, tokens: Sequence[int]) -> bool:
        return True

    def propose(self, context: Context, k: int) -> Draft:
        tokens = tuple(self._script(context.tokens, k))
        return Draft(tokens, (None,) * len(tokens))

    def settle(self, tokens: Sequence[int], accepted: int) -> None:
        self.settled.append((tuple(tokens), accepted))


class Withdrawing:
    """The classic fault, for tests that must notice it: drawn tokens of low q are withdrawn."""

    wants_hidden = False

    def __init__(self, inner: Drafter, below: float = 0.2) -> None:
        self.name, self._inner, self._below = "withdrawing", inner, below

    def begin(self, tokens: Sequence[int]) -> None:
        self._inner.begin(tokens)

    def offers(self, tokens: Sequence[int]) -> Sequence[Offer]:
        return self._inner.offers(tokens)

    def catch_up(self, tokens: Sequence[int]) -> bool:
        return self._inner.catch_up(tokens)

    def propose(self, context: Context, k: int) -> Draft:
        draft = self._inner.propose(context, k)
        for j, (x, q) in enumerate(zip(draft.tokens, draft.laws, strict=True)):
            if q is not None and q.prob(x) < self._below:
                return Draft(draft.tokens[:j], draft.laws[:j])
        return draft

    def settle(self, tokens: Sequence[int], accepted: int) -> None:
        self._inner.settle(tokens, accepted)


class ByteTokenizer:
    """One id a byte; 256 begins and 257 ends a reply. Fits where `decode(ids) -> str` is asked."""

    begin_id, end_id, vocab = 256, 257, 258

    def encode(self, text: str) -> list[int]:
        return list(text.encode())

    def decode(self, ids: Sequence[int]) -> str:
        """Incomplete characters become replacement marks, as real tokenizers do."""
        return bytes(t for t in ids if t < 256).decode(errors="replace")


@dataclass(frozen=True)
class Uneven:
    """A matrix whose rows feel how many there are, as half-precision kernels do, only more."""

    weight: Tensor  # [N, K]
    nbytes: int = 0

    @property
    def width(self) -> int:
        return self.weight.shape[1]

    def __call__(self, x: Tensor) -> Tensor:
        return (x @ self.weight.T) * (1 + 0.02 * len(x))
