"""A device that computes wrong numbers is found, by what is wrong, and worked around or refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from specdec import attention, depot, device_test
from specdec.decoder import Weights
from specdec.device_test import Finding, copied, find_safe
from specdec.device_test import tested as load_tested
from specdec.errors import DeviceError
from specdec.linear import Dense
from specdec.loading import Model, load_model
from tests.tiny import FAMILIES, tiny_model

pytestmark = pytest.mark.usefixtures("one_thread")

BF16, FP32 = torch.bfloat16, torch.float32
CPU = torch.device("cpu")


def loaded(tmp: pytest.TempPathFactory, family: str) -> Weights:
    folder = tiny_model(tmp.mktemp(family), family, seed=2)
    weights = load_model(folder, CPU, BF16).weights
    assert weights is not None
    return weights


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Weights:
    return loaded(tmp_path_factory, "llama")


class Faulty:
    """torch.nn.functional, some of whose functions add rubbish when `when` holds."""

    def __init__(self, **wrong: Any) -> None:
        self._wrong = wrong

    def __getattr__(self, name: str) -> Any:
        real = getattr(F, name)
        when = self._wrong.get(name)
        if when is None:
            return real

        def function(x: Tensor, *rest: Any, **more: Any) -> Tensor:
            out: Tensor = real(x, *rest, **more)
            return out + 0.5 * out.flip(-1) if when(x, *rest) else out

        return function


@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_a_right_device_is_left_alone(
    tmp_path_factory: pytest.TempPathFactory, family: str
) -> None:
    finding = find_safe(loaded(tmp_path_factory, family))
    assert (finding.by_hand, finding.dtype, finding.reason) == (False, BF16, "")


def test_wrong_attention_for_odd_lengths_is_replaced(
    weights: Weights, monkeypatch: pytest.MonkeyPatch
) -> None:
    def odd(query: Tensor, key: Tensor, *_: Tensor) -> bool:
        return key.shape[-2] % 2 == 1 and key.shape[-2] > 8

    monkeypatch.setattr(attention, "F", Faulty(scaled_dot_product_attention=odd))
    finding = find_safe(weights)
    assert (finding.by_hand, finding.dtype) == (True, BF16)
    assert finding.reason.startswith("bfloat16 with plain products is used: bfloat16 with torch")
    assert " off, the CPU " in finding.reason
    assert finding.applied(weights).shape.by_hand
    assert not weights.shape.by_hand


@pytest.mark.parametrize("rows", [1, 5])
def test_wrong_passes_of_one_size_are_found(
    weights: Weights, monkeypatch: pytest.MonkeyPatch, rows: int
) -> None:
    """Right for every other number of rows."""

    def wrong(query: Tensor, *_: Tensor) -> bool:
        return query.shape[-2] == rows * 2  # two query heads share one of K and V

    monkeypatch.setattr(attention, "F", Faulty(scaled_dot_product_attention=wrong))
    assert find_safe(weights).by_hand


class Wrong(Dense):
    """A matrix of a device whose products of several rows are wrong."""

    def __call__(self, x: Tensor) -> Tensor:
        out = super().__call__(x)
        return out if len(x) < 2 else out + 0.5 * out.flip(0)


def putting(when: Callable[[torch.dtype, bool], bool]) -> device_test.Put:
    """A device whose head is wrong when `when(dtype, by_hand)`."""

    def put(sample: Weights, dtype: torch.dtype, by_hand: bool) -> Weights:
        made = copied(sample, CPU, dtype, by_hand)
        assert isinstance(made.head, Dense)
        return replace(made, head=Wrong(made.head.weight)) if when(dtype, by_hand) else made

    return put


def test_wrong_halves_make_it_fp32(weights: Weights) -> None:
    finding = find_safe(weights, putting(lambda dtype, by_hand: dtype == BF16))
    assert (finding.by_hand, finding.dtype) == (False, FP32)
    assert "bfloat16 with plain products is" in finding.reason


def test_both_may_be_needed(weights: Weights) -> None:
    finding = find_safe(weights, putting(lambda dtype, by_hand: dtype == BF16 or not by_hand))
    assert (finding.by_hand, finding.dtype) == (True, FP32)


def test_a_device_that_is_wrong_throughout_is_refused(weights: Weights) -> None:
    with pytest.raises(DeviceError, match="computes wrong numbers") as caught:
        find_safe(weights, putting(lambda dtype, by_hand: True))
    assert caught.value.message.count(" off, the CPU ") == 4
    assert "--device cpu" in caught.value.hint


def test_what_is_no_number_is_wrong(weights: Weights) -> None:
    def put(sample: Weights, dtype: torch.dtype, by_hand: bool) -> Weights:
        made = copied(sample, CPU, dtype, by_hand)
        return replace(made, norm=made.norm * torch.nan)

    with pytest.raises(DeviceError, match="inf off"):
        find_safe(weights, put)


@pytest.mark.parametrize("dtype", [FP32, torch.float16])
def test_rounding_is_no_fault(weights: Weights, dtype: torch.dtype) -> None:
    finding = find_safe(replace(weights, dtype=dtype))
    assert (finding.by_hand, finding.dtype, finding.reason) == (False, dtype, "")


def test_a_load_takes_what_is_safe_and_notes_why(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, asked = tiny_model(tmp_path_factory.mktemp("safe")), list[torch.dtype]()

    def load(dtype: torch.dtype) -> Model:
        asked.append(dtype)
        return load_model(folder, CPU, dtype)

    model = load_tested(load, BF16)
    assert (asked, model.notes) == ([BF16], ())
    monkeypatch.setattr(device_test, "find_safe", lambda weights: Finding(True, FP32, "so"))
    model = load_tested(load, BF16)
    assert asked == [BF16, BF16, FP32]
    assert (model.dtype, model.notes) == (FP32, ("so",))
    assert model.weights is not None
    assert model.weights.shape.by_hand


def test_only_an_apple_gpu_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """The depot is where both targets and drafts are loaded."""
    monkeypatch.setattr(depot, "load_model", lambda folder, *rest: rest[0])
    monkeypatch.setattr(depot, "tested", lambda load, dtype: ("tested", load(dtype)))
    files = depot.Files.__new__(depot.Files)
    for name in ("entry", "folder", "label", "packed"):
        object.__setattr__(files, name, None)
    shelf = depot.Depot.__new__(depot.Depot)
    for where in ("cpu", "cuda"):
        place = torch.device(where)
        assert shelf.load(files, place, BF16, "dense") == place
    place = torch.device("mps")
    assert shelf.load(files, place, BF16, "dense") == ("tested", place)
