"""The same words with and without a draft, on real weights ("done when" 2 of the first issue)."""

from __future__ import annotations

import pytest

from specdec.contract import Runner, Sampling
from specdec.drafters.ngram import NgramDrafter
from tests.real.conftest import Load
from tests.real.exactness import CHANGING, LENGTHS, Exactness, prompts

pytestmark = [pytest.mark.real, pytest.mark.timeout(7200)]

SMOL = "smollm2-135m-instruct"
QWEN, QWEN_DRAFT = "qwen2.5-coder-1.5b-instruct", "qwen2.5-coder-0.5b-instruct"

FORMS: list[tuple[str, Runner]] = [("bfloat16", "static"), ("float32", "fast")]


def settings(tokens: int) -> tuple[Sampling, Sampling]:
    return (
        Sampling(temperature=0, seed=11, max_tokens=tokens),
        Sampling(temperature=0.8, seed=12, max_tokens=tokens),
    )


@pytest.mark.parametrize(("dtype", "runner"), FORMS, ids=["bf16-static", "fp32-fast"])
def test_a_few_prompts_on_smollm2(load: Load, dtype: str, runner: Runner) -> None:
    session = load(SMOL, SMOL, dtype)
    run = Exactness(session, runner)
    texts = prompts(3)[::2]  # code, greedy; a text to copy, sampled
    for text, sampling in zip(texts, settings(20), strict=True):
        drafters = [NgramDrafter(), session.drafter]
        run.compare(text, sampling, drafters, [(7,), CHANGING], spoilt=True)
    run.enough()


@pytest.mark.slow
@pytest.mark.parametrize(("dtype", "runner"), FORMS, ids=["bf16-static", "fp32-fast"])
def test_twenty_prompts_on_smollm2(load: Load, dtype: str, runner: Runner) -> None:
    session = load(SMOL, SMOL, dtype)
    run = Exactness(session, runner)
    for text in prompts(20):
        for sampling in settings(16):
            run.compare(text, sampling, [NgramDrafter(), session.drafter], LENGTHS)
    run.enough()


@pytest.mark.slow
def test_five_prompts_on_the_qwen_pair_in_bf16(load: Load) -> None:
    """In the exact runner this machine serves: one width, or the few that the self-test found."""
    session = load(QWEN, QWEN_DRAFT, "bfloat16", "int4")
    assert session.pair.exact, session.pair.runner.reason
    run = Exactness(session, session.runner)
    for text in prompts(5):
        for sampling in settings(24):
            run.compare(text, sampling, [session.drafter], LENGTHS)
    run.enough()
