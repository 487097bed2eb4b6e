"""Continue: one reply made in two goes is the reply an unstopped one would have been."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest

from app import bubbles
from app.desk import Options
from app.going_on import begun, can_go_on
from app.joined import cut, joined
from app.live import facts_from, fold
from app.markup import Growing
from app.records import StoredMessage
from app.session import Session
from app.spending import tokens_of
from app.token_view import token_view
from specdec.contract import ErrorInfo, Failed, Finished, Round, Sampling, Span, Started
from specdec.errors import BusyError, HistoryError, SettingError
from specdec.metrics import Metrics
from tests.app.desk_kit import Kit, finish, held, until
from tests.app.fake_models import make_pair

OPTIONS = Options(Sampling(seed=7), system="Be kind")
LIMITED = Options(Sampling(seed=7, max_tokens=20), system="Be kind")


def stopped(kit: Kit, tab: Session) -> StoredMessage:
    """The reply to "hello", stopped after its first round."""
    finish(kit.controller.start())
    gate = held(kit)
    job = kit.controller.desk.send(tab, "hello", OPTIONS)
    until(lambda: job.snapshot.text)
    kit.controller.desk.stop(tab)
    gate.set()
    finish(job)
    kit.script.hold = None
    row = kit.controller.thread(tab).rows[-1]
    assert row.state == "interrupted"
    return row


@pytest.mark.parametrize("role", ["owner", "guest"])
def test_a_stopped_reply_goes_on_to_what_it_would_have_been(kit: Kit, role: str) -> None:
    tab = kit.controller.session("tab", role)  # type: ignore[arg-type]
    row = stopped(kit, tab)
    assert ">Continue<" in bubbles.thread(kit.controller.thread(tab))
    live = finish(kit.controller.desk.go_on(tab, row.id))
    made = kit.engine.requests[-1]
    assert (made.begun, made.prompt) == (row.ids, row.request["prompt"])
    assert replace(made, begun=(), prompt="", runner="auto") == kit.engine.requests[-2]
    (_, joined_row) = kit.controller.thread(tab).rows
    assert (joined_row.id, joined_row.state, live.reason) == (row.id, "complete", "end")
    finish(kit.controller.desk.regenerate(tab, OPTIONS))
    whole = kit.controller.thread(tab).rows[-1]
    assert (joined_row.content, joined_row.ids) == (whole.content, whole.ids)
    assert len(whole.ids) > len(row.ids) > 0
    facts = facts_from(joined_row.metrics, joined_row.request)
    assert facts.metrics.new_tokens == len(whole.ids)
    assert facts.metrics.rounds == len(joined_row.request["trace"].split())
    assert joined_row.metrics["first_token_s"] == row.metrics["first_token_s"]
    assert 'class="tokens"' in bubbles.reply(joined_row, opened=True)
    assert "Continue" not in bubbles.reply(joined_row)
    kit.controller.desk.show(tab, row.id)
    found = finish(kit.controller.verifier.start(tab, row.id))
    assert found.comparison is not None
    assert found.comparison.compared == len(whole.ids)


def test_the_token_limit_counts_anew_and_an_old_verdict_goes(kit: Kit) -> None:
    tab = kit.owner()
    finish(kit.controller.start())
    finish(kit.controller.desk.send(tab, "hello", LIMITED))
    row = kit.controller.thread(tab).rows[-1]
    assert facts_from(row.metrics, row.request).reason == "length"
    finish(kit.controller.verifier.start(tab, row.id))
    finish(kit.controller.desk.go_on(tab, row.id))
    again = kit.controller.thread(tab).rows[-1]
    assert (len(row.ids), len(again.ids)) == (20, 40)
    assert again.ids[:20] == row.ids
    assert kit.controller.thread(tab).checks == {}
    assert can_go_on(again)
    assert kit.controller.thread(tab).system == "Be kind"


def test_what_was_made_before_is_not_counted_again(kit: Kit) -> None:
    tab = kit.owner()
    finish(kit.controller.start())
    first = finish(kit.controller.desk.send(tab, "hello", LIMITED))
    row = kit.controller.thread(tab).rows[-1]
    again = finish(kit.controller.desk.go_on(tab, row.id))
    assert (tokens_of(first), tokens_of(again)) == (20, 20)


def test_a_crash_leaves_a_reply_that_goes_on(tmp_path: Path) -> None:
    kit = Kit(tmp_path)
    row = stopped(kit, kit.owner())
    kit.history.update_message(row.id, state="partial", request={**row.request, "reason": None})
    chat = kit.owner().conversation
    kit.close()
    again = Kit(tmp_path)
    finish(again.controller.start())
    again.controller.chats.open(again.owner(), chat)
    assert finish(again.controller.desk.go_on(again.owner(), row.id)).reason == "end"
    again.close()


def test_only_the_last_reply_and_only_an_unfinished_one(kit: Kit) -> None:
    tab = kit.owner()
    row = stopped(kit, tab)
    finish(kit.controller.desk.send(tab, "more", OPTIONS))
    with pytest.raises(HistoryError, match="Only the last"):
        kit.controller.desk.go_on(tab, row.id)
    assert ">Continue<" not in bubbles.thread(kit.controller.thread(tab))
    last = kit.controller.thread(tab).rows[-1]
    with pytest.raises(SettingError, match="cannot go on"):
        kit.controller.desk.go_on(tab, last.id)
    with pytest.raises(HistoryError):
        kit.controller.desk.go_on(kit.guest(), row.id)


def test_another_model_is_refused_now_and_when_its_turn_comes(kit: Kit) -> None:
    tab = kit.owner()
    row = stopped(kit, tab)
    ready = kit.engine._status
    kit.engine._status = replace(ready, pair=make_pair("other", "ngram", "fast", True))
    with pytest.raises(SettingError, match="Load what wrote it to go on with it"):
        kit.controller.desk.go_on(tab, row.id)
    assert kit.controller.thread(tab).rows[-1] == row
    kit.engine._status = ready
    gate = held(kit)
    blocker = kit.controller.desk.send(kit.guest(), "first", OPTIONS)
    until(lambda: kit.engine.running)
    job = kit.controller.desk.go_on(tab, row.id)
    with pytest.raises(BusyError):
        kit.controller.desk.go_on(tab, row.id)
    load = kit.controller.load(tab, "qwen2.5-coder-1.5b-instruct", None)
    gate.set()
    for one in (blocker, load, job):
        finish(one)
    left = kit.controller.thread(tab).rows[-1]
    assert "loaded is qwen" in str(facts_from(left.metrics, left.request).error)
    assert (left.content, left.ids, left.state) == (row.content, row.ids, "interrupted")
    for name in ("target", "dtype", "device", "seed", "prompt", "sampling", "trace", "runner"):
        assert left.request[name] == row.request[name]
    assert left.metrics == row.metrics


def test_stopped_again_before_its_turn_it_is_as_before(kit: Kit) -> None:
    tab = kit.owner()
    row = stopped(kit, tab)
    gate = held(kit)
    blocker = kit.controller.desk.send(kit.guest(), "first", OPTIONS)
    until(lambda: kit.engine.running)
    kit.controller.desk.go_on(tab, row.id)
    job = kit.controller.desk.active(tab)
    assert job is not None
    shown = bubbles.live(kit.controller.live(job), Growing())
    assert row.content.split()[0] in shown
    assert "1 reply is made before this one" in shown
    kit.controller.desk.stop(tab)
    gate.set()
    finish(blocker)
    left = kit.controller.thread(tab).rows[-1]
    assert replace(left, request={}) == replace(row, request={})
    assert can_go_on(left)


def test_what_was_shown_of_half_a_character_is_made_whole() -> None:
    facts = {"seed": 1, "prompt": "x", "trace": "0/0b1 2/1k1b2", "runner": "static"}
    figures = {"new_tokens": 3, "rounds": 2, "drafted": 2, "accepted": 1}
    text = "ab\ufffd\ufffd"
    row = StoredMessage(2, "c", "assistant", text, (1, 2, 3), "interrupted", figures, facts)
    live = fold(begun(row), Started(5, 5, seed=1, begun="ab"))
    assert (live.text, live.ids) == ("ab", (1, 2, 3))
    live = fold(live, Round((4,), "é!", (Span(0, 2, "bonus"),), 1, 0, 0.1, 1, 0.0))
    live = fold(live, Finished("end", Metrics(5, 5, 1, 1, 1, 0), (1, 2, 3, 4), "abé!"))
    assert (live.text, live.ids, live.metrics.new_tokens) == ("abé!", (1, 2, 3, 4), 4)
    assert token_view(live.text, " ".join(live.trace))
    assert cut(("0/0b1", "2/1k1b2", "0/0"), 2) == ("0/0b1", "2/1k1", "0/0")


def test_figures_of_two_goes_are_counted_together() -> None:
    one = Metrics(10, 0, 8, 3, 6, 5, 0.5, 2.0, 0.1, 1)
    two = Metrics(10, 17, 5, 2, 4, 3, 0.2, 1.0, 0.1, 1)
    both = joined(one, two)
    assert (both.new_tokens, both.rounds, both.drafted, both.accepted) == (13, 5, 10, 8)
    assert both.tok_s == pytest.approx(11 / 3)
    assert (both.prompt_tokens, both.reused_tokens, both.first_token_s) == (10, 0, 0.5)
    assert joined(Metrics(), two) == two


def test_figures_while_it_goes_on_end_in_the_same() -> None:
    figures = {"new_tokens": 1, "rounds": 1, "first_round_tokens": 1}
    base = begun(StoredMessage(2, "c", "assistant", "a", (1,), "interrupted", figures, {}))
    live = fold(base, Started(3, 0, begun="a"))
    live = replace(live, clock=time.monotonic())
    for made, elapsed in ((2, 0.0), (3, 0.5)):
        live = fold(live, Round((7,) * (1 + (made == 2)), "b", (), 0, 0, 0.1, made, elapsed))
    last = Finished("end", Metrics(3, 0, 3, 2, 0, 0, 0.1, 0.5, 0.0, 2), (1, 7, 7, 7), "abb")
    done = fold(live, last)
    assert done.metrics == replace(live.metrics, prompt_tokens=3)
    failed = fold(base, Failed(ErrorInfo("EngineError", "It is gone.", "Again.")))
    assert (failed.text, failed.ids, failed.state) == ("a", (1,), "interrupted")
