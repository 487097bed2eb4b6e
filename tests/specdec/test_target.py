"""The lean runners: bits, borders, reuse and rewinding, on tiny random models."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch

from specdec.device import form_of
from specdec.errors import SettingError
from specdec.linear import Linear, has_fbgemm
from specdec.loading import Model, load_model
from specdec.runner import STEP, fit_vocab
from specdec.scorer import Scorer
from specdec.target import even_counts, open_scorer
from tests.tiny import ROWS, TOKENS, tiny_model

pytestmark = pytest.mark.usefixtures("one_thread")

CPU, WIDTH = torch.device("cpu"), 8
IDS = random.Random(5).choices(range(TOKENS), k=2 * STEP)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_model(tmp_path_factory.mktemp("llama"), "llama")


@pytest.fixture(scope="module")
def bf16(folder: Path) -> Model:
    return load_model(folder, CPU, torch.bfloat16)


@pytest.fixture(scope="module")
def fp32(folder: Path) -> Model:
    return load_model(folder, CPU, torch.float32, form_of(CPU, torch.float32)[0])


@pytest.fixture(scope="module")
def int4(folder: Path) -> Model:
    return load_model(folder, CPU, torch.bfloat16, "int4")


@pytest.fixture(scope="module")
def fp16(folder: Path) -> Model:
    if not has_fbgemm():
        pytest.skip("needs fbgemm")
    return load_model(folder, CPU, torch.bfloat16, "fp16")


@dataclass(frozen=True, slots=True)
class Other:
    """A matrix with something added to its results."""

    matrix: Linear
    more: Callable[[torch.Tensor], Any]
    width: int = 64
    nbytes: int = 0

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return self.matrix(x) + self.more(x)


def read(scorer: Scorer, ids: list[int]) -> None:
    """Prefill as the turn does: up to each chunk border."""
    while ids:
        room = scorer.chunk - scorer.length % scorer.chunk
        scorer.prefill(ids[:room])
        ids = ids[room:]


def plain(scorer: Scorer, ids: list[int], prompt: int) -> torch.Tensor:
    """Logits of ids[prompt:] decoded one by one: [n, TOKENS]."""
    scorer.rewind(0)
    read(scorer, ids[:prompt])
    return torch.cat([scorer.score([token]) for token in ids[prompt:]])


def drafted(scorer: Scorer, ids: list[int], prompt: int, seed: int) -> torch.Tensor:
    """The same logits in rounds of random size, some drafts rejected, as speculation asks."""
    dice = random.Random(seed)
    scorer.rewind(0)
    read(scorer, ids[:prompt])
    rows, at, seen = [], prompt, {"full": 0, "partial": 0, "none": 0}
    while at < len(ids):
        right = dice.randint(1, min(WIDTH, len(ids) - at))
        wrong = dice.choices(range(TOKENS), k=dice.randint(0, WIDTH - right))
        block = [*ids[at : at + right], *wrong][: scorer.room()]
        right = min(right, len(block))
        rows.append(scorer.score(block)[:right])
        scorer.rewind(at + right)
        kind = "full" if right == len(block) else "none" if right == 1 else "partial"
        seen[kind] += 1
        at += right
    assert min(seen.values()) >= 2, seen
    return torch.cat(rows)


CASES = [
    ("static", "bf16"),
    ("static", "fp32"),
    ("fast", "fp32"),
    ("fast", "int4"),
    ("fast", "fp16"),
]


@pytest.mark.parametrize(("runner", "name"), CASES)
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_drafting_changes_no_bit(
    request: pytest.FixtureRequest, runner: Any, name: str, seed: int
) -> None:
    model: Model = request.getfixturevalue(name)
    scorer = open_scorer(model, runner, WIDTH, 400, TOKENS)
    if not scorer.exact:
        pytest.skip("this CPU's matrices are not even-handed: the label is off, as it should be")
    ids = IDS[:330]  # crosses a border of STEP slots
    assert torch.equal(plain(scorer, ids, 200), drafted(scorer, ids, 200, seed))


def test_static_bf16_is_exact_here(bf16: Model) -> None:
    assert open_scorer(bf16, "static", WIDTH, 300, TOKENS).exact


def test_the_self_test_runs_once(fp32: Model) -> None:
    even_counts(fp32, 5, TOKENS)
    assert 5 in fp32.even
    fp32.even[5] = ()
    assert even_counts(fp32, 5, TOKENS) == ()
    assert not open_scorer(fp32, "static", 5, 100, TOKENS).exact
    assert not open_scorer(fp32, "fast", 5, 100, TOKENS).exact
    del fp32.even[5]


def test_an_exact_fast_runner_pads_to_the_next_even_number(fp32: Model) -> None:
    assert fp32.weights is not None
    seen: list[int] = []
    head = fp32.weights.head

    def spy(x: torch.Tensor) -> torch.Tensor:
        seen.append(len(x))
        return head(x)

    model = replace(fp32, weights=replace(fp32.weights, head=spy), even={WIDTH: (3, 5, 8)})
    scorer = open_scorer(model, "fast", WIDTH, 100, TOKENS)
    assert scorer.exact
    for rows in (1, 3, 4, 6):
        assert len(scorer.score([1] * rows)) == rows
    assert seen == [3, 3, 5, 8]
    assert scorer.length == 14  # padding is not cached


def test_one_row_of_a_mind_of_its_own_is_found(fp32: Model) -> None:
    """As fbgemm does it: one or two rows go another way than three and more."""
    weights = fp32.weights
    assert weights is not None
    head = weights.head
    odd = replace(weights, head=Other(head, lambda x: 1e-3 * (len(x) in (1, 2, 7))))
    assert even_counts(replace(fp32, weights=odd, even={}), WIDTH, TOKENS) == (3, 4, 5, 6, 8)
    placed = replace(weights, head=Other(head, lambda x: torch.arange(len(x))[:, None]))
    assert even_counts(replace(fp32, weights=placed, even={}), WIDTH, TOKENS) == ()


@pytest.mark.parametrize("exact", [True, False])
def test_what_follows_a_row_does_not_touch_it(bf16: Model, exact: bool) -> None:
    """Two blocks that differ in their last rows agree on the first."""
    scorer = open_scorer(bf16, "static", WIDTH, 300, TOKENS, exact=exact)
    read(scorer, IDS[:70])
    one = scorer.score([1, 2, 3, 4, 5, 6, 7, 8])
    scorer.rewind(70)
    two = scorer.score([1, 2, 3, 200, 201])
    assert torch.equal(one[:3], two[:3])
    assert not torch.equal(one[3], two[3])


@pytest.mark.parametrize(
    ("runner", "exact"), [("static", True), ("static", False), ("fast", True), ("fast", False)]
)
def test_rewind_is_as_if_it_never_happened(bf16: Model, runner: Any, exact: bool) -> None:
    scorer = open_scorer(bf16, runner, WIDTH, 300, TOKENS, exact=exact)
    other = open_scorer(bf16, runner, WIDTH, 300, TOKENS, exact=exact)
    for each in (scorer, other):
        read(each, IDS[:100])
    scorer.score(IDS[300:308])
    scorer.score(IDS[310:315])
    scorer.rewind(100)
    assert scorer.length == 100
    assert torch.equal(scorer.score(IDS[100:105]), other.score(IDS[100:105]))


def test_reuse_gives_the_bits_of_a_fresh_prefill(fp32: Model) -> None:
    """A longer prompt over a kept prefix, after a reply was scored into the cache."""
    scorer = open_scorer(fp32, "static", WIDTH, 400, TOKENS)
    read(scorer, IDS[:150])
    for start in range(150, 220):
        scorer.score(IDS[start : start + 1])
    assert scorer.reusable == 128  # whole chunks that prefill wrote; never what score wrote
    scorer.rewind(scorer.reusable)
    read(scorer, IDS[128:240])
    fresh = open_scorer(fp32, "static", WIDTH, 400, TOKENS)
    read(fresh, IDS[:240])
    assert torch.equal(scorer.score(IDS[240:245]), fresh.score(IDS[240:245]))


def test_reusable_shrinks_with_a_rewind_and_ignores_broken_chunks(bf16: Model) -> None:
    scorer = open_scorer(bf16, "static", WIDTH, 400, TOKENS)
    read(scorer, IDS[:200])
    assert scorer.reusable == 192
    scorer.rewind(130)
    assert scorer.reusable == 128
    scorer.rewind(100)
    assert scorer.reusable == 64
    read(scorer, IDS[100:192])  # starts inside a chunk: other shapes than a fresh prefill
    assert scorer.reusable == 64


def test_a_plain_fast_runner_may_keep_everything(bf16: Model) -> None:
    scorer = open_scorer(bf16, "fast", WIDTH, 400, TOKENS, exact=False)
    read(scorer, IDS[:70])
    scorer.score(IDS[70:75])
    assert scorer.reusable == 75


def test_room_ends_at_borders_and_at_the_capacity(bf16: Model) -> None:
    scorer = open_scorer(bf16, "static", WIDTH, STEP + 3, TOKENS)
    read(scorer, IDS[: STEP - 3])
    assert scorer.room() == 3
    scorer.score([1, 2, 3])
    assert scorer.room() == 3  # now the capacity
    scorer.score([1, 2, 3])
    assert scorer.room() == 0
    with pytest.raises(ValueError, match="room for 0"):
        scorer.score([1])


def test_a_plain_fast_runner_crosses_borders(bf16: Model) -> None:
    scorer = open_scorer(bf16, "fast", WIDTH, 2 * STEP, TOKENS, exact=False)
    read(scorer, IDS[: STEP - 3])
    assert scorer.room() == WIDTH


def test_calls_out_of_range_are_refused(bf16: Model) -> None:
    scorer = open_scorer(bf16, "static", WIDTH, 100, TOKENS)
    with pytest.raises(ValueError, match="room"):
        scorer.score([])
    with pytest.raises(ValueError, match="room"):
        scorer.score([0] * (WIDTH + 1))
    with pytest.raises(ValueError, match="chunk ends at 64"):
        scorer.prefill([0] * 65)
    with pytest.raises(ValueError, match="prefill of 0"):
        scorer.prefill([])
    read(scorer, IDS[:64])
    with pytest.raises(ValueError, match="prefill of 37"):
        scorer.prefill([0] * 37)
    with pytest.raises(ValueError, match="rewind to 65"):
        scorer.rewind(65)
    with pytest.raises(ValueError, match="rewind to -1"):
        scorer.rewind(-1)
    assert scorer.length == 64


def test_ids_beyond_the_tokenizer_have_no_column(bf16: Model) -> None:
    assert bf16.vocab == ROWS
    scorer = open_scorer(bf16, "fast", WIDTH, 100, TOKENS)
    assert scorer.vocab == TOKENS
    assert scorer.score([1, 2]).shape == (2, TOKENS)


def test_tokens_without_a_row_cannot_win() -> None:
    logits = fit_vocab(torch.zeros(2, 4, dtype=torch.bfloat16), 6)
    assert logits.dtype == torch.float32
    assert logits.tolist() == [[0, 0, 0, 0, -torch.inf, -torch.inf]] * 2


def test_static_is_for_lean_models_only(bf16: Model) -> None:
    foreign = replace(bf16, weights=None, lean=False, reason="runs through transformers: x")
    with pytest.raises(SettingError, match="static"):
        open_scorer(foreign, "static", WIDTH, 100, TOKENS)


@pytest.mark.parametrize(("runner", "sizes"), [("static", {WIDTH}), ("fast", {1, 3, 5})])
def test_static_shows_every_matrix_one_width(bf16: Model, runner: Any, sizes: set[int]) -> None:
    assert bf16.weights is not None
    seen: list[int] = []
    head = bf16.weights.head

    def spy(x: torch.Tensor) -> torch.Tensor:
        seen.append(len(x))
        return head(x)

    model = replace(bf16, weights=replace(bf16.weights, head=spy))
    scorer = open_scorer(model, runner, WIDTH, 100, TOKENS, exact=False)
    for rows in (1, 3, 5):
        assert len(scorer.score([1] * rows)) == rows
    assert set(seen) == sizes
