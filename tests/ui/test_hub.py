"""The hub as a person meets it: searched, down, slow, gated; a model is had, broken and deleted."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from huggingface_hub import constants
from playwright.sync_api import Page, expect

from app.model_row import known
from specdec.contract import DraftOption
from tests.app.desk_kit import until
from tests.app.fake_engine import Script
from tests.app.shelf_kit import HELD
from tests.ui.hub_kit import ROW, TOKEN, all_models, found, small_hub
from tests.ui.screens import on_both_screens
from tests.ui.steps import Serve, ready, send, settled, visit

pytestmark = pytest.mark.ui


def search(tab: Page, words: str) -> None:
    tab.fill("#find input, #find textarea", words)
    tab.click("#ask-hub")


def test_the_hub_is_searched_and_says_what_it_has_not(
    serve: Serve, tab: Page, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with small_hub(tmp_path, monkeypatch) as hub:
        served = serve()
        visit(tab, served)
        all_models(tab)
        results = tab.locator("#hub-found")
        tab.click("#ask-hub")
        expect(results).to_contain_text("There is nothing to look for.")
        search(tab, "nice")
        expect(results).to_contain_text("The hub has no model with these words.")

        hub.found = [
            found("org/Nice-1B", "license:mit"),
            found("org/Closed-2B", gated="manual"),
            found("org/Odd", "custom_code"),
        ]
        hub.slow = True
        tab.click("#ask-hub")
        expect(results).to_contain_text("Asking the hub")
        tab.get_by_role("tab", name="Chat").click()  # nothing else waits for it
        send(tab, "hello")
        settled(tab)
        hub.go.set()
        all_models(tab)
        expect(results).to_contain_text("On the hub (3)")
        expect(results.locator("li", has_text="Nice-1B")).to_contain_text("licence: mit")
        expect(results.locator("li", has_text="Closed-2B")).to_contain_text("needs access")
        odd = results.locator("li", has_text="Odd")
        expect(odd).to_contain_text("brings code of its own, which is never run here")
        expect(odd.get_by_role("button")).to_have_count(0)

        tab.get_by_role("button", name="Add org/Nice-1B").click()
        expect(results).to_contain_text("Nice-1B is on the list, under Download.")
        tab.get_by_role("button", name="Download: Nice-1B").click()
        tab.get_by_role("button", name="Load: Nice-1B").click()
        expect(tab.locator("#shelf li", has_text="Nice-1B")).to_contain_text("loaded")
        assert ("nice-1b", None) in served.kit.engine.loads

        monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
        tab.click("#ask-hub")
        expect(results).to_contain_text("The hub does not answer")


def test_a_download_is_cancelled_resumed_found_broken_and_mended(
    serve: Serve, tab: Page, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with small_hub(tmp_path, monkeypatch, ROW) as hub:
        hub.hold_after = HELD
        served = serve()
        shelf = served.kit.controller.model_shelf
        visit(tab, served)
        all_models(tab)
        tab.get_by_role("button", name="Download: Tiny").click()
        expect(tab.locator("#going")).to_contain_text("Fetching Tiny")
        until(lambda: known("tiny", shelf.rows(served.kit.owner())).left >= HELD, 10)
        tab.click("#cancel-fetch")
        expect(tab.locator("#shelf-notice")).to_contain_text("of it were deleted.")
        expect(tab.locator("#going")).to_be_hidden()
        assert not any(shelf.store.downloads(shelf.entry("tiny")).glob("**/*.safetensors*"))

        tab.get_by_role("button", name="Download: Tiny").click()
        expect(tab.locator("#going")).to_contain_text("Fetching Tiny")
        until(lambda: known("tiny", shelf.rows(served.kit.owner())).left >= HELD, 10)
        tab.click("#pause")
        hub.hold_after = None
        hub.asked.clear()
        tab.get_by_role("button", name="Resume: Tiny").click()
        tab.get_by_role("button", name="Verify: Tiny").click()
        row = tab.locator("#shelf li[data-id=tiny]")
        expect(row).to_contain_text("Whole:")
        assert [span for _, _, span in hub.asked if span] == [f"bytes={HELD}-"]

        file = next(shelf.store.folder(shelf.entry("tiny")).glob("**/model.safetensors"))
        data = bytearray(file.read_bytes())
        data[-1] ^= 1
        file.write_bytes(data)
        tab.get_by_role("button", name="Verify: Tiny").click()
        expect(row).to_contain_text("Broken:")
        tab.get_by_role("button", name="Fetch what is broken: Tiny").click()
        expect(row).not_to_contain_text("Broken:")
        expect(tab.get_by_role("button", name="Verify: Tiny")).to_be_visible()
        assert file.read_bytes()[-1] == data[-1] ^ 1


def test_a_gated_model_comes_with_a_token_that_is_never_shown(
    serve: Serve,
    tab: Page,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    caplog.set_level(logging.DEBUG)
    with small_hub(tmp_path, monkeypatch, {**ROW, "gated": True}) as hub:
        hub.gated = True
        visit(tab, serve())
        all_models(tab)
        row = tab.locator("#shelf li[data-id=tiny]")
        expect(row).to_contain_text("needs access")
        expect(row.get_by_role("link", name="ask for access there")).to_have_attribute(
            "href", "https://huggingface.co/org/tiny"
        )
        tab.get_by_role("button", name="Download: Tiny").click()
        refused = tab.locator("#shelf-notice [role=alert]")
        expect(refused).to_contain_text("Ask for access at https://huggingface.co/org/tiny")
        assert hub.asked == []
        tab.get_by_role("button", name="Access to gated models").click()
        expect(tab.locator("#token-state")).to_contain_text("No token is kept.")
        for token, told in (("hello", "That is no access token."), (TOKEN, "A token is kept.")):
            tab.fill("#token input", token)
            tab.click("#token-keep")
            expect(tab.locator("#token-state")).to_contain_text(told)
            expect(tab.locator("#token input")).to_have_value("")
        tab.get_by_role("button", name="Download: Tiny").click()
        expect(tab.get_by_role("button", name="Verify: Tiny")).to_be_visible()
        assert TOKEN not in tab.content()
        tab.reload()
        all_models(tab)
        assert TOKEN not in tab.content()
        tab.get_by_role("button", name="Access to gated models").click()
        tab.click("#token-remove")
        expect(tab.locator("#token-state")).to_contain_text("No token is kept.")
    assert TOKEN not in caplog.text
    assert TOKEN not in "".join(capfd.readouterr())
    written = [file for file in tmp_path.rglob("*") if file.is_file()]
    assert len(written) > 3
    assert not [file for file in written if TOKEN.encode() in file.read_bytes()]


@on_both_screens
def test_a_folder_is_added_by_its_path_and_what_is_none_is_said(
    serve: Serve, tab: Page, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with small_hub(tmp_path, monkeypatch):
        visit(tab, serve())
        all_models(tab)
        tab.get_by_role("button", name="Add a folder or a GGUF file of your own").click()
        told = tab.locator("#own-told")
        broken = tmp_path / "Odd.gguf"
        broken.write_bytes(b"GGUF" + bytes(4))
        for path in (tmp_path / "nowhere", tmp_path / "hf"):
            tab.fill("#own-path input, #own-path textarea", str(path))
            tab.click("#own-add")
            expect(told.locator(".error")).to_contain_text(str(path))
        tab.fill("#own-path input, #own-path textarea", str(tmp_path / "upstream"))
        tab.click("#own-add")
        expect(told).to_contain_text("upstream is on the list.")
        tab.locator("#own-add").scroll_into_view_if_needed()
        expect(tab.get_by_role("tab", name="Chat")).to_be_in_viewport()  # above what is scrolled
        row = tab.locator("#shelf li", has_text="upstream")
        expect(row).to_contain_text("added by you")
        expect(tab.get_by_role("button", name="Load: upstream")).to_be_visible()
        tab.fill("#own-path input, #own-path textarea", str(broken))
        tab.click("#own-add")
        expect(tab.locator("#shelf li", has_text="Odd").locator(".error")).to_contain_text("Odd")
        tab.get_by_role("button", name="Take off the list: upstream").click()
        expect(row).to_have_count(0)
        assert (tmp_path / "upstream" / "config.json").exists()


def test_the_recommended_draft_is_downloaded_and_used_in_one_click(
    serve: Serve, tab: Page, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    option = DraftOption("tiny", "Tiny", "possible", "shares the target's tokens", 200_000, False)
    with small_hub(tmp_path, monkeypatch, ROW) as hub:
        hub.hold_after = HELD
        served = serve(Script(drafts=(option,)))
        visit(tab, served)
        ready(tab)
        tab.get_by_role("tab", name="Models").click()
        tab.get_by_role("button", name="Download and use: Tiny").click()
        expect(tab.locator("#plan")).to_contain_text("Fetching Tiny")
        hub.go.set()
        expect(tab.locator(".pill .why")).to_have_text("smollm2-135m-instruct with tiny")
        assert served.kit.engine.loads[-1] == ("smollm2-135m-instruct", "tiny")
