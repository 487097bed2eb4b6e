"""What is loaded and why, as HTML tables and menu entries. Knows no gradio, no engine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

from app import bubbles, view
from app.draft_gain import Record, told
from app.memory_bar import bar
from app.words import marked, tr, tr_n
from specdec.contract import DraftOption, ErrorInfo, ModelInfo, Pair, Phase, Status
from specdec.pairing import WITHOUT_FILES

CHOSEN = ""
"""Menu value that leaves the choice to the engine."""
UNLOADED = marked(
    "Unloaded: its memory is free. The next message loads the pair again, or press Load."
)
DRAFTERS = (
    (marked("Several at once: the one that gives most tokens a second here"), "auto"),
    (marked("n-gram over prompt and reply"), "ngram"),
    (marked("The target's own first layers"), "early-exit"),
    (marked("No draft"), "none"),
)
VERDICTS = {
    "chosen": marked("chosen"),
    "possible": marked("possible"),
    "rejected": marked("rejected"),
}
"""In the order of the table."""


def sheet(
    status: Status,
    at: Phase | None,
    error: ErrorInfo | None,
    known: Mapping[str, Record] | None = None,
) -> str:
    """The load that runs or failed, memory, the drafts, then every choice with its reason.

    `known` is what earlier replies say of drafts.
    """
    parts = []
    if at is not None:
        parts.append(f'<div class="wait">{bubbles.progress(*view.phase(at))}</div>')
    if error is not None and at is None:
        parts.append(bubbles.error(error))
        if status.pair is not None:
            kept = tr("Still loaded: {pair}.", pair=view.with_draft(status.pair))
            parts.append(f'<p class="note">{escape(kept)}</p>')
    if status.state == "unloaded":
        parts.append(f'<p class="note info">{tr(UNLOADED)}</p>')
    if status.pair is not None:
        if status.pair.memory is not None:
            parts.append(bar(status.pair.memory, tr("Memory of the loaded pair")))
        parts.append(_drafts(status.pair, known or {}))
        parts.append(_choices(status.pair))
        parts += [f'<p class="note info">{escape(_sentence(t))}</p>' for t in status.pair.notices]
    return f'<div class="sheet">{"".join(parts)}</div>'


def _choices(pair: Pair) -> str:
    claim = (
        (
            tr("same words as plain decoding"),
            tr("a token's numbers do not depend on how many are scored with it; checked at load"),
        )
        if pair.exact
        else (
            tr("same law; words may differ at near-ties"),
            tr("this runner rounds differently when it scores several tokens at once"),
        )
    )
    rows = (
        (tr("Target"), pair.target.value, pair.target.reason),
        (tr("Draft"), pair.draft.value, pair.draft.reason),
        (tr("Device"), pair.device.value, pair.device.reason),
        (tr("Target numbers"), pair.dtype.value, pair.dtype.reason),
        (tr("Draft numbers"), pair.draft_dtype.value, pair.draft_dtype.reason),
        (tr("Runner"), pair.runner.value, pair.runner.reason),
        (tr("Lossless means"), *claim),
        (
            tr("Context"),
            tr_n("{n} token", "{n} tokens", pair.context),
            tr("prompt and reply together"),
        ),
        (
            tr("Draft length"),
            tr("up to {n}", n=pair.k),
            tr("the engine drafts fewer, or none, where it pays less"),
        ),
    )
    body = "".join(
        f'<tr><th scope="row">{escape(name)}</th><td><b>{escape(value)}</b></td>'
        f"<td>{escape(reason)}</td></tr>"
        for name, value, reason in rows
    )
    return _table(tr("What is loaded, and why"), (tr("Part"), tr("Choice"), tr("Reason")), body)


def _table(caption: str, columns: Sequence[str], body: str) -> str:
    head = "".join(f'<th scope="col">{name}</th>' for name in columns)
    return (
        f'<div class="table"><table><caption>{caption}</caption><thead><tr>{head}</tr>'
        f"</thead><tbody>{body}</tbody></table></div>"
    )


def _drafts(pair: Pair, known: Mapping[str, Record]) -> str:
    if not pair.drafts:
        return ""
    rank = list(VERDICTS)
    read, gain = escape(tr("Bytes read a step")), escape(tr("Gain"))
    body = "".join(
        f'<tr class="{o.verdict}" data-id="{escape(o.id)}" data-title="{escape(o.name)}">'
        f'<th scope="row">{escape(o.name)}</th>'
        f'<td><span class="verdict-{o.verdict}">{tr(VERDICTS[o.verdict])}</span></td>'
        f'<td data-name="{read}">{_bytes(o)}</td>'
        f'<td data-name="{gain}">{escape(told(o, pair, known))}</td>'
        f"<td>{escape(o.reason)}</td><td>{_take(o)}</td></tr>"
        for o in sorted(pair.drafts, key=lambda o: rank.index(o.verdict))
    )
    columns = (tr("Draft"), tr("Verdict"), read, gain, tr("Reason"), "")
    return _table(tr("Candidates for the draft"), columns, body)


def _take(option: DraftOption) -> str:
    if option.verdict == "chosen" or not option.usable:
        return ""
    here = option.on_disk or option.id in WITHOUT_FILES
    if not here and option.verdict == "rejected":
        return ""
    text = tr("Use") if here else tr("Download and use")
    label = escape(f"{text}: {option.name}")
    return f'<button type="button" data-act="take" aria-label="{label}">{text}</button>'


def _bytes(option: DraftOption) -> str:
    if option.bytes_per_step is None:
        return "–"
    return view.size(option.bytes_per_step) if option.bytes_per_step else tr("nothing")


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


def targets(models: Sequence[ModelInfo]) -> list[tuple[str, str]]:
    """Menu entries (text, id): what is on disk first, with its size and what is against it."""
    rows = sorted((m for m in models if "target" in m.roles), key=lambda m: not m.on_disk)
    return [(tr("Choose for this machine"), CHOSEN), *((_entry(m), m.id) for m in rows)]


def drafts(models: Sequence[ModelInfo], pair: Pair | None) -> list[tuple[str, str]]:
    """Menu entries (text, id): drafters without a model, then models, rejected ones with a word.

    A trained head is listed for its own target alone.
    """
    known = {option.id: option for option in pair.drafts} if pair else {}
    able = (m for m in models if "draft" in m.roles or ("head" in m.roles and m.id in known))
    rows = sorted(able, key=lambda m: not m.on_disk)
    entries = [(tr("Choose for this target"), CHOSEN), *((tr(text), id) for text, id in DRAFTERS)]
    for model in rows:
        option = known.get(model.id)
        against = f" · {option.reason}" if option and option.verdict == "rejected" else ""
        entries.append((_entry(model) + against, model.id))
    return entries


def _entry(model: ModelInfo) -> str:
    words = [model.name]
    if model.bytes:
        words.append(view.size(model.bytes))
    words.append(tr("on disk") if model.on_disk else model.source)
    if model.gated:
        words.append(tr("needs a licence"))
    if model.fits.value == "no":
        words.append(model.fits.reason)
    return " · ".join(words)
