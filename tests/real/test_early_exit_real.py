"""Early exit on real weights: the words of plain decoding, whatever it costs here."""

from __future__ import annotations

import pytest

from specdec import prompt_sets
from specdec.contract import Sampling
from specdec.drafters.none import NoDrafter
from specdec.trial import make_task, say
from tests.real.conftest import Load

pytestmark = [pytest.mark.real, pytest.mark.slow, pytest.mark.timeout(3600)]


@pytest.mark.parametrize(
    ("target", "tokens"),
    [("smollm2-135m-instruct", 48), ("qwen2.5-coder-1.5b-instruct", 24)],
    ids=["smollm2", "qwen"],
)
def test_the_words_are_plain_decodings(load: Load, target: str, tokens: int) -> None:
    session = load(target, "early-exit", "bfloat16")
    print(session.pair.draft.reason)
    scorer = session.open_scorer(session.runner if session.pair.exact else "static")
    drafted = kept = 0
    for kind in ("chat", "code"):
        for temperature in (0.0, 0.8):
            sampling = Sampling(temperature=temperature, seed=5, max_tokens=tokens)
            task = make_task(session, prompt_sets.load(kind)[0], sampling)
            plain = say(session, scorer, task, NoDrafter(), (0,))
            said = say(session, scorer, task, session.drafter, (3, 7, 0, 1, 5))
            assert (said.ids, said.reason, said.notices) == (plain.ids, plain.reason, ())
            drafted += sum(one for one, _ in said.outcomes)
            kept += sum(two for _, two in said.outcomes)
    print(f"{kept} of {drafted} kept")
    assert drafted > 3 * tokens
