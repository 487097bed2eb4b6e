"""Presets in the drawer, as a person keeps and uses them."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from app.desk import Options
from app.preset_file import to_json
from app.presets import preset_of
from specdec.contract import Sampling
from tests.ui.steps import Serve, visit

pytestmark = pytest.mark.ui


def test_a_preset_is_kept_left_set_back_deleted_undone_and_imported(
    serve: Serve, tab: Page
) -> None:
    served = serve()
    visit(tab, served)
    tab.click("#tune")
    tab.fill("#system textarea", "Be brief")
    tab.get_by_role("button", name="Your presets").click()
    tab.get_by_label("Name of a preset").fill("mine")
    tab.locator("#presets").get_by_role("button", name="Save", exact=True).click()
    told, menu = tab.locator("#preset-told"), tab.locator("#preset input")
    expect(told).to_have_text("“mine” was saved.")
    tab.fill("#system textarea", "Be long")
    expect(tab.locator("#preset-state")).to_have_text("Changed since “mine”: system prompt")

    menu.click()
    tab.get_by_role("option", name="Exact and repeatable").click()
    expect(tab.locator("#effective")).to_contain_text("always the likeliest token")
    expect(tab.locator("#system textarea")).to_have_value("Be long")
    menu.click()
    tab.get_by_role("option", name="mine").click()
    expect(tab.locator("#system textarea")).to_have_value("Be brief")
    tab.locator("#preset-undo").click()
    expect(tab.locator("#system textarea")).to_have_value("Be long")

    tab.locator("#presets").get_by_role("button", name="Delete").click()
    expect(told).to_have_text("“mine” was deleted.")
    expect(menu).to_have_value("Balanced")
    tab.locator("#preset-undo").click()
    expect(menu).to_have_value("mine")

    theirs = to_json([preset_of("mine", Options(Sampling(temperature=1.5), system="Theirs"))])
    file = {"name": "x.json", "mimeType": "application/json", "buffer": theirs.encode()}
    tab.locator("#preset-files input").set_input_files([file])  # type: ignore[list-item]
    expect(told).to_have_text("Imported: “mine (2)”.")
    assert [p.name for p in served.kit.controller.presets.list(served.kit.owner())][3:] == [
        "mine",
        "mine (2)",
    ]
