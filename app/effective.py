"""The settings a reply is drawn with, in words. Pure."""

from __future__ import annotations

from app.words import marked, tr
from specdec.contract import Sampling

NAMES = {
    "temperature": marked("temperature"),
    "top_k": marked("top-k"),
    "top_p": marked("top-p"),
    "min_p": marked("min-p"),
    "repetition_penalty": marked("repetition penalty"),
    "frequency_penalty": marked("frequency penalty"),
    "presence_penalty": marked("presence penalty"),
    "seed": marked("seed"),
    "max_tokens": marked("most tokens"),
    "stop": marked("stop strings"),
}
"""What each field of `Sampling` is called."""
NEUTRAL = {
    "top_k": 0,
    "top_p": 1,
    "min_p": 0,
    "repetition_penalty": 1,
    "frequency_penalty": 0,
    "presence_penalty": 0,
}
"""Values at which a field does nothing."""


def name_of(field: str) -> str:
    """What a field is called, in the user's language."""
    return tr(NAMES[field])


def effective(sampling: Sampling) -> str:
    """The settings a reply is drawn with, as they act: off means off."""
    if sampling.temperature == 0:
        words = [tr("temperature 0: always the likeliest token")]
    else:
        words = [f"{name_of('temperature')} {sampling.temperature:g}"]
    off: list[str] = []
    for field, neutral in NEUTRAL.items():
        name, value = name_of(field), getattr(sampling, field)
        if value == neutral:
            off.append(name)
        else:
            words.append(f"{name} {value:g}")
    if off:
        words.append(tr("off: {names}", names=", ".join(off)))
    fresh = tr("a fresh seed each reply")
    words.append(fresh if sampling.seed is None else tr("seed {n}", n=sampling.seed))
    words.append(tr("up to {n} tokens", n=f"{sampling.max_tokens:,}"))
    if sampling.stop:
        words.append(tr("stops at {texts}", texts=", ".join(map(repr, sampling.stop))))
    return " · ".join(words)
