"""What is loaded or could be: phases, choices with reasons, models. Part of the contract."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from specdec.failure import ErrorInfo, Failed

State = Literal["starting", "loading", "ready", "failed", "unloaded"]
Verdict = Literal["chosen", "possible", "rejected"]
PhaseName = Literal[
    "starting", "fetching", "checking", "converting", "loading", "measuring", "ready"
]


@dataclass(frozen=True, slots=True)
class Phase:
    """Where a load stands. `done` of `total` are bytes while fetching, steps else; 0 = unknown."""

    name: PhaseName
    model: str = ""
    detail: str = ""
    done: int = 0
    total: int = 0
    rate: float = 0.0  # bytes per second while fetching


@dataclass(frozen=True, slots=True)
class Choice:
    """An automatic choice and why it was made."""

    value: str
    reason: str


@dataclass(frozen=True, slots=True)
class DraftOption:
    """One candidate draft for the target, and why it was chosen, possible or rejected."""

    id: str
    name: str
    verdict: Verdict
    reason: str
    bytes_per_step: int | None = None
    on_disk: bool = False
    usable: bool = True  # False: it cannot draft here at all, asked for or not
    translated: bool = False  # its tokens are not the target's: it drafts those that both have


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes on the pair's device: `before` were free when the load began, the rest is taken."""

    before: int
    weights: int
    draft: int
    caches: int  # of target and draft, when they are full

    @property
    def total(self) -> int:
        return self.weights + self.draft + self.caches

    @property
    def free(self) -> int:
        """What is left when all of it is in use."""
        return max(0, self.before - self.total)


@dataclass(frozen=True, slots=True)
class Pace:
    """Seconds measured at load: a plain step, scoring 1, 2, ... rows, a drafted token by source."""

    plain: float
    score: tuple[float, ...]
    drafts: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True, slots=True)
class Pair:
    """What is loaded, and the reason for each choice. `exact` as in `Started`."""

    target: Choice
    draft: Choice
    device: Choice
    dtype: Choice
    draft_dtype: Choice
    runner: Choice
    exact: bool
    context: int  # most tokens of prompt + reply
    k: int  # default upper limit on the draft length
    drafts: tuple[DraftOption, ...] = ()
    notices: tuple[
        str, ...
    ] = ()  # "fell back to transformers because ...", "third-party mirror of ..."
    memory: Memory | None = None
    pace: Pace | None = None


@dataclass(frozen=True, slots=True)
class Loaded:
    """The pair is ready."""

    pair: Pair


LoadEvent = Phase | Loaded | Failed


@dataclass(frozen=True, slots=True)
class Status:
    """What `/health` shows. `phase` is set while loading, `error` when failed."""

    state: State
    pair: Pair | None = None
    phase: Phase | None = None
    error: ErrorInfo | None = None
    versions: dict[str, str] = field(default_factory=dict)
    queue: int = 0


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """A registry row as a page or terminal shows it. None = not read from a source."""

    id: str
    name: str
    family: str
    roles: tuple[str, ...]  # "target", "draft", "head"
    parameters: int | None
    bytes: int | None
    licence: str | None
    context: int | None
    on_disk: bool
    source: str  # "local folder", "hub", "packaged mirror of ...", "not reachable"
    fits: Choice  # value "yes", "no" or "unknown"
    verified: bool
    gated: bool | None = None
