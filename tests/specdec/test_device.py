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
    choice = choose("cpu", name, fp32_bytes=10**12, free_bytes=1)
    assert choice.dtype == dtype
    assert choice.dtype_choice.reason.startswith("asked for")


def test_an_unknown_dtype_is_refused() -> None:
    with pytest.raises(DeviceError, match="int3"):
        choose("cpu", "int3")


@pytest.mark.parametrize(
    ("bf16", "need", "free", "form"),
    [
        (True, 10, 1000, "dense"),
        (False, 10, 1000, "twin"),
        (False, 400, 1000, "twin"),
        (False, 401, 1000, "dense"),
        (False, None, None, "twin"),
    ],
)
def test_form_of_bf16_on_a_cpu(
    monkeypatch: pytest.MonkeyPatch,
    bf16: bool,
    need: int | None,
    free: int | None,
    form: str,
) -> None:
    monkeypatch.setattr(module, "cpu_has_bf16", lambda: bf16)
    for name in (None, "bfloat16"):
        choice = choose("cpu", name, need, free)
        assert (choice.dtype, choice.form) == (torch.bfloat16, form)
        assert bf16 or "no bf16 instructions" in choice.dtype_choice.reason
    assert choose("cpu", "float32", need, free).form == "dense"


def test_the_question_about_bf16_is_answered_here() -> None:
    assert module.cpu_has_bf16() in (True, False)
