"""Packed matrices hold what the file's blocks hold; gguf's own code is the judge."""

from __future__ import annotations

import gguf
import numpy as np
import pytest
import torch
from gguf import GGMLQuantizationType as Kind

from specdec import blocks, packed
from specdec.blocks import tolerance, unpack
from specdec.linear import GROUP, Dense
from specdec.packed import BAND, Blocks, Packed, PackedRows, Stacked
from specdec.packed_file import dequantise

pytestmark = pytest.mark.usefixtures("one_thread")

KINDS = tuple(blocks.NAMES)


def make_raw(kind: int, rows: int, columns: int, seed: int = 0) -> torch.Tensor:
    """Real blocks: by gguf's quantiser, or for Q4_K, which it only reads, by random fields."""
    rng = np.random.default_rng(seed)
    if kind == blocks.Q4_K:
        raw = rng.integers(0, 256, (rows, columns // 256, 144), dtype=np.uint8)
        halves = rng.uniform(1e-4, 2e-2, (rows, columns // 256, 2)).astype(np.float16)
        raw[..., :4] = halves.view(np.uint8)
        return torch.from_numpy(raw.reshape(rows, -1))
    data = rng.standard_normal((rows, columns)).astype(np.float32)
    return torch.from_numpy(gguf.quants.quantize(data, Kind(kind)))


def judge(raw: torch.Tensor, kind: int) -> torch.Tensor:
    return torch.from_numpy(gguf.quants.dequantize(raw.numpy(), Kind(kind)))


def held(matrix: Packed) -> torch.Tensor:
    """What a packed matrix holds, [rows, K], read back through the kernel's own order."""
    rows = range(0, matrix.few.rows, BAND)
    return torch.cat([matrix.band(start) for start in rows], 1).T[: matrix.few.rows]


@pytest.mark.parametrize("kind", KINDS, ids=blocks.NAMES.get)
def test_blocks_unpack_as_gguf_says(kind: int) -> None:
    raw = make_raw(kind, 40, 512)
    q, scale_zero = unpack(raw, kind)
    assert q.dtype == torch.uint8
    assert q.shape == (40, 512)
    assert scale_zero.shape == (40, 512 // GROUP, 2)
    groups = q.float().unflatten(1, (-1, GROUP)) - 8
    ours = (groups * scale_zero[..., :1] + scale_zero[..., 1:]).flatten(1)
    torch.testing.assert_close(ours, judge(raw, kind), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("rows", [64, 200, 1100])
def test_few_rows_are_unpacked_at_a_time(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    raw, unpacked = make_raw(blocks.Q4_1, rows, 256), []
    whole = Packed.pack([Blocks(raw, blocks.Q4_1)], None)

    def seen(raw: torch.Tensor, kind: int) -> tuple[torch.Tensor, torch.Tensor]:
        unpacked.append(len(raw))
        return unpack(raw, kind)

    monkeypatch.setattr("specdec.packed.blocks.unpack", seen)
    monkeypatch.setattr(packed, "PACK_NUMBERS", 150 * 256)
    banded = Packed.pack([Blocks(raw, blocks.Q4_1)], None)
    assert max(unpacked) == min(rows, 128)
    assert torch.equal(banded.few.packed, whole.few.packed)
    assert torch.equal(banded.few.scales, whole.few.scales)


@pytest.mark.parametrize("kind", KINDS, ids=blocks.NAMES.get)
def test_packed_equals_dequantised_within_rounding_of_scale_and_minimum(kind: int) -> None:
    raw = make_raw(kind, BAND + 70, 256)
    want = judge(raw, kind)
    ours = held(Packed.pack([Blocks(raw, kind)], None))
    bound = tolerance(unpack(raw, kind)[1]).repeat_interleave(GROUP, 1)
    off = (ours - want).abs()
    assert (off <= bound + 1e-6).all()
    assert off.max() > 0  # Q4_K's product and fp16's digits do not fit bf16: else this is vacuous


@pytest.mark.parametrize("many", [1, 1 << 30], ids=["dequantised rows", "the kernel"])
@pytest.mark.parametrize("rows", [BAND + 70, 64])
def test_both_ways_multiply_by_what_is_held(rows: int, many: int) -> None:
    raw = make_raw(blocks.Q4_K, rows, 256)
    bias = torch.randn(rows)
    matrix = Packed.pack([Blocks(raw, blocks.Q4_K)], bias)
    matrix = Packed(matrix.few, many)
    x = torch.randn(20, 256).bfloat16().float()
    want = x @ held(matrix).T + bias
    got = matrix(x)
    assert got.shape == want.shape
    torch.testing.assert_close(got, want, rtol=2e-2, atol=2e-2 * float(want.abs().max()))
    assert matrix(x.bfloat16()).dtype == torch.bfloat16


def test_many_rows_go_through_dequantised_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    raw = make_raw(blocks.Q4_0, 64, 64)
    matrix = Packed(Packed.pack([Blocks(raw, blocks.Q4_0)], None).few, 3)
    seen: list[int] = []
    band = Packed.band
    monkeypatch.setattr(Packed, "band", lambda self, *a: seen.append(a[0]) or band(self, *a))
    matrix(torch.randn(2, 64))
    assert seen == []
    matrix(torch.randn(3, 64))
    assert seen == [0]


def test_the_kernels_order_is_known_on_this_machine() -> None:
    found = packed.layout()
    assert found is not None
    assert packed.many_from() == packed.MANY


def test_an_unknown_order_is_never_guessed(monkeypatch: pytest.MonkeyPatch) -> None:
    matrix = Packed.pack([Blocks(make_raw(blocks.Q4_0, 64, 64), blocks.Q4_0)], None)
    monkeypatch.setattr(packed, "layout", lambda: None)
    assert packed.many_from() > 1 << 20
    with pytest.raises(TypeError, match="order"):
        matrix.band(0)


def test_parts_of_two_kinds_are_one_matrix() -> None:
    sizes = {blocks.Q4_0: 40, blocks.Q4_K: 33, blocks.Q4_1: 7}
    parts = [Blocks(make_raw(kind, rows, 256, rows), kind) for kind, rows in sizes.items()]
    whole = Packed.pack(parts, None)
    alone = torch.cat([held(Packed.pack([part], None)) for part in parts])
    assert torch.equal(held(whole), alone)
    assert whole.width == 256
    assert whole.nbytes == 128 * 128 + 8 * 128 * 4  # padded to 128 rows


def test_stacked_parts_are_joined() -> None:
    above = Packed.pack([Blocks(make_raw(blocks.Q4_0, 40, 64), blocks.Q4_0)], None)
    below = Dense(torch.randn(8, 64))
    both = Stacked((above, below))
    x = torch.randn(3, 64)
    assert torch.equal(both(x), torch.cat((above(x), below(x)), 1))
    assert both.nbytes == above.nbytes + below.nbytes
    assert both.width == 64


@pytest.mark.parametrize("kind", [Kind.Q8_0, Kind.Q5_0, Kind.Q4_1, Kind.F16, Kind.F32])
def test_rows_of_any_kind_are_looked_up(kind: Kind) -> None:
    data = np.random.default_rng(0).standard_normal((10, 64)).astype(np.float32)
    raw = torch.from_numpy(gguf.quants.quantize(data, kind).view(np.uint8))
    table = PackedRows(Blocks(raw, int(kind)), dequantise)
    want = torch.from_numpy(gguf.quants.dequantize(raw.numpy(), kind)).bfloat16()
    ids = torch.tensor([3, 0, 3, 9])
    assert torch.equal(table(ids), want[ids])
    assert table.nbytes == raw.nbytes
