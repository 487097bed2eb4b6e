from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F  # noqa: N812

from specdec.errors import DeviceError, LoadError
from specdec.linear import (
    BAND,
    FBGEMM_BAND,
    GROUP,
    Dense,
    Fp16,
    Int4,
    Int8,
    OneDnn,
    can_pack_int4,
    dequantise,
    has_fbgemm,
    make,
    multiplies,
    quantise,
)

SIZES = [(64, 32), (100, 96), (576, 576), (2 * BAND + 40, 64)]


def random(*size: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*size, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize(("rows", "width"), SIZES)
@pytest.mark.parametrize("m", [1, 8, 33])
def test_int4_is_its_dequantised_matrix(rows: int, width: int, m: int) -> None:
    weight, bias = random(rows, width), random(rows, seed=1).bfloat16()
    x = random(m, width, seed=2).bfloat16()
    expected = F.linear(x.float(), dequantise(*quantise(weight)), bias.float())
    got = Int4.pack(weight, bias)(x)
    assert got.shape == (m, rows)
    assert got.dtype == torch.bfloat16
    assert (got - expected).abs().max() <= 0.02 * expected.abs().max()


def test_int4_costs_at_most_half_a_step_and_keeps_the_ends() -> None:
    weight = random(64, 128)
    back = dequantise(*quantise(weight))
    groups = weight.view(64, -1, GROUP)
    step = (groups.amax(2) - groups.amin(2)) / 15
    error = (back - weight).abs().view(64, -1, GROUP).amax(2)
    assert bool((error <= 0.5 * step + 0.02 * groups.abs().amax(2)).all())


def test_a_constant_group_survives() -> None:
    weight = torch.full((64, 32), 0.75)
    assert torch.allclose(dequantise(*quantise(weight)), weight, atol=1e-3)


def test_quantise_leaves_its_input_alone() -> None:
    weight = random(64, 64)
    before = weight.clone()
    quantise(weight)
    assert torch.equal(weight, before)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(("rows", "width"), SIZES)
def test_onednn_is_the_plain_product(rows: int, width: int, dtype: torch.dtype) -> None:
    if not multiplies(dtype):
        pytest.skip("this CPU has no oneDNN for it")
    weight, bias, x = random(rows, width), random(rows, seed=1), random(9, width, seed=2)
    weight, bias, x = weight.to(dtype), bias.to(dtype), x.to(dtype)
    expected = F.linear(x.double(), weight.double(), bias.double())
    close = 1e-4 if dtype == torch.float32 else 2**-7  # a result is rounded once to its dtype
    y = OneDnn.pack(weight, bias)(x)
    assert y.dtype == dtype
    assert torch.allclose(y.double(), expected, atol=10 * close, rtol=close)


@pytest.mark.skipif(not multiplies(torch.float32), reason="no oneDNN")
def test_the_form_is_as_asked() -> None:
    weight = random(64, 64)
    assert isinstance(make(weight, None, "onednn"), OneDnn)
    assert isinstance(make(weight, None, "dense"), Dense)
    assert isinstance(make(weight.bfloat16(), None, "int4"), Int4)


def test_only_what_a_cpu_multiplies_is_packed_for_onednn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("specdec.linear.has_onednn", lambda: False)
    assert not any(multiplies(dtype) for dtype in (torch.float32, torch.bfloat16, torch.float16))


def test_bytes_of_each_form() -> None:
    weight = random(64, 64)
    assert Dense(weight.bfloat16()).nbytes == 2 * 64 * 64
    assert make(weight, None, "dense").nbytes == 4 * 64 * 64
    assert Int4.pack(weight, None).nbytes == 64 * 64 // 2 + 64 * 64 // GROUP * 4


def test_odd_widths_are_not_packed() -> None:
    assert can_pack_int4(random(8, 64))
    assert not can_pack_int4(random(8, 40))


needs_fbgemm = pytest.mark.skipif(not has_fbgemm(), reason="needs fbgemm")


@needs_fbgemm
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("rows", [96, FBGEMM_BAND + 40])
@pytest.mark.parametrize("bias", [False, True])
def test_fp16_is_the_published_matrix(dtype: torch.dtype, rows: int, bias: bool) -> None:
    weight, vector = random(rows, 64).to(dtype), random(rows, seed=1).to(dtype)
    x = random(8, 64, seed=2).to(dtype)
    exact = x.double() @ weight.double().T + (vector.double() if bias else 0)
    matrix = make(weight, vector if bias else None, "fp16")
    y = matrix(x)
    assert y.dtype == dtype
    assert (y.double() - exact).abs().max() <= exact.abs().max() * torch.finfo(dtype).eps
    assert matrix.nbytes == weight.nbytes


@needs_fbgemm
@pytest.mark.parametrize("scale", [1e-30, 1e-6, 1.0, 1e4, 1e30])
def test_fp16_holds_what_bf16_can(scale: float) -> None:
    """bf16 reaches from 1e-38 to 3e38; fp16 alone would make these 0 or infinite."""
    weight = (random(32, 64) * scale).bfloat16()
    weight[0] *= 2.0**-18  # small beside the largest, and still exact
    one = torch.eye(64)
    got = Fp16.pack(weight, None)(one)
    assert got.dtype == torch.float32
    assert torch.equal(got.T, weight.float())


@needs_fbgemm
def test_fp16_of_nothing() -> None:
    assert torch.equal(
        Fp16.pack(torch.zeros(16, 32).bfloat16(), None)(random(3, 32)), torch.zeros(3, 16)
    )


@needs_fbgemm
@pytest.mark.parametrize("bad", [torch.nan, torch.inf, -torch.inf])
def test_fp16_refuses_what_is_no_number(bad: float) -> None:
    """fbgemm itself makes it -65504 and goes on."""
    weight = random(16, 32).bfloat16()
    weight[3, 5] = bad
    with pytest.raises(LoadError, match="not numbers"):
        Fp16.pack(weight, None)


@needs_fbgemm
def test_fp16_refuses_what_it_would_change() -> None:
    with pytest.raises(LoadError, match="fp32 cannot be packed in fp16"):
        make(random(16, 32), None, "fp16")


@needs_fbgemm
def test_fp16_leaves_its_input_alone() -> None:
    weight = random(64, 64).bfloat16()
    before = weight.clone()
    Fp16.pack(weight, None)
    assert torch.equal(weight, before)


@needs_fbgemm
@pytest.mark.parametrize("rows", [96, FBGEMM_BAND + 40])
@pytest.mark.parametrize("bias", [False, True])
def test_int8_is_near_the_matrix_it_stands_for(rows: int, bias: bool) -> None:
    weight, vector = random(rows, 64).bfloat16(), random(rows, seed=1).bfloat16()
    weight[7] *= 1000  # a scale a row: the others do not feel it
    x = random(5, 64, seed=2).bfloat16()
    exact = F.linear(x.float(), weight.float(), vector.float() if bias else None)
    matrix = make(weight, vector if bias else None, "int8")
    assert isinstance(matrix, Int8)
    others = [n for n in range(rows) if n != 7]
    for part in (others, [7]):
        error = (matrix(x) - exact)[:, part].square().mean().sqrt()
        assert error <= 0.02 * exact[:, part].square().mean().sqrt()
    assert (matrix.nbytes, matrix.width) == (weight.numel(), 64)


@needs_fbgemm
def test_int8_keeps_the_matrices_that_read_an_mlp_in_fp16() -> None:
    assert isinstance(make(random(32, 96).bfloat16(), None, "int8"), Fp16)
    assert isinstance(make(random(96, 96).bfloat16(), None, "int8"), Int8)


@needs_fbgemm
def test_int8_names_rows_that_are_not_numbers_and_nothing_else() -> None:
    """fbgemm says both with a RuntimeError; one of them is the model's fault."""
    matrix = Int8.pack(random(32, 32).bfloat16(), None)
    with pytest.raises(DeviceError, match="not numbers"):
        matrix(torch.full((1, 32), torch.nan))
    with pytest.raises(RuntimeError):
        matrix(random(2, 31))


@needs_fbgemm
def test_int8_of_zeros_is_zero() -> None:
    matrix = Int8.pack(torch.zeros(32, 32).bfloat16(), None)
    assert torch.equal(matrix(random(2, 32)), torch.zeros(2, 32))
