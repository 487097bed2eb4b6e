"""Finding a conversation again: words, accents, excerpts, order, pins."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from app import search
from app.attachments import Attachment, to_request
from app.history import History
from app.ui.history_list import list_html
from specdec.errors import SettingError
from tests.app.desk_kit import Kit


@pytest.fixture
def history(tmp_path: Path) -> Iterator[History]:
    history = History(tmp_path / "history.db")
    yield history
    history.close()


def chat(history: History, *texts: str) -> str:
    made = history.create().id
    for text in texts:
        history.add_turn(made, text)
    return made


def found(history: History, query: str) -> list[str]:
    return [one.conversation.id for one in history.search(query)]


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        ("", ()),
        ("  two   words ", ("two", "words")),
        ('say "Two  words" now', ("say", "two words", "now")),
        ("CAFÉ Straße", ("cafe", "strasse")),
        ('a "', ("a",)),
        ('"hello wor', ("hello wor",)),
    ],
)
def test_a_query_is_its_words(query: str, wanted: tuple[str, ...]) -> None:
    assert search.words(query) == wanted


def test_a_conversation_is_found_by_every_word_in_any_of_its_turns(history: History) -> None:
    cats = chat(history, "tell me about cats", "and about DOGS")
    birds = chat(history, "birds and cats")
    assert found(history, "cats") == [birds, cats]
    assert found(history, "dogs tell") == [cats]
    assert found(history, "cats horses") == []
    assert found(history, "") == [birds, cats]
    assert found(history, "100%") == found(history, "_ats") == found(history, "' OR 1") == []
    history.delete(cats)
    assert found(history, "dogs") == []


def test_accents_and_case_do_not_matter_and_text_is_shown_as_written(history: History) -> None:
    chat(history, "Hello", "x " * 60 + "we met at the  Café\nStraßenbahn yesterday " + "y " * 60)
    (one,) = history.search("CAFE")
    assert "Café Straßenbahn" in one.excerpt
    assert one.excerpt.startswith("…")
    assert one.excerpt.endswith("…")
    assert len(one.excerpt) < 100
    (one,) = history.search("strassenbahn")
    assert "Straßenbahn" in one.excerpt
    (one,) = history.search("hello")
    assert one.excerpt == ""  # the title says it already


def test_pinned_ones_stand_first_and_stay_so(tmp_path: Path) -> None:
    history = History(tmp_path / "history.db")
    old, new = chat(history, "old"), chat(history, "new")
    assert history.pin(old, True)
    assert not history.pin("gone", True)
    history.close()
    again = History(tmp_path / "history.db")
    assert [(c.id, c.pinned) for c in again.conversations()] == [(old, True), (new, False)]
    again.pin(old, False)
    assert [c.id for c in again.conversations()] == [new, old]
    again.close()


def test_a_guest_finds_and_pins_nothing(kit: Kit) -> None:
    kept = chat(kit.history, "secret")
    guest = kit.guest()
    guest.search = "secret"
    with pytest.raises(SettingError):
        kit.controller.chats.found(guest)
    with pytest.raises(SettingError):
        kit.controller.chats.pin(guest, kept)


def test_the_list_escapes_what_was_found(history: History) -> None:
    made = chat(history, "hello", "<script>alert(1)</script> needle")
    history.rename(made, '"><b>')
    html = list_html(history.search("needle"), made)
    assert "<script>" not in html
    assert "<b>" not in html
    assert "needle" in html


def test_a_thousand_turns_are_searched_at_once(history: History) -> None:
    made = history.create().id
    for _ in range(500):
        history.add_turn(made, "lorem ipsum " * 40)
    history.add_turn(made, "the needle")
    (one,) = history.search("needle ipsum")
    assert one.conversation.id == made


def test_attached_files_are_found_by_name_and_text(history: History) -> None:
    """Also on a branch that is not shown, and never in what a reply's own request says."""
    file = Attachment("budget.csv", 'rent, "heating"\nwater\n', 22, 9)
    made = history.create().id
    first, _ = history.add_turn(made, "what is it?", {"system": "gardens"}, sent=to_request([file]))
    plain = chat(history, "nothing here")
    for query in ("budget", "WATER", '"heating', "what rent"):
        assert found(history, query) == [made]
    assert history.search("heating")[0].excerpt == 'what is it? budget.csv rent, "heating" water'
    history.add_turn(made, "another wording", after=first.parent)
    assert history.search("heating")[0].hidden
    assert found(history, "gardens") == []
    assert found(history, "here") == [plain]
