"""A small hub that the page, its token store and the processes that fetch all take for the hub."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from huggingface_hub import constants, hf_api
from playwright.sync_api import Page

from tests.app.shelf_kit import TINY
from tests.specdec import store_kit
from tests.specdec.store_kit import FakeHub, model_folder, safetensors

TOKEN = "hf_secretsecretsecret"
ROW = {**TINY, "repo": "org/tiny"}


def found(repo: str, *tags: str, **more: Any) -> dict[str, Any]:
    """A repository as the hub lists it."""
    listed = ["safetensors", *tags]
    return {"id": repo, "modelId": repo, "sha": "c0ffee", "tags": listed, "gated": False, **more}


@contextmanager
def small_hub(folder: Path, patch: pytest.MonkeyPatch, *rows: dict[str, Any]) -> Iterator[FakeHub]:
    """`rows` are on the list of models besides those that come with the program."""
    files = {f.name: f.read_bytes() for f in model_folder(folder / "upstream").iterdir()}
    files["model.safetensors"] = safetensors(50_000)
    for name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"):
        patch.delenv(name, raising=False)
    store = folder / "hf"
    with store_kit.serve(FakeHub(files, token=TOKEN)) as hub:
        patch.setenv("HF_ENDPOINT", hub.url)
        patch.setenv("HF_HOME", str(store))
        patch.setattr(constants, "ENDPOINT", hub.url)  # read when it was imported
        patch.setattr(hf_api.api, "endpoint", hub.url)
        patch.setattr(constants, "HF_TOKEN_PATH", str(store / "token"))
        patch.setattr(constants, "HF_STORED_TOKENS_PATH", str(store / "stored_tokens"))
        (folder / "models.json").write_text(json.dumps({"models": list(rows)}))
        yield hub
        hub.go.set()


def all_models(tab: Page) -> None:
    tab.get_by_role("tab", name="Models").click()
    tab.get_by_role("tab", name="All models").click()
