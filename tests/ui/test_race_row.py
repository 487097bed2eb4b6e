"""Races in a row in a real browser: several prompts, their sums, the card, and on as a talk."""

from __future__ import annotations

import json

import pytest
from playwright.sync_api import Page, expect

from tests.app.desk_kit import held
from tests.app.fake_engine import Script
from tests.ui.steps import Serve, visit

pytestmark = pytest.mark.ui


def test_races_in_a_row_are_added_up_saved_as_a_card_and_gone_on_with(
    serve: Serve, tab: Page
) -> None:
    served = serve(Script(token_s=0.001))
    visit(tab, served)
    tab.get_by_role("tab", name="Race").click()
    tab.fill("#race-prompt textarea", "one\n---\ntwo")
    tab.get_by_label("Most tokens a lane").fill("24")
    tab.get_by_label("Runs of a prompt").fill("2")
    tab.click("#go")
    expect(tab.locator("#board .verdict .same")).to_contain_text("4 of 4 races had identical words")
    expect(tab.locator("#board .ratio")).to_contain_text("median of 4 races")
    expect(tab.locator("#board tbody tr")).to_have_count(4)
    with tab.expect_download() as picture:
        tab.get_by_role("link", name="Picture").click()
    assert picture.value.path().read_bytes().startswith(b"\x89PNG")
    assert picture.value.suggested_filename.startswith("race-smollm2-135m-instruct-")
    with tab.expect_download() as figures:
        tab.get_by_role("link", name="Figures").click()
    assert len(json.loads(figures.value.path().read_text())["races"]) == 4

    go = held(served.kit)
    tab.fill("#race-message textarea", "and three?")
    tab.press("#race-message textarea", "Enter")
    expect(tab.locator("#race-stop")).to_be_visible()
    expect(tab.locator("#race-on")).to_be_hidden()
    go.set()
    expect(tab.locator(".lane.speculative .asked")).to_have_text(["two", "and three?"])
    expect(tab.locator("#board .verdict .same")).to_contain_text("none differs")


def test_a_race_goes_on_over_a_reload_and_is_there_when_it_is_over(serve: Serve, tab: Page) -> None:
    served = serve(Script(token_s=0.001))
    visit(tab, served)
    go = held(served.kit)
    tab.get_by_role("tab", name="Race").click()
    tab.fill("#race-prompt textarea", "one")
    tab.click("#go")
    expect(tab.locator("#race-stop")).to_be_visible()
    tab.reload()
    tab.get_by_role("tab", name="Race").click()
    expect(tab.locator("#race-stop")).to_be_visible()
    go.set()
    expect(tab.locator("#board .verdict")).to_contain_text("none differs")
    tab.reload()
    tab.get_by_role("tab", name="Race").click()
    expect(tab.locator("#board .verdict")).to_contain_text("none differs")
    expect(tab.locator("#race-on")).to_be_visible()
