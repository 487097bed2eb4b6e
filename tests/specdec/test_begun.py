"""A stopped reply goes on: the same words to the bit as one that was never stopped."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest

from specdec.contract import (
    ChatRequest,
    Failed,
    Finished,
    NeverCancel,
    Reply,
    Round,
    Sampling,
    Span,
    Started,
)
from specdec.detokenize import TextStream
from specdec.drafters.length import FixedLength
from specdec.drafters.none import NoDrafter
from specdec.engine import LocalEngine
from specdec.noise import Noise
from specdec.options import EngineOptions
from specdec.session import Cached
from specdec.turn import Task, Turn
from tests.fakes import TableScorer, disagreeing_pair
from tests.specdec.engines import ask, load, make_folders, of_kind, reply


@pytest.fixture(scope="module", params=["bfloat16", "float32"])
def engine(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LocalEngine]:
    folders = make_folders(tmp_path_factory.mktemp("begun"))
    made = LocalEngine(EngineOptions(folders.data, device="cpu", offline=True, dtype=request.param))
    load(made, folders.target, folders.draft)
    yield made
    made.close()


def stopped(engine: LocalEngine, request: ChatRequest, rounds: int) -> tuple[Started, Finished]:
    flag, events = threading.Event(), []
    for event in engine.stream(request, flag):
        events.append(event)
        if len(of_kind(events, Round)) == rounds:
            flag.set()
    assert isinstance(events[-1], Finished)
    return of_kind(events, Started)[0], events[-1]


def refused(engine: LocalEngine, request: ChatRequest) -> str:
    last = list(engine.stream(request, NeverCancel()))[-1]
    assert isinstance(last, Failed)
    return last.error.message


SETTINGS = [
    {"temperature": 0},
    {"temperature": 0.9, "seed": 3},
    {"temperature": 0.9, "seed": 4, "frequency_penalty": 0.5, "repetition_penalty": 1.2},
]


@pytest.mark.parametrize("settings", SETTINGS, ids=["greedy", "seeded", "penalties"])
@pytest.mark.parametrize("mode", ["speculative", "standard"])
def test_stopped_twice_it_is_what_it_would_have_been(
    engine: LocalEngine, settings: dict[str, float], mode: str
) -> None:
    asked = ask("tell me more of it, " * 9, mode=mode, runner="static", max_tokens=150, **settings)
    asked = replace(asked, conversation="a")
    _, whole = reply(engine, replace(asked, fresh=True))
    assert len(whole.ids) > 20
    started, first = stopped(engine, asked, 3)
    assert first.reason == "cancelled"
    more = replace(asked, begun=first.ids, prompt=started.prompt)
    again, second = stopped(engine, more, 4)
    assert again.reused_tokens == started.prompt_tokens + len(first.ids) - 1  # nothing read twice
    assert len(first.ids) < len(second.ids) < len(whole.ids)
    left = replace(asked.sampling, max_tokens=150 - len(second.ids))
    other = ask("another conversation", conversation="b", runner="static", max_tokens=2)
    reply(engine, other)  # the cache holds it no more
    events, last = reply(engine, replace(more, begun=second.ids, sampling=left))
    assert of_kind(events, Started)[0].reused_tokens == 0
    assert (last.ids, last.text, last.reason) == (whole.ids, whole.text, whole.reason)
    kept = Reply(asked, last.ids, last.reason, started.prompt)
    found = engine.verify(kept, NeverCancel())
    assert (found.identical, found.compared) == (True, len(whole.ids))


def test_the_limit_counts_what_is_added(engine: LocalEngine) -> None:
    asked = ask("count", max_tokens=10, temperature=1.2, runner="static")
    _, first = reply(engine, asked)
    assert (first.reason, len(first.ids)) == ("length", 10)
    _, second = reply(engine, replace(asked, begun=first.ids))
    assert len(second.ids) <= 20
    assert second.ids[:10] == first.ids
    assert second.metrics.new_tokens == len(second.ids) - 10 > 0


def test_what_cannot_go_on_is_refused(engine: LocalEngine) -> None:
    asked = ask("refuse", begun=(65, 66), prompt="0123456789abcdef")
    assert "no longer the one" in refused(engine, asked)
    assert "has not" in refused(engine, ask("refuse", begun=(10**6,)))
    full = ask("refuse", begun=(65,) * engine.status().pair.context)  # type: ignore[union-attr]
    assert "context is full" in refused(engine, full)
    reply(engine, ask("still alive"))


def decode(ids: Sequence[int]) -> str:
    return bytes(ids).decode("utf-8", errors="replace")


def test_a_character_cut_in_two_is_whole_again() -> None:
    said = list("caf\u00e9".encode())
    stream = TextStream(decode)
    assert stream.begin(said[:-1]) == "caf"  # the half that was shown as a mark is not in it
    stream.push(said[-1], "kept")
    assert stream.take() == ("\u00e9", (Span(0, 1, "kept"),))


def test_a_stop_string_across_the_seam_is_found_and_cut() -> None:
    stream = TextStream(decode, ["END"])
    assert stream.begin(list(b"so E")) == "so "
    assert [stream.push(token, "kept") for token in b"ND"] == [False, True]
    assert (stream.take()[0], stream.text, stream.kept) == ("", "so ", 3)


def test_an_exact_runner_keeps_only_what_was_scored_after_the_same_prompt() -> None:
    scorer = TableScorer(disagreeing_pair(40, 1)[0], 40)
    scorer.exact, scorer.chunk = True, 4
    prompt, begun = tuple(range(1, 11)), (11, 12, 13)

    def kept(scored: int, more: tuple[int, ...] = begun, conversation: str = "") -> int:
        scorer.rewind(0)
        for token in (*prompt, *begun):
            scorer.score([token])
        one = Cached(scorer, (*prompt, *begun), "", scored)
        return one.keep_prefix(prompt, False, conversation, more)

    assert kept(9) == 12
    assert kept(9, (11, 99, 13)) == 11
    assert kept(0) <= 8  # read as part of a longer prompt: it has other bits
    assert kept(9, begun, "another") == 0
    assert kept(9, ()) <= 8


@pytest.mark.parametrize(("exact", "read"), [(True, 10), (False, 16)])
def test_an_exact_runner_scores_what_was_begun_and_reads_no_chunk_of_it(
    exact: bool, read: int
) -> None:
    """A chunk has other bits than the scoring calls that made these tokens."""
    target = TableScorer(disagreeing_pair(40, 1)[0], 40, exact=exact, width=4)
    prompt, sampling = tuple(range(1, 12)), Sampling(temperature=0.9, seed=5, max_tokens=3)
    noise, ends = Noise.of(5, prompt), frozenset({0})
    task = Task(prompt, sampling, "match", noise, ends, 400, tuple(range(20, 26)))
    turn = Turn(task, target, NoDrafter(), FixedLength(0), TextStream(decode))
    list(turn.run(NeverCancel()))
    assert sum(target.prefills) == read
    assert target.calls == [*([4, 2] if exact else []), 1, 1, 1]
    assert target.ids == turn.tokens[:-1]
