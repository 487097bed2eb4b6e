"""GGUF to safetensors: tiny files written with gguf itself; transformers is the judge."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from tokenizers import Tokenizer
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

from specdec import conversion, folder
from specdec.conversion import convert, converted_bytes
from specdec.errors import FitError, LoadError, SourceError
from specdec.gguf_file import GgufFile
from specdec.gguf_tokenizer import read_tokenizer
from specdec.pair import Phase
from tests.tiny import byte_alphabet

MARKERS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
PADS = ["[PAD259]", "[PAD260]"]
HIDDEN, INNER, HEADS, KV = 64, 96, 4, 2


def write_gguf(
    file: Path,
    family: str = "llama",
    pre: str = "smollm",
    tied: bool = True,
    kind: gguf.GGMLQuantizationType = gguf.GGMLQuantizationType.Q8_0,
    poison: bool = False,
    kinds: dict[str, gguf.GGMLQuantizationType] | None = None,
    seed: int = 0,
    layers: int = 1,
    **metadata: Any,
) -> Path:
    """A small model over the byte vocabulary, three markers and two padded rows.

    `kinds` are those of single matrices, by their last name ("attn_v") or all of it
    ("blk.1.attn_v"); others take `kind`.
    """
    rng, known = np.random.default_rng(seed), kinds or {}
    writer = gguf.GGUFWriter(str(file), family)
    writer.add_context_length(128)
    writer.add_embedding_length(HIDDEN)
    writer.add_feed_forward_length(INNER)
    writer.add_block_count(layers)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV)
    if family == "qwen3":
        writer.add_key_length(128)
    if family == "gemma3":
        writer.add_key_length(HIDDEN // HEADS)
        writer.add_sliding_window(32)
    writer.add_rope_freq_base(10000.0)
    writer.add_layer_norm_rms_eps(1e-5)
    for key, value in metadata.items():
        writer.add_string(key.replace("__", "."), value)
    tokens = [*byte_alphabet(), *MARKERS, *PADS]
    merges = ["h e", "l l"]
    tokens[0], tokens[1] = "he", "ll"
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(pre)
    writer.add_token_list(tokens)
    writer.add_token_types([1] * 256 + [3] * 3 + [5] * 2)
    writer.add_token_merges(merges)
    writer.add_eos_token_id(258)
    writer.add_bos_token_id(257)
    writer.add_chat_template("{{ messages }}")

    def matrix(name: str, rows: int, columns: int) -> None:
        data = rng.standard_normal((rows, columns)).astype(np.float32)
        own = known.get(name.removesuffix(".weight"), known.get(name.split(".")[-2], kind))
        writer.add_tensor(name, gguf.quants.quantize(data, own), raw_dtype=own)

    def vector(name: str, size: int) -> None:
        data = rng.standard_normal(size).astype(np.float32)
        writer.add_tensor(name, np.full_like(data, np.nan) if poison else data)

    matrix("token_embd.weight", len(tokens), HIDDEN)
    if not tied:
        matrix("output.weight", len(tokens), HIDDEN)
    vector("output_norm.weight", HIDDEN)
    head = 128 if family == "qwen3" else HIDDEN // HEADS  # transformers assumes 128 for qwen3
    for blk in (f"blk.{index}" for index in range(layers)):
        vector(f"{blk}.attn_norm.weight", HIDDEN)
        vector(f"{blk}.ffn_norm.weight", HIDDEN)
        matrix(f"{blk}.attn_q.weight", HEADS * head, HIDDEN)
        matrix(f"{blk}.attn_k.weight", KV * head, HIDDEN)
        matrix(f"{blk}.attn_v.weight", KV * head, HIDDEN)
        matrix(f"{blk}.attn_output.weight", HIDDEN, HEADS * head)
        matrix(f"{blk}.ffn_gate.weight", INNER, HIDDEN)
        matrix(f"{blk}.ffn_up.weight", INNER, HIDDEN)
        matrix(f"{blk}.ffn_down.weight", HIDDEN, INNER)
        if family == "qwen2":
            for name, size in (("q", HIDDEN), ("k", KV * head), ("v", KV * head)):
                vector(f"{blk}.attn_{name}.bias", size)
        if family in ("qwen3", "gemma3"):
            vector(f"{blk}.attn_q_norm.weight", head)
            vector(f"{blk}.attn_k_norm.weight", head)
        if family == "gemma3":
            vector(f"{blk}.post_attention_norm.weight", HIDDEN)
            vector(f"{blk}.post_ffw_norm.weight", HIDDEN)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return file


@pytest.mark.parametrize(
    ("family", "pre", "tied"),
    [("llama", "smollm", True), ("qwen2", "qwen2", False), ("qwen3", "qwen2", True)],
)
def test_same_tensors_and_shape_as_transformers(
    tmp_path: Path, family: str, pre: str, tied: bool
) -> None:
    file = write_gguf(tmp_path / "tiny.gguf", family, pre, tied)
    made = convert(file, tmp_path / "model")
    theirs = AutoModelForCausalLM.from_pretrained(
        tmp_path, gguf_file="tiny.gguf", dtype=torch.bfloat16
    )
    ours = load_file(made / "model.safetensors")
    state = theirs.state_dict()
    assert ("lm_head.weight" in ours) is not tied
    assert set(state) - set(ours) == ({"lm_head.weight"} if tied else set())
    for name, tensor in ours.items():
        assert tensor.dtype == torch.bfloat16
        assert torch.equal(tensor, state[name].to(torch.bfloat16)), name
    config = AutoConfig.from_pretrained(made)
    for field in ("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads",
                  "num_key_value_heads", "max_position_embeddings", "vocab_size",
                  "tie_word_embeddings", "rope_parameters"):  # fmt: skip
        assert getattr(config, field) == getattr(theirs.config, field), field
    assert config.rms_norm_eps == pytest.approx(1e-5, rel=1e-9)
    loaded = AutoModelForCausalLM.from_pretrained(made)
    ids = torch.tensor([[104, 101, 108]])
    assert torch.equal(loaded(ids).logits, theirs(ids).logits)
    assert folder.problem(made) is None


@pytest.mark.parametrize("kind", ["Q4_1", "Q4_0", "Q5_0", "F16", "F32", "BF16"])
def test_every_block_kind_unpacks_as_gguf_does(tmp_path: Path, kind: str) -> None:
    file = write_gguf(tmp_path / "tiny.gguf", kind=gguf.GGMLQuantizationType[kind])
    ours = GgufFile(file)
    for tensor in gguf.GGUFReader(file).tensors:
        want = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
        assert np.array_equal(ours.read(tensor.name), want.reshape(ours.tensors[tensor.name].shape))


def test_end_ids_come_from_the_file(tmp_path: Path) -> None:
    made = convert(write_gguf(tmp_path / "tiny.gguf"), tmp_path / "model")
    for name in ("generation_config.json", "config.json"):
        assert json.loads((made / name).read_text())["eos_token_id"] == [256, 258]


def test_padded_rows_are_not_tokens(tmp_path: Path) -> None:
    """A21: rows that only pad the matrix must not become text."""
    made = convert(write_gguf(tmp_path / "tiny.gguf"), tmp_path / "model")
    tokenizer = AutoTokenizer.from_pretrained(made)
    assert len(tokenizer) == 259
    assert json.loads((made / "config.json").read_text())["vocab_size"] == 261
    assert tokenizer.chat_template == "{{ messages }}"
    assert (tokenizer.eos_token, tokenizer.bos_token) == ("<|im_end|>", "<|im_start|>")
    assert tokenizer.decode(tokenizer.encode("hello 12 äß")) == "hello 12 äß"
    assert tokenizer.encode("<|im_end|>") == [258]


def test_split_rules_of_the_originals(tmp_path: Path) -> None:
    """D09: transformers drops SmolLM2's digit rule and Qwen's NFC; the prompt would differ."""
    smol = read_tokenizer(GgufFile(write_gguf(tmp_path / "s.gguf"))).json
    assert smol["pre_tokenizer"]["pretokenizers"][0] == {
        "type": "Digits",
        "individual_digits": True,
    }
    pieces = Tokenizer.from_str(json.dumps(smol)).pre_tokenizer.pre_tokenize_str("a 2026")
    assert [text for text, _ in pieces] == ["a", "Ġ", "2", "0", "2", "6"]
    qwen = read_tokenizer(GgufFile(write_gguf(tmp_path / "q.gguf", "qwen2", "qwen2"))).json
    assert qwen["normalizer"] == {"type": "NFC"}


def test_unknown_split_rule_is_refused(tmp_path: Path) -> None:
    file = write_gguf(tmp_path / "tiny.gguf", pre="martian")
    with pytest.raises(LoadError, match="'martian'"):
        convert(file, tmp_path / "model")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["tiny.gguf"]


def test_scaled_positions_are_not_dropped_silently(tmp_path: Path) -> None:
    file = write_gguf(tmp_path / "tiny.gguf", llama__rope__scaling__type="yarn")
    with pytest.raises(LoadError, match="rope scaling"):
        convert(file, tmp_path / "model")


def test_values_that_are_not_numbers_are_refused(tmp_path: Path) -> None:
    with pytest.raises(LoadError, match="not numbers"):
        convert(write_gguf(tmp_path / "tiny.gguf", poison=True), tmp_path / "model")


@pytest.mark.parametrize("keep", [0, 10, 200, 9000, -1])
def test_truncated_file_is_named(tmp_path: Path, keep: int) -> None:
    file = write_gguf(tmp_path / "tiny.gguf")
    file.write_bytes(file.read_bytes()[:keep])
    with pytest.raises(LoadError, match=r"tiny\.gguf"):
        converted_bytes(file)


def test_size_is_known_before_unpacking(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """D09: a 4-bit file becomes four times its size."""
    file = write_gguf(tmp_path / "tiny.gguf")
    made = convert(file, tmp_path / "model")
    data = sum(t.numel() * 2 for t in load_file(made / "model.safetensors").values())
    assert converted_bytes(file) == data
    monkeypatch.setattr(conversion, "free_memory", lambda device: 1000)
    with pytest.raises(FitError, match="of memory, 1 kB free"):
        convert(file, tmp_path / "other")
    usage = type("usage", (), {"free": 10})
    monkeypatch.setattr("specdec.conversion.shutil.disk_usage", lambda where: usage)
    with pytest.raises(SourceError, match="of disk"):
        convert(file, tmp_path / "other")
    assert not (tmp_path / "other").exists()


def test_killed_conversion_leaves_nothing_that_loads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write_gguf(tmp_path / "tiny.gguf")
    leftover = tmp_path / ".model.converting"
    leftover.mkdir()
    (leftover / "model.safetensors").write_bytes(b"half")

    def die(*args: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(conversion, "_write_weights", die)
        with pytest.raises(KeyboardInterrupt):
            convert(file, tmp_path / "model")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["tiny.gguf"]
    seen: list[Phase] = []
    convert(file, tmp_path / "model", seen.append, "tiny")
    assert {phase.name for phase in seen} == {"converting"}
    again: list[Phase] = []
    convert(file, tmp_path / "model", again.append)
    assert again == []


def test_large_models_are_cut_into_shards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = write_gguf(tmp_path / "tiny.gguf")
    monkeypatch.setattr(conversion, "_SHARD", 20_000)
    made = convert(file, tmp_path / "model")
    assert len(list(made.glob("model-*.safetensors"))) > 1
    assert folder.problem(made) is None
    AutoModelForCausalLM.from_pretrained(made)
