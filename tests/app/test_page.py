"""The real page's handlers, called over HTTP past any control that is hidden."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from app.desk import Options
from app.ui.reply_settings import values_of
from tests.app.desk_kit import Kit, finish
from tests.app.real_page import real_page

CONTROLS = values_of(Options())
STANDARD = values_of(Options(mode="standard"))
REFUSED = "A guest cannot do that."


@pytest.mark.parametrize(
    ("handler", "data", "event"),
    [
        ("ModelsWiring.load", ["", "", "speculative"], {}),
        ("ModelsWiring.load", ["qwen2.5-coder-1.5b-instruct", "", "speculative"], {}),
        ("HistoryWiring.open", ["speculative"], {"id": "CHAT"}),
        ("HistoryWiring.rename", [], {"id": "CHAT", "title": "taken over"}),
        ("UndoWiring.remove", ["speculative"], {"id": "CHAT"}),
    ],
    ids=["load", "load a named one", "open", "rename", "remove"],
)
def test_a_guest_who_calls_the_owners_handlers_is_refused(
    kit: Kit, handler: str, data: list[Any], event: dict[str, str]
) -> None:
    tab = kit.owner("mine")
    finish(kit.controller.desk.send(tab, "words of the owner", Options()))
    before = (kit.history.conversations(), kit.history.messages(tab.conversation), kit.engine.loads)
    event = {name: value.replace("CHAT", tab.conversation) for name, value in event.items()}
    with real_page(kit) as (_, guest):
        messages = guest.call(handler, data, event)
        said = guest.said(messages)
        if "qwen2.5-coder-1.5b-instruct" in data:  # a guest's menu has no such entry at all
            assert messages[-1]["success"] is False
        else:
            assert REFUSED in said
        assert "words of the owner" not in said
        assert kit.history.conversations() == before[0]
        assert kit.history.messages(tab.conversation) == before[1]
        assert kit.engine.loads == before[2] == [(None, None)]


def test_the_owner_may_do_all_that(kit: Kit) -> None:
    """A check that refused everybody would prove nothing."""
    tab = kit.owner("mine")
    finish(kit.controller.desk.send(tab, "words of the owner", Options()))
    with real_page(kit) as (owner, _):
        shown = owner.call("HistoryWiring.open", ["speculative"], {"id": tab.conversation})
        assert "words of the owner" in owner.said(shown)
        owner.call("HistoryWiring.rename", [], {"id": tab.conversation, "title": "renamed"})
        assert kit.history.conversations()[0].title == "renamed"
        assert owner.call("ModelsWiring.load", ["", "", "speculative"])[-1]["success"]
        assert len(kit.engine.loads) == 2
        told = owner.call("UndoWiring.remove", ["speculative"], {"id": tab.conversation})
        assert "Deleted \\u201crenamed\\u201d." in owner.said(told)
        assert kit.history.conversations() == []
        assert "words of the owner" in owner.said(owner.call("UndoWiring.undo", ["speculative"]))
        assert kit.history.conversations()[0].title == "renamed"


def test_what_a_search_found_in_another_version_is_shown(kit: Kit) -> None:
    tab = kit.owner("mine")
    finish(kit.controller.desk.send(tab, "birds", Options()))  # which is the title
    first = kit.controller.thread(tab).rows[0]
    for wording in ("what do wrens eat", "what do robins eat"):
        finish(kit.controller.desk.edit(tab, first.id, wording, Options()))
        first = kit.controller.thread(tab).rows[0]
    with real_page(kit) as (owner, _):
        found = owner.said(owner.call("HistoryWiring.search", ["wrens"]))
        assert "in another version" in found
        owner.call("HistoryWiring.open", ["speculative"], {"id": tab.conversation})
        assert kit.history.messages(tab.conversation)[0].content == "what do wrens eat"
        owner.call("HistoryWiring.search", [""])
        owner.call("HistoryWiring.open", ["speculative"], {"id": tab.conversation})
        assert kit.history.messages(tab.conversation)[0].content == "what do wrens eat"


def test_settings_that_cannot_be_written_are_said_and_the_reply_is_shown(
    kit: Kit, tmp_path: Path
) -> None:
    (tmp_path / "a file").touch()
    kit.settings.path = tmp_path / "a file" / "settings.json"
    with real_page(kit) as (owner, _):
        messages = owner.call("ChatWiring.send", ["hello", 0, *STANDARD])
    assert any("reply live" in str(m) for m in messages[:-1])
    last = owner.said(messages[-1:])
    assert "Every round keeps at least one token." in last
    assert "cannot be written" in last


def test_regenerate_leaves_the_message_box_alone_and_send_empties_it(kit: Kit) -> None:
    with real_page(kit) as (owner, _):
        box = _place(owner.page, "ChatWiring.send", "message")
        sent = owner.call("ChatWiring.send", ["hello", 0, *CONTROLS])
        assert sent[2]["output"]["data"][box] == ""
        (chat,) = kit.history.conversations()
        reply = kit.history.messages(chat.id)[1].id
        for message in owner.call("ChatWiring.regenerate", CONTROLS, {"id": str(reply)}):
            if message["msg"] == "process_generating" and isinstance(
                message["output"]["data"][box], str
            ):
                raise AssertionError("the box was written")
        assert len(kit.engine.requests) == 2


def _place(page: Any, handler: str, element: str) -> int:
    (fn,) = (f for f in page.fns.values() if getattr(f.fn, "__qualname__", "") == handler)
    return [block.elem_id for block in fn.outputs].index(element)


@pytest.mark.parametrize(
    ("handler", "data"),
    [
        ("_Page.follow", ["speculative"]),
        ("_Page.watch_load", ["speculative"]),
        ("_Page.watch_shelf", ["", "speculative"]),
        ("RaceWiring.come_back", []),
        ("BenchWiring.resume", []),
        ("BenchWiring.arrive", []),
    ],
)
def test_what_follows_a_guests_arrival_empties_no_part_of_the_page(
    kit: Kit, handler: str, data: list[Any]
) -> None:
    """gradio sends null for every output of a handler that said nothing: the status was gone."""
    with real_page(kit) as (_, guest):
        last = guest.call(handler, data)[-1]
        assert last["msg"] == "process_completed"
        assert last["success"]
        assert guest.emptied(handler, last) == []
