"""Quantised files: run where the extras are installed, refused elsewhere."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from specdec import held, quantised
from specdec.errors import LoadError
from specdec.families import shape_of
from specdec.loading import Model, load_model
from specdec.pair import Choice
from specdec.quantised import method_of
from specdec.target import open_scorer
from tests.specdec.gptq_kit import quantise, to_fp8, write_config
from tests.tiny import TOKENS, tiny_model

pytestmark = pytest.mark.usefixtures("one_thread")

CPU = torch.device("cpu")
IDS = [7, 3, 250, 12, 99, 41, 5, 8]


def needs(extra: quantised.Extra) -> pytest.MarkDecorator:
    gone = [package for package in extra.packages if not quantised.installed(package)]
    return pytest.mark.skipif(bool(gone), reason=f"extra {extra.name}: no {', '.join(gone)}")


def load(folder: Path, dtype: torch.dtype = torch.bfloat16, **options: Any) -> Model:
    return load_model(folder, CPU, dtype, **options)


def scores(model: Model, prefilled: int = 6) -> Tensor:
    scorer = open_scorer(model, "fast", 8, 64, TOKENS)
    assert model.lean or scorer.exact is False
    scorer.prefill(IDS[:prefilled])
    return scorer.score(IDS[prefilled:])


def lacking(monkeypatch: pytest.MonkeyPatch, *packages: str) -> None:
    monkeypatch.setattr(quantised, "installed", lambda package: package not in packages)


def test_the_method_is_read_from_every_place() -> None:
    gptq = {"quant_method": "gptq", "bits": 4}
    assert method_of({"model_type": "llama"}) == ""
    assert method_of({"quantization_config": None}) == ""
    assert method_of({"quantization_config": gptq}) == "gptq"
    assert method_of({"text_config": {"quantization_config": {"quant_method": "fp8"}}}) == "fp8"
    assert method_of({"quantization_config": {"load_in_4bit": True}}) == "bitsandbytes"
    assert method_of({"quantization_config": {"bits": 4}}) == quantised.UNNAMED
    assert method_of({"quantization_config": "4 bits"}) == quantised.UNNAMED


@pytest.mark.parametrize("place", ["top", "text"])
def test_quantised_files_are_not_for_the_lean_decoder(tmp_path: Path, place: str) -> None:
    config = json.loads((tiny_model(tmp_path) / "config.json").read_text())
    quantization = {"quantization_config": {"quant_method": "awq", "bits": 4}}
    if place == "top":
        config |= quantization
    else:
        config = {"model_type": "gemma3", "text_config": {**config, **quantization}}
    assert shape_of(config) == (None, "its files are quantised (awq)")


@pytest.mark.parametrize(
    ("gone", "lacks"),
    [(("optimum", "gptqmodel"), "optimum and gptqmodel"), (("gptqmodel",), "gptqmodel")],
)
def test_gptq_without_its_packages_is_refused_before_a_weight_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gone: tuple[str, ...], lacks: str
) -> None:
    folder = tiny_model(tmp_path)
    quantise(folder)
    (folder / "model.safetensors").unlink()  # would be missed if anyone looked
    lacking(monkeypatch, *gone)
    with pytest.raises(LoadError) as caught:
        load(folder)
    assert caught.value.message.endswith(f"not installed: {lacks}.")
    assert 'pip install "specdec-chat[gptq]"' in caught.value.hint
    assert "gptq" in caught.value.message


def test_awq_lacks_gptqmodel_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    quantise(tiny_model(tmp_path), "awq")
    lacking(monkeypatch, "optimum", "gptqmodel")
    with pytest.raises(LoadError, match="needs gptqmodel; not installed: gptqmodel"):
        load(tmp_path)


@pytest.mark.parametrize("weights", ["int8", "bf16"])
def test_files_quantised_already_are_held_as_they_are(tmp_path: Path, weights: str) -> None:
    folder = tiny_model(tmp_path)
    quantise(folder)
    with pytest.raises(LoadError, match=f"already .gptq. and cannot be held as {weights}"):
        load(folder, weights=weights)


@pytest.mark.parametrize("quantization", [{"quant_method": "magic"}, {"bits": 4}, "4 bits"])
def test_a_method_nobody_reads_is_refused(tmp_path: Path, quantization: Any) -> None:
    """transformers would pass over it with a warning and make the weights up."""
    write_config(tiny_model(tmp_path), quantization)
    with pytest.raises(LoadError, match="does not read"):
        load(tmp_path)


@pytest.mark.parametrize(
    ("quantization", "lacks"),
    [
        ({"quant_method": "compressed-tensors"}, "compressed"),
        ({"load_in_8bit": True, "quant_method": "bitsandbytes"}, "bitsandbytes"),
        ({"quant_method": "hqq"}, "hqq"),
        ({"quant_method": "fbgemm_fp8"}, "GPU"),
    ],
)
def test_other_methods_say_what_they_lack(
    tmp_path: Path, quantization: dict[str, Any], lacks: str
) -> None:
    """By transformers' own words; none of these packages is one of this project's extras."""
    write_config(tiny_model(tmp_path), quantization)
    with pytest.raises(LoadError, match=lacks) as caught:
        load(tmp_path)
    assert "unquantised" in caught.value.hint


@pytest.mark.skipif(torch.cuda.is_available(), reason="transformers then leaves fp8 packed")
def test_fp8_is_unpacked_without_a_gpu_and_the_page_is_told(tmp_path: Path) -> None:
    folder, plain = tiny_model(tmp_path / "fp8"), load(tiny_model(tmp_path / "a"), torch.float32)
    to_fp8(folder)
    model = load(folder)
    assert model.quantised == Choice("bf16", "transformers unpacked its fp8 files to bf16")
    assert torch.nn.functional.cosine_similarity(scores(model), scores(plain)).min() > 0.98


def test_weights_that_are_missing_are_not_made_up(tmp_path: Path) -> None:
    folder = tiny_model(tmp_path)
    file = folder / "model.safetensors"
    tensors = load_file(file)
    for layer in (0, 1):
        del tensors[f"model.layers.{layer}.mlp.up_proj.weight"]
    save_file(tensors, file, {"format": "pt"})
    config = json.loads((folder / "config.json").read_text())
    config |= {"hidden_act": "relu"}  # an activation that sends it to transformers
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(LoadError, match=r"layers\.0\.mlp\.up_proj\.weight and 1 more"):
        load(folder)


@needs(quantised.GPTQ)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("method", ["gptq", "awq"])
def test_four_bits_score_as_the_weights_they_stand_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], method: str, dtype: torch.dtype
) -> None:
    folder, plain = tiny_model(tmp_path / "small"), tiny_model(tmp_path / "plain")
    written = quantise(folder, method)
    file = plain / "model.safetensors"
    save_file({**load_file(file), **written}, file, {"format": "pt"})
    model = load(folder, dtype)
    assert capsys.readouterr().out == ""  # where the reply goes
    assert not model.lean
    assert f"quantised ({method})" in model.reason
    assert model.quantised is not None
    assert model.quantised.value == method
    assert "4 bits" in model.quantised.reason
    want = scores(load(plain, torch.float32))
    assert torch.nn.functional.cosine_similarity(scores(model), want).min() > 0.999


class Wrong(nn.Module):
    """A layer of optimum-quanto's kind on a device that multiplies wrongly."""

    def __init__(self, factor: float) -> None:
        super().__init__()
        self.weight: Any = Wrapped()
        self.bias = None
        self.factor = factor

    def forward(self, x: Tensor) -> Tensor:
        return self.factor * nn.functional.linear(x, self.weight.dequantize())


class Mute(nn.Module):
    """A model whose kernels are not for this device."""

    device = CPU

    def forward(self, **call: object) -> Tensor:
        raise NotImplementedError


def test_kernels_that_do_not_run_here_are_told_at_load() -> None:
    with pytest.raises(LoadError, match="as gptq do not run on cpu: NotImplementedError"):
        held.check_step(Mute(), "gptq")


class Wrapped:
    def __tensor_flatten__(self) -> tuple[list[str], None]:
        return [], None

    def dequantize(self) -> Tensor:
        return torch.eye(8)[:, :6]


@pytest.mark.parametrize(("factor", "right"), [(1.0, True), (1.1, False), (float("nan"), False)])
def test_wrong_products_are_refused(factor: float, right: bool) -> None:
    module = nn.Sequential(Wrong(factor))
    if right:
        held.check_products(module)
        return
    with pytest.raises(LoadError, match="wrong numbers") as caught:
        held.check_products(module)
    assert "--weights" in caught.value.hint
