"""The list of models and the download that runs, as HTML. Pure functions; knows no gradio."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from app import bubbles, view
from app.fetch_queue import Task
from app.model_row import Row
from app.words import marked, tr, tr_n
from specdec.contract import Phase
from specdec.integrity import Integrity

WHERE = {
    "ours": marked("on disk"),
    "cache": marked("in the hub's own cache, shared with other programs"),
    "local": marked("your own folder"),
    "shipped": marked("comes with this program"),
}


def list_html(rows: Sequence[Row]) -> str:
    """What is here or on its way, then what fits, then the rest, folded."""
    mine = [row for row in rows if row.where or row.left or row.task]
    others = [row for row in rows if row not in mine]
    fitting = [row for row in others if row.fits.value != "no"]
    large = [row for row in others if row.fits.value == "no"]
    if not rows:
        nothing = tr("No model here has these words. The hub may have one: press Search the hub.")
        return f'<p class="quiet">{escape(nothing)}</p>'
    parts = [
        _group(tr("On this machine"), mine),
        _group(tr("To download"), fitting),
        _folded(tr("Too large for this machine"), large),
    ]
    return f'<div class="shelf">{"".join(parts)}</div>'


def going_html(task: Task, name: str) -> str:
    """The download that runs, with bytes, speed and time left."""
    text, share = (
        (tr("{name}: starting", name=name), None) if task.phase is None else line(task.phase, name)
    )
    return f'<div class="wait" role="status">{bubbles.progress(text, share)}</div>'


def line(phase: Phase, name: str) -> tuple[str, float | None]:
    """A phase in words, and how much of it is done."""
    words = [f"{tr(view.PHASES[phase.name])} {name}"]
    share = None
    if phase.name in ("fetching", "checking") and phase.total:
        share = phase.done / phase.total
        part, whole = view.size(phase.done), view.size(phase.total)
        words.append(tr("{part} of {all}", part=part, all=whole))
        if phase.rate > 0:
            words.append(f"{view.size(phase.rate)}/s")
            left = (phase.total - phase.done) / phase.rate
            time = view.seconds(left)
            words.append(tr("{time} left", time=time) if left >= 1 else tr("a moment left"))
    elif phase.total:
        share = phase.done / phase.total
    if "trying again" in phase.detail or not share:
        words.append(phase.detail)
    return " · ".join(word for word in words if word), share


def found_html(found: Integrity) -> str:
    """What a check found, in one line."""
    if found.broken:
        names = ", ".join(f"{one.name} ({one.why})" for one in found.broken[:3])
        if len(found.broken) > 3:
            names = tr("{names} and {n} more", names=names, n=len(found.broken) - 3)
        return f'<p class="error" role="alert"><b>{tr("Broken:")}</b> {escape(names)}.</p>'
    what = tr_n(
        "{n} file read, {size}, compared with {basis}",
        "{n} files read, {size}, compared with {basis}",
        found.compared,
        size=view.size(found.bytes),
        basis=found.basis,
    )
    whole = tr("Whole") if found.compared else tr("Nothing broken was seen")
    return f'<p class="quiet">{whole}: {escape(what)}.</p>'


def _group(title: str, rows: Sequence[Row]) -> str:
    if not rows:
        return ""
    items = "".join(_item(row) for row in rows)
    return f"<section><h3>{title} ({len(rows)})</h3><ul>{items}</ul></section>"


def _folded(title: str, rows: Sequence[Row]) -> str:
    if not rows:
        return ""
    items = "".join(_item(row) for row in rows)
    return f"<details><summary>{title} ({len(rows)})</summary><ul>{items}</ul></details>"


def _item(row: Row) -> str:
    size = view.size(row.disk) if row.where else view.size(row.left)
    tags = "".join(
        f'<span class="tag {kind}">{text}</span>'
        for kind, text, there in (
            ("on", tr("loaded"), row.loaded),
            ("", tr("draft head"), row.roles == ("head",)),
            ("", tr("added by you"), row.added),
            ("warn", tr("needs access"), row.gated and not row.where),
        )
        if there
    )
    return (
        f'<li data-id="{escape(row.id)}" data-title="{escape(f"{row.name} ({size})")}">'
        f'<div class="what"><b>{escape(row.name)}</b>{tags}<p>{_facts(row)}</p>{_told(row)}</div>'
        f'<div class="do">{"".join(_buttons(row))}</div></li>'
    )


def _facts(row: Row) -> str:
    words = []
    if row.where:
        words.append(f"{view.size(row.disk)} {tr(WHERE[row.where])}")
    elif row.fetch is not None:
        size = view.size(row.fetch)
        about = tr("about {size} to fetch", size=size)
        words.append(tr("{size} to fetch", size=size) if row.exact else about)
    else:
        words.append(tr("size known when the hub is asked"))
    if row.left and not row.where:
        words.append(tr("{size} of it here", size=view.size(row.left)))
    if row.roles != ("head",):
        fit = {"yes": tr("fits"), "no": tr("does not fit"), "unknown": tr("may fit")}[
            row.fits.value
        ]
        words.append(f"{fit}: {row.fits.reason}")
    text = " · ".join(escape(word) for word in words)
    licence = escape(row.licence or tr("see its page"))
    if row.page:
        licence = (
            f'<a href="{escape(row.page)}" target="_blank" rel="noopener noreferrer">{licence}</a>'
        )
    elif not row.licence:
        return text
    return f"{text} · {tr('licence: {name}', name=licence)}"


def _told(row: Row) -> str:
    """What went wrong or was found, where something was."""
    task = row.task
    parts = []
    if row.gated and not row.where and not task:
        page = escape(row.page)
        there = (
            f'<a href="{page}" target="_blank" rel="noopener noreferrer">'
            f"{tr('ask for access there')}</a>"
        )
        asked = tr(
            "Its makers ask who uses it: {link}, then give a token under Access.", link=there
        )
        parts.append(f'<p class="quiet">{asked}</p>')
    if task is not None and task.error is not None:
        parts.append(bubbles.error(task.error))
    elif task is not None and task.found is not None:
        parts.append(found_html(task.found))
    elif task is not None and task.state in ("waiting", "running"):
        waits, comes = tr("It waits for its turn."), tr("It is on its way, see above.")
        parts.append(f'<p class="quiet">{waits if task.state == "waiting" else comes}</p>')
    if row.damage:
        parts.append(
            f'<p class="error" role="alert"><b>{tr("Damaged:")}</b> {escape(row.damage)}.</p>'
        )
    return "".join(parts)


def _buttons(row: Row) -> list[str]:
    task = row.task
    name = row.name
    if task is not None and task.state == "running":
        return []
    if task is not None and task.state == "waiting":
        return [_button("cancel", tr("Cancel"), name)]
    if not row.where:
        if not row.left:
            return [_button("download", tr("Download"), name)]
        return [
            _button("download", tr("Resume"), name),
            _button("cancel", tr("Discard {size}", size=view.size(row.left)), name),
        ]
    found = []
    broken = bool(row.damage) or bool(task and task.found and task.found.broken)
    if broken and row.where == "ours":
        partly = task is not None and task.found is not None and task.found.mendable
        found.append(
            _button("mend", tr("Fetch what is broken") if partly else tr("Fetch anew"), name)
        )
    elif row.here and "target" in row.roles and not row.loaded:
        found.append(_button("use", tr("Load"), name))
    if not broken:
        found.append(_button("verify", tr("Verify"), name))
    if row.where == "ours" and not row.loaded:
        found.append(_button("remove", tr("Delete"), name))
    if row.added and row.where in ("local", "") and not row.loaded:
        found.append(_button("forget", tr("Take off the list"), name))
    return found


def _button(act: str, text: str, name: str) -> str:
    label = escape(f"{text}: {name}")
    return f'<button type="button" data-act="{act}" aria-label="{label}">{escape(text)}</button>'
