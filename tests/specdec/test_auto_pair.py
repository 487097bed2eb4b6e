"""`--draft auto` over a tiny target's drafts: what is loaded, what is told, and the same words."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file, save_file

from specdec.contract import Loaded, Pair, Round, Sampling
from specdec.drafters.auto import AutoDrafter
from specdec.engine import LocalEngine
from specdec.errors import PairError
from specdec.options import EngineOptions
from specdec.trial import make_task, say
from tests.specdec.engines import ask, of_kind, reply
from tests.specdec.head_kit import config_of, tensors_of, write_head
from tests.tiny import ROWS, tiny_model

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A target, two heads, a good draft, and a smaller one whose weights are not numbers."""
    base = tmp_path_factory.mktemp("auto")
    tiny_model(base / "target", seed=1, hidden_size=32)
    tiny_model(base / "good", seed=1, hidden_size=32, num_hidden_layers=1)
    tiny_model(base / "other", seed=2, hidden_size=32, num_hidden_layers=1, intermediate_size=96)
    tiny_model(base / "rotten", seed=1, num_hidden_layers=1, intermediate_size=32)
    file = base / "rotten" / "model.safetensors"
    weights = load_file(file)
    weights["model.norm.weight"][0] = float("nan")
    save_file(weights, file, metadata={"format": "pt"})
    for number, name in enumerate(("head", "second")):
        config = config_of("plain", drafts=64, vocab_size=ROWS)
        write_head(base / name, config, tensors_of(config, 3 + number, own_embed=False))
    return base


@pytest.fixture(scope="module")
def both(models: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[LocalEngine, Pair]:
    """An engine with a head and a model at once."""
    data = tmp_path_factory.mktemp("both") / "data"
    made = engine(models, data, row(models, "head", "head"), row(models, "good"))
    return made, pair(made)


def row(models: Path, name: str, role: str = "draft", **fields: Any) -> dict[str, Any]:
    base = {"id": name, "name": name.title(), "family": "Tiny", "tokens": "tiny", "roles": [role]}
    extra = {"trained_for": "target"} if role == "head" else {}
    return {**base, **extra, "parameters": 10**4, "folder": str(models / name), **fields}


def engine(models: Path, data: Path, *drafts: dict[str, Any], **asked: Any) -> LocalEngine:
    target = row(models, "target", "target", parameters=10**6)
    data.mkdir()
    (data / "models.json").write_text(json.dumps({"models": [target, *drafts]}))
    forms = {"dtype": "float32", "draft_dtype": "float32", "offline": True, **asked}
    return LocalEngine(EngineOptions(data, device="cpu", **forms))


def pair(made: LocalEngine, draft: str | None = "auto") -> Pair:
    last = list(made.load("target", draft))[-1]
    assert isinstance(last, Loaded), last
    return last.pair


def test_several_are_loaded_and_every_one_of_them_gives_plain_words(
    both: tuple[LocalEngine, Pair],
) -> None:
    made, got = both
    assert got.draft.value == "auto"
    assert got.draft.reason.startswith("asked for; n-gram, ")
    assert all(name in got.draft.reason for name in ("head", "good"))
    verdicts = {option.id: option.verdict for option in got.drafts}
    assert list(verdicts.values()).count("chosen") == 1
    assert verdicts["auto"] == "chosen"
    assert {verdicts[name] for name in ("head", "good", "ngram", "none")} == {"possible"}
    told = {option.id: option.reason for option in got.drafts}
    assert told["head"].startswith("one of auto's; ")
    assert "trained for this target" in told["head"]
    session = made._session
    assert session is not None
    assert isinstance(session.drafter, AutoDrafter)
    assert {model.name for model in session.drafter.models} == {"head", "good"}
    scorer = session.scorer("static")[1].scorer
    for temperature, lengths in ((0.0, ((3, 0, 7, 1),)), (0.8, ((1,), (7,)))):
        task = make_task(session, "abc abc abc", Sampling(temperature, seed=7, max_tokens=40))
        plain = say(session, scorer, task, session.drafter, (0,))
        for ks in lengths:
            drafted = say(session, scorer, task, session.drafter, ks)
            assert drafted.ids == plain.ids
            assert len(drafted.outcomes) > 5
            assert drafted.notices == ()


def test_a_reply_through_the_engine_says_who_drafted_and_why(
    both: tuple[LocalEngine, Pair],
) -> None:
    made, _ = both
    request = ask("abc abc abc", runner="static", max_tokens=30, fresh=True)
    _, plain = reply(made, replace(request, mode="standard"))
    for k in (None, 3):
        events, last = reply(made, replace(request, k=k))
        assert last.ids == plain.ids
        rounds = of_kind(events, Round)
        assert {one.source for one in rounds} <= {"", "ngram", "head", "good"}
        assert all(one.reason for one in rounds)


def test_one_that_cannot_be_loaded_is_left_out_with_a_notice(models: Path, tmp_path: Path) -> None:
    made = engine(models, tmp_path / "data", row(models, "rotten"), row(models, "good"))
    got = pair(made)
    (notice,) = [text for text in got.notices if text.startswith("auto does without rotten")]
    assert "not numbers" in notice
    assert "good" in got.draft.reason
    assert {o.id: o.verdict for o in got.drafts}["rotten"] == "rejected"


def test_at_most_two_and_one_reader_of_the_targets_states(models: Path, tmp_path: Path) -> None:
    drafts = [row(models, name) for name in ("good", "other")]
    heads = [row(models, name, "head") for name in ("head", "second")]
    got = pair(engine(models, tmp_path / "one", *heads, *drafts))
    loaded = [o.id for o in got.drafts if o.reason.startswith("one of auto's")]
    assert len(loaded) == 2
    assert len({"head", "second"} & set(loaded)) <= 1
    got = pair(engine(models, tmp_path / "two", *heads))
    assert len([o for o in got.drafts if o.reason.startswith("one of auto's")]) == 1
    assert any("reads the target's layers" in text for text in got.notices)


@pytest.mark.parametrize("heads", [["head"], []], ids=str)
def test_the_targets_own_layers_join_where_no_head_reads_them(
    models: Path, tmp_path: Path, heads: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    tiny_model(tmp_path / "target", seed=1, hidden_size=32, num_hidden_layers=4)
    drafts = [row(models, name, "head") for name in heads]
    target = {"id": "target", "folder": str(tmp_path / "target")}
    made = engine(models, tmp_path / "data", *drafts, {**row(models, "target", "target"), **target})
    got = pair(made)
    joined = [o.id for o in got.drafts if o.reason.startswith("one of auto's")]
    assert joined == (heads or ["early-exit"])
    assert not any("without" in text for text in got.notices)
    _, plain = reply(made, ask("abc abc", runner="static", mode="standard", fresh=True))
    _, drafted = reply(made, ask("abc abc", runner="static", k=3, fresh=True))
    assert drafted.ids == plain.ids
    monkeypatch.setattr("specdec.drafting.load_early_exit", _broken)
    last = pair(made)
    told = {option.id: (option.verdict, option.reason) for option in last.drafts}
    assert bool(heads) or told["early-exit"] == ("rejected", "It broke.")


def _broken(*given: object) -> None:
    raise PairError("It broke.", "Mend it.")


def test_what_is_loaded_counts_against_the_next(
    models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Free memory as the system sees it does not shrink: buffers are not written yet."""
    drafts = [row(models, name) for name in ("good", "other")]
    made = engine(models, tmp_path / "data", *drafts)
    need = 4 * 10**4  # of the parameters that the registry names, in fp32
    monkeypatch.setattr("specdec.auto_drafting.free_bytes", lambda where: need * 3 // 2)
    got = pair(made)
    assert [o.id for o in got.drafts if o.reason.startswith("one of auto's")] == ["good"]
    (other,) = [option for option in got.drafts if option.id == "other"]
    assert other.verdict == "rejected"
    assert other.reason.startswith("needs ")


def test_nothing_is_fetched_and_n_grams_alone_are_several_enough(
    models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("specdec.hub.Hub.reachable", lambda hub: True)
    gone = row(models, "gone", repo="nobody/nothing", folder=None)
    made = engine(models, tmp_path / "data", gone, offline=False)
    got = pair(made)
    assert got.draft.value == "auto"
    assert "so n-gram alone" in got.draft.reason
    assert not any("Gone" in text or "without" in text for text in got.notices)
    events, last = reply(made, ask("abc abc abc", k=3, temperature=0, max_tokens=80))
    assert last.metrics.drafted > 0
    assert {one.source for one in of_kind(events, Round)} <= {"", "ngram"}


def test_auto_is_listed_for_every_target_and_never_chosen_unasked(
    models: Path, tmp_path: Path
) -> None:
    got = pair(engine(models, tmp_path / "data", row(models, "good")), None)
    assert got.draft.value == "good"
    (auto,) = [option for option in got.drafts if option.id == "auto"]
    assert (auto.verdict, auto.bytes_per_step) == ("possible", None)
    assert "most tokens a second" in auto.reason
