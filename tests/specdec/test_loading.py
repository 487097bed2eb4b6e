from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import GPTNeoXConfig, GPTNeoXForCausalLM, T5Config

from specdec.errors import LoadError
from specdec.linear import Int4
from specdec.loading import load_model
from specdec.target import open_scorer
from tests.tiny import ROWS, TOKENS, tiny_model

pytestmark = pytest.mark.usefixtures("one_thread")

CPU = torch.device("cpu")


def load(folder: Path, **options: Any) -> Any:
    return load_model(folder, CPU, options.pop("dtype", torch.float32), **options)


def rewrite(folder: Path, **changes: Any) -> None:
    """Change tensors of a saved model; None takes one out."""
    file = folder / "model.safetensors"
    tensors = load_file(file)
    for name, value in changes.items():
        name = name.replace("__", ".")
        if value is None:
            del tensors[name]
        else:
            tensors[name] = value
    save_file(tensors, file)


def configure(folder: Path, **changes: Any) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def test_the_numbers_others_plan_with(tmp_path: Path) -> None:
    model = load(tiny_model(tmp_path, "qwen3", head_dim=32), dtype=torch.bfloat16)
    assert model.lean
    assert model.reason == ""
    assert model.architecture == "Qwen3ForCausalLM"
    sizes = (model.layers, model.kv_heads, model.head_dim, model.hidden, model.vocab)
    assert sizes == (2, 2, 32, 64, ROWS)
    assert model.kv_bytes == 2 * 2 * 2 * 32 * 2
    layer = 64 * (4 + 2 + 2) * 32 + 4 * 32 * 64 + 3 * 64 * 96
    assert model.step_bytes == 2 * (2 * layer + ROWS * 64)
    assert model.weight_bytes == model.step_bytes + 2 * ROWS * 64


def test_a_tied_matrix_is_held_once(tmp_path: Path) -> None:
    folder = tiny_model(tmp_path, tie_word_embeddings=True)
    model = load(folder, dtype=torch.bfloat16)
    assert model.weight_bytes == model.step_bytes


def test_progress_rises_to_its_total(tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    load(tiny_model(tmp_path), progress=lambda done, total: seen.append((done, total)))
    assert seen == [(0, 3), (1, 3), (2, 3), (3, 3)]


def test_shards_are_one_model(tmp_path: Path) -> None:
    whole = load(tiny_model(tmp_path / "whole"))
    folder = tiny_model(tmp_path / "shards", max_shard_size="60KB")
    assert len(list(folder.glob("*.safetensors"))) > 2
    ids = [1, 2, 3, 4]
    one, two = (open_scorer(m, "fast", 4, 64, TOKENS, exact=False) for m in (whole, load(folder)))
    assert torch.equal(one.score(ids), two.score(ids))


def test_weights_do_not_hang_on_the_file(tmp_path: Path) -> None:
    """A later fetch may replace the file under a running model."""
    folder = tiny_model(tmp_path)
    model = load(folder)
    before = open_scorer(model, "fast", 4, 64, TOKENS, exact=False).score([1, 2])
    file = folder / "model.safetensors"
    with file.open("r+b") as stream:
        stream.seek(4096)
        stream.write(bytes(file.stat().st_size - 4096))
    after = open_scorer(model, "fast", 4, 64, TOKENS, exact=False).score([1, 2])
    assert torch.equal(before, after)


def test_int4_packs_what_it_can_and_stays_near(tmp_path: Path) -> None:
    folder = tiny_model(tmp_path, "qwen2")
    dense, packed = load(folder), load(folder, dtype=torch.bfloat16, form="int4")
    assert packed.form == "int4"
    assert all(isinstance(matrix, Int4) for matrix in packed.weights.matrices())
    assert packed.step_bytes < dense.step_bytes / 5
    one, two = (
        open_scorer(m, "fast", 4, 64, TOKENS, exact=False).score([1, 2, 3]) for m in (dense, packed)
    )
    assert torch.nn.functional.cosine_similarity(one, two).min() > 0.95


def test_int4_is_for_the_cpu(tmp_path: Path) -> None:
    folder = tiny_model(tmp_path)
    model = load_model(folder, torch.device("meta"), torch.bfloat16, "int4")
    assert model.form == "dense"
    assert "CPU only" in model.notes[0]


def test_a_window_does_not_cut_the_context(tmp_path: Path) -> None:
    model = load(tiny_model(tmp_path, "mistral", sliding_window=128))
    assert model.context == 2048
    assert model.notes == ()


def test_a_fused_matrix_of_another_size_is_named(tmp_path: Path) -> None:
    rewrite(
        tiny_model(tmp_path, "phi3"),
        model__layers__0__self_attn__qkv_proj__weight=torch.ones(64, 64),
    )
    with pytest.raises(LoadError, match=r"qkv_proj.weight"):
        load(tmp_path)


@pytest.mark.parametrize("cut", [1000, 10**9])
def test_a_truncated_file_is_named(tmp_path: Path, cut: int) -> None:
    folder = tiny_model(tmp_path)
    file = folder / "model.safetensors"
    data = file.read_bytes()
    file.write_bytes(data[: max(len(data) - cut, 20)])
    with pytest.raises(LoadError, match=r"model\.safetensors is cut short") as caught:
        load(folder)
    assert "anew" in caught.value.hint


def test_a_missing_shard_is_named(tmp_path: Path) -> None:
    folder = tiny_model(tmp_path, max_shard_size="60KB")
    gone = sorted(folder.glob("*.safetensors"))[1]
    gone.unlink()
    with pytest.raises(LoadError, match=gone.name):
        load(folder)


def test_rubbish_in_place_of_weights(tmp_path: Path) -> None:
    folder = tiny_model(tmp_path)
    (folder / "model.safetensors").write_bytes((40).to_bytes(8, "little") + b"x" * 60)
    with pytest.raises(LoadError, match="not a safetensors file"):
        load(folder)


def test_pickles_are_never_opened(tmp_path: Path) -> None:
    folder = tiny_model(tmp_path)
    (folder / "model.safetensors").unlink()
    (folder / "pytorch_model.bin").write_bytes(b"cos\nsystem\n")
    with pytest.raises(LoadError, match="pickled") as caught:
        load(folder)
    assert "safetensors" in caught.value.hint


def test_no_weights_and_no_config(tmp_path: Path) -> None:
    folder = tiny_model(tmp_path / "a")
    (folder / "model.safetensors").unlink()
    with pytest.raises(LoadError, match="no safetensors"):
        load(folder)
    with pytest.raises(LoadError, match=r"config\.json is missing"):
        load(tmp_path / "nothing")
    (folder / "config.json").write_text("{")
    with pytest.raises(LoadError, match="cannot be read"):
        load(folder)


def test_a_missing_number_is_named(tmp_path: Path) -> None:
    folder = tiny_model(tmp_path)
    config = json.loads((folder / "config.json").read_text())
    del config["hidden_size"]
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(LoadError, match="hidden_size"):
        load(folder)


def test_missing_misshapen_and_quantised_tensors_are_named(tmp_path: Path) -> None:
    name = "model__layers__1__mlp__up_proj__weight"
    for folder, value, word in (
        (tmp_path / "a", None, "no tensor"),
        (tmp_path / "b", torch.zeros(96, 32), r"\(96, 32\)"),
        (tmp_path / "c", torch.zeros(96, 64, dtype=torch.int8), "int8"),
    ):
        rewrite(tiny_model(folder), **{name: value})
        with pytest.raises(LoadError, match=word) as caught:
            load(folder)
        assert name.replace("__", ".") in caught.value.message


def test_an_output_matrix_that_is_missing(tmp_path: Path) -> None:
    folder = tiny_model(tmp_path)
    rewrite(folder, lm_head__weight=None)
    with pytest.raises(LoadError, match=r"lm_head\.weight"):
        load(folder)


def test_code_in_a_repository_is_never_run(tmp_path: Path) -> None:
    marker = tmp_path / "ran"
    folder = tiny_model(tmp_path / "model")
    code = f"open({str(marker)!r}, 'w').close()\n"
    (folder / "modeling_own.py").write_text(code)
    (folder / "configuration_own.py").write_text(code)
    auto = {
        "AutoConfig": "configuration_own.OwnConfig",
        "AutoModelForCausalLM": "modeling_own.OwnModel",
    }
    configure(folder, auto_map=auto)
    assert load(folder).lean  # a family we know needs none of it
    configure(folder, model_type="own", architectures=["OwnModel"])
    with pytest.raises(LoadError, match="own") as caught:
        load(folder)
    assert "never run" in caught.value.hint
    assert not marker.exists()


def test_encoder_decoders_are_refused(tmp_path: Path) -> None:
    folder = tiny_model(tmp_path)
    T5Config(vocab_size=ROWS).save_pretrained(folder)
    configure(folder, is_encoder_decoder=True)
    with pytest.raises(LoadError, match="encoder-decoder"):
        load(folder)


def test_other_architectures_run_through_transformers_with_the_reason(tmp_path: Path) -> None:
    config = GPTNeoXConfig(
        vocab_size=ROWS,
        hidden_size=64,
        intermediate_size=96,
        num_hidden_layers=2,
        num_attention_heads=4,
        max_position_embeddings=512,
    )
    GPTNeoXForCausalLM(config).save_pretrained(tmp_path)
    model = load(tmp_path, form="int4")
    assert not model.lean
    assert "gpt_neox" in model.reason
    assert model.form == "dense"
    assert "int4" in model.notes[0]
    assert (model.layers, model.kv_heads, model.head_dim, model.context) == (2, 4, 16, 512)
    assert model.weight_bytes > 4 * 2 * ROWS * 64
