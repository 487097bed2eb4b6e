"""Downloads apart from loading: pause, resume, cancel, kill, verify, mend, delete."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import psutil
import pytest

from app.model_row import narrowed
from app.session import Session
from app.ui.model_library import LibraryWiring
from specdec.errors import SettingError, SourceError, UnknownModelError
from tests.app.desk_kit import Kit, finish, until
from tests.app.shelf_kit import HELD, ShelfKit, shelf_kit


@pytest.fixture
def at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ShelfKit]:
    with shelf_kit(tmp_path, monkeypatch) as made:
        yield made


def fetchers() -> list[psutil.Process]:
    found = psutil.Process().children(recursive=True)
    return [p for p in found if "spawn_main" in " ".join(p.cmdline())]


def spans(at: ShelfKit) -> list[str | None]:
    return [span for path, _, span in at.hub.asked if path.endswith("model.safetensors")]


def test_a_download_is_paused_kept_and_goes_on_from_there(at: ShelfKit) -> None:
    """While it goes on, messages are answered; paused, nothing of it runs any more."""
    at.hub.hold_after = HELD
    me = at.kit.owner()
    at.shelf.download(me, "tiny")
    at.under_way()
    now = at.shelf.queue.current()
    assert now is not None
    assert now.phase is not None
    assert now.phase.total == sum(len(data) for data in at.hub.files.values())
    at.shelf.download(me, "other")
    at.shelf.download(me, "tiny")  # a second press changes nothing
    assert at.task("other").state == "waiting"
    at.shelf.cancel(me, "other")
    at.shelf.pause(me, "tiny")
    assert (at.task().state, fetchers()) == ("paused", [])
    assert at.row().left >= HELD
    assert not at.row().here
    at.hub.hold_after = None
    at.hub.asked.clear()
    at.shelf.download(me, "tiny")
    at.wait("done")
    assert spans(at) == [f"bytes={HELD}-"]
    row = at.row()
    assert (row.where, row.here, row.left) == ("ours", True, 0)
    assert row.disk == sum(len(data) for data in at.hub.files.values())


def test_cancel_deletes_what_came_and_says_how_much(at: ShelfKit) -> None:
    at.hub.hold_after = HELD
    at.shelf.download(at.kit.owner(), "tiny")
    at.under_way()
    assert at.shelf.cancel(at.kit.owner(), "tiny") >= HELD
    assert fetchers() == []
    assert at.row().left == 0
    assert at.shelf.queue.tasks() == {}


def test_a_fetch_that_is_killed_is_said_and_resumed(at: ShelfKit) -> None:
    at.hub.hold_after = HELD
    at.shelf.download(at.kit.owner(), "tiny")
    at.under_way()
    (process,) = fetchers()
    os.kill(process.pid, signal.SIGKILL)
    task = at.wait("failed")
    assert task.error is not None
    assert "exit code -9" in task.error.message
    assert "kept: resume" in task.error.hint
    at.hub.hold_after = None
    at.shelf.download(at.kit.owner(), "tiny")
    at.wait("done")
    assert at.row().here


def test_after_the_whole_program_ended_the_rest_is_fetched(at: ShelfKit, tmp_path: Path) -> None:
    at.hub.hold_after = HELD
    at.shelf.download(at.kit.owner(), "tiny")
    at.under_way()
    at.kit.close()
    until(lambda: fetchers() == [])
    at.hub.hold_after = None
    again = ShelfKit(type(at.kit)(at.folder), at.hub, at.folder)
    assert again.row().left >= HELD
    again.shelf.download(again.kit.owner(), "tiny")
    again.wait("done")
    assert again.row().here
    again.kit.close()


def test_verify_names_the_broken_file_and_mend_fetches_it_alone(at: ShelfKit) -> None:
    me = at.kit.owner()
    at.shelf.download(me, "tiny")
    at.wait("done")
    file = at.folder / "models" / "tiny" / "tokenizer.json"
    good = file.read_bytes()
    file.write_bytes(good.replace(b'"a"', b'"z"', 1))
    at.shelf.check(me, "tiny")
    until(lambda: at.task().work == "check" and at.task().state == "done", 30)
    found = at.task().found
    assert found is not None
    assert [one.name for one in found.broken] == ["tokenizer.json"]
    at.hub.asked.clear()
    at.shelf.mend(me, "tiny")
    until(lambda: at.task().work == "mend" and at.task().state == "done", 30)
    assert file.read_bytes() == good
    assert spans(at) == []  # the weights were whole and stayed


def test_delete_frees_its_bytes_and_never_those_of_the_loaded_pair(at: ShelfKit) -> None:
    me = at.kit.owner()
    at.shelf.download(me, "tiny")
    at.wait("done")
    finish(at.kit.controller.load(me, "tiny", "none"))
    assert at.row().loaded
    with pytest.raises(SourceError, match=r"Tiny is loaded\. Unload it first"):
        at.shelf.delete(me, "tiny")
    finish(at.kit.controller.unloading.unload(me))
    size = at.row().disk
    assert at.shelf.delete(me, "tiny") == size > 0
    assert not (at.folder / "models" / "tiny").exists()
    assert at.row().where == ""
    with pytest.raises(SourceError, match="not in this program's folder"):
        at.shelf.delete(me, "smollm2-135m-instruct-head")  # comes with the program


def test_what_follows_a_download_is_done_when_it_is_here_and_not_when_it_failed(
    at: ShelfKit,
) -> None:
    done: list[str] = []
    at.hub.missing = True
    at.shelf.download(at.kit.owner(), "tiny", lambda: done.append("too soon"))
    error = at.wait("failed").error
    assert error is not None
    assert "not on the hub" in error.message
    assert done == []
    at.hub.missing = False
    at.shelf.download(at.kit.owner(), "tiny", lambda: done.append("here"))
    until(lambda: done, 30)
    assert done == ["here"]


@pytest.mark.parametrize(
    ("model", "said"),
    [("closed", "Closed is gated"), ("vast", "Vast needs 100000000.0 GB of disk")],
)
def test_what_is_known_to_fail_is_said_before_anything_is_asked(
    at: ShelfKit, model: str, said: str
) -> None:
    with pytest.raises(SourceError, match=said):
        at.shelf.download(at.kit.owner(), model)
    assert at.hub.asked == []
    assert at.shelf.queue.tasks() == {}
    with pytest.raises(UnknownModelError):
        at.shelf.download(at.kit.owner(), "no such thing")


@pytest.mark.parametrize(
    "act",
    [
        lambda shelf, guest: shelf.rows(guest),
        lambda shelf, guest: shelf.download(guest, "tiny"),
        lambda shelf, guest: shelf.pause(guest, "tiny"),
        lambda shelf, guest: shelf.cancel(guest, "tiny"),
        lambda shelf, guest: shelf.check(guest, "tiny"),
        lambda shelf, guest: shelf.mend(guest, "tiny"),
        lambda shelf, guest: shelf.delete(guest, "tiny"),
    ],
    ids=["rows", "download", "pause", "cancel", "check", "mend", "delete"],
)
def test_a_guest_may_do_nothing_of_it(at: ShelfKit, act: Callable[..., object]) -> None:
    with pytest.raises(SettingError, match="guest"):
        act(at.shelf, at.kit.guest())
    assert at.shelf.queue.tasks() == {}


def test_the_list_narrows_to_every_word(at: ShelfKit) -> None:
    rows = at.shelf.rows(at.kit.owner())
    found = [row.id for row in narrowed(rows, "QWEN 0.6b")]
    assert found == ["qwen3-0.6b"]
    assert narrowed(rows, "  ") == rows
    assert at.hub.asked == []  # a list asks nobody


def test_what_changes_while_the_list_is_shown_is_shown_again(
    kit: Kit, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the page keeps the older of two lists, which two handlers of a tab drew at once."""
    wiring = LibraryWiring(kit.controller, cast(Any, None), cast(Any, None))
    drawn: list[object] = []

    def shown(session: Session, query: str) -> dict[str, object]:
        drawn.append(kit.controller.status().pair)
        if len(drawn) == 1:
            kit.controller.start()
            until(lambda: kit.controller.status().pair)
        return {"list": drawn[-1]}

    monkeypatch.setattr(wiring, "_shown", shown)

    async def said() -> list[dict[str, object]]:
        return [update async for update in wiring._settled(kit.owner(), "")]

    first, last = asyncio.run(said())
    assert first["list"] is None
    assert last["list"] is kit.controller.status().pair is not None
