"""Chromium's own word on whether the page can be installed."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page

from tests.ui.steps import Serve, visit

pytestmark = pytest.mark.ui


def test_chromium_finds_nothing_missing(serve: Serve, tab: Page) -> None:
    visit(tab, serve())
    browser = tab.context.new_cdp_session(tab)
    found = browser.send("Page.getAppManifest")
    assert found["errors"] == []
    assert '"specdec chat"' in found["data"]
    wrong = browser.send("Page.getInstallabilityErrors")["installabilityErrors"]
    told = [error["errorId"] for error in wrong]
    assert [error for error in told if error != "in-incognito"] == []  # as every test's profile is
