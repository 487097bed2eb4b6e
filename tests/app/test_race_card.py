"""The card of a race: what it tells, what it must not, and who may fetch it."""

from __future__ import annotations

import io
import json
from dataclasses import replace

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from PIL import Image

from app.access import Access, make_logins
from app.card_png import lines
from app.desk import Options
from app.measured import KEPT, Sheet, Shelf
from app.measured_files import make_measured
from app.pen import Ink, Pen, plain
from app.race_card import card_of, public
from app.security import Gate
from app.series import SeriesView
from specdec import prompt_sets
from specdec.contract import Choice, Sampling
from tests.app.desk_kit import Kit, finish

SECRET = "my secret plan"
OPTIONS = Options(
    Sampling(temperature=0.8, seed=77, max_tokens=24, stop=("STOPWORD",)), system="a private system"
)
ORDER = ("standard", "speculative")


def run(kit: Kit, text: str, runs: int = 1) -> SeriesView:
    kit.script.token_s = 0.001
    return finish(kit.controller.races.start(kit.owner(), text, OPTIONS, ORDER, runs))  # type: ignore[arg-type, no-any-return]


def saved(kit: Kit, view: SeriesView, form: str) -> bytes:
    sheet = kit.controller.measured.get(view.sheet)
    assert sheet is not None
    return sheet.files[form]()  # type: ignore[index]


def test_the_document_holds_the_figures_and_what_they_depend_on(kit: Kit) -> None:
    view = run(kit, f"{prompt_sets.load('code')[2]}\n---\n{SECRET}")
    found = json.loads(saved(kit, view, "json"))
    assert (found["schema"], found["version"]) == ("specdec.race", 1)
    card = found["card"]
    assert card["seed"] == 77
    assert card["dtype"] == "bfloat16"
    assert card["versions"]["fake"] == "1"
    assert card["versions"]["specdec"][0].isdecimal()
    assert card["machine"]["device"] == "cpu"
    said = card["settings"]
    assert (said["target"], said["draft"], said["draft_dtype"]) == (
        "smollm2-135m-instruct", "ngram", "int4",
    )  # fmt: skip
    assert (said["temperature"], said["tokens"], said["exact"]) == (0.8, 24, True)
    assert found["summary"]["identical"] == found["summary"]["compared"] == 2
    assert [race["ratio"] for race in found["races"]] == [
        round(ran.outcome.ratio, 4) for ran in view.done
    ]
    assert found["prompts"][0] == {"name": "code 3"}
    assert list(found["prompts"][1]) == ["sha256"]


def test_it_tells_no_words_of_the_user_and_no_paths(kit: Kit) -> None:
    view = run(kit, SECRET)
    pair = replace(view.pair, target=Choice("/home/alice/models/own-model", "a local folder"))
    document = card_of(replace(view, pair=pair), {})
    text = json.dumps(document)
    assert document["card"]["settings"]["target"] == "own-model"
    for private in (SECRET, "private system", "STOPWORD", "alice", "/home"):
        assert private not in text
    assert document["card"]["settings"]["system_prompt"] is True
    assert document["card"]["settings"]["stop_strings"] == 1
    assert "1 prompt of one's own" in lines(document["card"], document)[2]


@pytest.mark.parametrize(
    ("name", "shown"),
    [("qwen3-8b", "qwen3-8b"), ("/a/b/", "b"), (r"C:\Users\bob\m", "m"), ("./here", "here")],
)
def test_a_model_is_named_without_its_folder(name: str, shown: str) -> None:
    assert public(name) == shown


@pytest.mark.parametrize("differ_at", [None, 5])
def test_the_picture_shows_the_colour_of_the_claim(kit: Kit, differ_at: int | None) -> None:
    kit.script.differ_at = differ_at
    image = Image.open(io.BytesIO(saved(kit, run(kit, "go"), "png")))
    assert (image.format, image.size) == ("PNG", (2400, 1260))
    ink = Ink()
    assert image.getpixel((4, 4)) == _rgb(ink.paper)
    assert image.getpixel((1900, 540)) == _rgb(
        ink.accent_soft if differ_at is None else ink.warn_soft
    )


def test_a_race_too_short_to_time_still_has_a_picture(kit: Kit) -> None:
    kit.script.reply = "Yes"
    view = run(kit, "go")
    assert json.loads(saved(kit, view, "json"))["summary"]["ratio"] is None
    assert saved(kit, view, "png").startswith(b"\x89PNG")


def _rgb(color: str) -> tuple[int, ...]:
    return tuple(bytes.fromhex(color[1:]))


def test_the_pen_writes_what_its_font_has_and_keeps_to_its_room() -> None:
    assert plain("1.5× café 模型") == "1.5× cafe "
    pen = Pen(200, 50, Ink())
    assert pen.text(10, 30, "a very long line of text", 20, room=100) <= 110
    assert pen.text(10, 30, "2×", 20) == pytest.approx(10 + pen.width("2×", 20))


def test_a_turn_of_the_conversation_has_no_card(kit: Kit) -> None:
    run(kit, "go")
    assert finish(kit.controller.races.go_on(kit.owner(), "on")).sheet == ""


def test_the_shelf_forgets_the_oldest() -> None:
    shelf = Shelf()
    ids = [shelf.put(Sheet(str(n), {})) for n in range(KEPT + 1)]
    assert shelf.get(ids[0]) is None
    assert shelf.get(ids[1]) is not None


def test_it_is_saved_under_a_plain_name_and_only_what_is_there() -> None:
    shelf = Shelf()
    id = shelf.put(Sheet("race-x", {"json": lambda: b"{}"}))
    app = FastAPI()
    app.include_router(make_measured(shelf))
    client = TestClient(app)
    answer = client.get(f"/measured/{id}.json")
    assert answer.headers["content-disposition"] == 'attachment; filename="race-x.json"'
    assert answer.content == b"{}"
    for path in (f"{id}.png", f"{'0' * 32}.json"):
        assert client.get(f"/measured/{path}").status_code == 404
    assert client.get(f"/measured/{id}.html").status_code == 422


def test_only_the_owner_may_fetch_it() -> None:
    shelf = Shelf()
    id = shelf.put(Sheet("race-x", {"json": lambda: b"{}"}))
    app = FastAPI()
    app.include_router(make_measured(shelf))
    access = Access(make_logins())
    codes = []
    for login in (None, *access.logins):
        client = TestClient(Gate(app, access), "http://127.0.0.1", follow_redirects=False)
        if login is not None:
            client.post("/login", data={"username": login.user, "password": login.password})
        codes.append(client.get(f"/measured/{id}.json").status_code)
    assert codes == [401, 200, 404]
