"""Loads what the lean decoder does not know through transformers. Never runs a repository's code.

Knows transformers' model classes; nothing of caches (`cache`) or rounds.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from specdec.errors import LoadError


def load_module(
    folder: Path, config: dict[str, Any], device: torch.device, dtype: torch.dtype
) -> Any:
    """The transformers model in `folder`, in eval mode on `device`.

    Raises LoadError: an encoder-decoder (A32), an architecture that only the repository's own code
    could run (D08), one this transformers does not know, or files that do not fit it.
    """
    from transformers import AutoConfig, AutoModelForCausalLM  # here: it takes seconds to import

    kind = str(config.get("model_type", ""))
    if config.get("is_encoder_decoder"):
        raise LoadError(
            f"{folder.name} is an encoder-decoder model ({kind}).", "Choose a chat model."
        )
    other = "Choose another model; code that comes with weights is never run here."
    try:
        known = AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    except (ValueError, KeyError, OSError) as error:
        raise LoadError(f"{folder.name} has the unknown architecture {kind!r}.", other) from error
    try:
        module = AutoModelForCausalLM.from_pretrained(
            folder,
            config=known,
            dtype=dtype,
            local_files_only=True,
            trust_remote_code=False,
            use_safetensors=True,
        )
    except (ValueError, KeyError, OSError, RuntimeError, ImportError) as error:
        line = str(error).strip().splitlines()[0]
        raise LoadError(f"{folder.name} ({kind}) does not load: {line}", other) from error
    return module.eval().to(device)
