"""The decode loop where something goes wrong in mid-round, and what a cut leaves in counters."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from specdec.contract import Finished, NeverCancel, Notice, Round, Sampling
from specdec.detokenize import TextStream
from specdec.drafters.base import Context, Draft, Drafter, Offer
from specdec.drafters.length import FixedLength
from specdec.drafters.none import NoDrafter
from specdec.errors import EngineError
from specdec.noise import Noise
from specdec.turn import Task, Turn
from tests.fakes import ByteTokenizer, Proposing, TableScorer, random_table, scripted_table

V, END = 20, 0
PROMPT = (3, 1, 4, 1, 5)


class Flag:
    """A cancel button."""

    pressed = False

    def is_set(self) -> bool:
        return self.pressed


def make(target: TableScorer, drafter: Drafter, k: int, limit: int = 40) -> Turn:
    sampling = Sampling(temperature=0, max_tokens=limit)
    task = Task(PROMPT, sampling, "match", Noise.of(0, PROMPT), frozenset({END}), 4096)
    text = TextStream(lambda ids: "".join(chr(65 + i) for i in ids))
    return Turn(task, target, drafter, FixedLength(k), text)


@pytest.mark.parametrize("bad_at", [6, 8, 9, 11])
def test_a_failure_in_mid_round_leaves_the_cache_valid(bad_at: int) -> None:
    """A28: one NaN row. Draft rows were already cached; the next turn must not see them."""
    table = random_table(V, 4)

    def rotten(tokens: tuple[int, ...]):  # type: ignore[no-untyped-def]
        logits = table(tokens).clone()
        logits[END] = -9.0
        return logits * float("nan") if len(tokens) == bad_at else logits

    def right(tokens, k):  # type: ignore[no-untyped-def]
        known = list(tokens)
        for _ in range(k):
            row = table(tuple(known)).clone()
            row[END] = -9.0
            known.append(int(row.argmax()))
        return known[len(tokens) :]

    target = TableScorer(rotten, V)
    turn = make(target, Proposing(right), 4)
    with pytest.raises(EngineError, match="NaN"):
        list(turn.run(NeverCancel()))
    assert target.ids == turn.tokens[:-1]


@pytest.mark.parametrize("place", [1, 2, 3, 4, 5])
def test_counters_leave_out_what_an_end_token_cut(place: int) -> None:
    """B14: a drafted, matched end token and what follows it are in no counter."""
    reply = [7, 8, 9, 10, 11, 12, 13]
    reply[place] = END
    target = TableScorer(scripted_table(reply, len(PROMPT), V), V)
    start = len(PROMPT)
    script = Proposing(lambda tokens, k: reply[len(tokens) - start :][:k])
    events = list(make(target, script, 6).run(NeverCancel()))
    last = events[-1]
    assert isinstance(last, Finished)
    kept = [e.accepted for e in events if isinstance(e, Round)]
    assert last.metrics.new_tokens == len(last.ids) == place
    assert sum(kept) == last.metrics.accepted == place - 1


@pytest.mark.parametrize("k", [0, 3])
@pytest.mark.parametrize("rounds", [1, 2, 5])
def test_a_cancel_is_seen_before_the_next_round(rounds: int, k: int) -> None:
    target = TableScorer(scripted_table([7] * 99, 0, V), V)
    flag, seen = Flag(), 0
    turn = make(target, Proposing(lambda tokens, k: [7] * k), k)
    events = []
    for event in turn.run(flag):
        events.append(event)
        seen += isinstance(event, Round)
        flag.pressed = seen == rounds
    last = events[-1]
    assert isinstance(last, Finished)
    assert (last.reason, seen, len(target.calls)) == ("cancelled", rounds, rounds)
    assert target.ids == turn.tokens[:-1]


@pytest.mark.parametrize("limit", [1, 2, 4, 9])
def test_no_draft_goes_beyond_the_budget(limit: int) -> None:
    """A03: what could never be kept is not drafted, so it is in no counter either."""
    target = TableScorer(scripted_table([7] * 99, 0, V), V)
    turn = make(target, Proposing(lambda tokens, k: [7] * k), 6, limit)
    for event in turn.run(NeverCancel()):
        if isinstance(event, Finished):
            assert event.metrics.new_tokens == limit
            assert event.metrics.drafted == event.metrics.accepted


@pytest.mark.parametrize("k", [0, 1, 3, 7])
def test_no_character_is_shown_broken_whatever_the_rounds_cut(k: int) -> None:
    """Invariant 2, B01: after every round the text is a prefix of the one-shot decode."""
    said = "né 👩‍👩‍👧 ไทย 日本"
    bytes_ = ByteTokenizer()
    reply = [*bytes_.encode(said), bytes_.end_id]
    start = len(PROMPT)
    target = TableScorer(scripted_table(reply, start, bytes_.vocab), bytes_.vocab)
    sampling = Sampling(temperature=0, max_tokens=99)
    task = Task(PROMPT, sampling, "match", Noise(0, 0), frozenset({bytes_.end_id}), 4096)
    drafter = Proposing(lambda tokens, k: reply[len(tokens) - start :][:k])
    shown = ""
    for event in Turn(task, target, drafter, FixedLength(k), TextStream(bytes_.decode)).run(
        NeverCancel()
    ):
        if isinstance(event, Round):
            shown += event.text
            assert said.startswith(shown)
    assert shown == said


class Unshortened(TableScorer):
    """A cache with a running state: every rewind reads all tokens again."""

    can_rewind = False
    reread = 0

    def rewind(self, length: int) -> None:
        self.reread += length if length < self.length else 0
        super().rewind(length)


@pytest.mark.parametrize("k", [0, 1, 3])
@pytest.mark.parametrize("place", [0, 1, 2, 3, 5])
def test_an_end_costs_nothing_where_the_cache_cannot_be_shortened(place: int, k: int) -> None:
    """A13. Whatever was drafted, the cache holds a prefix of the tokens, the last one at most."""
    reply = [7, 8, 9, 10, 11, 12, 13]
    reply[place] = END
    target = Unshortened(scripted_table(reply, len(PROMPT), V), V)
    start = len(PROMPT)
    wrong = Proposing(lambda tokens, k: [reply[len(tokens) - start], 19, 18, 17][:k])
    turn = make(target, wrong, k)
    for event in turn.run(NeverCancel()):
        if isinstance(event, Round):
            assert target.ids == turn.tokens[: target.length]
            assert target.length >= len(turn.tokens) - 1
    assert turn.reply == tuple(reply[:place])
    assert target.ids == turn.tokens[: target.length]
    assert k or (target.length, target.reread) == (len(turn.tokens), 0)


def test_times_leave_out_what_the_reader_of_the_events_does() -> None:
    """A slow page must not make the engine look slow: one tick a score, 100 an event read."""
    now = [0.0]

    class Ticking(TableScorer):
        def score(self, ids):  # type: ignore[no-untyped-def]
            now[0] += 1
            return super().score(ids)

    target = Ticking(scripted_table([7] * 99, 0, V), V)
    sampling = Sampling(temperature=0, max_tokens=6)
    task = Task(PROMPT, sampling, "match", Noise.of(0, PROMPT), frozenset({END}), 4096)
    text = TextStream(lambda ids: "".join(chr(65 + i) for i in ids))
    drafter = Proposing(lambda tokens, k: [])
    elapsed = []
    for event in Turn(task, target, drafter, FixedLength(2), text, lambda: now[0]).run(
        NeverCancel()
    ):
        now[0] += 100
        if isinstance(event, Round):
            elapsed.append((event.seconds, event.elapsed))
        last = event
    assert elapsed == [(1.0, float(i)) for i in range(6)]
    assert isinstance(last, Finished)
    assert (last.metrics.first_token_s, last.metrics.decode_s) == (1.0, 5.0)
    assert last.metrics.draft_s == 0.0


class Failing(NoDrafter):
    """Drafts rightly at first, and fails in `step` once the reply has four tokens."""

    def __init__(self, step: str) -> None:
        self._step = step

    def begin(self, tokens: Sequence[int]) -> None:
        self._fail("begin", 99)

    def offers(self, tokens: Sequence[int]) -> Sequence[Offer]:
        self._fail("offers", len(tokens))
        return (Offer(self.name, behind=1),)

    def catch_up(self, tokens: Sequence[int]) -> bool:
        self._fail("catch_up", len(tokens))
        return True

    def propose(self, context: Context, k: int) -> Draft:
        self._fail("propose", len(context.tokens))
        return Draft((7, 18), (None, None))

    def settle(self, tokens: Sequence[int], accepted: int) -> None:
        self._fail("settle", len(tokens))

    def _fail(self, here: str, tokens: int) -> None:
        if here == self._step and tokens >= len(PROMPT) + 4:
            raise RuntimeError("broken draft")


@pytest.mark.parametrize("step", ["begin", "offers", "catch_up", "propose", "settle"])
def test_a_drafter_that_fails_is_off_and_the_reply_goes_on(step: str) -> None:
    reply = (7, 8, 7, 9, 7, 10, 7, 11, 7, 12)
    target = TableScorer(scripted_table((*reply, END), len(PROMPT), V), V)
    turn = make(target, Failing(step), 2)
    events = list(turn.run(NeverCancel()))
    told = Notice("The draft failed and is off for this reply: broken draft")
    assert [e for e in events if isinstance(e, Notice)] == [told]
    assert turn.reply == reply
    later = [e for e in events[events.index(told) :] if isinstance(e, Round)]
    assert len(later) >= 5
    assert all(e.drafted == 0 for e in later)
    assert target.ids == turn.tokens[:-1]


def test_a_drafter_that_fails_with_the_last_round_is_told_of_too() -> None:
    target = TableScorer(scripted_table((1, 7, 8, 7, END), len(PROMPT), V), V)
    events = list(make(target, Failing("settle"), 2).run(NeverCancel()))
    assert [type(e) for e in events[-2:]] == [Notice, Finished]
