"""The settings a reply is drawn with, in words. Pure."""

from __future__ import annotations

from app.words import tr
from specdec.contract import Sampling


def effective(sampling: Sampling) -> str:
    """The settings a reply is drawn with, as they act: off means off."""
    if sampling.temperature == 0:
        words = [tr("temperature 0: always the likeliest token")]
    else:
        words = [f"{tr('temperature')} {sampling.temperature:g}"]
    off: list[str] = []
    for name, value, neutral in (
        (tr("top-k"), sampling.top_k, 0),
        (tr("top-p"), sampling.top_p, 1),
        (tr("min-p"), sampling.min_p, 0),
        (tr("repetition penalty"), sampling.repetition_penalty, 1),
        (tr("frequency penalty"), sampling.frequency_penalty, 0),
        (tr("presence penalty"), sampling.presence_penalty, 0),
    ):
        (off if value == neutral else words).append(
            name if value == neutral else f"{name} {value:g}"
        )
    if off:
        words.append(tr("off: {names}", names=", ".join(off)))
    fresh = tr("a fresh seed each reply")
    words.append(fresh if sampling.seed is None else tr("seed {n}", n=sampling.seed))
    words.append(tr("up to {n} tokens", n=f"{sampling.max_tokens:,}"))
    if sampling.stop:
        words.append(tr("stops at {texts}", texts=", ".join(map(repr, sampling.stop))))
    return " · ".join(words)
