"""A chat of ten turns: what target and draft read on each, counted where it is read."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from specdec.contract import Message, NeverCancel, Round, Started
from specdec.engine import LocalEngine
from specdec.options import EngineOptions
from specdec.runner import CPU_CHUNK, LeanScorer
from tests.specdec.engines import ask, load, make_folders, of_kind, reply

TURNS = 10


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> dict[int, int]:
    """Tokens each scorer was made to read since the dictionary was last emptied."""
    counts: dict[int, int] = {}
    original = LeanScorer.prefill

    def counting(scorer: LeanScorer, ids: Sequence[int]) -> None:
        counts[id(scorer)] = counts.get(id(scorer), 0) + len(ids)
        original(scorer, ids)

    monkeypatch.setattr(LeanScorer, "prefill", counting)
    return counts


@pytest.mark.parametrize("runner", ["static", "fast"])
def test_each_turn_reads_the_new_turn_and_the_last_reply(
    tmp_path: Path, read: dict[int, int], runner: str
) -> None:
    """An exact runner reuses whole chunks that a prefill wrote, so up to one chunk more."""
    folders = make_folders(tmp_path)
    options = EngineOptions(
        folders.data, device="cpu", dtype="float32", draft_dtype="float32", offline=True
    )
    engine = LocalEngine(options)
    load(engine, folders.target, folders.draft)
    session = engine._session
    assert session is not None
    _, cached = session.scorer(runner)  # type: ignore[arg-type]
    target = id(cached.scorer)
    talk: list[Message] = []
    before = last = drafts_read = 0
    for turn in range(TURNS):
        talk.append(Message("user", f"{turn}: and then? " + "tell me more of it, " * 3))
        read.clear()
        events, made = reply(
            engine,
            ask("", messages=tuple(talk), conversation="c", runner=runner, k=3, seed=turn),
        )
        started = of_kind(events, Started)[0]
        prompt = started.prompt_tokens
        new = prompt - before - last  # the template's tokens between them included
        spare = CPU_CHUNK - 1 if cached.scorer.exact else 0
        assert read.get(target, 0) <= last + new + spare
        assert read.get(target, 0) == max(0, prompt - 1 - started.reused_tokens)
        drafts_read += sum(n for who, n in read.items() if who != target)
        assert drafts_read <= prompt + len(made.ids)  # each token once, when it is next needed
        talk.append(Message("assistant", made.text, made.ids))
        before, last = prompt, len(made.ids)
    assert drafts_read > before // 2
    assert before > 8 * CPU_CHUNK  # most of the chat was read once only
    engine.close()


def test_the_first_token_is_out_before_the_draft_reads(
    tmp_path: Path, read: dict[int, int]
) -> None:
    folders = make_folders(tmp_path)
    engine = LocalEngine(EngineOptions(folders.data, device="cpu", offline=True))
    load(engine, folders.target, folders.draft)
    session = engine._session
    assert session is not None
    target = id(session.scorer("auto")[1].scorer)
    read.clear()
    rounds = 0
    for event in engine.stream(ask("what comes next? " * 20, k=4), NeverCancel()):
        if isinstance(event, Round):
            rounds += 1
            assert (set(read) == {target}) == (rounds == 1)
            if rounds == 2:
                break
    assert rounds == 2
