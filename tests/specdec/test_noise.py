"""Noise: equal everywhere, uniform, independent between keys, exact where it wins."""

from __future__ import annotations

import math

import pytest
import torch

from specdec import noise as noise_module
from specdec.noise import BLOCK, LARGEST, SMALLEST, Noise, Stream
from specdec.request import Sampling
from specdec.sampling import draw, law

V = 151_936
STREAMS: tuple[Stream, ...] = ("target", "draft", "accept", "residual")


pytestmark = pytest.mark.usefixtures("one_thread")


def uniforms(noise: Noise, index: int, stream: Stream, n: int = V) -> torch.Tensor:
    """1 - exp(-E): uniform if E is exponential."""
    return -torch.expm1(-noise.exponential(index, stream, torch.arange(n)).double())


def chi_square(values: torch.Tensor, cells: int) -> float:
    """Standardised: about N(0, 1) when `values` in (0, 1) are uniform."""
    counts = torch.histc(values, cells, 0, 1)
    expected = values.numel() / cells
    statistic = float(((counts - expected) ** 2).sum() / expected)
    return (statistic - (cells - 1)) / math.sqrt(2 * (cells - 1))


def words_of(noise: Noise, index: int, stream: Stream, what: torch.Tensor) -> torch.Tensor:
    ((first, second),) = noise.keys(index, 1, stream)
    return noise_module._words(what, first, second)


def test_the_same_words_on_every_platform() -> None:
    noise = Noise.of(7, [1, 2, 3])
    ids = torch.tensor([0, 1, 151_935])
    assert noise.digest == 0xB4FB5A8DE61ABA77
    assert words_of(noise, 5, "target", ids).tolist() == [1595710888, 253863503, 2784909382]
    assert noise.uniform(5, "accept") == pytest.approx(0.6260624460217442, abs=1e-15)


def test_the_hash_is_a_bijection_that_stays_in_32_bits() -> None:
    words = words_of(Noise.of(1, [1]), 0, "target", torch.arange(1 << 20))
    assert int(words.min()) >= 0
    assert int(words.max()) < 1 << 32
    assert words.unique().numel() == words.numel()


@pytest.mark.parametrize("stream", STREAMS)
def test_uniform_over_ids(stream: Stream) -> None:
    noise = Noise.of(3, [5])
    for index in range(5):
        assert abs(chi_square(uniforms(noise, index, stream), 512)) < 4.5


def test_uniform_over_positions_for_one_id() -> None:
    noise = Noise.of(3, [5])
    one = torch.tensor([42])
    values = [noise.exponential(i, "target", one) for i in range(4000)]
    assert abs(chi_square(-torch.expm1(-torch.cat(values).double()), 40)) < 4.5
    drawn = torch.tensor([noise.uniform(i, "accept") for i in range(4000)])
    assert abs(chi_square(drawn, 40)) < 4.5


@pytest.mark.parametrize(
    ("other", "index", "stream"),
    [
        (Noise.of(4, [5]), 0, "target"),  # another seed
        (Noise.of(3, [6]), 0, "target"),  # another prompt
        (Noise.of(3, [5]), 1, "target"),  # the next position
        (Noise.of(3, [5]), 0, "draft"),
        (Noise.of(3, [5]), 0, "residual"),
    ],
)
def test_independent_between_keys(other: Noise, index: int, stream: Stream) -> None:
    mine = uniforms(Noise.of(3, [5]), 0, "target")
    theirs = uniforms(other, index, stream)
    cells = (mine * 16).long().clamp(max=15) + 16 * (theirs * 16).long().clamp(max=15)
    assert abs(chi_square((cells.double() + 0.5) / 256, 256)) < 4.5
    # nor is one a shuffle of the other by a fixed xor of ids, as one keyed round would give
    assert not torch.equal(mine.sort().values, theirs.sort().values)


def test_neighbouring_ids_are_independent() -> None:
    values = uniforms(Noise.of(3, [5]), 0, "target")
    for step in (1, 2, 64, 256):
        near, far = values[:-step], values[step:]
        cells = (near * 16).long().clamp(max=15) + 16 * (far * 16).long().clamp(max=15)
        assert abs(chi_square((cells.double() + 0.5) / 256, 256)) < 4.5


def test_the_digest_sees_order_and_length() -> None:
    digests = {Noise.of(0, p).digest for p in ([], [0], [0, 0], [1, 2], [2, 1], [1 << 40])}
    assert len(digests) == 6


def test_small_exponentials_are_exact_and_none_is_zero_or_infinite() -> None:
    """With -log(u) the 128 greatest words give 0 in float32, and a 0 lets any token win."""
    ends = torch.cat((torch.arange(300), torch.arange((1 << 32) - 300, 1 << 32)))
    e = noise_module._exponential(ends)
    assert e[:300].tolist() == pytest.approx([(h + 0.5) * 2.0**-32 for h in range(300)], rel=2e-7)
    assert bool((e > 0).all())
    assert bool(e.isfinite().all())
    least, greatest = float(e.min()) / BLOCK, float(e.max()) * (1 + 1 / BLOCK)
    assert LARGEST - 0.01 < -math.log(least) <= LARGEST
    assert SMALLEST <= -math.log(greatest) < SMALLEST + 0.01


def test_the_least_of_each_block_is_what_the_ids_say() -> None:
    noise = Noise.of(2, [3])
    blocks = 400
    all_ids = noise.exponential(9, "draft", torch.arange(blocks * BLOCK)).view(blocks, BLOCK)
    assert torch.equal(all_ids.min(1).values, noise.least(9, "draft", blocks, torch.device("cpu")))
    places = torch.cat([noise_places(noise, i, blocks) for i in range(30)])
    assert abs(chi_square((places.double() + 0.5) / BLOCK, BLOCK)) < 4.5


def test_the_ids_of_a_block_have_the_noise_they_have_alone() -> None:
    noise, some = Noise.of(2, [3]), torch.tensor([0, 7, 8, 399])
    ids = (some[:, None] * BLOCK + torch.arange(BLOCK)).view(-1)
    for index in range(5):
        lowest = noise.least(index, "target", 400, torch.device("cpu"))[some]
        blocks = noise.in_blocks(index, "target", some, lowest)
        assert torch.equal(blocks.view(-1), noise.exponential(index, "target", ids))


def noise_places(noise: Noise, index: int, blocks: int) -> torch.Tensor:
    """Where in its block each least is."""
    ids = torch.arange(blocks * BLOCK)
    return noise.exponential(index, "draft", ids).view(blocks, BLOCK).argmin(1)


def test_an_id_has_the_same_noise_whoever_is_asked_about_with_it() -> None:
    noise = Noise.of(2, [3])
    some = torch.tensor([3, 70, 64, 151_935, 5])
    alone = torch.cat([noise.exponential(4, "target", i.reshape(1)) for i in some])
    assert noise.exponential(4, "target", some).tolist() == pytest.approx(alone.tolist(), rel=1e-6)


def peaked() -> torch.Tensor:
    """Five ids with all the mass; the rest have 4e-12 each, 6e-7 together."""
    logits = torch.full((V,), -26.0)
    logits[[11, 70_000, 70_001, 120_000, V - 1]] = torch.tensor([0.0, -0.5, -1.0, -3.0, -9.0])
    return logits


def test_no_draw_outside_the_ids_of_mass() -> None:
    """20,000 draws over a whole vocabulary (DESIGN 4): a rare zero lets any id win."""
    p = law(peaked(), Sampling(temperature=1.0), [], 0)
    likely = set((p.probs() >= 1e-6).nonzero().squeeze(1).tolist())
    noise = Noise.of(1, [2])
    drawn = [draw(p, noise, i, "target") for i in range(20_000)]
    assert set(drawn) <= likely
    share = drawn.count(11) / len(drawn)
    assert share == pytest.approx(p.prob(11), abs=4 * math.sqrt(0.25 / len(drawn)))


@pytest.mark.gpu
def test_the_same_words_on_cuda() -> None:
    noise = Noise.of(7, [1, 2, 3])
    ids = torch.arange(V)
    assert torch.equal(
        words_of(noise, 5, "target", ids.cuda()).cpu(), words_of(noise, 5, "target", ids)
    )
    p = law(peaked(), Sampling(temperature=1.5), [], 0)
    q = law(peaked().cuda(), Sampling(temperature=1.5), [], 0)
    assert [draw(q, noise, i, "target") for i in range(200)] == [
        draw(p, noise, i, "target") for i in range(200)
    ]


def test_what_is_remembered_changes_nothing_and_is_bounded() -> None:
    noise, device = Noise(5, 6), torch.device("cpu")
    for index in (*range(40), 39, 0, 38):
        for stream in ("target", "draft"):
            ours = noise.least(index, stream, 9, device)
            fresh = Noise(5, 6).least(index, stream, 9, device)
            assert torch.equal(ours, fresh)
            assert noise.least(index, stream, 9, device) is ours
            assert noise.least(index, stream, 3, device).tolist() == ours[:3].tolist()
    assert len(noise._known) <= noise_module._REMEMBERED
    assert noise == Noise(5, 6)
