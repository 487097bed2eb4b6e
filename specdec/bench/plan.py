"""What a benchmark was asked to do: models, prompts by kind, engines, sizes. No torch."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path

from specdec import prompt_sets
from specdec.errors import SettingError
from specdec.options import EngineOptions
from specdec.request import Sampling

OWN, TRANSFORMERS, LLAMA = "specdec", "transformers", "llama.cpp"
PEERS = (TRANSFORMERS, LLAMA)

CHOSEN = "chosen"
"""The draft that the program would take by itself."""

GREEDY = Sampling(temperature=0.0)

LAW = tuple(f.name for f in fields(Sampling) if f.name not in ("seed", "max_tokens", "stop"))
"""The settings that shape a token's law; the others say when a reply ends, or how it is drawn."""


@dataclass(frozen=True, slots=True)
class Server:
    """A llama.cpp server binary and the file it serves."""

    binary: Path
    gguf: Path


@dataclass(frozen=True, slots=True)
class Plan:
    """`prompts` by kind, in order; `tokens` are made for each reply, end ids or not.

    `minutes` bounds the replies: later prompts of each kind are left out.
    `drafts` holds registry ids, folders, "ngram", "auto", "chosen" (by the program).
    """

    options: EngineOptions
    target: str | None
    drafts: tuple[str, ...]
    prompts: Mapping[str, tuple[str, ...]]
    tokens: int
    runs: int
    peers: tuple[str, ...] = (TRANSFORMERS,)
    server: Server | None = None
    minutes: float | None = None
    sampling: Sampling = GREEDY  # seed and length are the benchmark's own

    def __post_init__(self) -> None:
        """Raises SettingError for sizes that measure nothing, unknown peers, missing files."""
        if self.peers and self.sampling != GREEDY:
            raise SettingError(
                "Other engines draw their own tokens, so sampled replies do not compare.",
                "Add --peers none, or measure greedily.",
            )
        for name, value, least in (("tokens", self.tokens, 2), ("runs", self.runs, 1)):
            if value < least:
                raise SettingError(f"--{name} is {value}.", f"It must be at least {least}.")
        if self.minutes is not None and not self.minutes > 0:
            raise SettingError(f"--minutes is {self.minutes:g}.", "It must be above 0.")
        for peer in self.peers:
            if peer not in PEERS:
                raise SettingError(f"There is no peer {peer!r}.", f"Use {', '.join(PEERS)}, none.")
        if LLAMA in self.peers and self.server is None:
            raise SettingError(
                "llama.cpp needs its server and a file.", "Add --llama-server PATH --gguf FILE."
            )


def names(given: Sequence[str]) -> tuple[str, ...]:
    """Options that may be repeated or hold commas, as one list without repeats."""
    found = [part.strip() for text in given for part in text.split(",")]
    return tuple(dict.fromkeys(part for part in found if part))


def prompts_by_kind(
    kinds: Sequence[str], file: Path | None, first: int | None
) -> dict[str, tuple[str, ...]]:
    """The prompts of these kinds, at most `first` of each; all kinds when none is named.

    Raises SettingError for an unknown kind or a file that does not hold prompts by kind.
    """
    every = read_prompts(file) if file else {k: prompt_sets.load(k) for k in prompt_sets.kinds()}
    for kind in kinds:
        if kind not in every:
            raise SettingError(f"There are no prompts of the kind {kind!r}.", _known(every))
    if first is not None and first < 1:
        raise SettingError(f"--first is {first}.", "It must be at least 1.")
    return {kind: every[kind][:first] for kind in kinds or every}


def _known(every: Mapping[str, tuple[str, ...]]) -> str:
    return f"Kinds: {', '.join(every)}."


def read_prompts(file: Path) -> dict[str, tuple[str, ...]]:
    """Prompts of one's own: {"kind": ["prompt", ...], ...}. Raises SettingError."""
    hint = 'Write {"a kind": ["a prompt", ...], ...}.'
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise SettingError(f"{file} cannot be read: {error}.", hint) from error
    rows = found if isinstance(found, dict) else {}
    if not rows or not all(_are_texts(texts) for texts in rows.values()):
        raise SettingError(f"{file} does not hold lists of prompts by kind.", hint)
    return {kind: tuple(texts) for kind, texts in rows.items()}


def _are_texts(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(t, str) and t for t in value)
