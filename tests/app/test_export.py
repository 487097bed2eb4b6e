"""A conversation as a file: what is in it, its name, and who may have it."""

from __future__ import annotations

import json
from pathlib import Path

import httpx
import pytest

from app import ports
from app.access import Access, make_logins
from app.downloads import make_downloads
from app.export import as_json, as_markdown, file_name
from app.records import Conversation, StoredMessage
from app.server import Server, make_site
from tests.app.desk_kit import Kit
from tests.app.serving import Visits, small_page

CHAT = Conversation("a" * 32, "Grüße: a/b?", 1.0, 2.0, "Be kind", {}, True)
ROWS = (
    StoredMessage(1, CHAT.id, "user", "    indented\n# not a title"),
    StoredMessage(2, CHAT.id, "assistant", "Fine.", (5, 7), "interrupted", {"tok_s": 1.5}),
)


def test_markdown_keeps_texts_as_they_were_written() -> None:
    text = as_markdown(CHAT, ROWS)
    assert text.startswith(
        "# Grüße: a/b?\n\n## System prompt\n\nBe kind\n\n## You\n\n    indented\n"
    )
    assert text.endswith("## Reply (interrupted)\n\nFine.\n")


def test_json_has_all_that_is_stored() -> None:
    row = json.loads(as_json(CHAT, ROWS))
    assert (row["format"], row["title"], row["pinned"]) == ("specdec-chat 1", CHAT.title, True)
    assert row["messages"][1]["ids"] == [5, 7]
    assert row["messages"][1]["metrics"] == {"tok_s": 1.5}


@pytest.mark.parametrize(
    ("title", "name"),
    [("Grüße: a/b?", "gr-e-a-b.md"), ("", "conversation.md"), ("../../etc", "etc.md")],
)
def test_a_name_that_every_file_system_takes(title: str, name: str) -> None:
    assert file_name(Conversation("a", title, 0, 0), "md") == name


def test_the_owner_has_the_file_and_nobody_else(kit: Kit, tmp_path: Path) -> None:
    chat = kit.history.create().id
    kit.history.add_turn(chat, 'quote " and\r\nline')
    listener, access = ports.listen("127.0.0.1", 0), Access(make_logins())
    routes = (make_downloads(kit.controller),)
    site = make_site(small_page(Visits()), access, lambda: {"state": "x"}, routers=routes)
    server = Server(site, listener)
    server.start()
    url = ports.address(listener)
    try:
        with httpx.Client(base_url=url, timeout=20) as nobody:
            assert nobody.get(f"/chats/{chat}.md").status_code == 401
        for login in access.logins:
            form = {"username": login.user, "password": login.password}
            with httpx.Client(base_url=url, timeout=20) as client:
                client.post("/login", data=form)
                answer = client.get(f"/chats/{chat}.json")
                if login.role == "guest":
                    assert answer.status_code == 404
                    assert "quote" not in answer.text
                    continue
                assert answer.json()["messages"][0]["content"] == 'quote " and\r\nline'
                said = answer.headers["content-disposition"]
                assert said == 'attachment; filename="quote-and.json"'
                assert client.get(f"/chats/{'0' * 32}.md").status_code == 404
                for odd in ("../history.db", "%2e%2e/x", "x", "A" * 32):
                    assert client.get(f"/chats/{odd}.md").status_code == 404
    finally:
        server.stop()
