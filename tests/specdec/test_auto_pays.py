"""`auto` comes to the best draft and costs nothing where all lose, by a clock that scorers advance.

Three scripted drafts beside copies, 512 tokens and more, all they read and try included.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache

import pytest
import torch

from specdec.contract import NeverCancel, Notice, Round, Sampling
from specdec.detokenize import TextStream
from specdec.drafters.auto import AutoDrafter
from specdec.drafters.length import DraftCost, FixedLength, LengthPolicy, Lengths
from specdec.drafters.model import ModelDrafter
from specdec.drafters.ngram import NgramDrafter
from specdec.drafters.none import NoDrafter
from specdec.drafters.plan import Moment, Offer
from specdec.drafters.scouting import LOOK, REST
from specdec.noise import Noise
from specdec.turn import Task, Turn, TurnEvent
from tests.specdec.test_pays import COSTS, FLAT, TOKENS, Clock, Timed, ids, seconds

pytestmark = pytest.mark.usefixtures("one_thread")

V, READ = 1200, 0.03
PROMPT = tuple(range(150))

Agree = Callable[[int], float]
"""Place in the reply -> share of positions at which a draft says what the target says."""


@dataclass(frozen=True)
class Script:
    """A draft's cost in plain steps and how often it is right where."""

    cost: DraftCost
    agree: Agree
    slower: float = 1.0  # than was measured at load


def always(share: float) -> Agree:
    return lambda place: share


GOOD = Script(DraftCost(0.1, 0.01), always(0.9))
BAD = Script(DraftCost(0.05, 0.005), always(0.0))
DEAR = Script(DraftCost(0.6, 0.05), always(0.95))
HOPELESS = Script(DraftCost(0.6, 0.02), always(0.0))


@cache
def says(token: int) -> torch.Tensor:
    """The token at each place is the place itself: a draft may begin reading anywhere."""
    logits = torch.zeros(V)
    logits[token % V] = 20.0
    return logits


@dataclass
class Bench:
    """A target and scripted drafts on one clock."""

    costs: dict[int, float]
    scripts: dict[str, Script]
    clock: Clock = field(default_factory=Clock)

    def __post_init__(self) -> None:
        costs = {name: script.cost for name, script in self.scripts.items()}
        self.lengths = Lengths(self.costs, costs, 7, auto=True)
        self.scorers: dict[str, Timed] = {}

    def run(self, auto: bool = True, tokens: int = TOKENS, chat: str = "chat") -> list[TurnEvent]:
        """A whole greedy reply, with all drafts or plain."""
        sampling = Sampling(temperature=0, max_tokens=tokens)
        task = Task(PROMPT, sampling, "match", Noise(0, 0), frozenset(), 8192)
        text = TextStream(lambda ids: "".join(chr(300 + i) for i in ids))
        target = Timed(self.target, self.clock, self.costs, READ, V)
        drafter = self.drafter() if auto else NoDrafter()
        length = self.lengths.of(chat) if auto else FixedLength(0)
        turn = Turn(task, target, drafter, length, text, self.clock.read)
        return list(turn.run(NeverCancel()))

    def drafter(self) -> AutoDrafter:
        self.scorers = {name: self.scorer(name, one) for name, one in self.scripts.items()}
        models = [ModelDrafter(s, name, V, frozenset(), 64) for name, s in self.scorers.items()]
        return AutoDrafter("auto", models, NgramDrafter())

    def scorer(self, name: str, script: Script) -> Timed:
        def draft(tokens: tuple[int, ...]) -> torch.Tensor:
            place = tokens[-1] + 1
            coin = random.Random(f"{name} {place}").random()
            return says(place + (coin >= script.agree(place - len(PROMPT))))

        rows = dict.fromkeys(range(1, 9), script.cost.token * script.slower)
        return Timed(draft, self.clock, rows, script.cost.read * script.slower, V)

    def target(self, tokens: tuple[int, ...]) -> torch.Tensor:
        return says(tokens[-1] + 1)


def rounds(events: list[TurnEvent]) -> list[Round]:
    return [event for event in events if isinstance(event, Round)]


def sources(events: list[TurnEvent]) -> list[str]:
    return [event.source for event in rounds(events)]


def told(events: list[TurnEvent]) -> list[str]:
    return [event.text for event in events if isinstance(event, Notice)]


def words(tokens: int) -> tuple[int, ...]:
    """What plain decoding says."""
    return tuple(range(len(PROMPT), len(PROMPT) + tokens))


def plain(tokens: int) -> float:
    """What it takes, the prompt read; the last token of that is scored with the first round."""
    return READ * (len(PROMPT) - 1) + tokens * FLAT[1]


@pytest.mark.parametrize("costs", COSTS.values(), ids=COSTS)
def test_plain_decoding_takes_what_these_tests_say(costs: dict[int, float]) -> None:
    events = Bench(costs, {}).run(auto=False, tokens=20)
    assert ids(events) == words(20)
    assert seconds(events) == pytest.approx(plain(20))


@pytest.mark.parametrize("order", ["good first", "good last"])
def test_it_comes_to_the_best_and_is_nearly_as_fast_as_that_one_alone(order: str) -> None:
    scripts = {"good": GOOD, "bad": BAD, "dear": DEAR}
    if order == "good last":
        scripts = dict(reversed(scripts.items()))
    made = Bench(FLAT, scripts)
    events = made.run()
    assert ids(events) == words(TOKENS)
    alone = Bench(FLAT, {"good": GOOD})
    assert seconds(events) <= 1.08 * seconds(alone.run())
    assert seconds(events) < 0.5 * plain(TOKENS)
    drafted = [source for source in sources(events) if source]
    assert Counter(drafted[12:])["good"] >= 0.9 * len(drafted[12:])
    (line,) = told(events)
    assert line.startswith("auto: drafts with good: ")
    assert "tokens a round at 0.10 of a step each; " in line
    assert all(one.reason for one in rounds(events))


@pytest.mark.parametrize(
    ("costs", "agree"), [(FLAT, 0.0), (FLAT, 0.2), (COSTS["twin"], 0.3), (COSTS["packed"], 0.9)]
)
def test_where_all_lose_it_costs_three_percent_at_most(
    costs: dict[int, float], agree: float
) -> None:
    share = always(agree)
    scripts = {
        "bad": Script(DraftCost(0.3, 0.02), share),
        "worse": Script(DraftCost(0.5, 0.03), share),
        "dear": Script(DraftCost(0.8, 0.05), share),
    }
    made = Bench(costs, scripts)
    events = made.run()
    assert ids(events) == words(TOKENS)
    assert seconds(events) <= 1.03 * plain(TOKENS)
    if costs is FLAT:  # the same chat goes on, and another begins
        both = seconds(made.run(tokens=256)) + seconds(made.run(chat="new", tokens=256))
        assert both <= 1.03 * 2 * plain(256)


def test_when_the_text_changes_it_moves_to_whom_it_suits_and_says_so() -> None:
    half = 400
    scripts = {
        "prose": Script(DraftCost(0.1, 0.01), lambda place: 0.9 if place < half else 0.1),
        "code": Script(DraftCost(0.1, 0.01), lambda place: 0.1 if place < half else 0.9),
        "bad": BAD,
    }
    made = Bench(FLAT, scripts)
    events = made.run(tokens=2 * half)
    assert ids(events) == words(2 * half)
    before = [one.source for one in rounds(events) if 50 < one.new_tokens <= half]
    after = [one.source for one in rounds(events) if one.new_tokens > half + 120]
    assert Counter(before)["prose"] >= 0.85 * len(before)
    assert Counter(after)["code"] >= 0.85 * len(after)
    lines = [line for line in told(events) if line.startswith("auto: ")]
    assert lines[0].startswith("auto: drafts with prose: ")
    assert lines[-1].startswith("auto: moved to code: ")
    alone = Bench(FLAT, {"both": Script(DraftCost(0.1, 0.01), always(0.9))})
    assert seconds(events) < 1.2 * seconds(alone.run(tokens=2 * half))


def test_one_that_turns_better_than_one_that_pays_is_found() -> None:
    """What pays gives no reason to leave it: only looking shows it."""
    late = Script(DraftCost(0.1, 0.01), lambda place: 0.97 if place > 250 else 0.02)
    made = Bench(FLAT, {"steady": Script(DraftCost(0.1, 0.01), always(0.6)), "late": late})
    events = made.run(tokens=800)
    assert ids(events) == words(800)
    before = [one.source for one in rounds(events) if 40 < one.new_tokens <= 250]
    after = [one.source for one in rounds(events) if one.new_tokens > 450]
    assert Counter(before)["steady"] >= 0.9 * len(before)
    assert Counter(after)["late"] >= 0.9 * len(after)
    assert told(events)[-1].startswith("auto: moved to late: ")


def test_one_that_turns_good_while_all_are_off_is_found() -> None:
    late = Script(DraftCost(0.12, 0.01), lambda place: 0.95 if place > 300 else 0.0)
    made = Bench(FLAT, {"bad": BAD, "late": late, "dear": HOPELESS})
    events = made.run(tokens=900)
    assert ids(events) == words(900)
    assert Counter(sources(events)[-20:])["late"] >= 18
    assert seconds(events) < 0.8 * plain(900)


def test_what_a_draft_takes_here_counts_not_what_it_took_at_load() -> None:
    """The better draft takes five times what was measured: the other is faster here."""
    known = DraftCost(0.1, 0.01)
    scripts = {
        "heavy": Script(known, always(0.95), slower=5.0),
        "light": Script(known, always(0.75)),
    }
    made = Bench(FLAT, scripts)
    events = made.run()
    assert ids(events) == words(TOKENS)
    later = [one.source for one in rounds(events) if one.new_tokens > 150]
    assert Counter(later)["light"] >= 0.85 * len(later)
    assert told(events)[-1].startswith("auto: ")
    assert " light: " in told(events)[-1]
    alone = Bench(FLAT, {"light": scripts["light"]})
    assert seconds(events) <= 1.15 * seconds(alone.run())


def test_one_that_is_not_used_hardly_reads_and_another_chat_begins_with_the_best() -> None:
    made = Bench(FLAT, {"good": GOOD, "dear": DEAR})
    made.run()
    dear = made.scorers["dear"]
    assert len(dear.calls) + sum(dear.prefills) < 0.3 * TOKENS
    first = [source for source in sources(made.run(chat="new")) if source]
    assert set(first[:10]) == {"good"}


# --- the policy alone ---------------------------------------------------------------------------


def known(auto: bool = True) -> tuple[LengthPolicy, Moment]:
    """Two of one cost; "a" is good, and "b" was bad when it was last asked."""
    costs = {"a": DraftCost(0.1), "b": DraftCost(0.1)}
    made = Lengths(FLAT, costs, 7, auto).of("chat")
    both = Moment((Offer("a"), Offer("b")), 7, 100)
    for _ in range(3):
        made.choose(Moment((Offer("b"),), 7, 100))
        made.learn("b", 7, 0)
    return made, both


def looks(made: LengthPolicy, both: Moment, kept: int, n: int) -> list[tuple[int, int, str]]:
    """Rounds in which "b" drafted, while `kept` of "a"'s are kept and none of "b"'s."""
    found = []
    for number in range(n):
        plan = made.choose(both)
        if plan.source == "b":
            found.append((number, plan.k, plan.reason))
        made.learn(plan.source, plan.k, 0 if plan.source == "b" else min(kept, plan.k))
    return found


def test_a_rested_one_is_looked_at_shortly_and_seldom() -> None:
    made, both = known()
    found = looks(made, both, 2, 400)
    assert 2 <= len(found) <= 40
    first = [k for number, k, reason in found if "look at it again" in reason]
    assert set(first) <= set(range(1, LOOK + 1))
    assert found[0][0] >= REST - 4


def test_nobody_is_looked_at_who_could_not_be_faster() -> None:
    made, both = known()
    assert looks(made, both, 7, 400) == []  # "a" is kept whole


def test_only_where_several_compete() -> None:
    made, both = known(auto=False)
    assert looks(made, both, 2, 400) == []
    assert made.choose(both).news == ""
