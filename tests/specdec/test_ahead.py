"""A target read ahead through its first layers alone, and scored from there on, bit for bit."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from specdec import decoder
from specdec.captured import CapturedScorer
from specdec.graphs import Graphs
from specdec.heads.states import States
from specdec.linear import has_fbgemm
from specdec.loading import Model, load_model
from specdec.runner import STEP, Layout, LeanScorer
from specdec.target import open_scorer
from tests.tiny import TOKENS, tiny_model

pytestmark = pytest.mark.usefixtures("one_thread")

CPU = torch.device("cpu")
WIDTH, LAYERS = 8, 4
IDS = random.Random(6).choices(range(TOKENS), k=2 * STEP)
FAMILIES = ("llama", "gemma2", "gemma3", "smollm3")
CASES = (
    ("llama", "float32", "dense"),
    ("llama", "bfloat16", "dense"),
    ("llama", "bfloat16", "fp16"),
    ("llama", "bfloat16", "int4"),
    ("gemma2", "bfloat16", "dense"),
    ("gemma3", "float32", "dense"),
    ("smollm3", "bfloat16", "fp16"),
)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    base = tmp_path_factory.mktemp("ahead")
    deep = {"num_hidden_layers": LAYERS}
    kinds = {**deep, "layer_types": ["sliding_attention", "full_attention"] * 2}
    changes = {"llama": deep, "gemma2": kinds, "gemma3": kinds, "smollm3": deep}
    return {name: tiny_model(base / name, name, **changes[name]) for name in FAMILIES}


def load(folders: dict[str, Path], family: str, dtype: str, form: str) -> Model:
    if form == "fp16" and not has_fbgemm():
        pytest.skip("needs fbgemm")
    return load_model(folders[family], CPU, getattr(torch, dtype), form)  # type: ignore[arg-type]


def opened(model: Model, runner: str, length: int) -> LeanScorer:
    """A scorer that holds the first `length` ids."""
    made = open_scorer(model, runner, WIDTH, 2 * STEP, TOKENS)  # type: ignore[arg-type]
    assert isinstance(made, LeanScorer)
    read(made, IDS[:length])
    return made


def read(scorer: LeanScorer, ids: list[int]) -> None:
    while (done := scorer.length) < len(ids):
        border = (done // scorer.chunk + 1) * scorer.chunk
        scorer.prefill(ids[done : min(border, len(ids))])


def cached(scorer: LeanScorer) -> Tensor:
    return scorer._buffers.kv[:, :, :, : scorer.length]


@pytest.mark.parametrize(("family", "dtype", "form"), CASES)
@pytest.mark.parametrize("runner", ["static", "fast"])
def test_an_exact_runner_gives_the_bits_it_gives_without_reading_ahead(
    family: str, dtype: str, form: str, runner: str, folders: dict[str, Path]
) -> None:
    model = load(folders, family, dtype, form)
    for start in (70, STEP - 4):
        one, other = (opened(model, runner, start) for _ in range(2))
        if not one.exact:
            pytest.skip("no calls here give a row the same bits everywhere")
        k = min(5, one.room() - 1)
        rows = IDS[start : start + k + 1]
        for token in rows[:k]:
            one.score_early([token], LAYERS // 2)
        assert one.length == start
        assert torch.equal(one.score(rows), other.score(rows))
        assert torch.equal(cached(one), cached(other))
        more = IDS[start + k + 1 :][: one.room()]  # what follows reads what was written
        assert torch.equal(one.score(more), other.score(more))


@pytest.mark.parametrize("family", FAMILIES)
def test_the_exit_law_is_that_of_a_target_of_these_layers_alone(
    family: str, folders: dict[str, Path]
) -> None:
    model = load(folders, family, "float32", "dense")
    assert model.weights is not None
    for layers in (1, 2, 3):
        short = replace(
            model.weights,
            layers=model.weights.layers[:layers],
            shape=replace(model.weights.shape, layers=layers),
        )
        alone = LeanScorer(short, Layout.plain(WIDTH), 2 * STEP, TOKENS, exact=False)
        read(alone, IDS[:70])
        scorer = opened(model, "fast", 70)
        for ids in (IDS[70:71], IDS[71:74], IDS[74:75]):
            logits = scorer.score_early(ids, layers)
            assert logits.shape == (TOKENS,)
            assert (logits - alone.score(ids)[-1]).abs().max() < 1e-5


def test_the_first_layers_run_once_for_what_was_read_ahead(
    folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = load(folders, "llama", "float32", "dense")
    scorer = opened(model, "static", 20)
    ran: list[tuple[int, int]] = []
    block = decoder._block

    def counted(weights, index, x, buffers, step):  # type: ignore[no-untyped-def]
        ran.append((index, len(x)))
        return block(weights, index, x, buffers, step)

    monkeypatch.setattr(decoder, "_block", counted)
    scorer.score_early(IDS[20:21], 3)
    scorer.score_early(IDS[21:22], 3)
    assert ran == [(0, 8), (1, 8), (2, 8)] * 2
    ran.clear()
    scorer.score(IDS[20:23])
    assert ran == [(0, 8), (1, 8), (2, 8), (3, 8)]  # the first three for the last row alone


def rewinds(scorer: LeanScorer) -> list[int]:
    scorer.rewind(19)
    return IDS[:19]


def scores_others(scorer: LeanScorer) -> list[int]:
    scorer.score([IDS[20], 7])
    return [*IDS[:21], 7]


def scores_a_tensor(scorer: LeanScorer) -> list[int]:
    scorer.score_tensor(torch.tensor([7]))
    return [*IDS[:20], 7]


def scores_them(scorer: LeanScorer) -> list[int]:
    scorer.score(IDS[20:23])
    return IDS[:23]


def prefills(scorer: LeanScorer) -> list[int]:
    scorer.prefill([7, 9])
    return [*IDS[:20], 7, 9]


@pytest.mark.parametrize(
    "act",
    [rewinds, scores_others, scores_a_tensor, scores_them, prefills],
    ids=lambda f: f.__name__,
)
def test_whatever_comes_next_forgets_what_was_read_ahead(
    act: Callable[[LeanScorer], list[int]], folders: dict[str, Path]
) -> None:
    model = load(folders, "llama", "float32", "dense")
    scorer = opened(model, "static", 20)
    scorer.score_early(IDS[20:22], 2)
    held = act(scorer)
    assert scorer.length == len(held)
    fresh = opened(model, "static", 0)
    read(fresh, held)
    for one in (scorer, fresh):
        one.score_early(IDS[30:31], 2)
    assert (scorer.score_early(IDS[31:32], 2) - fresh.score_early(IDS[31:32], 2)).abs().max() < 1e-5
    assert (scorer.score(IDS[30:33]) - fresh.score(IDS[30:33])).abs().max() < 1e-5


def test_other_ids_than_those_read_ahead_are_scored_as_ever(folders: dict[str, Path]) -> None:
    model = load(folders, "llama", "bfloat16", "dense")
    for rows in (IDS[40:43], [IDS[20], *IDS[40:42]], IDS[20:21]):
        one, other = opened(model, "static", 20), opened(model, "static", 20)
        one.score_early(IDS[20:22], 2)
        assert torch.equal(one.score(rows), other.score(rows))
        assert torch.equal(cached(one), cached(other))


def test_another_layer_begins_anew(folders: dict[str, Path]) -> None:
    model = load(folders, "llama", "float32", "dense")
    one, other = opened(model, "static", 20), opened(model, "static", 20)
    one.score_early(IDS[20:22], 2)
    assert torch.equal(one.score_early(IDS[20:21], 3), other.score_early(IDS[20:21], 3))
    assert torch.equal(one.score(IDS[20:24]), other.score(IDS[20:24]))


def test_who_asks_for_states_gets_those_of_all_layers(folders: dict[str, Path]) -> None:
    model = load(folders, "llama", "float32", "dense")
    found = []
    for ahead in (True, False):
        states = States((0, 2, LAYERS))
        scorer = opened(model, "static", 20)
        scorer.watch(states)
        states.open = True
        if ahead:
            scorer.score_early(IDS[20:22], 2)
        scorer.score(IDS[20:24])
        found.append(states.take(20, 24))
    assert torch.equal(*found)


def test_no_row_is_read_ahead_that_could_not_be_scored(folders: dict[str, Path]) -> None:
    model = load(folders, "llama", "float32", "dense")
    scorer = opened(model, "static", STEP - 3)
    scorer.score_early(IDS[:2], 1)
    with pytest.raises(ValueError, match="room for 3"):
        scorer.score_early(IDS[:2], 1)
    scorer.score_early(IDS[:1], 1)
    with pytest.raises(ValueError, match="room for 3"):
        scorer.score(IDS[:3] + IDS[:1])
    with pytest.raises(ValueError, match="0 rows"):
        scorer.score_early([], 1)


def test_captured_calls_refuse(folders: dict[str, Path]) -> None:
    model = load(folders, "llama", "float32", "dense")
    assert model.weights is not None
    layout = Layout(WIDTH, (WIDTH,), True, True)
    made = CapturedScorer(model.weights, layout, STEP, TOKENS, True, Graphs(None))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="captured"):
        made.score_early([1], 1)
