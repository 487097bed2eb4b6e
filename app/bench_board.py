"""A benchmark as HTML: progress, a bar for each kind and drafter, a table. Knows no gradio."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from app import bubbles, view
from app.bench_view import PLAINS, BenchView, rows_of
from app.live import Live
from app.race_card import public
from app.series_board import about_left, files
from app.words import marked, tr, tr_n
from specdec.bench.sample import PLAIN, PLAIN_FAST, Row

NAMES = {PLAIN: marked("plain"), PLAIN_FAST: marked("plain, fast runner")}
HEAD = (
    marked("Kind"), marked("Drafter"), marked("Tokens a second"), marked("Against plain"),
    marked("Tokens a round"), marked("Drafts kept"), marked("Same words"),
)  # fmt: skip


def empty() -> str:
    """What the board says before the first benchmark."""
    text = tr(
        "Each drafter is loaded in turn and answers the same prompts as plain decoding does "
        "beside it: greedily, from an empty cache, in an order that turns. The pair that is "
        "loaded now comes back at the end. Waiting replies pass between two prompts."
    )
    return f'<div class="race-empty"><p>{text}</p></div>'


def board(bench: BenchView) -> str:
    """What goes on or came of it, then all that was measured."""
    rows = rows_of(bench.parts)
    parts = [_head(bench)]
    parts += [_failed(part.drafter, part.error.message) for part in bench.parts if part.error]
    if rows:
        parts.append(_bars(rows))
        parts.append(_table(rows))
    if bench.sheet:
        forms = (("json", tr("Figures (JSON)")), ("csv", tr("Table (CSV)")))
        parts.insert(1, files(bench.sheet, forms))
    return f'<div class="race bench">{"".join(parts)}</div>'


def _head(bench: BenchView) -> str:
    if not bench.ended:
        return f'<div class="wait" role="status">{bubbles.progress(*progress(bench))}</div>'
    said = []
    if bench.error is not None:
        said.append(bubbles.error(bench.error))
    if bench.stopped:
        text = tr(
            "Stopped. {n} of {all} prompts were measured.", n=bench.step, all=bench.plan.steps
        )
        said.append(f'<p class="note">{text}</p>')
    if not said:
        names = ", ".join(escape(public(part.drafter)) for part in bench.parts)
        prompts = bench.plan.steps // len(bench.plan.parts)
        text = tr_n(
            "Measured {names} for {target} on {n} prompt, beside plain decoding.",
            "Measured {names} for {target} on {n} prompts, beside plain decoding.",
            prompts,
            names=names,
            target=escape(public(bench.target)),
        )
        said.append(f'<p class="quiet" role="status">{text}</p>')
    return "".join(said)


def progress(bench: BenchView) -> tuple[str, float | None]:
    """What runs, how far it is, and about how long it takes."""
    if not bench.doing:
        return view.waiting(
            Live(
                stage="loading" if bench.phase else "waiting",
                position=bench.position,
                phase=bench.phase,
            )
        )
    doing = bench.doing
    if bench.phase is not None:
        doing += f": {view.phase(bench.phase)[0]}"
    done = tr("{n} of {all} prompts", n=bench.step, all=bench.plan.steps)
    if bench.left_s is not None:
        done += ", " + about_left(bench.left_s)
    return f"{done} · {doing}", bench.step / bench.plan.steps


def _failed(drafter: str, message: str) -> str:
    return f'<p class="note"><b>{escape(public(drafter))}</b>: {escape(tr(message))}</p>'


def _bars(rows: Sequence[Row]) -> str:
    most = max(row.tok_s_max for row in rows) or 1.0
    kinds = list(dict.fromkeys(row.kind for row in rows))
    groups = "".join(
        f'<section aria-label="{escape(kind)}"><h3>{escape(kind.capitalize())}</h3>'
        f"{''.join(_bar(row, most) for row in rows if row.kind == kind)}</section>"
        for kind in kinds
    )
    caption = tr("Tokens a second: median, and from lowest to highest")
    return f'<figure class="bars"><figcaption>{caption}</figcaption>{groups}</figure>'


def _bar(row: Row, most: float) -> str:
    low, high = (100 * value / most for value in (row.tok_s_min, row.tok_s_max))
    tone = "plain" if row.drafter in PLAINS else "drafted"
    ratio = "" if tone == "plain" or row.ratio_to_plain is None else f" · {_times(row)}"
    return (
        f'<div class="bar {tone}"><span class="name">{escape(name(row))}</span>'
        f'<span class="track" aria-hidden="true"><i style="width: {100 * row.tok_s / most:.1f}%">'
        f'</i><u style="left: {low:.1f}%; width: {high - low:.1f}%"></u></span>'
        f'<span class="value"><b>{view.number(row.tok_s)}</b>{ratio}</span></div>'
    )


def name(row: Row) -> str:
    """A drafter as people call it."""
    return tr(NAMES[row.drafter]) if row.drafter in NAMES else row.drafter


def _times(row: Row) -> str:
    return "–" if row.ratio_to_plain is None else f"{row.ratio_to_plain:.2f}×"


def _table(rows: Sequence[Row]) -> str:
    head = "".join(f'<th scope="col">{tr(text)}</th>' for text in HEAD)
    body = "".join(
        f'<tr><th scope="row">{escape(row.kind)}</th>'
        + "".join(
            f'<td data-name="{escape(tr(label))}">{escape(text)}</td>'
            for label, text in zip(HEAD[1:], _cells(row), strict=True)
        )
        + "</tr>"
        for row in rows
    )
    return (
        '<div class="sheet"><div class="table"><table>'
        f"<caption>{tr('All figures')}</caption><thead><tr>{head}</tr></thead>"
        f"<tbody>{body}</tbody></table></div></div>"
    )


def _cells(row: Row) -> tuple[str, ...]:
    plain = row.drafter == PLAIN
    spread = tr(
        "{median} ({low} to {high})",
        median=view.number(row.tok_s),
        low=view.number(row.tok_s_min),
        high=_number(row),
    )
    return (
        name(row),
        spread if row.tok_s else tr("too short to time"),
        _times(row),
        "–" if row.tokens_per_round is None else f"{row.tokens_per_round:.2f}",
        _of(row.accepted, row.drafted) if row.drafted else "–",
        "–" if plain or not row.compared else _of(row.same, row.compared),
    )


def _of(part: int | None, whole: int) -> str:
    return tr("{part} of {all}", part=part, all=whole)


def _number(row: Row) -> str:
    return view.number(row.tok_s_max)
