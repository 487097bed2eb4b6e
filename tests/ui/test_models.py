"""The page of models in real Chromium, over a small hub and real processes that fetch."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.app.shelf_kit import HELD
from tests.ui.hub_kit import ROW, all_models, small_hub
from tests.ui.steps import Serve, visit


@pytest.mark.ui
def test_a_download_survives_a_reload_is_paused_resumed_and_deleted(
    serve: Serve, tab: Page, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with small_hub(tmp_path, monkeypatch, ROW) as hub:
        hub.hold_after = HELD
        served = serve()
        visit(tab, served)
        all_models(tab)
        tab.get_by_role("button", name="Download: Tiny").click()
        expect(tab.locator("#going")).to_contain_text("Fetching Tiny")
        visit(tab, served)
        all_models(tab)
        tab.get_by_role("button", name="Pause").click()
        hub.hold_after = None
        tab.get_by_role("button", name="Resume: Tiny").click()
        expect(tab.get_by_role("button", name="Verify: Tiny")).to_be_visible()
        tab.once("dialog", lambda dialog: dialog.accept())
        tab.get_by_role("button", name="Delete: Tiny").click()
        expect(tab.locator("#shelf-notice")).to_contain_text("are free again")
        expect(tab.get_by_role("button", name="Download: Tiny")).to_be_visible()
