"""Attached files: which are text, what the model reads, and that they stay with their message."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

from app import bubbles
from app.attachments import (
    MAX_FILE,
    Attachment,
    attachments_of,
    block,
    composed,
    plain_name,
    read,
    to_request,
    whole,
)
from app.export import as_json, as_markdown
from app.records import Conversation, StoredMessage
from app.transcript import prompt_of
from app.tray import MAX_CHARACTERS, MOST, Tray
from specdec.errors import SettingError
from tests.app.desk_kit import Kit

NOTES = Attachment("notes.txt", "one\n```\ntwo <b>\n", 18, 7)
ROW = StoredMessage(1, "c", "user", "What is in it?", request=to_request([NOTES]))


@pytest.mark.parametrize(
    "data",
    [
        "Grüße\n".encode(),
        b"\xef\xbb\xbf" + "Grüße\n".encode(),
        b"\xff\xfe" + "Grüße\n".encode("utf-16-le"),
        b"\xfe\xff" + "Grüße\n".encode("utf-16-be"),
    ],
    ids=["UTF-8", "with a mark", "UTF-16 LE", "UTF-16 BE"],
)
def test_text_is_read_in_its_encoding(data: bytes) -> None:
    file = read("a.txt", data)
    assert (file.text, file.size) == ("Grüße\n", len(data))


def test_text_that_begins_like_something_else_is_text() -> None:
    assert read("a.md", b"MZ is how programs begin").text == "MZ is how programs begin"
    assert read("a.md", b"\r\n  indented\r\n").text == "\r\n  indented\r\n"


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"", r"a\.x is empty"),
        (b"%PDF-1.7\nplain", "a PDF document"),
        (b"PK\x03\x04\x14\x00\x00", "a zip archive or an office document"),
        (b"\x89PNG\r\n\x1a\n\x00", "a picture"),
        (b"GGUF\x03\x00\x00\x00", "a model"),
        (b"abc\x00def", "a binary file"),
        (b"\xff\xfe\x00\x00a\x00\x00\x00", "a binary file"),
        (b"\xff\xfea", "UTF-16"),
        ("Grüße".encode("latin-1"), "neither UTF-8 nor UTF-16 text. Save it as UTF-8"),
        (b"a" * (MAX_FILE + 1), "has 1.0 MB. At most 1 MB"),
    ],
)
def test_what_is_no_text_is_named_and_refused(data: bytes, told: str) -> None:
    with pytest.raises(SettingError, match=told) as error:
        read("a.x", data)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("name", "plain"),
    [
        ("../../etc/passwd", "passwd"),
        ("C:\\me\\a b.txt", "a b.txt"),
        ("a\n\n```\nb", "a ``` b"),
        ("\u202egnp.txt", "gnp.txt"),
        ("", "file"),
        ("/", "file"),
        ("x" * 300, "x" * 100),
    ],
)
def test_a_name_is_a_name_on_one_line(name: str, plain: str) -> None:
    assert plain_name(name) == plain


@pytest.mark.parametrize(
    "text", ["a\n```\nb", "````", "~~~\n```` \n", "", "no end", "``` `````` x"]
)
def test_nothing_in_a_file_closes_its_fence(text: str) -> None:
    """As Markdown reads it: one block of code that holds the whole file, then the words."""
    tokens = MarkdownIt().parse(composed([replace(NOTES, text=text)], "my words"))
    fences = [token for token in tokens if token.type == "fence"]
    assert [fence.content.rstrip("\n") for fence in fences] == [text.rstrip("\n")]
    assert tokens[-2].content == "my words"


def test_the_model_reads_the_file_before_the_words_and_a_copy_has_both() -> None:
    (message,) = prompt_of([ROW], "")
    assert message.content == whole(ROW) == f"{block(NOTES)}\n\nWhat is in it?"
    assert message.content.startswith("File: notes.txt\n\n````\none\n```\ntwo <b>\n````\n\n")
    source = re.search('class="source" hidden>(.*?)</span>', bubbles.user(ROW), re.DOTALL)
    assert source is not None
    assert source[1] == message.content.replace("<", "&lt;").replace(">", "&gt;")


def test_the_page_folds_the_file_and_escapes_it() -> None:
    html = bubbles.user(replace(ROW, request=to_request([replace(NOTES, name="<i>.txt")])))
    assert '<details class="file"><summary><b>&lt;i&gt;.txt</b> <small>18 B · 7 tokens' in html
    assert "two &lt;b&gt;\n</pre>" in html
    assert '<div class="said">What is in it?</div>' in html
    assert "said" not in bubbles.user(replace(ROW, content=""))


def test_files_are_saved_and_read_back_with_their_message(kit: Kit) -> None:
    chat = Conversation("a" * 32, "t", 1.0, 2.0)
    assert whole(ROW) in as_markdown(chat, [ROW])
    made = kit.controller.restore(as_json(chat, [ROW]).encode())
    found = kit.controller.stored(made.id)
    assert found is not None
    assert attachments_of(found[1][0].request) == (NOTES,)


@pytest.mark.parametrize(
    "file",
    [
        5,
        {},
        {"name": "x"},
        {"name": "x", "text": 5, "size": 1},
        {"name": "x", "text": "", "size": -1},
        {"name": "x", "text": "", "size": 1, "tokens": "5"},
        {"path": "/etc/passwd"},
    ],
)
def test_a_made_up_file_in_a_saved_conversation_is_refused(kit: Kit, file: object) -> None:
    row = replace(ROW, request={"attachments": [file]})
    text = as_json(Conversation("a" * 32, "t", 1.0, 2.0), [row])
    with pytest.raises(SettingError, match=r"messages\.0"):
        kit.controller.restore(text.encode())
    assert json.loads(text)["messages"][0]["request"]["attachments"] == [file]


def test_a_tray_holds_what_one_message_can(tmp_path: Path) -> None:
    tray = Tray()
    for number in range(MOST):
        tray.add(replace(NOTES, name=f"{number}"))
        tray.add(replace(NOTES, name=f"{number}"))
    assert len(tray.files) == MOST
    with pytest.raises(SettingError, match=f"At most {MOST} files"):
        tray.add(NOTES)
    tray.remove(tray.items()[0][0])
    with pytest.raises(SettingError, match="too long together"):
        tray.add(replace(NOTES, text="x" * MAX_CHARACTERS))
    tray.remove(99)
    assert len(tray.files) == MOST - 1


def test_editing_shows_the_old_files_and_gives_the_new_ones_back() -> None:
    tray, old = Tray(), replace(NOTES, name="old")
    tray.add(NOTES)
    tray.edit([old])
    tray.edit([old, old])  # another message, without giving up the first
    assert tray.files == (old, old)
    assert tray.characters == 3 * len(NOTES.text)
    tray.done()
    assert tray.files == (NOTES,)
    tray.done()
    assert tray.files == ()
