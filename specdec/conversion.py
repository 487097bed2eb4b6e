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
from specdec.gguf_families import items, unpack
from specdec.gguf_file import GgufFile
from specdec.gguf_tokenizer import read_tokenizer
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
    return 2 * GgufFile(gguf).parameters


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
    file = GgufFile(gguf)
    _check_room(gguf, folder, 2 * file.parameters, 8 * file.largest)
    temporary.mkdir()
    try:
        progress(Phase("converting", model, "rebuilding the tokenizer", 1, 3))
        ids = _write_tokenizer(file, temporary)
        progress(Phase("converting", model, "unpacking the weights to bf16", 2, 3))
        _write_weights(file, temporary, ids)
        temporary.rename(folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    progress(Phase("converting", model, "done", 3, 3))
    return folder


def _check_room(gguf: Path, folder: Path, need: int, beside: int) -> None:
    """`need` bytes are in memory and on disk; `beside` is one tensor in float32, twice."""
    disk = shutil.disk_usage(folder.parent).free
    if need > disk:
        raise SourceError(
            f"Converting {gguf.name} needs {size_text(need)} of disk, {size_text(disk)} free.",
            f"Free some space beside {folder.parent}, or choose another data folder.",
        )
    memory = free_memory("cpu")
    if need + beside > memory:
        raise FitError(
            f"Converting {gguf.name} needs {size_text(need + beside)} of memory,"
            f" {size_text(memory)} free.",
            "Close other programs, or choose a smaller model.",
        )


def _write_tokenizer(file: GgufFile, folder: Path) -> dict[str, Any]:
    """Returns the special ids, as generation_config.json and config.json hold them."""
    tokenizer = read_tokenizer(file)
    _write_json(folder / "tokenizer.json", tokenizer.json)
    _write_json(folder / "tokenizer_config.json", tokenizer.config)
    ids = {"bos_token_id": tokenizer.bos_id, "pad_token_id": tokenizer.pad_id}
    named: dict[str, Any] = {name: value for name, value in ids.items() if value is not None}
    named["eos_token_id"] = list(tokenizer.end_ids)
    _write_json(folder / "generation_config.json", named)
    return named


def _write_weights(file: GgufFile, folder: Path, ids: dict[str, Any]) -> None:
    """bf16 safetensors and config.json; a tied output matrix is left out."""
    import torch
    from safetensors.torch import save_file

    try:
        config, state = _unpack(file)
    except (ValueError, KeyError, RuntimeError, NotImplementedError) as error:
        raise LoadError(
            f"{file.path.name} cannot be unpacked: {error!r}.",
            "Use the safetensors files of the model instead.",
        ) from error
    for name, tensor in state.items():
        if not torch.isfinite(tensor).all():
            raise LoadError(
                f"{file.path.name}: {name} holds values that are not numbers.",
                "Fetch the model anew.",
            )
    _save_shards(state, folder, save_file)
    _write_json(folder / "config.json", {**config, **ids})


def _unpack(file: GgufFile) -> tuple[dict[str, Any], dict[str, Any]]:
    """config.json and bf16 tensors by transformers' names: by our table, else by transformers."""
    import torch

    known = unpack(file)
    if known is not None:
        read = {name: torch.tensor(array).to(torch.bfloat16) for name, array in items(known)}
        return known.config, read
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(
        str(file.path.parent), gguf_file=file.path.name, dtype=torch.bfloat16, local_files_only=True
    )
    state = {name: t.to(torch.bfloat16).contiguous() for name, t in model.state_dict().items()}
    if model.config.tie_word_embeddings:
        state.pop("lm_head.weight", None)
    config = {k: v for k, v in model.config.to_dict().items() if k not in _KEPT_OUT}
    return {**config, "architectures": [type(model).__name__], "dtype": "bfloat16"}, state


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
