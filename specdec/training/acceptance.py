"""How many drafts of a chain would be kept, by depth, on text that was not trained on.

Two rules, each given that all earlier drafts of the chain were kept:
`greedy`: the head's likeliest id is the target's, along text that is the target's likeliest so far.
`reject`: sum of min(p, q) at temperature 1; a chain that wrote the text was kept so far with chance
prod of min(1, q / p), exact where the text was drawn from p (Leviathan et al., arXiv 2211.17192).
Knows one unrolled pass; nothing of how a head is trained.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from specdec.training.module import DraftHead
from specdec.training.practice import STEPS, Batch, Ends, unroll


@dataclass(frozen=True, slots=True)
class Acceptance:
    """Shares by depth 1 to STEPS, and the rows that depth 1 was told from."""

    greedy: tuple[float, ...]
    reject: tuple[float, ...]
    rows: int

    @property
    def mean(self) -> float:
        """Tokens a greedy round of STEPS drafts gives, the bonus token counted."""
        total, chain = 1.0, 1.0
        for share in self.greedy:
            chain *= share
            total += chain
        return total

    def __str__(self) -> str:
        depths = " ".join(f"{share:.0%}" for share in self.greedy)
        return f"kept by depth {depths} (greedy), {self.reject[0]:.0%} at depth 1 of reject"


@torch.inference_mode()
def measure(head: DraftHead, ends: Ends, batches: Iterable[Batch]) -> Acceptance:
    """Over all rows whose drafted token is one that a model said."""
    kept, tried = torch.zeros(2, STEPS), torch.zeros(2, STEPS)
    rows = 0
    for batch in batches:
        one = _Chain(ends, batch)
        for step, guess in enumerate(unroll(head, ends, batch)):
            more = one.step(step, guess.at, guess.first, guess.logits, guess.truth)
            kept[:, step] += more[0]
            tried[:, step] += more[1]
        rows += one.rows
    shares = (kept / tried.clamp_min(1e-9)).tolist()
    return Acceptance(tuple(shares[0]), tuple(shares[1]), rows)


class _Chain:
    """The chains that begin at each row of a batch, as they grow."""

    def __init__(self, ends: Ends, batch: Batch) -> None:
        self._ends = ends
        self._ids, self._top = batch.ids.flatten(), batch.top.flatten()
        said = torch.cat((batch.said[:, 1:], torch.zeros_like(batch.said[:, :1])), 1)
        self._said = said.flatten()  # whether the token after this one was said
        size, device = len(batch.ids) * batch.rows, batch.ids.device
        self._greedy = torch.ones(size, device=device)
        self._reject = torch.ones(size, device=device)
        self.rows = 0

    def step(
        self, step: int, at: Tensor, first: Tensor, logits: Tensor, truth: Tensor
    ) -> tuple[Tensor, Tensor]:
        """What this depth keeps and tries, by rule: [2] each; then the chains that go on."""
        on = self._said[at].float()
        greedy, reject = self._greedy[first] * on, self._reject[first] * on
        if step == 0:
            self.rows += int(on.sum())
        right = (self._ends.ids[logits.argmax(-1)] == self._top[at]).float()
        law, drafts = truth.exp(), logits.softmax(-1)
        overlap = torch.minimum(law, drafts).sum(-1)
        kept = torch.stack(((greedy * right).sum(), (reject * overlap).sum())).cpu()
        tried = torch.stack((greedy.sum(), reject.sum())).cpu()
        said, inside = self._next(at)
        ratio = (drafts.gather(1, said) / law.gather(1, said).clamp_min(1e-30))[:, 0].clamp_max(1)
        going = torch.zeros_like(self._greedy)
        follows = (self._ids[(at + 1).clamp_max(len(self._ids) - 1)] == self._top[at]).float()
        self._greedy = going.index_copy(0, first, greedy * right * follows)
        self._reject = going.index_copy(0, first, reject * ratio * inside)
        return kept, tried

    def _next(self, at: Tensor) -> tuple[Tensor, Tensor]:
        """The text's next token as a place in the draft vocabulary [r, 1], and whether it is in."""
        token = self._ids[(at + 1).clamp_max(len(self._ids) - 1)]
        place = torch.searchsorted(self._ends.ids, token).clamp_max(len(self._ends.ids) - 1)
        return place[:, None], (self._ends.ids[place] == token).float()
