"""The decode loop and its invariants (DESIGN 7), on tables built to disagree."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import pytest

from specdec.contract import Finished, Notice, Prefill, Round, Sampling
from specdec.detokenize import TextStream
from specdec.drafters.base import Context, Draft, Drafter, Offer
from specdec.drafters.length import FixedLength
from specdec.drafters.model import ModelDrafter
from specdec.drafters.none import NoDrafter
from specdec.drafters.plan import Moment, Plan
from specdec.noise import Noise
from specdec.request import Rule
from specdec.turn import Length, Task, Turn, TurnEvent
from tests.fakes import TableScorer, disagreeing_pair, scripted_table

V = 40
PROMPT = (3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5)
END = 0
NEVER = 10**9


class Flag:
    """Set after being asked `after` times."""

    def __init__(self, after: int = NEVER) -> None:
        self.left = after

    def is_set(self) -> bool:
        self.left -= 1
        return self.left < 0


class Cycle:
    """k changes every round."""

    def __init__(self, *ks: int) -> None:
        self._ks = itertools.cycle(ks)
        self.learned: list[tuple[int, int]] = []

    def choose(self, moment: Moment) -> Plan:
        return Plan(next(self._ks))

    def learn(self, kind: str, drafted: int, accepted: int) -> None:
        self.learned.append((drafted, accepted))


def decode(ids: Sequence[int]) -> str:
    return "".join(chr(0x41 + i) for i in ids)


def make(
    target: TableScorer,
    drafter: Drafter,
    length: Length,
    sampling: Sampling,
    rule: Rule = "match",
    context: int = 4096,
    ends: frozenset[int] = frozenset({END}),
) -> Turn:
    task = Task(PROMPT, sampling, rule, Noise.of(sampling.seed or 0, PROMPT), ends, context)
    return Turn(task, target, drafter, length, TextStream(decode, sampling.stop))


def pair(seed: int) -> tuple[TableScorer, ModelDrafter, TableScorer]:
    p, q = disagreeing_pair(V, seed)
    draft = TableScorer(q, V)
    return TableScorer(p, V), ModelDrafter(draft, "fake", V, frozenset({END})), draft


def checked(turn: Turn, target: TableScorer, flag: Flag | None = None) -> list[TurnEvent]:
    """Run to the end; after every event the cache holds exactly all tokens but the last."""
    events: list[TurnEvent] = []
    for event in turn.run(flag or Flag()):
        if isinstance(event, Round):
            assert target.ids == turn.tokens[:-1]
        events.append(event)
    assert [isinstance(e, Finished) for e in events] == [False] * (len(events) - 1) + [True]
    return events


def finished(events: list[TurnEvent]) -> Finished:
    last = events[-1]
    assert isinstance(last, Finished)
    return last


def plain(seed: int, sampling: Sampling) -> Finished:
    target, _, _ = pair(seed)
    return finished(checked(make(target, NoDrafter(), FixedLength(0), sampling), target))


SETTINGS = [
    Sampling(temperature=0, max_tokens=120, seed=1),
    Sampling(temperature=0.8, max_tokens=120, seed=2),
    Sampling(temperature=1.3, top_k=12, top_p=0.9, min_p=0.02, max_tokens=120, seed=3),
    Sampling(temperature=0, repetition_penalty=1.3, max_tokens=120, seed=4),
    Sampling(temperature=0.9, frequency_penalty=0.4, presence_penalty=0.3, max_tokens=120, seed=5),
]


@pytest.mark.parametrize("sampling", SETTINGS, ids=["greedy", "T0.8", "filters", "rep", "freq"])
@pytest.mark.parametrize("ks", [(1,), (2,), (4,), (7,), (3, 0, 1, 7, 2)], ids=str)
def test_match_gives_the_words_of_plain_decoding(sampling: Sampling, ks: tuple[int, ...]) -> None:
    seen = {"full": 0, "partial": 0, "zero": 0}
    for seed in range(8):
        target, drafter, draft = pair(seed)
        length = Cycle(*ks)
        events = checked(make(target, drafter, length, sampling), target)
        said, wanted = finished(events), plain(seed, sampling)
        assert (said.ids, said.text, said.reason) == (wanted.ids, wanted.text, wanted.reason)
        assert draft.ids == list(PROMPT + said.ids)[: len(draft.ids)]
        for drafted, accepted in length.learned:
            kind = "full" if accepted == drafted else "partial" if accepted else "zero"
            seen[kind] += 1
    assert seen["full"] >= 5
    assert seen["zero"] >= 5
    assert ks == (1,) or seen["partial"] >= 5


def test_events_join_to_the_whole_reply_and_count_kept_tokens_only() -> None:
    target, drafter, _ = pair(1)
    events = checked(make(target, drafter, FixedLength(4), SETTINGS[1]), target)
    rounds = [e for e in events if isinstance(e, Round)]
    last = finished(events)
    assert tuple(i for r in rounds for i in r.ids) == last.ids
    assert "".join(r.text for r in rounds) == last.text == decode(last.ids)
    for r in rounds:
        assert [s.start for s in r.spans] == [0, *[s.end for s in r.spans]][: len(r.spans)]
        assert (r.spans[-1].end if r.spans else 0) == len(r.text)
    kept = sum(s.end - s.start for r in rounds for s in r.spans if s.kind == "kept")
    m = last.metrics
    assert m.accepted == kept == sum(r.accepted for r in rounds) <= m.drafted
    assert m.new_tokens == len(last.ids) == rounds[-1].new_tokens
    assert m.rounds == len([r for r in rounds if r.ids])


def test_a_round_that_finds_only_the_end_is_not_counted() -> None:
    """Else plain decoding would show 0.99 tokens a round."""
    target = TableScorer(scripted_table([7, 8, 9, 10, END], len(PROMPT), V), V)
    said = finished(list(make(target, NoDrafter(), FixedLength(0), SETTINGS[0]).run(Flag())))
    assert (said.reason, len(target.calls)) == ("end", 5)
    assert (said.metrics.rounds, said.metrics.tokens_per_round) == (4, 1.0)


def test_first_token_comes_before_the_draft_reads_the_prompt() -> None:
    target, drafter, draft = pair(2)
    for event in make(target, drafter, FixedLength(4), SETTINGS[0]).run(Flag()):
        if isinstance(event, Round):
            assert draft.calls == draft.prefills == []
            break


def scripted(reply: Sequence[int]) -> tuple[TableScorer, ModelDrafter]:
    table = scripted_table(reply, len(PROMPT), V)
    return TableScorer(table, V), ModelDrafter(TableScorer(table, V), "same", V, frozenset())


@pytest.mark.parametrize("k", [0, 1, 3, 7])
@pytest.mark.parametrize("place", [0, 1, 2, 5, 8])
def test_nothing_follows_an_end_token_inside_a_block(k: int, place: int) -> None:
    reply = [7, 8, 9, 10, 11, 12, 13, 14]
    reply[place:place] = [END]
    target, drafter = scripted(reply)
    events = checked(make(target, drafter, FixedLength(k), Sampling(temperature=0)), target)
    last = finished(events)
    assert (last.reason, last.ids) == ("end", tuple(reply[:place]))
    assert last.metrics.new_tokens == place
    assert target.ids == list(PROMPT + last.ids)[:-1]


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 5, 9])
@pytest.mark.parametrize("k", [0, 1, 4])
def test_the_token_limit_is_exact_under_full_acceptance(k: int, limit: int) -> None:
    target, drafter = scripted([7, 8, 9, 10, 11, 12, 13, 14, 15, 16])
    sampling = Sampling(temperature=0, max_tokens=limit)
    last = finished(checked(make(target, drafter, FixedLength(k), sampling), target))
    assert (last.reason, len(last.ids)) == ("length", limit)
    assert len(target.calls) == 1 + -(-(limit - 1) // (k + 1))  # no round is wasted on the budget


@pytest.mark.parametrize("k", [0, 2, 7])
def test_a_stop_string_inside_a_block_cuts_text_ids_counters_and_cache(k: int) -> None:
    reply = [7, 8, 9, 10, 11, 12, 13, 14, 15]
    target, drafter = scripted(reply)
    sampling = Sampling(temperature=0, stop=(decode([10, 11, 12]),))
    events = checked(make(target, drafter, FixedLength(k), sampling), target)
    last = finished(events)
    assert (last.reason, last.ids, last.text) == ("stop", (7, 8, 9), decode([7, 8, 9]))
    assert last.metrics.new_tokens == 3
    assert last.metrics.accepted <= 3
    assert target.ids == [*PROMPT, 7, 8]
    assert "".join(e.text for e in events if isinstance(e, Round)) == last.text


@pytest.mark.parametrize("k", [0, 3, 7])
def test_the_context_is_never_overrun(k: int) -> None:
    target, drafter = scripted(list(range(1, 30)))
    target.capacity = 20
    turn = make(target, drafter, FixedLength(k), Sampling(temperature=0), context=20)
    last = finished(checked(turn, target))
    assert (last.reason, len(turn.tokens)) == ("context", 20)


@pytest.mark.parametrize("k", [0, 4])
def test_a_cancel_at_any_moment_leaves_a_prefix_that_the_next_turn_reuses(k: int) -> None:
    sampling = Sampling(temperature=0.8, max_tokens=30, seed=9)
    whole = plain(3, sampling)
    for after in range(60):
        target, drafter, _ = pair(3)
        turn = make(target, drafter, FixedLength(k), sampling)
        last = finished(checked(turn, target, Flag(after)))
        assert target.ids == turn.tokens[: target.length]
        assert target.length <= len(turn.tokens) - 1
        assert last.ids == whole.ids[: len(last.ids)]
        if last.reason != "cancelled":
            assert last.ids == whole.ids
            break
        assert target.length == len(turn.tokens) - 1 or not last.ids
        again = make(target, drafter, FixedLength(k), sampling)
        target.rewind(min(target.length, len(PROMPT) - 1))
        assert finished(checked(again, target)).ids == whole.ids
    else:
        pytest.fail("the cancel came too late in every run")


def test_closing_the_stream_early_leaves_the_cache_valid() -> None:
    target, drafter, _ = pair(4)
    turn = make(target, drafter, FixedLength(4), SETTINGS[0])
    stream: Iterator[TurnEvent] = turn.run(Flag())
    for _ in range(8):
        next(stream)
    stream.close()  # type: ignore[attr-defined]
    assert target.ids == turn.tokens[:-1]


def test_prefill_goes_to_the_chunk_borders_and_reports() -> None:
    target, _, _ = pair(6)
    target.prefill(PROMPT[:3])
    events = checked(make(target, NoDrafter(), FixedLength(0), Sampling(max_tokens=1)), target)
    assert [(e.done, e.total) for e in events if isinstance(e, Prefill)] == [
        (3, 10),
        (8, 10),
        (10, 10),
    ]
    assert target.prefills == [3, 5, 2]
    assert finished(events).metrics.reused_tokens == 3


def test_why_nothing_is_drafted_is_said_once() -> None:
    class Off:
        def choose(self, moment: Moment) -> Plan:
            return Plan(0, "it does not pay here", off=True)

        def learn(self, kind: str, drafted: int, accepted: int) -> None:
            raise AssertionError("nothing was drafted")

    target, drafter, _ = pair(7)
    events = checked(make(target, drafter, Off(), SETTINGS[0]), target)
    assert [e.text for e in events if isinstance(e, Notice)] == ["it does not pay here"]
    assert finished(events).metrics.drafted == 0


def test_a_useless_draft_never_changes_the_words() -> None:
    class Liar(NoDrafter):
        def offers(self, tokens: Sequence[int]) -> Sequence[Offer]:
            return (Offer("liar"),)

        def propose(self, context: Context, k: int) -> Draft:
            return Draft(tuple((context.tokens[-1] + 1 + j) % V for j in range(k)), (None,) * k)

    for sampling in SETTINGS:
        target, _, _ = pair(8)
        last = finished(checked(make(target, Liar(), FixedLength(5), sampling), target))
        assert last.ids == plain(8, sampling).ids
        assert last.metrics.acceptance < 0.3


def test_reject_is_repeatable_by_seed_at_a_fixed_k() -> None:
    said = []
    for _ in range(2):
        target, drafter, _ = pair(9)
        turn = make(target, drafter, FixedLength(3), SETTINGS[1], rule="reject")
        said.append(finished(checked(turn, target)).ids)
    assert said[0] == said[1]
    assert len(said[0]) > 5
