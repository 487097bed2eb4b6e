"""A conversation as a file: what is in it, its name, and who may have it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from app import bubbles, ports
from app.access import Access, make_logins
from app.check import made_by
from app.desk import Options
from app.downloads import make_downloads
from app.export import as_json, as_markdown, file_name
from app.records import Conversation, StoredMessage
from app.server import Server, make_site
from specdec.contract import Sampling
from specdec.errors import SettingError
from tests.app.desk_kit import Kit, finish
from tests.app.serving import Visits, small_page

CHAT = Conversation("a" * 32, "Grüße: a/b?", 1.0, 2.0, "Be kind", {}, True)
ROWS = (
    StoredMessage(1, CHAT.id, "user", "    indented\n# not a title"),
    StoredMessage(
        2, CHAT.id, "assistant", "Fine.", (5, 7), "interrupted", {"tok_s": 1.5}, parent=1
    ),
)


def test_markdown_keeps_texts_as_they_were_written() -> None:
    text = as_markdown(CHAT, ROWS)
    assert text.startswith(
        "# Grüße: a/b?\n\n## System prompt\n\nBe kind\n\n## You\n\n    indented\n"
    )
    assert text.endswith("## Reply (interrupted)\n\nFine.\n")


def test_json_has_all_that_is_stored() -> None:
    row = json.loads(as_json(CHAT, ROWS))
    assert (row["format"], row["title"], row["pinned"]) == ("specdec-chat 2", CHAT.title, True)
    assert row["messages"][1]["ids"] == [5, 7]
    assert row["messages"][1]["metrics"] == {"tok_s": 1.5}


@pytest.mark.parametrize(
    ("title", "name"),
    [("Grüße: a/b?", "gr-e-a-b.md"), ("", "conversation.md"), ("../../etc", "etc.md")],
)
def test_a_name_that_every_file_system_takes(title: str, name: str) -> None:
    assert file_name(Conversation("a", title, 0, 0), "md") == name


def test_what_was_saved_is_read_back_as_a_new_conversation(kit: Kit) -> None:
    made = kit.controller.restore(as_json(CHAT, ROWS).encode())
    assert made.id != CHAT.id
    found = kit.controller.stored(made.id)
    assert found is not None
    back, rows = found
    assert (back.title, back.system, back.pinned) == (CHAT.title, CHAT.system, True)
    bare = [replace(row, id=0, parent=0, conversation="", created=0.0) for row in (*rows, *ROWS)]
    assert bare[:2] == bare[2:]


def test_json_keeps_the_tree_and_markdown_what_is_shown(kit: Kit) -> None:
    chat = kit.history.create("Tree").id
    first, reply = kit.history.add_turn(chat, "one")
    kit.history.add_turn(chat, "two")
    kit.history.add_message(chat, "assistant", "again", after=first.id)
    kit.history.add_turn(chat, "uno", after=0)
    kit.history.show(chat, first.id)
    found = kit.controller.stored(chat)
    assert found is not None
    back = kit.controller.stored(kit.controller.restore(as_json(*found).encode()).id)
    assert back is not None
    assert as_markdown(*back) == as_markdown(*found)
    assert "again" in as_markdown(*back)
    assert "two" not in as_markdown(*back)
    made = {row.id: other.id for row, other in zip(found[1], back[1], strict=True)} | {0: 0}
    for row, other in zip(found[1], back[1], strict=True):
        assert (made[row.parent], row.content, row.shown) == (
            other.parent,
            other.content,
            other.shown,
        )
    kit.history.show(back[0].id, made[reply.id])
    assert [row.content for row in kit.history.messages(back[0].id)] == ["one", "", "two", ""]


def test_a_file_from_before_there_were_branches_is_read(kit: Kit) -> None:
    turns = [
        {"id": 7, "role": "user", "content": "one"}, {"id": 9, "role": "assistant", "content": "1"},
        {"id": 12, "role": "user", "content": "two"},
    ]  # fmt: skip
    old = json.dumps({"format": "specdec-chat 1", "messages": turns})
    chat = kit.controller.restore(old.encode()).id
    assert [row.content for row in kit.history.messages(chat)] == ["one", "1", "two"]


@pytest.mark.parametrize(
    "places", [[(1, 2), (2, 0)], [(1, 1)], [(1, 0), (1, 0)], [(0, 0)]], ids=str
)
def test_a_tree_that_is_none_is_refused(kit: Kit, places: list[tuple[int, int]]) -> None:
    turns = [{"id": i, "parent": p, "role": "user", "content": "x"} for i, p in places]
    with pytest.raises(SettingError, match="does not follow"):
        kit.controller.restore(json.dumps({"format": "specdec-chat 2", "messages": turns}).encode())
    assert kit.history.conversations() == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "JSON"),
        ("{}", "format"),
        ('{"format": "other"}', "format"),
        ('{"format": "specdec-chat 1", "messages": [{"role": "tool", "content": ""}]}', "0.role"),
        ('{"format": "specdec-chat 1", "messages": [{"role": "user"}]}', "0.content"),
        (
            '{"format": "specdec-chat 1",'
            ' "messages": [{"role": "user", "content": "", "ids": [-1]}]}',
            "ids.0",
        ),
    ],
)
def test_another_file_is_refused_by_its_field_and_nothing_is_stored(
    kit: Kit, text: str, said: str
) -> None:
    with pytest.raises(SettingError, match=said):
        kit.controller.restore(text.encode())
    assert kit.history.conversations() == []


@pytest.mark.parametrize(
    ("metrics", "asked"),
    [
        ({"new_tokens": "many"}, {}),
        ({"rounds": None}, {}),
        ({"new_tokens": "5", "rounds": 1}, {}),
        ({"new_tokens": 5, "rounds": 1, "first_token_s": float("inf")}, {}),
        ({}, {"mode": "warp"}),
        ({}, {"error": 5}),
        ({}, {"error": {"kind": "x"}}),
        ({}, {"notices": 5}),
        ({}, {"reason": "bored"}),
        ({}, {"trace": 5}),
        ({}, {"sampling": {"temperature": "hot"}}),
        ({}, {"sampling": {"temperature": 99}}),
    ],
)
def test_what_could_not_be_shown_later_is_refused_now(
    kit: Kit, metrics: dict[str, Any], asked: dict[str, Any]
) -> None:
    row = replace(ROWS[1], metrics=metrics, request=asked)
    with pytest.raises(SettingError, match=r"messages\.0"):
        kit.controller.restore(as_json(CHAT, [row]).encode())


def test_a_reply_of_this_program_is_shown_as_before(kit: Kit) -> None:
    finish(kit.controller.start())
    finish(kit.controller.desk.send(kit.owner(), "hello", Options(Sampling(stop=("x",)))))
    found = kit.controller.stored(kit.owner().conversation)
    assert found is not None
    made = kit.controller.restore(as_json(*found).encode())
    shown = [bubbles.reply(replace(found[1][1], id=1))]
    back = kit.controller.stored(made.id)
    assert back is not None
    assert [bubbles.reply(replace(back[1][1], id=1))] == shown
    assert made_by(back[1], back[1][1]).ids == found[1][1].ids


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
                    assert client.post("/chats", content=as_json(CHAT, ROWS)).status_code == 404
                    continue
                assert answer.json()["messages"][0]["content"] == 'quote " and\r\nline'
                posted = client.post("/chats", content=answer.content)
                assert posted.status_code == 201
                assert len(kit.history.conversations()) == 2
                evil = {"origin": "http://evil.example"}
                assert client.post("/chats", content="{}", headers=evil).status_code == 403
                refused = client.post("/chats", content="{}")
                assert (refused.status_code, "saved by this" in refused.text) == (400, True)
                said = answer.headers["content-disposition"]
                assert said == 'attachment; filename="quote-and.json"'
                assert client.get(f"/chats/{'0' * 32}.md").status_code == 404
                for odd in ("../history.db", "%2e%2e/x", "x", "A" * 32):
                    assert client.get(f"/chats/{odd}.md").status_code == 404
    finally:
        server.stop()
