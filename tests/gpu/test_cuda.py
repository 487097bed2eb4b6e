"""The CUDA path where there is one: captured calls, draws and drafts. It has never run so far."""

from __future__ import annotations

import random
import warnings
from collections.abc import Iterator

import pytest
import torch

from specdec import draws
from specdec.captured import CapturedScorer
from specdec.contract import NeverCancel, Round
from specdec.drafters.base import Context
from specdec.filters import _running
from specdec.loading import Model, load_model
from specdec.noise import Noise
from specdec.request import Sampling
from specdec.runner import LeanScorer
from specdec.target import open_scorer, prepare
from specdec.verify import Rows
from tests.specdec.test_draft_steps import LAYOUT, PROMPT, SETTINGS, at_once, one_by_one, warm
from tests.specdec.test_draws import KINDS, both, logits_of, settings
from tests.specdec.test_one_read import SETTINGS as ONCE
from tests.specdec.test_one_read import Pair
from tests.specdec.test_target import IDS, WIDTH, drafted, plain
from tests.tiny import TOKENS, tiny_model

pytestmark = pytest.mark.gpu

CUDA = torch.device("cuda")


@pytest.fixture(scope="module", params=["bfloat16", "float32"])
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Model:
    folder = tiny_model(tmp_path_factory.mktemp("cuda"), "llama")
    return load_model(folder, CUDA, getattr(torch, request.param))


@pytest.fixture
def no_stops() -> Iterator[None]:
    """Any wait of the host for the device is an error."""
    torch.cuda.set_sync_debug_mode("error")
    yield
    torch.cuda.set_sync_debug_mode("default")


@pytest.mark.parametrize("seed", [0, 1])
def test_drafting_changes_no_bit(model: Model, seed: int) -> None:
    scorer = open_scorer(model, "static", WIDTH, 400, TOKENS)
    assert isinstance(scorer, CapturedScorer)
    assert scorer.exact
    choice = prepare(scorer, lambda done, total: None)
    assert choice is not None
    assert choice.value == "captured", choice.reason
    ids = IDS[:330]
    assert torch.equal(plain(scorer, ids, 200), drafted(scorer, ids, 200, seed))


def test_captured_calls_give_the_bits_of_plain_ones(model: Model) -> None:
    captured = open_scorer(model, "fast", WIDTH, 600, TOKENS, exact=False)
    assert isinstance(captured, CapturedScorer)
    assert model.weights is not None
    eager = LeanScorer(model.weights, captured.layout, 600, TOKENS, False)
    for start in (5, 250, 300, 505):
        for rows in (1, 3, 8):
            for scorer in (captured, eager):
                scorer.rewind(0)
                while scorer.length < start:
                    border = (scorer.length // scorer.chunk + 1) * scorer.chunk
                    scorer.prefill(IDS[scorer.length : min(border, start)])
            block = IDS[start : start + min(rows, eager.room())]
            assert torch.equal(captured.score(block), eager.score(block))
    assert captured.graphs.choice.value == "captured", captured.graphs.choice.reason


@pytest.mark.parametrize("size", [5, 700, 9000, 151_936])
def test_the_same_tokens_as_match(size: int) -> None:
    dice = random.Random(size)
    for case in range(40):
        k = dice.randint(0, 4)
        logits = logits_of(dice.choice(KINDS), k + 1, size, case).cuda()
        tokens = dice.choices(range(size), k=20)
        rows = Rows(logits, settings(dice), tokens, 7)
        true, mine = both(dice.choices(range(size), k=k), rows, Noise.of(case, [1]), 2)
        assert mine == true, (case, rows.sampling)


@pytest.mark.usefixtures("no_stops")
@pytest.mark.parametrize("temperature", [0, 0.8])
def test_the_host_waits_for_no_draw(temperature: float) -> None:
    sampling = Sampling(temperature, 40, 0.9, 0.02, 1.2, 0.1, 0.1)
    sight = draws.Sight([1, 2], torch.zeros(7, dtype=torch.int64, device=CUDA), 1)
    keys = draws.on_device(Noise(0, 0).keys(0, 8, "target"), CUDA)
    logits = torch.zeros(8, 151_936, device=CUDA)
    draws.draw_rows(logits, sampling, sight, keys)


@pytest.mark.parametrize("sampling", SETTINGS, ids=range(len(SETTINGS)))
def test_a_draft_made_there_is_the_one_drawn_one_by_one(model: Model, sampling: Sampling) -> None:
    assert model.weights is not None
    context = Context(PROMPT, 30, sampling, "match", Noise.of(1, PROMPT))
    first = warm(LeanScorer(model.weights, LAYOUT, 100, TOKENS, False))
    second = warm(LeanScorer(model.weights, LAYOUT, 100, TOKENS, False))
    assert at_once(first, context) == one_by_one(second, context)


def test_the_host_waits_once_a_round(model: Model) -> None:
    """Greedy: no draw is ever made again. torch warns of each wait."""
    assert model.weights is not None
    events = Pair.of(model.weights).turn(ONCE[0]).run(NeverCancel())
    waits = []
    torch.cuda.set_sync_debug_mode("warn")
    try:
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            for event in events:
                if isinstance(event, Round) and event.drafted:
                    waits.append(len([w for w in seen if "synchroniz" in str(w.message)]))
                seen.clear()
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert len(waits) > 5
    assert set(waits) == {1}


def test_sums_on_the_way_to_a_nucleus_do_not_vary() -> None:
    """A lone row is summed by blocks that wait for no order; beside a copy it is not."""
    mass = torch.rand(8192, device=CUDA)
    first = _running(mass)
    assert all(torch.equal(_running(mass), first) for _ in range(200))
