"""Loading pairs: progress, failure with a way back, the last pair remembered."""

from __future__ import annotations

import threading
from pathlib import Path

from app.desk import Options
from app.loader import SUPERSEDED
from specdec.contract import ErrorInfo, Sampling
from tests.app.desk_kit import Kit, finish, until

GATED = ErrorInfo("SourceError", "Llama 3.2 needs a licence.", "Accept it on the hub.")
OPTIONS = Options(Sampling(seed=7))


def test_a_failed_switch_goes_back_to_the_pair_before_and_says_why(kit: Kit) -> None:
    kit.script.fail_load["llama-3.2-1b-instruct"] = GATED
    finish(kit.controller.start())
    tab = kit.owner()
    finish(kit.controller.desk.send(tab, "hello", OPTIONS))
    view = finish(kit.controller.load(tab, "llama-3.2-1b-instruct", None))
    assert view.error == GATED
    assert kit.controller.load_error() == GATED
    assert kit.controller.status().pair is not None
    assert view.pair is not None
    assert view.pair.target.value == "smollm2-135m-instruct"
    assert len(kit.controller.thread(tab).rows) == 2
    assert finish(kit.controller.desk.send(tab, "still there?", OPTIONS)).reason == "end"
    finish(kit.controller.load(tab, "qwen2.5-coder-1.5b-instruct", "none"))
    assert kit.controller.load_error() is None


def test_a_first_load_that_fails_is_shown_in_the_reply_and_tried_again(kit: Kit) -> None:
    kit.script.fail_load["smollm2-135m-instruct"] = GATED
    finish(kit.controller.start())
    tab = kit.owner()
    assert finish(kit.controller.desk.send(tab, "hello", OPTIONS)).error == GATED
    kit.script.fail_load.clear()
    assert finish(kit.controller.desk.send(tab, "hello", OPTIONS)).reason == "end"


def test_a_load_waits_for_the_reply_that_is_being_made(kit: Kit) -> None:
    finish(kit.controller.start())
    kit.script.hold = threading.Event()
    tab = kit.owner()
    reply = kit.controller.desk.send(tab, "hello", OPTIONS)
    until(lambda: reply.snapshot.text)
    behind = kit.controller.desk.send(kit.owner("two"), "hello", OPTIONS)
    load = kit.controller.load(tab, "qwen2.5-coder-1.5b-instruct", "ngram")
    assert len(kit.engine.loads) == 1
    kit.script.hold.set()
    finish(reply)
    finish(load)
    finish(behind)
    assert (
        kit.history.messages(kit.owner("two").conversation)[1].request["target"].startswith("qwen")
    )


def test_the_last_pair_is_loaded_at_the_next_start_unless_told_otherwise(
    kit: Kit, tmp_path: Path
) -> None:
    finish(kit.controller.load(kit.owner(), "qwen2.5-coder-1.5b-instruct", "none"))
    again = Kit(tmp_path)
    finish(again.controller.start())
    assert again.engine.loads == [("qwen2.5-coder-1.5b-instruct", "none")]
    finish(again.controller.start("smollm2-135m-instruct"))
    assert again.engine.loads[-1] == ("smollm2-135m-instruct", None)  # a draft of its own
    again.close()


def test_each_half_the_command_line_leaves_out_stays_as_it_was(kit: Kit, tmp_path: Path) -> None:
    finish(kit.controller.load(kit.owner(), "qwen2.5-coder-1.5b-instruct", "none"))
    again = Kit(tmp_path)
    finish(again.controller.start(draft="ngram"))
    assert again.engine.loads == [("qwen2.5-coder-1.5b-instruct", "ngram")]
    finish(again.controller.load(again.owner(), None, None))  # "Choose for this machine"
    assert again.engine.loads[-1] == (None, None)
    again.close()


def test_the_newest_choice_wins_and_the_older_ones_end(kit: Kit) -> None:
    finish(kit.controller.start())
    kit.script.load_s = 4.0
    tab = kit.owner()
    begun = kit.controller.load(tab, "qwen2.5-coder-1.5b-instruct", None)
    until(lambda: len(kit.engine.loads) == 2)
    waits = kit.controller.load(tab, "qwen2.5-coder-0.5b-instruct", None)
    newest = kit.controller.load(tab, "llama-3.2-1b-instruct", None)
    assert kit.controller.loading() is newest
    for old in (waits, begun):
        assert finish(old, 3).error == SUPERSEDED
    kit.script.load_s = 0.0
    assert finish(newest).error is None
    assert [target for target, _ in kit.engine.loads[1:]] == [
        "qwen2.5-coder-1.5b-instruct",
        "llama-3.2-1b-instruct",
    ]
    assert kit.engine.abandoned == ["qwen2.5-coder-1.5b-instruct"]
    assert kit.settings.settings.target == "llama-3.2-1b-instruct"
    assert kit.controller.load_error() is None


def test_when_the_newest_choice_fails_the_pair_before_all_of_them_comes_back(kit: Kit) -> None:
    kit.script.fail_load["llama-3.2-1b-instruct"] = GATED
    finish(kit.controller.start())
    kit.script.load_s = 4.0
    tab = kit.owner()
    kit.controller.load(tab, "qwen2.5-coder-1.5b-instruct", None)
    until(lambda: len(kit.engine.loads) == 2)
    newest = kit.controller.load(tab, "llama-3.2-1b-instruct", None)
    kit.script.load_s = 0.0
    view = finish(newest)
    assert view.error == GATED
    assert view.pair.target.value == "smollm2-135m-instruct"
    assert kit.controller.status().pair == view.pair


def test_an_engine_that_raises_while_loading_is_an_error_not_a_hang(kit: Kit) -> None:
    def broken(*_: object) -> object:
        raise RuntimeError("no such pipe")

    kit.engine.load = broken  # type: ignore[method-assign, assignment]
    view = finish(kit.controller.start())
    assert view.error is not None
    assert "no such pipe" in view.error.message
