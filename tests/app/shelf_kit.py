"""What the tests of downloads share: a shelf over a small hub, with real processes that fetch."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from app.fetch_queue import Task
from app.model_row import Row, known
from app.model_shelf import ModelShelf
from tests.app.desk_kit import Kit, until
from tests.specdec.store_kit import FakeHub, model_folder, safetensors, serve

TINY = {"id": "tiny", "name": "Tiny", "family": "Tiny", "roles": ["target", "draft"]}
ROWS = (
    {**TINY, "repo": "org/tiny", "licence": "MIT"},
    {**TINY, "id": "other", "name": "Other", "repo": "org/other"},
    {**TINY, "id": "closed", "name": "Closed", "repo": "org/closed", "gated": True},
    {**TINY, "id": "vast", "name": "Vast", "repo": "org/vast", "bytes": 10**17},
)
HELD = 70_000
"""Bytes of the weights that come before a held hub waits."""


@dataclass
class ShelfKit:
    """The page's parts, and the hub that they fetch from."""

    kit: Kit
    hub: FakeHub
    folder: Path

    @property
    def shelf(self) -> ModelShelf:
        return self.kit.controller.model_shelf

    def row(self, model: str = "tiny") -> Row:
        return known(model, self.shelf.rows(self.kit.owner()))

    def task(self, model: str = "tiny") -> Task:
        return self.shelf.queue.tasks()[model]

    def wait(self, state: str, model: str = "tiny") -> Task:
        until(lambda: self.task(model).state == state, 30)
        return self.task(model)

    def under_way(self, model: str = "tiny") -> None:
        """Until the hub holds back the rest of the weights."""
        until(lambda: self.row(model).left >= HELD, 30)


@contextmanager
def shelf_kit(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ShelfKit]:
    """The processes that fetch learn of the hub by the environment, as they would of a mirror."""
    files = {f.name: f.read_bytes() for f in model_folder(folder / "upstream").iterdir()}
    files["model.safetensors"] = safetensors(50_000)
    for name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    with serve(FakeHub(files)) as hub:
        monkeypatch.setenv("HF_ENDPOINT", hub.url)
        monkeypatch.setenv("HF_HOME", str(folder / "hf"))
        data = folder / "data"
        data.mkdir()
        (data / "models.json").write_text(json.dumps({"models": ROWS}))
        kit = Kit(data)
        yield ShelfKit(kit, hub, data)
        hub.go.set()
        kit.close()
