"""Earlier replies in the engine: used and kept where a request says so, and nowhere else."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from specdec.cli import main
from specdec.contract import ChatRequest, Message, NeverCancel, Round
from specdec.drafters import store_file
from specdec.engine import LocalEngine
from specdec.options import EngineOptions
from tests.specdec.engines import Folders, ask, load, make_folders, of_kind, reply


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Folders, LocalEngine]:
    folders = make_folders(tmp_path_factory.mktemp("remember"))
    engine = LocalEngine(EngineOptions(folders.data, device="cpu", offline=True))
    load(engine, folders.target, "ngram")
    return folders, engine


@pytest.fixture
def data(made: tuple[Folders, LocalEngine]) -> Iterator[Path]:
    store_file.forget(made[0].data)
    yield made[0].data
    store_file.forget(made[0].data)


@pytest.fixture
def engine(made: tuple[Folders, LocalEngine], data: Path) -> LocalEngine:
    return made[1]


def owners(conversation: str = "chat", **rest: object) -> ChatRequest:
    settings = {"temperature": 1.0, "max_tokens": 32, "k": 7, "conversation": conversation}
    return ask("tell me", remember=True, **{**settings, **rest})


def drafted(engine: LocalEngine, request: ChatRequest) -> int:
    return reply(engine, request)[1].metrics.accepted


def test_the_same_reply_again_is_copied_and_says_the_same(engine: LocalEngine, data: Path) -> None:
    events, first = reply(engine, owners())
    assert store_file.kept_in(data) == (1, 4 * len(first.ids))
    events, again = reply(engine, owners("another"))
    assert again.ids == first.ids
    assert again.metrics.accepted > first.metrics.accepted
    assert again.metrics.tokens_per_round > 4
    assert {r.source for r in of_kind(events, Round)} <= {"", "ngram"}
    assert store_file.kept_in(data)[0] == 1  # said twice, kept once


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("rest", [{"k": 3}, {"k": None}], ids=str)
def test_words_never_depend_on_what_is_kept(
    engine: LocalEngine, temperature: float, rest: dict[str, object]
) -> None:
    """Another reply to a like message is in the store, and disagrees on the way."""
    request = owners(temperature=temperature, **rest)
    _, bare = reply(engine, replace(request, remember=False))
    for seed, text in enumerate(("tell me!", "tell me")):
        like = replace(request, messages=(Message("user", text),))
        reply(engine, replace(like, sampling=replace(like.sampling, seed=seed)))
    for _ in range(2):
        assert reply(engine, request)[1].ids == bare.ids


def test_a_guest_neither_reads_nor_writes(engine: LocalEngine, data: Path) -> None:
    guest = replace(owners(), remember=False, conversation="guest")
    before = drafted(engine, guest)
    assert store_file.kept_in(data) == (0, 0)
    reply(engine, owners())
    kept = store_file.kept_in(data)
    assert drafted(engine, guest) == before
    assert drafted(engine, owners("mine")) > before
    assert drafted(engine, guest) == before  # nor after the owner has
    assert store_file.kept_in(data) == kept


def test_a_fresh_start_has_no_store(engine: LocalEngine, data: Path) -> None:
    """The race and Verify compare from nothing."""
    fresh = owners(fresh=True)
    before = drafted(engine, fresh)
    assert store_file.kept_in(data) == (0, 0)
    reply(engine, owners())
    assert drafted(engine, fresh) == before


def test_a_cancelled_reply_is_kept_as_far_as_it_came(engine: LocalEngine, data: Path) -> None:
    class After:
        def __init__(self) -> None:
            self.looks = 0

        def is_set(self) -> bool:
            self.looks += 1
            return self.looks > 20

    events = list(engine.stream(owners(k=0), After()))
    assert events[-1].reason == "cancelled"  # type: ignore[union-attr]
    assert store_file.kept_in(data)[1] == 4 * len(events[-1].ids)  # type: ignore[union-attr]


def test_a_forgotten_conversation_is_not_copied_from(engine: LocalEngine, data: Path) -> None:
    bare = drafted(engine, owners())
    engine.forget("chat")
    assert store_file.kept_in(data) == (0, 0)
    assert drafted(engine, owners("other")) == bare


def test_forgotten_while_it_is_being_made(engine: LocalEngine, data: Path) -> None:
    reply(engine, owners())
    events = engine.stream(owners("late", seed=8), NeverCancel())
    next(event for event in events if isinstance(event, Round))
    engine.forget("late")
    list(events)
    assert store_file.kept_in(data)[0] == 1
    reply(engine, owners("late", seed=8))  # the next one is kept
    assert store_file.kept_in(data)[0] == 2


def test_switched_off_nothing_is_read_or_kept(made: tuple[Folders, LocalEngine]) -> None:
    folders, engine = made
    first = drafted(engine, replace(owners(), remember=False))
    reply(engine, owners())
    kept = store_file.kept_in(folders.data)
    assert kept[0] == 1
    off = LocalEngine(EngineOptions(folders.data, device="cpu", offline=True, ngram_store=False))
    load(off, folders.target, "ngram")
    assert drafted(off, owners()) == first
    assert store_file.kept_in(folders.data) == kept
    store_file.forget(folders.data)


def test_the_terminal_keeps_shows_and_clears(
    made: tuple[Folders, LocalEngine], data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["generate", "--prompt", "abc", "--target", str(made[0].target), "--draft", "ngram"]
    words += ["--seed", "1", "--max-tokens", "12", "--data-dir", str(data), "--offline"]
    words += ["--device", "cpu"]
    assert main([*words, "--no-ngram-store"]) == 0
    assert main(["store", "--data-dir", str(data)]) == 0
    assert "0 replies" in capsys.readouterr().out
    assert main(words) == 0
    capsys.readouterr()
    assert main(["store", "--data-dir", str(data)]) == 0
    out = capsys.readouterr().out
    assert out.startswith("1 reply, 48 bytes of token ids, in ")
    assert str(data) in out
    assert main(["store", "--clear", "--data-dir", str(data)]) == 0
    assert capsys.readouterr().out == "1 reply deleted.\n"
    assert store_file.kept_in(data) == (0, 0)
