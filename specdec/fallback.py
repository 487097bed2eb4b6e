"""Loads what the lean decoder does not know through transformers. Never runs a repository's code.

Knows transformers' model classes; nothing of caches (`cache`) or rounds.
"""

from __future__ import annotations

import sys
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from specdec import quantised
from specdec.checkpoint import DTYPES, FETCH, Checkpoint, open_checkpoint
from specdec.errors import LoadError

_CODE = "Choose another model; code that comes with weights is never run here."
_PLAIN = "Choose the unquantised version of this model, or install what it lacks."


def load_module(
    folder: Path,
    config: dict[str, Any],
    device: torch.device,
    dtype: torch.dtype,
    int8: bool = False,
) -> Any:
    """The transformers model in `folder`, in eval mode on `device`; `int8` holds layers in 8 bits.

    Raises LoadError: an encoder-decoder (A32), an architecture that only the repository's own code
    could run (D08), one this transformers does not know, a quantisation that cannot run here, or
    files that do not fit it.
    """
    kind, method = str(config.get("model_type", "")), quantised.method_of(config)
    if config.get("is_encoder_decoder"):
        raise LoadError(
            f"{folder.name} is an encoder-decoder model ({kind}).", "Choose a chat model."
        )
    if method:
        quantised.check_method(method, folder.name, "int8" if int8 else None)
        _check_known(folder, method)
    if int8:
        quantised.check_int8()
    from transformers import AutoConfig  # here: it takes seconds to import

    try:
        known = AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    except (ValueError, KeyError, OSError) as error:
        raise LoadError(f"{folder.name} has the unknown architecture {kind!r}.", _CODE) from error
    options: dict[str, Any] = {"dtype": dtype}
    if method or int8:  # their kernels are chosen for a device, so they are made on it
        options["device_map"] = {"": device}
    if int8:
        from transformers import QuantoConfig

        options["quantization_config"] = QuantoConfig(weights="int8")
    read = _read_each if int8 or (not method and _converts(folder, dtype)) else _read
    try:
        with redirect_stdout(sys.stderr):  # where gptqmodel draws a banner in front of the reply
            module, found = read(folder, known, options)
    except torch.OutOfMemoryError:  # is told elsewhere
        raise
    except (ValueError, KeyError, OSError, RuntimeError, ImportError, TypeError, AttributeError,
            AssertionError) as error:  # fmt: skip
        what = f"{kind}, {method}" if method else kind
        line = next(iter(str(error).strip().splitlines()), type(error).__name__)
        raise LoadError(
            f"{folder.name} ({what}) does not load: {line}", _PLAIN if method else _CODE
        ) from error
    _check_whole(folder, found)
    return module.eval() if method or int8 else module.eval().to(device)


def _read(folder: Path, known: Any, options: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """The model, and what transformers says of tensors that were not there or did not fit."""
    from transformers import AutoModelForCausalLM

    module, found = AutoModelForCausalLM.from_pretrained(
        folder,
        config=known,
        local_files_only=True,
        trust_remote_code=False,
        use_safetensors=True,
        output_loading_info=True,
        **options,
    )
    return module, found


def _read_each(folder: Path, known: Any, options: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """As `_read`, for weights that are not kept as they lie in the files: read one at a time.

    From a folder transformers maps the files, whose pages stay until the last layer: all weights
    beside what is made of them. Its classes take tensors too, but only without a path.
    """
    from transformers import AutoModelForCausalLM

    with torch.device("meta"):
        empty = AutoModelForCausalLM.from_config(known, trust_remote_code=False)
    with open_checkpoint(folder) as checkpoint:
        module, found = type(empty).from_pretrained(
            None,
            config=empty.config,
            state_dict={name: _Later(checkpoint, name) for name in checkpoint.where},
            output_loading_info=True,
            **options,
        )
    _check_shapes(folder, module)
    return module, found


def _converts(folder: Path, dtype: torch.dtype) -> bool:
    """Whether the files hold their numbers in another dtype, and nothing but such numbers."""
    with open_checkpoint(folder) as checkpoint:
        kinds = {DTYPES.get(stored.dtype) for stored in checkpoint.where.values()}
    floats = all(kind is not None and kind.is_floating_point for kind in kinds)
    return floats and kinds != {dtype}


@dataclass(frozen=True, slots=True)
class _Later:
    """A tensor that is read when it is sliced, which transformers does once, when it wants it."""

    checkpoint: Checkpoint
    name: str

    def __getitem__(self, everything: object) -> Tensor:
        if everything is not Ellipsis:
            raise TypeError(f"only all of {self.name} can be read")
        return self.checkpoint.get(self.name, self.checkpoint.shape(self.name))


def _check_shapes(folder: Path, module: torch.nn.Module) -> None:
    """transformers does not look at the shape of what it hands over to be quantised."""
    for name, layer in module.named_modules():
        if isinstance(layer, torch.nn.Linear):
            shape, wanted = tuple(layer.weight.shape), (layer.out_features, layer.in_features)
            if shape != wanted:
                raise LoadError(
                    f"{folder}: {name}.weight is {shape}, its config.json says {wanted}.", FETCH
                )


def _check_known(folder: Path, method: str) -> None:
    """transformers passes over a method it does not know, and makes up the weights."""
    from transformers.quantizers.auto import AUTO_QUANTIZATION_CONFIG_MAPPING

    if method != "bitsandbytes" and method not in AUTO_QUANTIZATION_CONFIG_MAPPING:
        raise LoadError(
            f"{folder.name} is quantised {method}, which this transformers does not read.",
            "Choose its unquantised version.",
        )


def _check_whole(folder: Path, found: dict[str, Any]) -> None:
    """transformers makes up, with a warning, what is missing from the files."""
    missing = sorted(found["missing_keys"], key=lambda name: (not name.endswith(".weight"), name))
    if missing:
        count = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise LoadError(f"{folder} has no tensor {missing[0]}{count}.", FETCH)
