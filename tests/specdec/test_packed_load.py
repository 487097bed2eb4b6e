"""A model whose blocks stay packed: the same as the unpacked one, or refused with a reason."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import gguf
import pytest
import torch
from transformers import GPTNeoXConfig, GPTNeoXForCausalLM

from specdec.blocks import tolerance, unpack
from specdec.conversion import convert
from specdec.decoder import Layer, Weights
from specdec.errors import LoadError
from specdec.folder import PACKED
from specdec.layer_reader import LayerReader
from specdec.linear import Dense
from specdec.loading import Model, load_model
from specdec.packed import Packed, PackedRows, Stacked
from specdec.packed_file import PackedFile, check
from specdec.runner import Layout, LeanScorer
from tests.specdec.test_conversion import HIDDEN, write_gguf
from tests.tiny import write_tokenizer

pytestmark = pytest.mark.usefixtures("one_thread")

CPU = torch.device("cpu")
Kind = gguf.GGMLQuantizationType
MIXED = {"attn_v": Kind.Q8_0, "ffn_down": Kind.Q5_0, "token_embd": Kind.Q5_1}


def converted(base: Path, family: str = "llama", **options: Any) -> Path:
    pre = "qwen2" if family != "llama" else "smollm"
    file = write_gguf(base / "tiny.gguf", family, pre, **{"kind": Kind.Q4_1, **options})
    folder = convert(file, base / "model")
    file.replace(folder / PACKED)
    return folder


def load(folder: Path, packed: bool = True, **options: Any) -> Model:
    dtype = options.pop("dtype", torch.bfloat16)
    blocks = folder / PACKED if packed else None
    return load_model(folder, options.pop("device", CPU), dtype, packed=blocks, **options)


def weights(model: Model) -> Weights:
    assert model.weights is not None
    return model.weights


def matrix(part: Any) -> torch.Tensor:
    """The numbers a matrix holds, float32 [rows, K]."""
    if isinstance(part, Stacked):
        return torch.cat([matrix(one) for one in part.parts])
    if isinstance(part, Packed):
        return part.band(0).T[: part.few.rows]
    assert isinstance(part, Dense)
    return part.weight.float()


@pytest.mark.parametrize("family", ["llama", "qwen2", "qwen3"])
@pytest.mark.parametrize("kind", [Kind.Q4_0, Kind.Q4_1])
def test_every_matrix_is_the_unpacked_one(tmp_path: Path, family: str, kind: Kind) -> None:
    """Llama's rotary rows are put in order too. bf16 rounds s, z and the unpacked weight."""
    folder = converted(tmp_path, family, kind=kind)
    ours, plain = weights(load(folder)), weights(load(folder, packed=False))
    file = PackedFile(folder / PACKED)
    layer = "model.layers.0.self_attn.q_proj.weight"
    part = file.blocks(layer, (matrix(plain.layers[0].out).shape[1], HIDDEN))
    bound = tolerance(unpack(part.raw, part.kind)[1]).max()
    for name in ("qkv", "out", "gate_up", "down"):
        got, want = matrix(getattr(ours.layers[0], name)), matrix(getattr(plain.layers[0], name))
        assert isinstance(getattr(ours.layers[0], name), Packed)
        off = (got - want).abs()
        assert off.max() <= 1.5 * bound + 2.0**-8 * want.abs().max(), name
        assert off.mean() < 0.01 * want.abs().mean(), name
    ids = torch.arange(261)
    assert isinstance(ours.embed, PackedRows)
    assert torch.equal(ours.embed(ids), plain.embed)
    if family == "qwen2":
        assert torch.equal(ours.layers[0].qkv.few.bias, plain.layers[0].qkv.bias)  # type: ignore[attr-defined]


def test_parts_of_other_kinds_stay_apart_and_dense(tmp_path: Path) -> None:
    folder = converted(tmp_path, "qwen2", kinds=MIXED, tied=False)
    ours, plain = weights(load(folder)), weights(load(folder, packed=False))
    qkv = ours.layers[0].qkv
    assert isinstance(qkv, Stacked)
    assert [type(part) for part in qkv.parts] == [Packed, Dense]
    assert torch.equal(matrix(qkv.parts[1]), matrix(plain.layers[0].qkv)[-32:])
    assert isinstance(ours.layers[0].down, Dense)
    assert isinstance(ours.head, Packed)
    model, bare = load(folder), load(folder, packed=False)
    dense = 2 * (32 * HIDDEN + HIDDEN * 96)
    assert model.packed_bytes == model.step_bytes - dense
    assert model.weight_bytes < 0.6 * bare.weight_bytes
    assert bare.packed_bytes == 0


def test_what_is_held_twice_comes_first_and_every_layer_to_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the last layers would stand beside their second copies, with all others in memory."""
    folder = converted(tmp_path, kinds={"blk.1.ffn_down": Kind.Q5_0}, layers=3)
    read: list[int] = []
    layer = LayerReader.layer

    def seen(reader: LayerReader, index: int) -> Layer:
        read.append(index)
        return layer(reader, index)

    monkeypatch.setattr(LayerReader, "layer", seen)
    ours = weights(load(folder))
    assert read == [1, 0, 2]
    assert [type(one.down) for one in ours.layers] == [Packed, Dense, Packed]
    for got, want in zip(ours.layers, weights(load(folder, packed=False)).layers, strict=True):
        assert torch.equal(got.norm_in, want.norm_in)


@pytest.mark.parametrize("family", ["llama", "qwen2"])
def test_scores_are_close_and_a_prompt_may_be_read_either_way(
    tmp_path: Path, family: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = converted(tmp_path, family, kinds=MIXED)
    ids = [7, 3, 250, 12, 99, 41, 5, 8, 200, 17]
    want = score(load(folder, packed=False), ids)
    assert distance(score(load(folder), ids), want) < 0.1
    monkeypatch.setattr("specdec.packed.many_from", lambda: 2)
    dequantised = load(folder)
    assert distance(score(dequantised, ids), want) < 0.1


def distance(got: torch.Tensor, want: torch.Tensor) -> float:
    """In standard deviations; of other scores it is 1.4. A random model has near-ties in attention,
    which a rounding turns: single scores say little."""
    return float((got - want).pow(2).mean().sqrt() / want.std())


def score(model: Model, ids: list[int]) -> torch.Tensor:
    scorer = LeanScorer(weights(model), Layout.plain(8), 64, 259, exact=False)
    scorer.prefill(ids[:-2])
    return scorer.score(ids[-2:])


def test_another_models_blocks_are_refused(tmp_path: Path) -> None:
    folder = converted(tmp_path)
    other = write_gguf(tmp_path / "other.gguf", kind=Kind.Q4_1, seed=1)
    with pytest.raises(LoadError, match="not what model was made from"):
        check(other, folder)
    other.replace(folder / PACKED)
    with pytest.raises(LoadError, match="not what model was made from"):
        load(folder)


def test_the_published_weights_are_not_their_own_quantisation(tmp_path: Path) -> None:
    """A hub's bf16 folder beside somebody's 4-bit file: close, and another model."""
    fine = convert(write_gguf(tmp_path / "fine.gguf", kind=Kind.F16), tmp_path / "fine")
    coarse = write_gguf(tmp_path / "coarse.gguf", kind=Kind.Q4_0)
    with pytest.raises(LoadError, match="not what fine was made from"):
        check(coarse, fine)


@pytest.mark.parametrize("keep", [0, 100, -1])
def test_a_cut_file_is_named(tmp_path: Path, keep: int) -> None:
    folder = converted(tmp_path)
    file = folder / PACKED
    file.write_bytes(file.read_bytes()[:keep])
    with pytest.raises(LoadError, match=PACKED):
        load(folder)


def test_nothing_to_keep_is_said(tmp_path: Path) -> None:
    folder = converted(tmp_path, kind=Kind.Q8_0)
    with pytest.raises(LoadError, match="no Q4_0, Q4_1 or Q4_K"):
        load(folder)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"dtype": torch.float32}, "float32 was asked for"),
        ({"dtype": torch.float16}, "float16 was asked for"),
        ({"device": torch.device("cuda")}, "the device is cuda"),
        ({"device": torch.device("mps")}, "the device is mps"),
    ],
)
def test_where_the_kernel_cannot_run_it_is_refused(
    tmp_path: Path, options: dict[str, Any], why: str
) -> None:
    with pytest.raises(LoadError, match=why) as caught:
        load(converted(tmp_path), **options)
    assert "--weights bf16" in caught.value.hint


def test_what_only_transformers_runs_is_refused(tmp_path: Path) -> None:
    config = GPTNeoXConfig(hidden_size=32, intermediate_size=64, num_hidden_layers=1,
                           num_attention_heads=2, vocab_size=320)  # fmt: skip
    GPTNeoXForCausalLM(config).save_pretrained(tmp_path)
    write_tokenizer(tmp_path)
    with pytest.raises(LoadError, match="through transformers"):
        load(tmp_path)


def test_a_wrong_shape_is_named(tmp_path: Path) -> None:
    folder = converted(tmp_path)
    file = PackedFile(folder / PACKED)
    with pytest.raises(LoadError, match=r"blk\.0\.ffn_up"):
        file.blocks("model.layers.0.mlp.up_proj.weight", (64, 96))
    assert "model.norm.weight" not in file
    assert file.rows("no.such", (1, 1)) is None


def test_the_file_may_go_once_it_is_read(tmp_path: Path) -> None:
    folder = converted(tmp_path)
    model = load(folder)
    before = score(model, [1, 2, 3, 4])
    shutil.rmtree(folder)
    assert torch.equal(score(model, [1, 2, 3, 4]), before)
