"""The picture of a race card: one figure, one claim, two bars, and what they depend on. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from app import view
from app.pen import TIMES, Ink, Pen

WIDTH, HEIGHT, EDGE = 1200, 630, 64
ROOM = WIDTH - 2 * EDGE


def draw(document: Mapping[str, Any]) -> bytes:
    """A PNG of a race's document."""
    pen = Pen(WIDTH, HEIGHT, Ink())
    found, card = document["summary"], document["card"]
    _head(pen, document)
    _ratio(pen, found)
    _words(pen, found, document["races"])
    _bars(pen, found)
    _figures(pen, found)
    _foot(pen, card, document)
    return pen.png()


def _head(pen: Pen, document: Mapping[str, Any]) -> None:
    for place, fill in enumerate((pen.ink.accent, pen.ink.accent, pen.ink.accent_soft)):
        pen.panel(EDGE + place * 16, 50, 12, 20, fill, 4)
    pen.text(EDGE + 60, 67, "specdec chat", 20, bold=True)
    pen.text(WIDTH - EDGE, 67, document["made"], 17, pen.ink.soft, align="right")


def _ratio(pen: Pen, found: Mapping[str, Any]) -> None:
    if found["ratio"] is None:
        pen.text(EDGE, 190, "Too short to time", 52, bold=True)
        return
    pen.text(EDGE - 4, 206, f"{found['ratio']:.2f}{TIMES}", 124, bold=True)
    pen.text(EDGE, 250, "the speed of plain decoding", 25)
    pen.text(EDGE, 282, spread(found), 19, pen.ink.soft)


def spread(found: Mapping[str, Any]) -> str:
    """How much the ratio is worth."""
    if found["timed"] == 1:
        return "one race"
    low, high = (f"{found[name]:.2f}{TIMES}" for name in ("lowest", "highest"))
    return f"median of {found['timed']} races, {low} to {high}"


def _words(pen: Pen, found: Mapping[str, Any], races: Sequence[Mapping[str, Any]]) -> None:
    same, compared = found["identical"], found["compared"]
    good = same == compared
    back, front = (
        (pen.ink.accent_soft, pen.ink.accent) if good else (pen.ink.warn_soft, pen.ink.warn)
    )
    pen.panel(640, 112, WIDTH - EDGE - 640, 180, back)
    if compared == 1:
        at = races[0]["first_difference"]
        title = "Same words" if good else f"Differs at token {at + 1}"
        said = "The reply is identical, token by token" if good else "Identical up to there"
    else:
        title = "Same words" if good else f"Differs in {compared - same} of {compared}"
        said = f"{same} of {compared} replies are identical, token by token"
    pen.text(672, 176, title, 40, front, bold=True)
    pen.text(672, 216, said, 19)
    tokens = "1 token" if found["tokens"] == 1 else f"{found['tokens']:,} tokens"
    pen.text(672, 246, f"{tokens} compared, same model, same seed", 19, pen.ink.soft)


def _bars(pen: Pen, found: Mapping[str, Any]) -> None:
    if not found["tok_s"] or not found["baseline"]:
        return
    most = max(found["tok_s"], found["baseline"])
    left, room = EDGE + 130, ROOM - 130 - 130
    rows = (
        ("Speculative", found["tok_s"], pen.ink.accent),
        ("Plain", found["baseline"], "#b9b3a9"),
    )
    for place, (name, value, fill) in enumerate(rows):
        y = 330 + place * 42
        pen.text(EDGE, y + 20, name, 19)
        pen.panel(left, y, room * value / most, 28, fill, 6)
        pen.text(WIDTH - EDGE, y + 20, f"{view.number(value)} tok/s", 19, align="right")


def _figures(pen: Pen, found: Mapping[str, Any]) -> None:
    saved = found["saved_s"]
    figures = [(f"{found['tokens_per_round']:.2f}", "tokens a round")]
    if found["drafted"]:
        figures.append((f"{found['accepted'] / found['drafted']:.0%}", "of drafts kept"))
    if found["timed"]:
        figures.append((view.seconds(abs(saved)), "saved in all" if saved >= 0 else "lost in all"))
    x = float(EDGE)
    for value, unit in figures:
        end = pen.text(x, 466, value, 27, bold=True)
        x = pen.text(end + 9, 466, unit, 19, pen.ink.soft) + 44


def _foot(pen: Pen, card: Mapping[str, Any], document: Mapping[str, Any]) -> None:
    pen.panel(EDGE, 496, ROOM, 1, pen.ink.line, 0)
    for place, line in enumerate(lines(card, document)):
        fill = pen.ink.text if place == 0 else pen.ink.soft
        pen.text(EDGE, 532 + 28 * place, line, 18, fill, room=ROOM)


def lines(card: Mapping[str, Any], document: Mapping[str, Any]) -> Sequence[str]:
    """What the figures depend on: pair, machine, settings."""
    said, where, made = card["settings"], card["machine"], card["versions"]
    with_draft = "" if said["draft"] == "none" else f" with {said['draft']}"
    form = "" if said["draft"] in ("none", "ngram") else f", draft {said['draft_dtype']}"
    pair = f"{said['target']}{with_draft} | {card['dtype']}{form} | {where['device']}"
    cores = f"{where['cores']} cores" if where["cores"] else ""
    machine = " | ".join(
        part
        for part in (
            where["cpu"], cores, f"torch {made.get('torch', '?')}", f"specdec {made['specdec']}"
        )
        if part
    )  # fmt: skip
    names = [row["name"] for row in document["prompts"] if "name" in row]
    own = len(document["prompts"]) - len(names)
    own_words = ["1 prompt of one's own" if own == 1 else f"{own} prompts of one's own"]
    prompts = ", ".join(names + own_words * bool(own))
    settings = (
        f"temperature {said['temperature']:g}, seed {card['seed']}, up to {said['tokens']} tokens"
        f" | {prompts}"
    )
    return pair, machine, settings
