"""Where drafting cannot win it costs nothing: whole replies by a clock that only scorers advance.

512 tokens, what the draft reads and what is tried again included, against plain decoding.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache

import pytest
import torch

from specdec.contract import Finished, NeverCancel, Notice, Round, Sampling
from specdec.detokenize import TextStream
from specdec.drafters.base import Drafter
from specdec.drafters.cascade import CascadeDrafter
from specdec.drafters.length import DraftCost, FixedLength, Lengths
from specdec.drafters.model import ModelDrafter
from specdec.drafters.ngram import NgramDrafter
from specdec.drafters.none import NoDrafter
from specdec.drafters.plan import Length
from specdec.noise import Noise
from specdec.turn import Task, Turn, TurnEvent
from tests.fakes import Table, TableScorer, random_table

pytestmark = pytest.mark.usefixtures("one_thread")

V, TOKENS = 20, 512
FLAT = {1: 1.0, 8: 1.0}  # bf16 in hardware: eight rows cost what one does
TWIN = {1: 1.0, 2: 2.2, 4: 2.7, 8: 3.2}  # an fp32 twin for several rows
PACKED = {w: float(w) for w in range(1, 9)}  # int4 on a CPU: no free rows
MIDDLING = DraftCost(0.12, 0.01)
COSTS = {"flat": FLAT, "twin": TWIN, "packed": PACKED}


@dataclass
class Clock:
    """Seconds since the beginning; whoever works moves it on."""

    now: float = 0.0

    def read(self) -> float:
        return self.now


class Timed(TableScorer):
    """A scorer that takes its time: by rows when it scores, by tokens when it reads."""

    def __init__(
        self, table: Table, clock: Clock, rows: dict[int, float], read: float, vocab: int = V
    ) -> None:
        super().__init__(table, vocab, chunk=64, width=8)
        self._clock, self._read = clock, read
        self._costs = Lengths(rows, {}, 7).score

    def score(self, ids: Sequence[int]) -> torch.Tensor:
        self._clock.now += self._costs[len(ids) - 1]
        return super().score(ids)

    def prefill(self, ids: Sequence[int]) -> None:
        self._clock.now += self._read * len(ids)
        super().prefill(ids)


@cache
def row(place: int) -> torch.Tensor:
    """What the target says there."""
    return random_table(V, place)(())


@dataclass
class Bench:
    """One pair on one clock: `costs` by rows and what the draft costs, in plain steps."""

    costs: dict[int, float]
    draft_cost: DraftCost = MIDDLING
    agree: float = 0.0  # share of positions at which the draft says what the target says
    copies: bool = False
    clock: Clock = field(default_factory=Clock)
    prompt: tuple[int, ...] = tuple(i * i % 19 for i in range(150))
    loop: int = 0  # the target repeats itself with this period

    def __post_init__(self) -> None:
        self.lengths = Lengths(self.costs, {"small": self.draft_cost}, 7)

    def run(self, length: Length | None = None, tokens: int = TOKENS) -> list[TurnEvent]:
        """A whole greedy reply; without a length in plain decoding."""
        target = Timed(self.target, self.clock, self.costs, 0.03)
        task = Task(
            self.prompt,
            Sampling(temperature=0, max_tokens=tokens),
            "match",
            Noise(0, 0),
            frozenset(),
            4096,
        )
        text = TextStream(lambda ids: "".join(chr(65 + i) for i in ids))
        drafter = self.drafter() if length else NoDrafter()
        turn = Turn(task, target, drafter, length or FixedLength(0), text, self.clock.read)
        return list(turn.run(NeverCancel()))

    def drafter(self) -> Drafter:
        cost = self.draft_cost
        rows = dict.fromkeys(range(1, 9), cost.token)
        scorer = Timed(self.draft, self.clock, rows, cost.read)
        model = ModelDrafter(scorer, "small", V, frozenset(), reach=128)
        return CascadeDrafter(model, NgramDrafter()) if self.copies else model

    def target(self, tokens: tuple[int, ...]) -> torch.Tensor:
        return row(len(tokens) % self.loop if self.loop else len(tokens))

    def draft(self, tokens: tuple[int, ...]) -> torch.Tensor:
        logits = self.target(tokens)
        coin = random.Random(len(tokens) * 7919).random()
        return logits if coin < self.agree else logits.roll(1)


def seconds(events: list[TurnEvent]) -> float:
    last = events[-1]
    assert isinstance(last, Finished)
    return last.metrics.first_token_s + last.metrics.decode_s


def chosen(events: list[TurnEvent]) -> list[int]:
    return [event.k for event in events if isinstance(event, Round)]


def ids(events: list[TurnEvent]) -> tuple[int, ...]:
    last = events[-1]
    assert isinstance(last, Finished)
    return last.ids


@pytest.mark.parametrize("agree", [0.0, 0.5, 0.95], ids=str)
@pytest.mark.parametrize("draft", [0.05, 0.3, 0.8], ids=str)
@pytest.mark.parametrize("costs", COSTS.values(), ids=COSTS)
def test_at_most_three_percent_over_plain(
    costs: dict[int, float], draft: float, agree: float
) -> None:
    made = Bench(costs, DraftCost(draft, 0.02), agree)
    plain = made.run()
    drafted = made.run(made.lengths.of("chat"))
    assert ids(drafted) == ids(plain)
    assert seconds(drafted) <= 1.03 * seconds(plain)
    if agree == 0.0 and costs is not PACKED:
        tries = [k for k in chosen(drafted)[-256:] if k]
        assert 0 < len(tries) < 100  # off, and tried again


@pytest.mark.parametrize("costs", COSTS.values(), ids=COSTS)
def test_short_chats_after_a_long_one_share_what_may_be_lost(costs: dict[int, float]) -> None:
    made = Bench(costs)
    plain = seconds(made.run()) + 8 * seconds(made.run(tokens=48))
    drafted = seconds(made.run(made.lengths.of("long")))
    for name in range(8):
        drafted += seconds(made.run(made.lengths.of(str(name)), tokens=48))
    assert drafted <= 1.03 * plain


@pytest.mark.parametrize("agree", [0.0, 0.95], ids=str)
def test_the_tenth_token_is_not_late(agree: float) -> None:
    """By what is known: a first bad draft may cost a little, the second chat's nothing."""
    made = Bench(TWIN, DraftCost(0.12, 0.02), agree)
    plain = [e.elapsed for e in made.run(tokens=10) if isinstance(e, Round)][-1]
    made.run(made.lengths.of("one"))
    later = [e for e in made.run(made.lengths.of("two"), tokens=30) if isinstance(e, Round)]
    assert next(e.elapsed for e in later if e.new_tokens >= 10) <= plain


@pytest.mark.parametrize(
    ("costs", "draft"), [(FLAT, 0.05), (FLAT, 0.3), (TWIN, 0.12)], ids=["flat", "dear", "twin"]
)
def test_a_good_draft_comes_to_its_best_length(costs: dict[int, float], draft: float) -> None:
    made = Bench(costs, DraftCost(draft, 0.01), 1.0)
    plain = seconds(made.run())
    drafted = made.run(made.lengths.of("chat"))
    steps = [k * draft + cost for k, cost in enumerate(made.lengths.score)]
    best = max(range(8), key=lambda k: (k + 1) / steps[k])
    assert set(chosen(drafted)[10:-2]) == {best}
    assert seconds(drafted) < 1.25 * plain * steps[best] / (best + 1)


def test_packed_rows_are_not_tried_for_a_draft_that_could_not_win() -> None:
    made = Bench(PACKED, agree=1.0)
    events = made.run(made.lengths.of("chat"))
    assert sum(chosen(events)) < 12
    (notice,) = [e.text for e in events if isinstance(e, Notice)]
    assert notice.startswith("Speculation is off: it does not pay here")


def test_copies_are_free_and_the_model_does_not_read_meanwhile() -> None:
    made = Bench(FLAT, DraftCost(0.3, 0.01), agree=0.95, copies=True, loop=40)
    events = made.run(made.lengths.of("chat"))
    rounds = [e for e in events if isinstance(e, Round)]
    sources = [e.source for e in rounds]
    assert {"small", "ngram"} <= set(sources)
    assert set(sources[-20:]) == {"ngram"}
    assert all(e.reason for e in rounds)
    assert ids(events) == ids(made.run())
    assert seconds(events) < 0.4 * seconds(made.run())


@pytest.mark.parametrize("make", [lambda n: n % 100 < 50, lambda n: n > 200], ids=["waves", "late"])
def test_a_draft_that_turns_good_is_found_and_one_that_turns_bad_is_left(
    make: Callable[[int], bool],
) -> None:
    class Turning(Bench):
        def draft(self, tokens: tuple[int, ...]) -> torch.Tensor:
            logits = self.target(tokens)
            return logits if make(len(tokens) - len(self.prompt)) else logits.roll(1)

    made = Turning(FLAT, DraftCost(0.12, 0.01))
    plain, drafted = seconds(made.run()), made.run(made.lengths.of("chat"))
    assert seconds(drafted) < 0.9 * plain
    words = [e.text for e in drafted if isinstance(e, Notice)]
    assert [t.startswith("Speculation is off") for t in words] == [
        i % 2 == 0 for i in range(len(words))
    ]
