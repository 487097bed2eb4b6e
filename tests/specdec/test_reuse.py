"""Prefix reuse across turns: by equal ids, whole chunks where exact, never the last token."""

from __future__ import annotations

from specdec.session import Cached
from tests.fakes import TableScorer, random_table

V = 30
OLD = list(range(1, 21))


def cached(exact: bool = True) -> Cached:
    scorer = TableScorer(random_table(V, 1), V, chunk=8, exact=exact)
    for start in (0, 8, 16):
        scorer.prefill(OLD[start : start + 8])
    return Cached(scorer, tuple(OLD))


def test_only_equal_ids_are_kept() -> None:
    for place in (0, 3, 8, 11, 17):
        for exact in (True, False):
            one = cached(exact)
            prompt = [*OLD[:place], 29, *OLD[place + 1 :], 5, 5]
            kept = one.keep_prefix(prompt, fresh=False)
            assert kept <= place
            assert one.scorer.ids == list(one.ids) == prompt[:kept]  # type: ignore[attr-defined]
            assert exact or kept == place


def test_the_last_prompt_token_is_scored_again() -> None:
    """C13: resending an unchanged prompt leaves one token to compute."""
    one = cached(exact=False)
    assert one.keep_prefix(OLD, fresh=False) == len(OLD) - 1
    assert cached().keep_prefix(OLD[:16], fresh=False) == 8


def test_an_exact_runner_keeps_whole_chunks() -> None:
    for same, kept in ((20, 16), (17, 16), (16, 16), (15, 8), (7, 0)):
        prompt = [*OLD[:same], 29, 29]
        one = cached()
        assert one.keep_prefix(prompt, fresh=False) == kept
        assert one.scorer.length == kept


def test_a_fresh_run_keeps_nothing() -> None:
    one = cached()
    assert one.keep_prefix([*OLD, 4], fresh=True) == 0
    assert one.scorer.length == 0


def test_forget_empties_cache_and_note() -> None:
    one = cached()
    one.forget()
    assert (one.ids, one.scorer.length) == ((), 0)


def test_another_conversation_keeps_nothing() -> None:
    one = cached()
    assert one.keep_prefix([*OLD, 4], False, "mine") == 0  # the fill had no name
    one = cached()
    one.conversation = "mine"
    assert one.keep_prefix([*OLD, 4], False, "mine") == 16
    assert one.keep_prefix([*OLD, 4], False, "yours") == 0
    assert one.conversation == "yours"
