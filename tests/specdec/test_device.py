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
    monkeypatch.setattr(module, "cpu_multiplies", lambda dtype: False)
    monkeypatch.setattr(module, "has_fbgemm", lambda: fbgemm)
    choice = choose("cpu", name)
    assert choice.form == ("fp16" if fbgemm else "dense")
    assert f"no {choice.dtype_choice.value} instructions" in choice.dtype_choice.reason
    assert choose("cpu", "float32").form == "dense"


def test_half_precision_in_hardware_stays_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "cpu_multiplies", lambda dtype: True)
    assert choose("cpu").form == "dense"
    assert choose("cpu").dtype == torch.bfloat16


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_the_question_about_instructions_is_answered_here(dtype: torch.dtype) -> None:
    assert module.cpu_multiplies(dtype) in (True, False)
