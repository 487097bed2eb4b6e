"""Files over HTTP, past the page: what a guest may send, and what nobody can reach by it."""

from __future__ import annotations

import base64
import io
import os
from pathlib import Path
from typing import Any

import pytest

from app.attachments import MAX_FILE
from app.desk import Options
from app.security import GUEST_PATHS, OWNER_PATHS
from app.ui.reply_settings import values_of
from tests.app.desk_kit import Kit, finish
from tests.app.real_page import Visitor, real_page

CONTROLS = values_of(Options())
ATTACH = "ComposerWiring.attach"


def file(name: str, data: bytes) -> dict[str, Any]:
    return {"name": name, "size": len(data), "data": base64.b64encode(data).decode()}


def attach(visitor: Visitor, *files: Any) -> str:
    event = {"files": list(files)}
    return visitor.said(visitor.call(ATTACH, ["", 0, *CONTROLS], event))


def test_a_guest_s_file_goes_with_the_message_and_nowhere_else(kit: Kit) -> None:
    finish(kit.controller.start())
    cache = Path(os.environ.get("GRADIO_TEMP_DIR", "/nonexistent"))
    with real_page(kit) as (owner, guest):
        assert "notes.txt" in attach(guest, file("notes.txt", b"a guest's secret"))
        assert "notes.txt" not in owner.said(owner.call("ComposerWiring.count", ["", 0, *CONTROLS]))
        sent = guest.said(guest.call("ChatWiring.send", ["what is it?", 0, *CONTROLS]))
        assert "secret" in sent
        assert 'class=\\"files\\"' not in sent  # the tray is empty again
        last = kit.engine.requests[-1].messages[-1].content
        assert last == "File: notes.txt\n\n```\na guest's secret\n```\n\nwhat is it?"
        assert kit.history.conversations() == []
        assert [p for p in cache.rglob("*") if p.name == "notes.txt"] == []


def test_no_way_in_or_out_for_files_was_opened(kit: Kit) -> None:
    """Uploads stay shut for the owner too; a guest reads no file back, whatever its name."""
    for paths in (GUEST_PATHS, OWNER_PATHS):
        assert not paths.fullmatch("/gradio_api/upload")
        assert not paths.fullmatch("/gradio_api/upload_progress")
    with real_page(kit) as (owner, guest):
        for visitor in (owner, guest):
            given = {"files": ("a.txt", io.BytesIO(b"x"))}
            assert visitor.client.post("/gradio_api/upload", files=given).status_code == 404
        for path in ("/etc/passwd", "notes.txt", f"{os.environ['GRADIO_TEMP_DIR']}/x/notes.txt"):
            assert guest.client.get(f"/gradio_api/file={path}").status_code == 404


@pytest.mark.parametrize(
    "made_up",
    [
        {"path": "/etc/passwd", "meta": {"_type": "gradio.FileData"}},
        {"path": "/etc/passwd", "orig_name": "x", "size": 9, "meta": {"_type": "gradio.FileData"}},
        {"name": "/etc/passwd", "size": 5, "data": ""},
        {"name": "/etc/passwd", "size": 5, "data": "file:///etc/passwd"},
        {"name": "/etc/passwd", "size": "5", "data": "eA=="},
        {"name": {"path": "/etc/passwd"}, "size": 5, "data": {"path": "/etc/passwd"}},
    ],
)
def test_a_path_of_the_server_is_only_a_name(kit: Kit, made_up: dict[str, Any]) -> None:
    """E06: nothing of this machine is read, copied or shown."""
    with real_page(kit) as (_, guest):
        answer = guest.call(ATTACH, ["", 0, *CONTROLS], {"files": [made_up]})
        told = guest.said(answer)
        # gradio itself refuses a FileData that is not in its cache; the rest is refused by us
        assert 'class=\\"error' in told or answer[-1]["success"] is False
        assert "root:" not in told
        assert not list(Path(os.environ["GRADIO_TEMP_DIR"]).rglob("passwd"))
        for odd in ({"files": "/etc/passwd"}, {"files": [5]}, "files", None):
            assert "root:" not in guest.said(guest.call(ATTACH, ["", 0, *CONTROLS], odd))


def test_each_file_that_cannot_be_taken_has_its_line_and_the_others_stay(kit: Kit) -> None:
    with real_page(kit) as (_, guest):
        told = attach(
            guest,
            file("good.txt", b"fine"),
            file("picture.png", b"\x89PNG\r\n\x1a\n\x00"),
            {"name": "huge.log", "size": MAX_FILE + 1, "data": ""},
            {"name": "folder", "size": -1, "data": ""},
            {"name": "late.txt", "size": 9, "data": ""},
            {"name": "bad.txt", "size": 9, "data": "!!!"},
        )
        for line in (
            "picture.png is a picture, not text.",
            "huge.log has 1.0 MB.",
            "folder could not be read.",
            "late.txt was not attached: too much came at once.",
            "bad.txt came damaged.",
        ):
            assert line in told
        assert "Remove good.txt" in told
        assert "Remove picture.png" not in told


def test_a_refused_message_keeps_its_files(kit: Kit) -> None:
    with real_page(kit) as (owner, _):
        attach(owner, file("notes.txt", b"x" * 300_000))
        told = owner.said(owner.call("ChatWiring.send", ["y" * 100_001, 0, *CONTROLS]))
        assert "At most 400,000 are taken" in told
        again = owner.call("ComposerWiring.detach", ["", 0, *CONTROLS], {"id": "99"})
        assert "Remove notes.txt" in owner.said(again)


def test_a_guest_can_change_no_preset_past_the_page(kit: Kit) -> None:
    kit.controller.presets.save(kit.owner(), "mine", Options(system="secret"))
    with real_page(kit) as (owner, guest):
        for handler, data in (
            ("PresetWiring.save", ["mine", *CONTROLS]),
            ("PresetWiring.rename", ["Balanced", "x", *CONTROLS]),
            ("PresetWiring.take", CONTROLS),
        ):
            event = {"size": 2, "text": "{}"}
            told = guest.said(guest.call(handler, data, event))
            assert "A guest cannot do that." in told
            assert "secret" not in told
        arrived = guest.said(guest.call("_Page.arrive", [1440]))
        assert "Creative" in arrived
        assert "mine" not in arrived
        assert "mine" in owner.said(owner.call("_Page.arrive", [1440]))
