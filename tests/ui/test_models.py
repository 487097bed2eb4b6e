"""The page of models in real Chromium, over a small hub and real processes that fetch."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.specdec import store_kit
from tests.specdec.store_kit import FakeHub, model_folder, safetensors
from tests.ui.steps import Serve, visit

ROW = {"id": "tiny", "name": "Tiny", "family": "Tiny", "roles": ["target"], "repo": "org/tiny"}


@pytest.mark.ui
def test_a_download_survives_a_reload_is_paused_resumed_and_deleted(
    serve: Serve, tab: Page, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {f.name: f.read_bytes() for f in model_folder(tmp_path / "upstream").iterdir()}
    with store_kit.serve(FakeHub({**files, "model.safetensors": safetensors(50_000)})) as hub:
        monkeypatch.setenv("HF_ENDPOINT", hub.url)
        (tmp_path / "models.json").write_text(json.dumps({"models": [ROW]}))
        hub.hold_after = 70_000
        served = serve()

        def look() -> None:
            visit(tab, served)
            tab.get_by_role("tab", name="Models").click()
            tab.get_by_role("tab", name="All models").click()

        look()
        tab.get_by_role("button", name="Download: Tiny").click()
        expect(tab.locator("#going")).to_contain_text("Fetching Tiny")
        look()
        tab.get_by_role("button", name="Pause").click()
        hub.hold_after = None
        tab.get_by_role("button", name="Resume: Tiny").click()
        expect(tab.get_by_role("button", name="Verify: Tiny")).to_be_visible()
        tab.once("dialog", lambda dialog: dialog.accept())
        tab.get_by_role("button", name="Delete: Tiny").click()
        expect(tab.locator("#shelf-notice")).to_contain_text("are free again")
        expect(tab.get_by_role("button", name="Download: Tiny")).to_be_visible()
        hub.go.set()
