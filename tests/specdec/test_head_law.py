"""`reject` with a head that lacks a third of the ids: what is said keeps the law of the target."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path

import pytest
import torch
from torch import Tensor

from specdec.drafters.base import Context
from specdec.drafters.head import HeadDrafter
from specdec.heads.reader import load_head
from specdec.heads.runner import HeadRunner
from specdec.heads.states import States
from specdec.loading import load_model
from specdec.noise import Noise
from specdec.request import Sampling
from specdec.runner import Layout, LeanScorer
from specdec.sampling import Law, law
from specdec.verify import Rows, judge
from tests.specdec.head_kit import config_of, tensors_of, write_head
from tests.tiny import tiny_model

V, SAMPLES = 12, 450
PROMPT = [(5 * i * i + i) % 11 + 1 for i in range(40)]

pytestmark = pytest.mark.usefixtures("one_thread")


def chi_square(seen: Counter[int], p: Law) -> float:
    """Over ids of enough mass, with 11 degrees of freedom at most; inf for an id of no mass."""
    total, dense = seen.total(), list[float](p.dense().tolist())
    if any(seen[i] for i, mass in enumerate(dense) if mass == 0):
        return math.inf
    terms = [(seen[i] - total * m) ** 2 / (total * m) for i, m in enumerate(dense) if m]
    return math.fsum(terms)


def test_the_law_of_two_tokens_is_the_targets(tmp_path: Path) -> None:
    folder = tiny_model(tmp_path / "target", hidden_size=32)
    weights = load_model(folder, torch.device("cpu"), torch.float32).weights
    assert weights is not None
    config = config_of("llama", drafts=8, vocab_size=V)
    write_head(tmp_path / "head", config, tensors_of(config, 5))
    head = load_head(tmp_path / "head", weights, torch.float32, "dense")
    target = LeanScorer(weights, Layout(8, (8,), True), 256, V, True)
    drafter = HeadDrafter(HeadRunner(head, 256, V), States((0, 1, 2)), "head", frozenset())
    drafter.watch(target)
    target.prefill(PROMPT[:-1])
    sampling = Sampling(temperature=1.3, top_k=9)
    logits: dict[tuple[int, ...], Tensor] = {}
    first, second, kept = Counter[int](), Counter[int](), Counter[int]()
    for seed in range(SAMPLES):
        noise = Noise.of(seed, PROMPT)
        draft = drafter.propose(Context(PROMPT, len(PROMPT), sampling, "reject", noise), 2)
        if draft.tokens not in logits:
            logits[draft.tokens] = target.score([PROMPT[-1], *draft.tokens])
            target.rewind(len(PROMPT) - 1)
        rows = Rows(logits[draft.tokens], sampling, PROMPT, len(PROMPT))
        _, outcome = judge("reject", draft, rows, noise, 0)
        kept[outcome.accepted] += 1
        first[outcome.tokens[0]] += 1
        chosen = next(iter(logits))[0]  # the second token's law is told after this one alone
        if outcome.accepted and outcome.tokens[0] == chosen:
            second[outcome.tokens[1]] += 1
    assert min(kept[0], kept[1], kept[2]) > SAMPLES / 50
    p = law(next(iter(logits.values()))[0], sampling, PROMPT, len(PROMPT))
    assert chi_square(first, p) < 31.3  # one in a thousand
    q = law(next(iter(logits.values()))[1], sampling, [*PROMPT, chosen], len(PROMPT))
    assert second.total() > 25
    assert chi_square(second, q) < 31.3
    assert head.ids is not None
    says = {i for i, mass in enumerate(p.dense().tolist()) if mass}
    assert says - set(head.ids.tolist())  # ids that the head cannot say
