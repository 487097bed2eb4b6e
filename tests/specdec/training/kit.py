"""A tiny target, its weights and its files, for the training tests."""

from __future__ import annotations

import json
import random
from pathlib import Path

import torch
from safetensors import safe_open

from specdec.decoder import Weights
from specdec.loading import load_model
from specdec.training.checkpoint import Place
from tests.tiny import tiny_model

LAYERS = 8


def target(folder: Path, family: str = "llama", **changes: object) -> Path:
    return tiny_model(folder, family, seed=1, **{"num_hidden_layers": LAYERS, **changes})


def weights(folder: Path) -> Weights:
    found = load_model(folder, torch.device("cpu"), torch.float32).weights
    assert found is not None
    return found


def rows(file: Path, count: int = 40, seed: int = 0, words: int = 5) -> Path:
    """Chats that repeat themselves: something to learn."""
    rng, lines = random.Random(seed), []
    for _ in range(count):
        text = " ".join(rng.choice(("abc", "cab", "bca")) for _ in range(words))
        messages = [{"role": "user", "content": text}, {"role": "assistant", "content": text}]
        lines.append(json.dumps({"messages": messages}))
    file.write_text("\n".join(lines) + "\n")
    return file


def command(folder: Path, out: Path, steps: int, *more: str) -> list[str]:
    text = more or ("--data", str(folder / "rows.jsonl"))
    return [
        "train-draft", "--target", str(folder / "target"), *text, "--minutes", "900",
        "--steps", str(steps), "--out", str(out), "--data-dir", str(folder / "data"),
        "--offline", "--device", "cpu", "--dtype", "float32",
    ]  # fmt: skip


def place_of(file: Path) -> Place:
    with safe_open(file, "pt") as stored:
        return Place(**json.loads(stored.metadata()["place"]))


def lessons_of(out: Path) -> dict[str, float]:
    return {str(p): p.stat().st_mtime for p in sorted((out / "work").glob("*/*.safetensors"))}
