"""GGUF file -> folder of safetensors, tokenizer, config. Knows nothing of where files come from.

Done once per model (transformers takes 10 to 40 s each time it reads a GGUF), atomically: written
under a temporary name beside the folder, then renamed.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from specdec.errors import FitError, LoadError, SourceError
from specdec.memory import free_memory, size_text
from specdec.pair import Phase

_KEPT_OUT = {
    "_name_or_path",
    "_model_name_or_path",
    "quantization_config",
    "transformers_version",
    "unk_token_id",
    "return_dict",
    "output_hidden_states",
    "output_attentions",
    "id2label",
    "label2id",
    "problem_type",
    "chunk_size_feed_forward",
    "is_encoder_decoder",
}
_SHARD = 4 << 30  # bytes; one file up to here, as the hub cuts them


def converted_bytes(gguf: Path) -> int:
    """Bytes the file's tensors take in bf16, read from its header alone.

    Raises LoadError when the header is not a GGUF one or the file is shorter than it says.
    """
    from gguf import GGUFReader

    try:
        tensors = GGUFReader(gguf).tensors
    except Exception as error:  # struct, Unicode, Index and ValueError: the file is not readable
        raise LoadError(
            f"{gguf.name} is truncated or not a GGUF file: {error}.", "Fetch the model anew."
        ) from error
    return 2 * sum(int(tensor.n_elements) for tensor in tensors)


def convert(
    gguf: Path,
    folder: Path,
    progress: Callable[[Phase], None] = lambda phase: None,
    model: str = "",
) -> Path:
    """Write `folder` (config, generation config, bf16 safetensors, tokenizer) from a GGUF file.

    Returns `folder`, at once when it is already there. Raises LoadError for a file that cannot be
    read, SourceError when the disk and FitError when memory is too small for the unpacked weights.
    """
    if folder.is_dir():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    temporary = folder.with_name(f".{folder.name}.converting")
    shutil.rmtree(temporary, ignore_errors=True)  # what an earlier, interrupted try left
    progress(Phase("converting", model, "reading the file's header", 0, 3))
    _check_room(gguf, folder, converted_bytes(gguf))
    temporary.mkdir()
    try:
        progress(Phase("converting", model, "rebuilding the tokenizer", 1, 3))
        _write_tokenizer(gguf, temporary)
        progress(Phase("converting", model, "unpacking the weights to bf16", 2, 3))
        _write_weights(gguf, temporary)
        temporary.rename(folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    progress(Phase("converting", model, "done", 3, 3))
    return folder


def _check_room(gguf: Path, folder: Path, need: int) -> None:
    """Weights exist once in memory and once on disk while converting."""
    disk = shutil.disk_usage(folder.parent).free
    if need > disk:
        raise SourceError(
            f"Converting {gguf.name} needs {size_text(need)} of disk, {size_text(disk)} free.",
            f"Free some space beside {folder.parent}, or choose another data folder.",
        )
    memory = free_memory("cpu")
    if need > memory:
        raise FitError(
            f"Converting {gguf.name} needs {size_text(need)} of memory, {size_text(memory)} free.",
            "Close other programs, or choose a smaller model.",
        )


def _write_tokenizer(gguf: Path, folder: Path) -> None:
    from specdec.gguf_tokenizer import read_tokenizer

    tokenizer = read_tokenizer(gguf)
    _write_json(folder / "tokenizer.json", tokenizer.json)
    _write_json(folder / "tokenizer_config.json", tokenizer.config)
    ids = {"bos_token_id": tokenizer.bos_id, "pad_token_id": tokenizer.pad_id}
    named = {name: value for name, value in ids.items() if value is not None}
    _write_json(
        folder / "generation_config.json", {"eos_token_id": list(tokenizer.end_ids), **named}
    )


def _write_weights(gguf: Path, folder: Path) -> None:
    """bf16 safetensors and config.json; a tied output matrix is left out."""
    import torch
    from safetensors.torch import save_file
    from transformers import AutoModelForCausalLM

    try:
        model = AutoModelForCausalLM.from_pretrained(
            str(gguf.parent), gguf_file=gguf.name, dtype=torch.bfloat16, local_files_only=True
        )
    except (ValueError, KeyError, RuntimeError) as error:
        raise LoadError(
            f"{gguf.name} cannot be unpacked: {error}.",
            "Use the safetensors files of the model instead.",
        ) from error
    state = dict(model.state_dict())
    if model.config.tie_word_embeddings:
        state.pop("lm_head.weight", None)
    for name, tensor in state.items():
        if not torch.isfinite(tensor).all():
            raise LoadError(
                f"{gguf.name}: {name} holds values that are not numbers.", "Fetch the model anew."
            )
        state[name] = tensor.to(torch.bfloat16).contiguous()
    _save_shards(state, folder, save_file)
    config: dict[str, Any] = model.config.to_dict()
    config = {key: value for key, value in config.items() if key not in _KEPT_OUT}
    config["architectures"] = [type(model).__name__]
    config["dtype"] = "bfloat16"
    generation = json.loads((folder / "generation_config.json").read_text())
    config["eos_token_id"] = generation["eos_token_id"]
    _write_json(folder / "config.json", config)


def _save_shards(state: dict[str, Any], folder: Path, save: Callable[..., None]) -> None:
    shards: list[dict[str, Any]] = [{}]
    filled = 0
    for name, tensor in state.items():
        size = tensor.numel() * 2
        if filled and filled + size > _SHARD:
            shards.append({})
            filled = 0
        shards[-1][name] = tensor
        filled += size
    if len(shards) == 1:
        save(shards[0], str(folder / "model.safetensors"), metadata={"format": "pt"})
        return
    where: dict[str, str] = {}
    for i, shard in enumerate(shards, 1):
        file = f"model-{i:05d}-of-{len(shards):05d}.safetensors"
        save(shard, str(folder / file), metadata={"format": "pt"})
        where.update(dict.fromkeys(shard, file))
    total = sum(tensor.numel() * 2 for tensor in state.values())
    _write_json(
        folder / "model.safetensors.index.json",
        {"metadata": {"total_size": total}, "weight_map": where},
    )


def _write_json(file: Path, data: dict[str, Any]) -> None:
    file.write_text(json.dumps(data, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
