"""Models of one's own: found on the hub, a folder, a GGUF file; added, refused, taken off."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from huggingface_hub import constants

from app import hub_search
from app.hub_search import judged
from app.ui.hub_finder import found_html
from specdec.errors import SettingError, SourceError, SpecdecError
from specdec.registry import load_registry
from tests.app.shelf_kit import ShelfKit, shelf_kit
from tests.specdec.store_kit import model_folder


@pytest.fixture
def at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ShelfKit]:
    with shelf_kit(tmp_path, monkeypatch) as made:
        yield made


def info(**fields: object) -> SimpleNamespace:
    base = {"id": "org/name", "sha": "abc", "gated": False, "tags": ["safetensors"], "config": {}}
    return SimpleNamespace(**{**base, **fields})


def test_a_folder_is_added_loaded_from_where_it_lies_and_taken_off(
    at: ShelfKit, tmp_path: Path
) -> None:
    folder, me = model_folder(tmp_path / "My Model"), at.kit.owner()
    assert at.shelf.add_path(me, str(folder)) == "My Model"
    assert at.shelf.add_path(me, str(folder)) == "My Model"  # a second one has another id
    row = at.row("my-model")
    assert (row.where, row.here, row.added) == ("local", True, True)
    assert load_registry(at.folder).get("my-model-2").folder == folder
    at.shelf.forget(me, "my-model")
    at.shelf.forget(me, "my-model-2")
    assert folder.is_dir()
    assert "my-model" not in {entry.id for entry in load_registry(at.folder)}
    assert at.row("tiny").added  # other rows of the file stay


def test_what_cannot_be_a_model_is_refused_in_one_line(at: ShelfKit, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "note.gguf").write_text("hello")
    cut = model_folder(tmp_path / "cut")
    (cut / "model.safetensors").write_bytes(b"cut")
    for path, said in (
        ("", "no whole path"),
        ("models/x", "no whole path"),
        (str(tmp_path / "gone"), "There is no"),
        (str(tmp_path / "empty"), "config.json"),
        (str(tmp_path / "note.gguf"), "is no GGUF file"),
        (str(cut), "cut short"),
    ):
        with pytest.raises(SpecdecError, match=said) as caught:
            at.shelf.add_path(at.kit.owner(), path)
        assert "\n" not in str(caught.value)


def test_a_gguf_file_that_cannot_be_unpacked_says_so_and_stays(
    at: ShelfKit, tmp_path: Path
) -> None:
    file = tmp_path / "Odd.gguf"
    file.write_bytes(b"GGUF" + bytes(4))
    at.shelf.add_path(at.kit.owner(), str(file))
    error = at.wait("failed", "odd").error
    assert error is not None
    assert "Odd.gguf" in error.message
    assert file.exists()
    at.shelf.forget(at.kit.owner(), "odd")


def test_tags_and_config_say_what_can_be_run() -> None:
    assert judged(info()).why == ""
    assert "code of its own" in judged(info(tags=["safetensors", "custom_code"])).why
    assert "GGUF" in judged(info(tags=["gguf"])).why
    seq = {"architectures": ["T5ForConditionalGeneration"]}
    assert "T5" in judged(info(config=seq)).why
    assert judged(info(config={"architectures": ["LlamaForCausalLM"]})).why == ""
    html = found_html([judged(info(id="org/<b>x</b>", tags=["safetensors", "license:mit"]))])
    assert "<b>x</b>" not in html
    assert "licence: mit" in html


def test_a_found_repository_is_added_at_the_revision_that_was_seen(
    at: ShelfKit, monkeypatch: pytest.MonkeyPatch
) -> None:
    me = at.kit.owner()
    found = judged(info(id="org/Nice-1B", sha="c0ffee"))
    monkeypatch.setattr("app.model_shelf.ask_hub", lambda query: [found])
    assert at.shelf.ask_hub(me, "nice") == [found]
    assert at.shelf.add_repo(me, "org/Nice-1B") == "Nice-1B"
    entry = load_registry(at.folder).get("nice-1b")
    assert (entry.repo, entry.revision) == ("org/Nice-1B", "c0ffee")
    at.shelf.download(me, "nice-1b")
    at.wait("done", "nice-1b")
    assert at.row("nice-1b").here
    assert any("/revision/c0ffee" in path for path, _, _ in at.hub.asked)
    with pytest.raises(SettingError, match="not among what was found"):
        at.shelf.add_repo(me, "org/never-seen")


@pytest.mark.parametrize(
    "act",
    [
        lambda shelf, guest: shelf.ask_hub(guest, "x"),
        lambda shelf, guest: shelf.add_repo(guest, "x"),
        lambda shelf, guest: shelf.add_path(guest, "/"),
        lambda shelf, guest: shelf.forget(guest, "tiny"),
        lambda shelf, guest: shelf.keep_token(guest, "hf_x"),
        lambda shelf, guest: shelf.remove_token(guest),
        lambda shelf, guest: shelf.plan(guest, "tiny", ""),
    ],
    ids=["ask", "add repo", "add path", "forget", "keep token", "remove token", "plan"],
)
def test_a_guest_may_do_nothing_of_it(at: ShelfKit, act: Callable[..., object]) -> None:
    with pytest.raises(SettingError, match="guest"):
        act(at.shelf, at.kit.guest())
    assert at.hub.asked == []


def test_a_hub_that_is_silent_or_fails_is_asked_once_and_not_waited_for(
    at: ShelfKit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(constants, "ENDPOINT", at.hub.url)
    monkeypatch.setattr(hub_search, "ANSWER_S", 0.5)
    at.hub.found = [{"id": "org/Nice-1B", "sha": "c0ffee", "tags": ["safetensors"]}]
    assert [found.repo for found in hub_search.ask_hub("nice")] == ["org/Nice-1B"]
    assert "search=nice" in at.hub.asked[-1][0]
    for status, slow in ((503, False), (200, True)):
        at.hub.asked.clear()
        at.hub.status, at.hub.slow = status, slow
        began = time.monotonic()
        with pytest.raises(SourceError, match="The hub does not answer"):
            hub_search.ask_hub("nice")
        assert time.monotonic() - began < 3
        assert len(at.hub.asked) == 1
