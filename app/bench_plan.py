"""What a benchmark in the page is to measure, and with which drafters it can. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from app.words import marked, tr
from specdec import prompt_sets
from specdec.bench.plan import GREEDY
from specdec.contract import Pair, Sampling
from specdec.errors import SettingError
from specdec.pairing import AUTO, NGRAM, NONE

SEED = 0
MOST_TOKENS, MOST_RUNS = 1024, 20
NAMES = {
    NONE: marked("No draft (plain decoding alone)"),
    NGRAM: marked("n-gram over prompt and reply"),
    AUTO: marked("Several at once (auto)"),
}


@dataclass(frozen=True, slots=True)
class BenchPlan:
    """`drafters` in the order they are loaded; plain decoding is measured beside each of them."""

    drafters: tuple[str, ...]
    prompts: Mapping[str, tuple[str, ...]]
    tokens: int
    runs: int

    def __post_init__(self) -> None:
        """Raises SettingError for what would measure nothing, or never end."""
        if not self.prompts:
            raise SettingError(tr("No kind of prompt is chosen."), tr("Choose at least one."))
        if not self.drafters:
            raise SettingError(tr("No drafter is chosen."), tr("Choose at least one, or No draft."))
        for name, value, least, most in (
            (tr("Tokens a reply"), self.tokens, 8, MOST_TOKENS),
            (tr("Runs"), self.runs, 1, MOST_RUNS),
        ):
            if not least <= value <= most:
                raise SettingError(
                    tr("{name}: {value}.", name=name, value=value),
                    tr("Take {least} to {most}.", least=least, most=f"{most:,}"),
                )

    @property
    def parts(self) -> tuple[str, ...]:
        """The drafters to load, one after the other; plain decoding alone needs no other load."""
        return tuple(name for name in self.drafters if name != NONE) or (NONE,)

    @property
    def sampling(self) -> Sampling:
        """Greedy and of one seed, as `specdec bench` is."""
        return replace(GREEDY, max_tokens=self.tokens, seed=SEED)

    @property
    def steps(self) -> int:
        """Prompts answered by all contenders, every part together."""
        return len(self.parts) * len(list(self.turns()))

    def turns(self) -> Iterator[tuple[str, int, int, str]]:
        """(kind, place, run, prompt) of one part: kinds take turns, so that a slow spell of the
        machine hits all alike."""
        for run in range(self.runs):
            for place in range(max(len(texts) for texts in self.prompts.values())):
                for kind, texts in self.prompts.items():
                    if place < len(texts):
                        yield kind, place, run, texts[place]


def prompts_of(kinds: Sequence[str], first: int) -> dict[str, tuple[str, ...]]:
    """The first prompts of these kinds. Raises SettingError for none, or an unknown kind."""
    if first < 1:
        raise SettingError(tr("Prompts of a kind: {first}.", first=first), tr("Take at least 1."))
    return {kind: prompt_sets.load(kind)[:first] for kind in kinds}


def drafters(pair: Pair) -> list[tuple[str, str]]:
    """Menu entries (text, id): what can draft for the loaded target with what is on this disk."""
    here = {o.id: o.name for o in pair.drafts if o.usable and o.on_disk and o.id not in NAMES}
    loaded = pair.draft.value
    ids = dict.fromkeys((loaded, *here, NGRAM, AUTO, NONE))
    names = {id: tr(NAMES[id]) if id in NAMES else here.get(id, id) for id in ids}
    return [(f"{names[id]} · {tr('loaded')}" if id == loaded else names[id], id) for id in ids]


def in_order(chosen: Sequence[str], pair: Pair) -> tuple[str, ...]:
    """The chosen drafters, the loaded one first: it needs no load. Raises SettingError."""
    known = [id for _, id in drafters(pair)]
    for id in chosen:
        if id not in known:
            raise SettingError(
                tr(
                    "{draft} cannot draft for {target} here.",
                    draft=repr(id),
                    target=pair.target.value,
                ),
                tr("Choose from the list."),
            )
    return tuple(id for id in known if id in chosen)
