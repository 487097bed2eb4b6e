"""The benchmark tab in a real browser: what can draft here, bars, files, a reload, Stop."""

from __future__ import annotations

import json

import pytest
from playwright.sync_api import Page, expect

from tests.app.desk_kit import held
from tests.app.fake_engine import Script
from tests.ui.screens import on_both_screens
from tests.ui.steps import Serve, ready, visit

pytestmark = pytest.mark.ui


@on_both_screens
def test_a_benchmark_outlives_a_reload_and_stop_brings_the_pair_back(
    serve: Serve, tab: Page
) -> None:
    served = serve(Script(token_s=0.0005))
    visit(tab, served)
    ready(tab)
    tab.get_by_role("tab", name="Benchmark").click()
    drafters = tab.locator("#bench-drafters")
    expect(drafters.get_by_label("n-gram over prompt and reply · loaded")).to_be_checked()
    drafters.get_by_label("Several at once").check()
    tab.get_by_label("Tokens a reply", exact=True).fill("16")
    tab.click("#bench-go")
    expect(tab.locator("#bench-board .bar.drafted .name")).to_have_text(["ngram", "auto"] * 2)
    expect(tab.locator("#bench-board .wait")).to_have_count(0)
    with tab.expect_download() as figures:
        tab.get_by_role("link", name="Figures").click()
    assert len(json.loads(figures.value.path().read_text())["rows"]) == 8

    go = held(served.kit)
    tab.click("#bench-go")
    expect(tab.locator("#bench-board .wait")).to_contain_text("warming up")
    tab.reload()
    tab.get_by_role("tab", name="Benchmark").click()
    tab.click("#bench-stop")
    go.set()
    expect(tab.locator("#bench-board .note")).to_contain_text("Stopped.")
    pair = served.kit.engine.status().pair
    assert pair is not None
    assert pair.draft.value == "ngram"
