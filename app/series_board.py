"""A series of races as HTML: the verdict over all, the lanes of one, a row for each.

Knows no gradio, no engine.
"""

from __future__ import annotations

from html import escape

from app import bubbles, race_board, view
from app.race import Outcome
from app.series import Ran, SeriesView, Summary, summary
from app.words import marked, tr, tr_n
from specdec.contract import Mode

COLUMNS = (
    marked("Race"), marked("Prompt"), marked("First"), marked("Speculative"), marked("Plain"),
    marked("Ratio"), marked("Words"),
)  # fmt: skip


def board(series: SeriesView) -> str:
    """One race alone looks as a race does; of several, the sums stand first."""
    found = summary(series.done)
    if series.plan.races == 1:
        figures = _figures(found) if found else ""
        head, table = race_board.head(series.now) + figures, ""
    else:
        head = _head(series, found)
        table = _table(series) if series.done else ""
    return (
        f'<div class="race">{head}{race_board.rule(series.now)}{saving(series)}'
        f"{race_board.lanes(series.now, _sides(series))}{table}</div>"
    )


def _sides(series: SeriesView) -> tuple[Mode, Mode]:
    """A lane keeps its side, whichever runs first."""
    return series.now.past[0].order if series.now.past else series.plan.order


def _head(series: SeriesView, found: Summary | None) -> str:
    if not series.ended:
        return f'<div class="wait">{bubbles.progress(*progress(series))}</div>'
    parts = []
    if series.error is not None:
        parts.append(bubbles.error(series.error))
    if series.stopped:
        said = tr(
            "Stopped. {n} of {all} races were over.", n=len(series.done), all=series.plan.races
        )
        parts.append(f'<p class="note">{said}</p>')
    if found is not None:
        parts += [_verdict(series, found), _figures(found)]
    return "".join(parts)


def progress(series: SeriesView) -> tuple[str, float | None]:
    """Which race runs, what it does, and about how long it will take."""
    doing, share = race_board.doing(series.now)
    if series.now.step == "waiting" and not series.done:
        return doing, share
    plan = series.plan
    number = min(len(series.done) + 1, plan.races)
    where = tr("Race {n} of {all}", n=number, all=plan.races)
    if series.left_s is not None:
        where += ", " + about_left(series.left_s)
    return f"{where} · {doing}", len(series.done) / plan.races


def about_left(seconds: float) -> str:
    """A guess, as one."""
    return tr("about {time} left", time=about(seconds))


def about(seconds: float) -> str:
    """A guess is not told to the tenth."""
    return f"{max(1, round(seconds))} s" if seconds < 100 else f"{round(seconds / 60)} min"


def _verdict(series: SeriesView, found: Summary) -> str:
    ratio = tr("too short to time") if found.ratio is None else f"{found.ratio:.2f}×"
    said = tr("no race was long enough")
    if found.lowest is not None and found.highest is not None:
        said = tr(
            "median of {races}, {low}× to {high}× · {a} against {b} tok/s, each against "
            "the faster plain runner of its own race · seed {seed}",
            races=tr_n("{n} race", "{n} races", found.timed),
            low=f"{found.lowest:.2f}",
            high=f"{found.highest:.2f}",
            a=view.number(found.tok_s),
            b=view.number(found.baseline),
            seed=series.now.seed,
        )
    same = found.identical == found.compared
    differ = tr("Differs in {n}", n=found.compared - found.identical)
    title = tr("Same words") if same else differ
    words = tr(
        "{n} of {all} races had identical words; {tokens} tokens compared",
        n=found.identical,
        all=found.compared,
        tokens=f"{found.tokens:,}",
    )
    return (
        f'<div class="verdict" role="status"><div class="ratio"><b>{ratio}</b><span>{said}</span>'
        f'</div><div class="words {"same" if same else "differ"}"><b>{title}</b>'
        f"<span>{words}</span></div></div>"
    )


def _figures(found: Summary) -> str:
    """Tokens a round, drafts kept, seconds saved."""
    figures = [
        view.Figure(
            f"{found.tokens_per_round:.2f}", tr("tokens a round"), tr("the bonus token counts")
        )
    ]
    if found.drafted:
        kept, share = view.kept_of(found.accepted, found.drafted), found.accepted / found.drafted
        figures.append(view.Figure(f"{share:.0%}", tr("of drafts kept"), kept))
    if found.timed:
        what = tr("decoding, against the faster plain runner; reading the prompt is not in it")
        unit = tr("saved in all") if found.saved_s >= 0 else tr("lost in all")
        figures.append(view.Figure(view.seconds(abs(found.saved_s)), unit, what))
    inside = "".join(
        f'<span class="figure" title="{escape(f.meaning)}"><b>{escape(f.value)}</b> {f.unit}</span>'
        for f in figures
    )
    return f'<p class="figures sums">{inside}</p>'


def saving(series: SeriesView) -> str:
    """Links to the card, for whom it was kept."""
    if not series.sheet:
        return ""
    return files(series.sheet, (("png", tr("Picture (PNG)")), ("json", tr("Figures (JSON)"))))


def files(sheet: str, forms: tuple[tuple[str, str], ...]) -> str:
    """Links that save a result."""
    links = "".join(
        f'<a class="save" href="./measured/{escape(sheet)}.{form}" download>{escape(name)}</a>'
        for form, name in forms
    )
    return f'<p class="saves"><span>{tr("Save")}</span>{links}</p>'


def _table(series: SeriesView) -> str:
    rows = "".join(_row(series, number, ran) for number, ran in enumerate(series.done, 1))
    head = "".join(f'<th scope="col">{tr(name)}</th>' for name in COLUMNS)
    return (
        f'<div class="sheet"><div class="table"><table><caption>{tr("The races")}</caption>'
        f"<thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div></div>"
    )


def _row(series: SeriesView, number: int, ran: Ran) -> str:
    prompt, outcome = series.plan.prompts[ran.place], ran.outcome
    name = prompt.name or _short(prompt.text)
    speeds = (_speed(ran.speculative.tok_s), _speed(outcome.baseline))
    ratio = "–" if outcome.ratio is None else f"{outcome.ratio:.2f}×"
    cells = (
        escape(name),
        tr(race_board.NAMES[ran.order[0]]),
        speeds[0],
        speeds[1],
        f"<b>{ratio}</b>",
        _said(outcome),
    )
    named = zip(cells, COLUMNS[1:], strict=True)
    inside = "".join(f'<td data-name="{escape(tr(name))}">{text}</td>' for text, name in named)
    more = ""
    if outcome.difference is not None:
        more = f'<tr class="more"><td colspan="7">{race_board.words(outcome)}</td></tr>'
    return f'<tr><th scope="row">{number}</th>{inside}</tr>{more}'


def _said(outcome: Outcome) -> str:
    if outcome.identical:
        return tr("same, {n} tokens", n=outcome.compared)
    return tr("differs")


def _speed(value: float) -> str:
    return f"{view.number(value)} tok/s" if value > 0 else "–"


def _short(text: str, most: int = 40) -> str:
    line = " ".join(text.split())
    return line if len(line) <= most else f"{line[:most].rstrip()}…"
