"""The two acceptance rules, line by line with the papers. Pure: no model, no cache, no I/O.

`judge` picks where they are worked out: on the CPU, or by `match_on_device` on a CUDA device.

p = the target's law, q = the draft's law, x_0..x_{k-1} = the draft, `index` = reply index of x_0.
Leviathan, Kalman, Matias 2022 (arXiv 2211.17192, algorithm 1); Chen et al. 2023 (2302.01318).
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from specdec.drafters.base import Draft
from specdec.draws import Sight, draw_rows, on_device
from specdec.errors import EngineError
from specdec.noise import Noise
from specdec.request import Rule, Sampling
from specdec.sampling import Law, draw, law

Laws = Callable[[int], Law]
"""laws(j) is the target's law of the token after x_0..x_{j-1}; asked once each, in order."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """`tokens` are the kept ones and exactly one more: the correction, or the bonus token."""

    accepted: int
    tokens: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Rows:
    """What the target said in a round, and what its laws depend on beside it.

    `logits` are float32 [k+1, V]; `tokens` are all before the draft, the reply begins at
    `reply_start`.
    """

    logits: Tensor
    sampling: Sampling
    tokens: Sequence[int]
    reply_start: int

    def law(self, draft: Draft, j: int) -> Law:
        """p for draft position j: it sees the tokens before it, accepted or drafted (A08)."""
        before = array("q", self.tokens)
        before.extend(draft.tokens[:j])
        return law(self.logits[j], self.sampling, before, self.reply_start)


def judge(rule: Rule, draft: Draft, rows: Rows, noise: Noise, index: int) -> tuple[Draft, Outcome]:
    """The draft as read, and the outcome of a round by `rule`, the same wherever the logits lie.

    On a CUDA device `match` is worked out there and read once. Elsewhere off the CPU, and for
    `reject`, the rows are read once and the rest is done here: an Apple GPU shares its memory.
    """
    kind = rows.logits.device.type
    if kind == "cuda" and rule == "match":
        return match_on_device(draft, rows, noise, index)
    if kind != "cpu":
        rows = replace(rows, logits=rows.logits.cpu())
    rows = replace(rows, tokens=array("q", rows.tokens))  # copied once a row, read once a round
    draft = draft.read()  # after the rows: the device has nothing left to be waited for
    return draft, RULES[rule](draft, lambda j: rows.law(draft, j), noise, index)


def match_on_device(draft: Draft, rows: Rows, noise: Noise, index: int) -> tuple[Draft, Outcome]:
    """`match` with all draws of the round made at once where the logits lie, and one read.

    A held draft comes with that read. A draw that the device could not be sure of (a tie, rounding
    at the edge of a filter, faulty logits) is made again as `match` makes it.
    """
    held, device = draft.held, rows.logits.device
    ids = on_device(draft.tokens, device) if held is None else held.ids
    m = len(ids) + 1
    keys = on_device(noise.keys(index, m, "target"), device)
    sight = Sight(rows.tokens, ids, rows.reply_start)
    drawn, sure = draw_rows(rows.logits, rows.sampling, sight, keys)
    parts = [drawn.float(), sure.float()]  # ids below 2^24 are exact in float32
    told = torch.cat(parts if held is None else [*parts, held.flat()]).tolist()  # the one read
    if held is not None:
        draft = held.told(told[2 * m :])
    k = len(draft.tokens)
    tokens: list[int] = []
    for j in range(k + 1):
        known = told[m + j]
        tokens.append(
            int(told[j]) if known else draw(rows.law(draft, j), noise, index + j, "target")
        )
        if j < k and tokens[j] != draft.tokens[j]:
            break
    return draft, Outcome(len(tokens) - 1, tuple(tokens))


def match(draft: Draft, laws: Laws, noise: Noise, index: int) -> Outcome:
    """Keep draft tokens while they equal the target's own keyed draw; DESIGN 4."""
    tokens: list[int] = []
    for j, x in enumerate(draft.tokens):
        tokens.append(draw(laws(j), noise, index + j, "target"))
        if tokens[j] != x:
            return Outcome(j, tuple(tokens))
    k = len(draft.tokens)
    bonus = draw(laws(k), noise, index + k, "target")
    return Outcome(k, (*tokens, bonus))


def reject(draft: Draft, laws: Laws, noise: Noise, index: int) -> Outcome:
    """Keep x_j with probability min(1, p/q), else draw from norm(max(p - q, 0)).

    A draft law of None is one-hot at x_j. Raises EngineError for an x_j its own law cannot draw.
    """
    for j, x in enumerate(draft.tokens):
        p, q = laws(j), draft.laws[j]
        q_x = 1.0 if q is None else q.prob(x)
        if q_x == 0:
            raise EngineError(
                f"The draft proposed token {x}, which its own law gives no mass.",
                "This is a fault of the drafter; choose another draft and report it.",
            )
        # accept when u < p(x)/q(x); written as a product, and never for p(x) = 0
        if noise.uniform(index + j, "accept") * q_x < p.prob(x):
            continue
        corrected = draw(residual(p, q, x), noise, index + j, "residual")
        return Outcome(j, (*draft.tokens[:j], corrected))
    k = len(draft.tokens)
    bonus = draw(laws(k), noise, index + k, "residual")
    return Outcome(k, (*draft.tokens, bonus))


def residual(p: Law, q: Law | None, x: int) -> Law:
    """norm(max(p - q, 0)), q one-hot at `x` when None; p itself when that is zero everywhere."""
    rest = p.probs() - _at(q, x, p)
    rest = rest.clamp_(min=0)
    if not bool(rest.any()):
        return p
    return Law(p.ids, torch.log(rest), p.size)


def _at(q: Law | None, x: int, p: Law) -> torch.Tensor:
    """q at the ids of p: float32 [n of p]. The two vocabularies may be padded differently."""
    if q is None:
        return (p.ids == x).to(torch.float32)
    dense = torch.zeros(max(p.size, q.size), dtype=torch.float32, device=p.ids.device)
    dense[q.ids.to(dense.device)] = q.probs().to(dense.device)
    return dense[p.ids]


RULES: Mapping[Rule, Callable[[Draft, Laws, Noise, int], Outcome]] = {
    "match": match,
    "reject": reject,
}
