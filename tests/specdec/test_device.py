from __future__ import annotations

import pytest
import torch

from specdec import device as module
from specdec.device import choose
from specdec.errors import DeviceError

needs_no_gpu = pytest.mark.skipif(
    torch.cuda.is_available() or torch.backends.mps.is_available(), reason="has a GPU"
)


@needs_no_gpu
@pytest.mark.parametrize("name", [None, "auto", ""])
def test_auto_takes_what_is_there_and_says_why(name: str | None) -> None:
    choice = choose(name, "fp32")
    assert choice.device == torch.device("cpu")
    assert choice.device_choice.value == "cpu"
    assert "GPU" in choice.device_choice.reason


@needs_no_gpu
@pytest.mark.parametrize("name", ["cuda", "cuda:1", "mps", "xla", "gpu", "cpu:x", "meta"])
def test_an_absent_or_unknown_device_is_refused_with_a_hint(name: str) -> None:
    with pytest.raises(DeviceError) as caught:
        choose(name)
    assert name in caught.value.message
    assert caught.value.hint


@pytest.mark.parametrize(
    ("name", "dtype"),
    [("bf16", torch.bfloat16), ("bfloat16", torch.bfloat16), ("float32", torch.float32)],
)
def test_an_explicit_dtype_wins(name: str, dtype: torch.dtype) -> None:
    choice = choose("cpu", name)
    assert choice.dtype == dtype
    assert choice.dtype_choice.reason.startswith("asked for")


def test_an_unknown_dtype_is_refused() -> None:
    with pytest.raises(DeviceError, match="int3"):
        choose("cpu", "int3")


@pytest.mark.parametrize("fbgemm", [True, False])
@pytest.mark.parametrize("name", [None, "bfloat16", "fp16"])
def test_half_precision_on_a_cpu_that_does_not_multiply_it(
    monkeypatch: pytest.MonkeyPatch, fbgemm: bool, name: str | None
) -> None:
    monkeypatch.setattr(module, "multiplies", lambda dtype: dtype == torch.float32)
    monkeypatch.setattr(module, "has_fbgemm", lambda: fbgemm)
    choice = choose("cpu", name)
    assert choice.form == ("fp16" if fbgemm else "dense")
    assert f"no {choice.dtype_choice.value} instructions" in choice.dtype_choice.reason
    assert choose("cpu", "float32").form == "onednn"


def test_half_precision_in_hardware_is_packed_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "multiplies", lambda dtype: True)
    choice = choose("cpu")
    assert choice.form == "onednn"
    assert choice.dtype == torch.bfloat16
    assert "packed for oneDNN" in choice.dtype_choice.reason


def test_a_cpu_without_onednn_leaves_fp32_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "multiplies", lambda dtype: False)
    assert choose("cpu", "float32").form == "dense"


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_the_question_about_instructions_is_answered_here(dtype: torch.dtype) -> None:
    assert module.multiplies(dtype) in (True, False)
