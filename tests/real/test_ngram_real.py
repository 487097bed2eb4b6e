"""Copies alone on the real Qwen target: long where text repeats, next to free where it does not."""

from __future__ import annotations

import pytest

from specdec import prompt_sets
from specdec.contract import Finished, NeverCancel, Sampling
from specdec.detokenize import TextStream
from specdec.drafters.base import Drafter
from specdec.drafters.none import NoDrafter
from specdec.session import Session
from specdec.trial import make_task
from specdec.turn import Turn
from tests.real.conftest import Load

pytestmark = [pytest.mark.real, pytest.mark.slow, pytest.mark.timeout(3600)]

QWEN = "qwen2.5-coder-1.5b-instruct"


@pytest.fixture(scope="module")
def sessions() -> dict[str, Session]:
    return {}


@pytest.fixture
def session(load: Load, sessions: dict[str, Session]) -> Session:
    if not sessions:
        sessions[QWEN] = load(QWEN, "ngram", "bfloat16")
    return sessions[QWEN]


def reply(session: Session, text: str, tokens: int, drafter: Drafter | None = None) -> Finished:
    """Greedy, from an empty cache; lengths as a new conversation learns them."""
    _, cached = session.scorer("auto")
    cached.forget()
    task = make_task(session, text, Sampling(temperature=0, seed=1, max_tokens=tokens))
    length = session.make_length(0 if drafter else None, text)
    turn = Turn(task, cached.scorer, drafter or session.drafter, length, TextStream(session.decode))
    last = list(turn.run(NeverCancel()))[-1]
    assert isinstance(last, Finished)
    return last


def test_four_tokens_a_round_on_text_that_repeats(session: Session) -> None:
    """A file to edit, a letter to correct, a passage to quote and sum up."""
    tokens = rounds = 0
    for place in (1, 2, 4):
        made = reply(session, prompt_sets.load("copying")[place], 120).metrics
        print(f"copying {place}: {made.new_tokens} tokens in {made.rounds} rounds")
        tokens, rounds = tokens + made.new_tokens, rounds + made.rounds
    assert tokens / rounds >= 4


def test_next_to_free_on_text_that_does_not(session: Session) -> None:
    """Words are plain decoding's, and looking takes at most 2 % of the time of the passes."""
    text = prompt_sets.load("creative")[0]
    made = reply(session, text, 64)
    print(f"creative: {made.metrics.draft_s:.4f} s of {made.metrics.decode_s:.1f} s drafting")
    assert made.metrics.draft_s <= 0.02 * made.metrics.decode_s
    assert made.ids == reply(session, text, 64, NoDrafter()).ids
