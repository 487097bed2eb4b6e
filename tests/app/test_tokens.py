"""The token view: what is kept of a round, acceptance by depth, the HTML."""

from __future__ import annotations

import pytest

from app import bubbles
from app.desk import Options
from app.records import StoredMessage
from app.token_view import token_view
from app.trace import Made, depths, note, read
from specdec.contract import Round, Sampling, Span
from tests.app.desk_kit import Kit, finish


def test_a_round_is_kept_in_short_and_read_back() -> None:
    spans = (Span(0, 4, "kept"), Span(4, 9, "kept"), Span(9, 9, "kept"), Span(9, 13, "bonus"))
    event = Round((1, 2, 3), "x" * 13, spans, drafted=3, accepted=2, seconds=0.1)
    assert note(event) == "3/2k9b4"
    made = Made(3, 2, (("kept", 9), ("bonus", 4)))
    assert read("3/2k9b4 0/0") == (made, Made(0, 0, ()))


@pytest.mark.parametrize(
    "odd", ["", "x", "3/2z4", "3/2k", "-1/0", "3/2k9b4;", "9/0k1", "2/3k1", "900000000/0k1"]
)
def test_what_is_not_a_trace_is_none(odd: str) -> None:
    assert read(odd) == ()
    assert token_view("text", odd) == ""


def test_acceptance_by_depth_counts_a_place_only_where_all_before_it_were_kept() -> None:
    rounds = read("3/3k9b1 3/1k3c1 2/0c4 1/1k2b2 0/0b1")
    assert depths(rounds) == ((4, 3), (2, 1), (1, 1))
    assert depths(read("0/0b3")) == ()


def test_the_view_marks_every_character_once_and_escapes_it() -> None:
    text = "<b>wild</b> & tame"
    html = token_view(text, "2/1k7c4 0/0b7")
    assert '<i class="kept">&lt;b&gt;wild</i><i class="corrected">&lt;/b&gt;</i>' in html
    assert '<i class="bonus"> &amp; tame</i>' in html
    assert "1 of 2 drafted tokens kept" in html
    assert "100% of 1" in html
    assert token_view(text + "!", "2/1k7c4 0/0b7") == ""  # of another text


def test_a_stored_reply_can_be_opened(kit: Kit) -> None:
    finish(kit.controller.start())
    job = kit.controller.desk.send(kit.owner(), "hello", Options(Sampling(seed=1)))
    live = finish(job)
    row = kit.history.messages(kit.owner().conversation)[-1]
    assert sum(m.accepted for m in read(row.request["trace"])) == live.metrics.accepted
    assert "Kept, by place in the draft" in bubbles.reply(row, opened=True)
    assert 'class="tokens"' not in bubbles.reply(row)
    kit.owner().opened.add(row.id)
    assert 'class="tokens"' in bubbles.thread(kit.controller.thread(kit.owner()))


def test_a_reply_of_an_earlier_version_has_no_button() -> None:
    row = StoredMessage(1, "c", "assistant", "text", (1,), request={"mode": "speculative"})
    assert "Tokens" not in bubbles.reply(row)
