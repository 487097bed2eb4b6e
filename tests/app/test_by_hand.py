"""A reply worded by a person: kept beside the model's, marked everywhere, never passed off as its.

Issue 5: "edit any message and keep the old branch"; text the model did not produce says so.
"""

from __future__ import annotations

from typing import Any

import pytest

from app import bubbles
from app.by_hand import by_hand
from app.desk import Options
from app.export import as_json, as_markdown
from app.going_on import can_go_on
from app.guests import GuestLimits
from app.records import StoredMessage
from app.session import Session
from specdec.errors import BusyError, HistoryError, SettingError
from tests.app.desk_kit import Kit, finish, held

OPTIONS = Options()


def answered(kit: Kit, tab: Session, text: str = "hello") -> StoredMessage:
    finish(kit.controller.desk.send(tab, text, OPTIONS))
    row = kit.controller.thread(tab).rows[-1]
    assert row.ids
    return row


@pytest.mark.parametrize("who", ["owner", "guest"])
def test_another_wording_stands_beside_the_models(kit: Kit, who: str) -> None:
    tab = kit.owner() if who == "owner" else kit.guest()
    made = answered(kit, tab)
    kit.controller.desk.amend(tab, made.id, "My own words.")
    thread = kit.controller.thread(tab)
    row = thread.rows[-1]
    assert (row.content, row.ids, row.state) == ("My own words.", (), "complete")
    assert by_hand(row)
    assert thread.versions[row.id] == (made.id, row.id)
    kit.controller.desk.show(tab, made.id)
    assert kit.controller.thread(tab).rows[-1].content == made.content


def test_the_chat_goes_on_from_it(kit: Kit) -> None:
    tab = kit.owner()
    kit.controller.desk.amend(tab, answered(kit, tab).id, "My own words.")
    finish(kit.controller.desk.send(tab, "and then?", OPTIONS))
    asked = kit.engine.requests[-1].messages
    assert [(m.role, m.content, m.ids) for m in asked[1:2]] == [("assistant", "My own words.", ())]


def test_it_is_marked_and_claims_nothing(kit: Kit) -> None:
    tab = kit.owner()
    kit.controller.desk.amend(tab, answered(kit, tab).id, "My own words.")
    shown = bubbles.reply(kit.controller.thread(tab).rows[-1], unfinished=True)
    assert "edited by hand" in shown
    for act in ("verify", "tokens"):
        assert f'data-act="{act}"' not in shown
    assert "tok/s" not in shown
    assert "same words" not in shown


def test_a_file_that_gives_it_ids_changes_nothing() -> None:
    forged: dict[str, Any] = {"by_hand": True, "trace": "1", "reason": "length"}
    row = StoredMessage(2, "c", "assistant", "Mine.", (5, 7), "partial", {}, forged, parent=1)
    assert not can_go_on(row)
    shown = bubbles.reply(row)
    assert 'data-act="verify"' not in shown
    assert 'data-act="tokens"' not in shown


def test_saved_and_read_back_it_is_still_marked(kit: Kit) -> None:
    tab = kit.owner()
    kit.controller.desk.amend(tab, answered(kit, tab).id, "My own words.")
    found = kit.controller.stored(tab.conversation)
    assert found is not None
    assert "## Reply (edited by hand)\n\nMy own words." in as_markdown(*found)
    back = kit.controller.restore(as_json(*found).encode())
    assert by_hand(kit.history.messages(back.id)[-1])


def test_a_guests_edit_counts_as_a_message(kit: Kit) -> None:
    kit.controller.guests.begin(GuestLimits(turns=2))
    guest = kit.controller.session("tab", "guest", "share:a")
    made = answered(kit, guest)
    kit.controller.desk.amend(guest, made.id, "one")
    shown = kit.controller.thread(guest).rows[-1]
    with pytest.raises(BusyError, match="all 2 messages"):
        kit.controller.desk.amend(guest, shown.id, "two")
    assert kit.controller.thread(guest).rows[-1].content == "one"


def test_what_cannot_be_amended_is_refused_in_words(kit: Kit) -> None:
    tab = kit.owner()
    made = answered(kit, tab)
    user = kit.controller.thread(tab).rows[0]
    with pytest.raises(SettingError, match="empty"):
        kit.controller.desk.amend(tab, made.id, "  ")
    for message in (user.id, made.id + 99):
        with pytest.raises(HistoryError, match="gone"):
            kit.controller.desk.amend(tab, message, "words")
    gate = held(kit)
    job = kit.controller.desk.send(tab, "again", OPTIONS)
    with pytest.raises(BusyError, match="still being written"):
        kit.controller.desk.amend(tab, made.id, "words")
    job.stop()
    gate.set()
    finish(job)
    assert [row.content for row in kit.controller.thread(tab).rows[:2]] == ["hello", made.content]
