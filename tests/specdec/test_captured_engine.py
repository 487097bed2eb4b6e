"""The whole engine with captured calls, a device that judges and a draft that stays on it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from specdec import assemble, target, turn, verify
from specdec.contract import ChatRequest, Loaded, Phase
from specdec.drafters.base import Context
from specdec.engine import LocalEngine
from specdec.options import EngineOptions
from specdec.runner import LeanScorer
from specdec.scorer import Scorer
from tests.specdec.engines import Folders, ask, load, make_folders, of_kind, reply
from tests.specdec.graph_kit import Recorder

pytestmark = pytest.mark.usefixtures("one_thread")

SETTINGS = [
    {"temperature": 0},
    {"temperature": 0.8},
    {"temperature": 0.8, "top_p": 0.9, "top_k": 50, "repetition_penalty": 1.2},
]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Folders:
    return make_folders(tmp_path_factory.mktemp("captured"))


@pytest.fixture
def recorders(monkeypatch: pytest.MonkeyPatch) -> list[Recorder]:
    """What a CUDA device changes, all of it, on the CPU."""
    made: list[Recorder] = []

    def recorder_of(device: object) -> Recorder:
        made.append(Recorder())
        return made[-1]

    def judge(
        rule: str, draft: verify.Draft, rows: verify.Rows, noise: verify.Noise, index: int
    ) -> tuple[verify.Draft, verify.Outcome]:
        assert rule == "match"
        return verify.match_on_device(draft, rows, noise, index)

    def stays(scorer: Scorer, context: Context) -> LeanScorer | None:
        return scorer if isinstance(scorer, LeanScorer) and context.rule == "match" else None

    monkeypatch.setattr(target, "recorder_of", recorder_of)
    monkeypatch.setattr(assemble, "recorder_of", recorder_of)
    monkeypatch.setattr(turn, "judge", judge)
    monkeypatch.setattr("specdec.drafters.model.on_device_scorer", stays)
    return made


def requests() -> list[ChatRequest]:
    return [ask("abc abc abc", runner="static", fresh=True, max_tokens=24, **s) for s in SETTINGS]


def words(engine: LocalEngine, request: ChatRequest) -> tuple[int, ...]:
    return reply(engine, request)[1].ids


def test_replies_are_those_of_the_plain_engine(folders: Folders, recorders: list[Recorder]) -> None:
    options = EngineOptions(folders.data, device="cpu", dtype="float32", offline=True, context=400)
    engine = LocalEngine(options)
    events = list(engine.load(str(folders.target), str(folders.draft)))
    loaded = events[-1]
    assert isinstance(loaded, Loaded)
    assert "its calls are captured: " in loaded.pair.runner.reason
    phases = [e for e in of_kind(events, Phase) if e.detail == "capturing calls"]
    assert len({p.model for p in phases}) == 2  # the draft's calls, then the target's
    for model in {p.model for p in phases}:
        own = [p for p in phases if p.model == model]
        assert [p.done for p in own] == list(range(own[0].total))
    captured = [[words(engine, replace(r, k=k)) for k in (4, None)] for r in requests()]
    plain = [words(engine, replace(r, mode="standard")) for r in requests()]
    assert captured == [[same] * 2 for same in plain]
    assert sum(recorder.replayed for recorder in recorders) > 100
    engine.close()


def test_the_words_do_not_depend_on_capturing(
    folders: Folders, request: pytest.FixtureRequest
) -> None:
    """Below 512 tokens both read the same slots, so even their bits agree."""
    options = EngineOptions(folders.data, device="cpu", dtype="float32", offline=True, context=400)
    said = []
    for _ in range(2):
        engine = LocalEngine(options)
        load(engine, folders.target, folders.draft)
        said.append([words(engine, each) for each in requests()])
        engine.close()
        request.getfixturevalue("recorders")  # from here on
    assert said[0] == said[1]


def test_a_device_without_memory_serves_eagerly_and_says_so(
    folders: Folders, recorders: list[Recorder], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(target, "recorder_of", lambda device: Recorder(spare=10_000))
    engine = LocalEngine(EngineOptions(folders.data, device="cpu", offline=True, context=400))
    pair = load(engine, folders.target, folders.draft).pair
    assert "its calls are eager: only 10 kB are free" in pair.runner.reason
    assert any("The draft's calls are eager" in notice for notice in pair.notices)
    assert words(engine, requests()[0])
    engine.close()
