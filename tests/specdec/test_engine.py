"""The engine on tiny real models: prefix reuse, drafts of every kind, verify, exactness."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from specdec.contract import (
    Comparison,
    Failed,
    Finished,
    Loaded,
    Message,
    NeverCancel,
    Queued,
    Reply,
    Round,
    Started,
)
from specdec.engine import LocalEngine
from specdec.errors import SettingError
from specdec.options import EngineOptions
from tests.specdec.engines import Folders, ask, load, make_folders, of_kind, reply
from tests.specdec.tongue_kit import other_model
from tests.tiny import tiny_model


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Folders:
    return make_folders(tmp_path_factory.mktemp("engine"))


@pytest.fixture(scope="module")
def engine(folders: Folders) -> Iterator[LocalEngine]:
    made = LocalEngine(EngineOptions(folders.data, device="cpu", offline=True))
    load(made, folders.target, folders.draft)
    yield made
    made.close()


def started(events: list[object]) -> Started:
    return of_kind(events, Started)[0]


def test_the_next_turn_reuses_the_prefix_by_ids_and_says_how_much(engine: LocalEngine) -> None:
    long = "a question of some length, " * 12
    events, first = reply(engine, ask(long, fresh=True))
    assert started(events).reused_tokens == 0
    talk = (
        Message("user", long),
        Message("assistant", first.text, first.ids),
        Message("user", "and?"),
    )
    events, warm = reply(engine, ask("", messages=talk))
    reused = started(events).reused_tokens
    assert reused >= 128
    assert warm.metrics.reused_tokens == reused
    events, cold = reply(engine, ask("", messages=talk, fresh=True))
    assert started(events).reused_tokens == 0
    assert cold.ids == warm.ids


def test_regenerating_reads_at_least_one_token_again(engine: LocalEngine) -> None:
    _, first = reply(engine, ask("the same thing " * 10, temperature=0))
    events, second = reply(engine, ask("the same thing " * 10, temperature=0))
    assert 0 < started(events).reused_tokens < started(events).prompt_tokens
    assert second.ids == first.ids


def test_old_turns_are_dropped_with_a_notice(folders: Folders) -> None:
    options = EngineOptions(folders.data, device="cpu", offline=True, context=256)
    engine = LocalEngine(options)
    load(engine, folders.target, "none")
    talk = [Message("user", "x" * 60), Message("assistant", "y" * 60)] * 4
    request = ask("", messages=(*talk, Message("user", "last")), max_tokens=20)
    events, last = reply(engine, request)
    assert started(events).dropped_turns > 0
    assert last.ids
    huge = list(engine.stream(ask("z" * 500), NeverCancel()))
    assert isinstance(huge[-1], Failed)
    assert huge[-1].error.kind == "PromptError"


@pytest.mark.parametrize("draft", ["ngram", "smaller", "itself", "early-exit", "other-tokens"])
def test_every_draft_gives_plain_words(folders: Folders, draft: str, tmp_path: Path) -> None:
    target = folders.target
    if draft == "early-exit":
        target = tiny_model(tmp_path / "deep", seed=1, num_hidden_layers=4)
    paths = {"smaller": str(folders.draft), "itself": str(folders.target)}
    if draft == "other-tokens":
        paths[draft] = str(other_model(folders.data / draft, num_hidden_layers=1))
    options = EngineOptions(
        folders.data, device="cpu", dtype="float32", draft_dtype="float32", offline=True
    )
    engine = LocalEngine(options)
    load(engine, target, paths.get(draft, draft))
    for temperature in (0, 0.8):
        settings = {"temperature": temperature, "max_tokens": 60, "fresh": True}
        request = ask("abc abc abc", runner="static", **settings)
        _, plain = reply(engine, replace(request, mode="standard"))
        for k in (None, 1, 2, 4, 7):
            _, last = reply(engine, replace(request, k=k))
            assert last.ids == plain.ids
            if draft == "itself" and k:
                assert last.metrics.acceptance > 0.95
            if draft != "ngram" and k:
                assert last.metrics.drafted > 10


def test_own_draft_in_int4_is_loaded_as_asked(folders: Folders) -> None:
    options = EngineOptions(folders.data, device="cpu", offline=True, draft_dtype="int4")
    engine = LocalEngine(options)
    pair = load(engine, folders.target, folders.draft).pair
    assert pair.draft_dtype.value == "int4"
    assert "asked for" in pair.draft_dtype.reason
    _, last = reply(engine, ask("go", k=4))
    assert last.metrics.drafted > 0


def test_a_draft_whose_tokens_cannot_be_compared_is_refused_by_token(folders: Folders) -> None:
    other = tiny_model(folders.data / "other", "llama", seed=3)
    path = other / "tokenizer.json"
    tokens = path.read_text().replace("<|im_end|>", "<|fin|>").replace("ByteLevel", "Unheard")
    path.write_text(tokens)
    config = other / "tokenizer_config.json"
    config.write_text(config.read_text().replace("<|im_end|>", "<|fin|>"))
    engine = LocalEngine(EngineOptions(folders.data, device="cpu", offline=True))
    last = list(engine.load(str(folders.target), str(other)))[-1]
    assert isinstance(last, Failed)
    assert last.error.kind == "PairError"
    assert "258" in last.error.message


def test_verify_compares_with_a_plain_decode(engine: LocalEngine) -> None:
    request = ask("verify me", max_tokens=30)
    _, last = reply(engine, request)
    same = engine.verify(Reply(request, last.ids), NeverCancel())
    assert same == Comparison(True, len(last.ids))
    forged = (*last.ids[:5], (last.ids[5] + 1) % 256, *last.ids[6:])
    other = engine.verify(Reply(request, forged), NeverCancel())
    assert (other.identical, other.first_difference) == (False, 5)
    assert other.gap is not None
    assert other.gap > 0  # the plain choice has the higher value
    greedy = replace(request, sampling=replace(request.sampling, temperature=0))
    _, last = reply(engine, greedy)
    assert engine.verify(Reply(greedy, last.ids), NeverCancel()).identical


def test_raw_text_is_gone_on_with_and_verified(engine: LocalEngine) -> None:
    request = ask("once upon a time", max_tokens=20, raw=True)
    events, last = reply(engine, request)
    (started,) = of_kind(events, Started)
    assert started.prompt_tokens == len("once upon a time")
    assert engine.verify(Reply(request, last.ids), NeverCancel()).identical
    _, templated = reply(engine, replace(request, raw=False))
    assert templated.ids != last.ids


def test_verify_compares_no_reply_to_another_prompt(engine: LocalEngine) -> None:
    request = ask("verify me", max_tokens=8)
    events, last = reply(engine, request)
    (started,) = of_kind(events, Started)
    kept = Reply(request, last.ids, prompt=started.prompt)
    assert engine.verify(kept, NeverCancel()).identical
    other = replace(kept, request=ask("verify us", max_tokens=8))
    with pytest.raises(SettingError, match="no longer the one"):
        engine.verify(other, NeverCancel())
    with pytest.raises(SettingError, match="has not"):
        engine.verify(replace(kept, ids=(10**6,)), NeverCancel())


def test_verify_of_an_empty_reply_and_of_an_end_that_came_too_early(engine: LocalEngine) -> None:
    request = ask("verify me", max_tokens=30)
    assert engine.verify(Reply(request, ()), NeverCancel()) == Comparison(True, 0)
    _, last = reply(engine, request)
    short = last.ids[:7]
    assert engine.verify(Reply(request, short), NeverCancel()) == Comparison(True, 7)
    early = engine.verify(Reply(request, short, "end"), NeverCancel())
    assert (early.identical, early.first_difference, early.got) == (False, 7, "the end")
    early = engine.verify(Reply(request, (), "end"), NeverCancel())
    assert (early.identical, early.first_difference) == (False, 0)


def test_another_conversation_reuses_nothing(engine: LocalEngine) -> None:
    """Not even what is equal: how soon it answers would tell what others asked."""
    said = "a question of some length, " * 12
    reply(engine, ask(said, conversation="mine", fresh=True))
    events, _ = reply(engine, ask(said, conversation="mine"))
    assert started(events).reused_tokens > 0
    events, _ = reply(engine, ask(said, conversation="yours"))
    assert started(events).reused_tokens == 0
    events, _ = reply(engine, ask(said))
    assert started(events).reused_tokens == 0
    events, _ = reply(engine, ask(said))
    assert started(events).reused_tokens > 0


def test_both_runners_serve_and_static_is_exact(engine: LocalEngine) -> None:
    for runner in ("static", "fast"):
        events, last = reply(engine, ask("runner", runner=runner, fresh=True, k=3))
        assert started(events).runner == runner
        assert last.ids


def test_penalties_see_accepted_and_drafted_tokens(engine: LocalEngine) -> None:
    settings = {"repetition_penalty": 1.3, "temperature": 0, "max_tokens": 60, "fresh": True}
    settings["runner"] = "static"  # the fast one may differ at near-ties, and a slow box takes it
    _, plain = reply(engine, ask("abababab", mode="standard", **settings))
    _, drafted = reply(engine, ask("abababab", mode="speculative", k=5, **settings))
    assert drafted.ids == plain.ids
    assert drafted.metrics.drafted > 0


def test_nothing_loaded_is_said(folders: Folders) -> None:
    engine = LocalEngine(EngineOptions(folders.data, device="cpu", offline=True))
    last = list(engine.stream(ask("hi"), NeverCancel()))[-1]
    assert isinstance(last, Failed)
    assert "No model is loaded" in last.error.message


def test_phases_go_from_fetching_to_measuring(folders: Folders) -> None:
    engine = LocalEngine(EngineOptions(folders.data, device="cpu", offline=True))
    events = list(engine.load(str(folders.target), str(folders.draft)))
    names = [e.name for e in events[:-1]]  # type: ignore[union-attr]
    assert names.index("fetching") < names.index("loading") < names.index("measuring")
    assert isinstance(events[-1], Loaded)
    verdicts = {o.id: o.verdict for o in events[-1].pair.drafts}
    assert verdicts[str(folders.draft)] == "chosen"
    assert {"ngram", "none"} <= set(verdicts)


@pytest.mark.parametrize("how", ["cancel", "close"])
def test_a_reply_that_waits_in_the_queue_can_be_ended_there(folders: Folders, how: str) -> None:
    engine = LocalEngine(EngineOptions(folders.data, device="cpu", offline=True))
    load(engine, folders.target, "none")
    first = engine.stream(ask("long", max_tokens=2000, temperature=1.0), NeverCancel())
    while not isinstance(next(first), Round):
        continue
    flag = threading.Event()
    waiting = engine.stream(ask("two"), flag)
    assert isinstance(next(waiting), Queued)  # the first reply stands still meanwhile
    flag.set() if how == "cancel" else engine.close()
    last = next(waiting)
    assert isinstance(last, Finished)
    assert last.reason == "cancelled"
    assert list(waiting) == []
    engine.close()
    loads = list(engine.load(str(folders.target), "none"))
    assert isinstance(loads[-1], Failed)
    assert "closed" in loads[-1].error.message
    first.close()  # type: ignore[attr-defined]
    loads = list(engine.load(str(folders.target), "none"))
    assert [type(event) for event in loads] == [Failed]
