"""Captured calls: the bits of the plain runner at every position, bounds, and reasons."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
import torch

from specdec.captured import CapturedScorer
from specdec.decoder import Weights
from specdec.graphs import Graphs, Work
from specdec.loading import load_model
from specdec.runner import STEP, Layout, LeanScorer
from specdec.scorer import Scorer
from tests.specdec.graph_kit import Recorder
from tests.tiny import FAMILIES, TOKENS, tiny_model

pytestmark = pytest.mark.usefixtures("one_thread")

CPU = torch.device("cpu")
WIDTH = 8
STATIC = Layout(WIDTH, (WIDTH,), True, doubling=True)
FAST = Layout(WIDTH, tuple(range(1, WIDTH + 1)), True, doubling=True)
IDS = random.Random(3).choices(range(TOKENS), k=4 * STEP)


def weights_of(folder: Path, family: str = "llama", dtype: torch.dtype = torch.bfloat16) -> Weights:
    weights = load_model(tiny_model(folder, family), CPU, dtype).weights
    assert weights is not None
    return weights


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Weights:
    return weights_of(tmp_path_factory.mktemp("llama"))


def opened(
    weights: Weights, layout: Layout, graphs: Graphs | None = None, capacity: int = 600
) -> tuple[CapturedScorer, LeanScorer]:
    graphs = graphs or Graphs(Recorder())
    return (
        CapturedScorer(weights, layout, capacity, TOKENS, True, graphs),
        LeanScorer(weights, layout, capacity, TOKENS, True),
    )


def read(scorer: Scorer, ids: list[int]) -> None:
    while ids:
        room = scorer.chunk - scorer.length % scorer.chunk
        scorer.prefill(ids[:room])
        ids = ids[room:]


def compare(captured: Scorer, plain: Scorer, start: int, end: int, seed: int) -> None:
    """Both score the same rounds, some rewound, over borders; every bit must agree."""
    dice = random.Random(seed)
    for each in (captured, plain):
        each.rewind(0)
        read(each, IDS[:start])
    at = start
    while at < end:
        block = IDS[at : at + dice.randint(1, WIDTH)][: plain.room()]
        assert captured.room() == plain.room()
        assert torch.equal(captured.score(block), plain.score(block))
        at += dice.randint(1, len(block))
        for each in (captured, plain):
            each.rewind(at)


@pytest.mark.parametrize("layout", [STATIC, FAST], ids=["static", "fast"])
def test_captured_calls_give_the_bits_of_plain_ones(weights: Weights, layout: Layout) -> None:
    device = Recorder()
    captured, plain = opened(weights, layout, Graphs(device))
    compare(captured, plain, 240, 275, 0)
    compare(captured, plain, 500, 530, 1)
    compare(
        captured, plain, 240, 275, 2
    )  # what was captured serves again, from other buffers' past
    sizes = 3
    assert device.captured <= sizes * len(layout.counts)
    assert device.replayed > 2 * device.captured


@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_every_family_can_be_captured(tmp_path: Path, family: str) -> None:
    device = Recorder()
    captured, plain = opened(weights_of(tmp_path, family), STATIC, Graphs(device))
    compare(captured, plain, 250, 262, 0)
    assert device.captured == 2
    assert captured.graphs.choice.value == "captured"


def test_the_recorder_bites(weights: Weights) -> None:
    """A plain call has its position from the host: repeated, it writes to the old place."""
    scorer = LeanScorer(weights, STATIC, 600, TOKENS, True)
    box: list[torch.Tensor] = []
    ids = torch.arange(WIDTH)
    replay = Recorder().capture(lambda: box.append(scorer.score_tensor(ids)))
    first = box[0].clone()
    replay()
    assert torch.equal(box[0], first)
    fresh = scorer.score_tensor(ids)  # now from WIDTH on
    replay()
    assert not torch.equal(box[0], fresh)
    with pytest.raises(RuntimeError, match="not permitted"):
        Recorder().capture(lambda: print(int(ids[0])))


def test_results_outlive_the_next_call(tmp_path: Path) -> None:
    """In fp32, where nothing is converted on the way out."""
    captured, _ = opened(weights_of(tmp_path, dtype=torch.float32), STATIC)
    first = captured.score([1, 2])
    kept = first.clone()
    captured.score([3, 4])
    assert torch.equal(first, kept)


def test_prepare_captures_ahead_and_leaves_nothing_behind(weights: Weights) -> None:
    device, told = Recorder(), list[tuple[int, int]]()
    captured, plain = opened(weights, FAST, Graphs(device))
    captured.prepare(lambda done, total: told.append((done, total)))
    assert told == [(n, 24) for n in range(24)]
    assert device.captured == 24
    compare(captured, plain, 250, 262, 0)
    assert device.captured == 24
    with pytest.raises(ValueError, match="tokens are cached"):
        captured.prepare(lambda done, total: None)


def test_no_more_are_kept_than_allowed_and_the_oldest_goes(weights: Weights) -> None:
    device = Recorder()
    captured, plain = opened(weights, FAST, Graphs(device, most=2))
    captured.prepare(lambda done, total: None)
    assert captured.graphs.count == 2
    for rows in (3, 1, 3, 2, 3, 1):  # 3 is always of late
        assert torch.equal(captured.score(IDS[:rows]), plain.score(IDS[:rows]))
        assert captured.graphs.count <= 2
    before = device.captured
    captured.score(IDS[:3])
    assert device.captured == before


@pytest.mark.parametrize(
    ("device", "words"),
    [
        (Recorder(fail="CUDA error: out of memory\nmore"), "could not be captured: CUDA error"),
        (Recorder(spare=500_000_000), "only 500 MB are free, 1.1 GB must stay"),
    ],
    ids=["failed", "short"],
)
def test_without_a_capture_the_call_runs_plainly_and_says_why(
    weights: Weights, device: Recorder, words: str
) -> None:
    captured, plain = opened(weights, STATIC, Graphs(device))
    told = list[int]()
    captured.prepare(lambda done, total: told.append(done))
    assert told == [0]  # no use in going on
    compare(captured, plain, 250, 262, 0)
    assert captured.graphs.choice.value == "eager"
    assert words in captured.graphs.choice.reason
    assert "\n" not in captured.graphs.choice.reason


def test_captures_end_when_they_have_taken_their_share(weights: Weights) -> None:
    device = Recorder(cost=600)
    captured, plain = opened(weights, FAST, Graphs(device, budget=1000))
    captured.prepare(lambda done, total: None)
    assert device.captured == 2
    assert captured.graphs.choice.value == "partly captured"
    assert "more than they may" in captured.graphs.choice.reason
    compare(captured, plain, 250, 262, 0)


def test_a_wrong_capture_is_found_and_ends_all(weights: Weights) -> None:
    class Liar(Recorder):
        def capture(self, work: Work) -> Work:
            replay = super().capture(work)
            return replay if self.captured < 3 else lambda: None

    captured, plain = opened(weights, FAST, Graphs(Liar()))
    captured.prepare(lambda done, total: None)
    assert captured.graphs.choice.value == "eager"
    assert "something else" in captured.graphs.choice.reason
    assert captured.graphs.count == 0
    compare(captured, plain, 250, 262, 0)


def test_spans_double_and_end_at_the_capacity(weights: Weights) -> None:
    spans = [STATIC.span(length) for length in (0, 255, 256, 511, 512, 1023, 1024, 5000)]
    assert spans == [
        (0, 256), (0, 256), (256, 512), (256, 512), (512, 1024), (512, 1024), (1024, 2048),
        (4096, 8192),
    ]  # fmt: skip
    steps = [Layout(WIDTH, (WIDTH,), True).span(length) for length in (0, 255, 256, 600)]
    assert steps == [(0, 256), (0, 256), (256, 512), (512, 768)]
    _, plain = opened(weights, STATIC, capacity=700)
    read(plain, IDS[:690])
    assert plain.room() == WIDTH
    plain.score(IDS[:WIDTH])
    assert plain.room() == 2
