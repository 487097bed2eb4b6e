"""Several drafters as one: each offers, one is asked, and those that are not asked do nothing."""

from __future__ import annotations

import pytest

from specdec.contract import NeverCancel, Notice, Round, Sampling
from specdec.detokenize import TextStream
from specdec.drafters.auto import AutoDrafter
from specdec.drafters.base import Context, Draft, Offer, Several
from specdec.drafters.costs import DraftCost
from specdec.drafters.favourite import Favourite
from specdec.drafters.model import ModelDrafter
from specdec.drafters.ngram import NgramDrafter
from specdec.drafters.none import NoDrafter
from specdec.drafters.plan import Moment, Plan
from specdec.drafters.scouting import REST, SHARE, Scouting
from specdec.drafters.stopwatch import Stopwatch
from specdec.noise import Noise
from specdec.scorer import Scorer
from specdec.turn import Task, Turn
from tests.fakes import Proposing, TableScorer, disagreeing_pair, random_table

V = 12
PROMPT = tuple([3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5] * 4)


class Hidden(Proposing):
    """One that wants the target's states, and notes who came and went."""

    wants_hidden = True

    def __init__(self) -> None:
        super().__init__(lambda tokens, k: [])
        self.name = "hidden"
        self.watched: list[Scorer | None] = []

    def watch(self, target: Scorer | None) -> None:
        self.watched.append(target)


def several(seed: int = 1) -> tuple[AutoDrafter, TableScorer, dict[str, TableScorer]]:
    p, q = disagreeing_pair(V, seed, spread=2.5)
    small = {"q": TableScorer(q, V), "r": TableScorer(random_table(V, 9), V)}
    models = [ModelDrafter(scorer, name, V, frozenset()) for name, scorer in small.items()]
    return AutoDrafter("auto", models, NgramDrafter()), TableScorer(p, V), small


class Turns:
    """Sources in turn, k tokens each."""

    def __init__(self, k: int, *sources: str) -> None:
        self._k, self._sources, self._round = k, sources, 0
        self.kinds: list[str] = []

    def choose(self, moment: Moment) -> Plan:
        self._round += 1
        offered = {offer.source for offer in moment.offers}
        source = self._sources[self._round % len(self._sources)]
        return Plan(self._k, source=source) if source in offered else Plan(0)

    def learn(self, kind: str, drafted: int, accepted: int) -> None:
        self.kinds.append(kind)


def run(
    drafter: AutoDrafter | NoDrafter, target: TableScorer, length: Turns, temperature: float
) -> tuple[Turn, list[Round], list[str]]:
    sampling = Sampling(temperature=temperature, max_tokens=120, seed=5)
    task = Task(PROMPT, sampling, "match", Noise.of(5, PROMPT), frozenset(), 4096)
    turn = Turn(task, target, drafter, length, TextStream(lambda ids: "x" * len(ids)))
    events = list(turn.run(NeverCancel()))
    notices = [event.text for event in events if isinstance(event, Notice)]
    return turn, [event for event in events if isinstance(event, Round)], notices


def test_everyone_offers_copies_first_and_who_is_named_drafts() -> None:
    made, _, small = several()
    assert isinstance(made, Several)
    assert (made.name, made.wants_hidden) == ("auto", False)
    assert [offer.source for offer in made.offers(PROMPT)] == ["ngram", "q", "r"]
    assert [offer.source for offer in made.offers((1, 2, 3))] == ["q", "r"]
    context = Context(PROMPT, len(PROMPT), Sampling(), "match", Noise(0, 0), "r")
    assert made.propose(context, 2).laws[0] is not None
    assert (small["q"].calls, len(small["r"].calls)) == ([], 2)


@pytest.mark.parametrize("temperature", [0, 0.8])
def test_taking_turns_changes_no_word(temperature: float) -> None:
    _, target, _ = several()
    plain, _, _ = run(NoDrafter(), target, Turns(0, ""), temperature)
    made, target, small = several()
    length = Turns(4, "q", "r", "ngram", "r")
    turn, rounds, notices = run(made, target, length, temperature)
    assert turn.reply == plain.reply
    assert notices == []
    assert {"q", "r"} < {one.source for one in rounds} - {""}
    assert {kind[:5] for kind in length.kinds} == {"q", "r", "ngram"}
    for scorer in small.values():
        assert scorer.ids == turn.tokens[: scorer.length]


def test_one_that_is_not_asked_reads_nothing_and_says_how_much_it_missed() -> None:
    made, target, small = several()
    turn, rounds, _ = run(made, target, Turns(3, "q"), 0.8)
    assert small["r"].calls == small["r"].prefills == []
    assert {one.source for one in rounds} == {"", "q"}
    missed = {offer.source: offer.behind for offer in made.offers(turn.tokens)}
    assert missed["r"] == len(turn.tokens)
    assert missed["q"] == 0


def test_who_was_taken_catches_up_in_pieces_and_nobody_else() -> None:
    made, _, small = several()
    tokens = list(range(1, 12)) * 4
    made.take("r")
    while not made.catch_up(tokens):
        assert small["r"].prefills[-1] <= 8
    assert small["r"].length > 30
    assert small["q"].prefills == []
    made.take("ngram")
    assert made.catch_up(tokens)


def test_those_that_want_states_are_told_and_an_editor_of_the_past_tells_all() -> None:
    hidden, (_, target, _) = Hidden(), several()
    other = Proposing(lambda tokens, k: [])
    made = AutoDrafter("auto", (other, hidden), NgramDrafter())
    assert made.wants_hidden
    made.watch(target)
    made.watch(None)
    assert hidden.watched == [target, None]


def test_where_nobody_is_named_the_first_that_can_is_asked() -> None:
    class Full(Proposing):
        def offers(self, tokens: object) -> tuple[Offer]:
            return (Offer(self.name, blocked="full"),)

    full, other = Full(lambda tokens, k: [1]), Proposing(lambda tokens, k: [2])
    full.name, other.name = "full", "other"
    made = AutoDrafter("auto", (full, other), NgramDrafter())
    context = Context((1, 2), 2, Sampling(), "match", Noise(0, 0))
    assert made.propose(context, 1) == Draft((2,), (None,))
    made.settle((1, 2, 2), 1)
    assert (len(other.settled), full.settled) == (1, [])


def test_looking_is_paid_from_a_share_of_the_time_and_by_losses_only() -> None:
    scouting = Scouting(1.0)
    assert not scouting.affords(0.1)
    for _ in range(100):
        scouting.passed(1.5)
    purse = 150 * SHARE
    assert scouting.affords(purse - 1e-9)
    assert not scouting.affords(purse + 1e-9)
    scouting.outcome("a", 2.0)  # nobody looked at it
    assert scouting.affords(purse - 1e-9)
    scouting.ask("a", look=True)
    scouting.outcome("a", 2.0)
    scouting.outcome("a", -5.0)  # what it gains is not for looking
    assert scouting.affords(purse - 2.0 - 1e-9)
    assert not scouting.affords(purse - 2.0 + 1e-9)
    for _ in range(4):
        scouting.outcome("a", 0.0)
    assert not scouting.looking("a")
    scouting.outcome("a", 1.0)  # by now it is known
    assert scouting.affords(purse - 2.0 - 1e-9)


def test_the_stopwatch_compares_drafting_with_the_scoring_of_the_same_round() -> None:
    watch, cost = Stopwatch(), DraftCost(0.1, 0.02)
    assert watch.corrected("a", cost) == cost
    for _ in range(40):
        watch.took("a", 3.0, 3.0)  # a slow machine, for both alike
        watch.took("b", 2.0, 1.0)
        watch.took("c", 1.0, 0.0)  # a clock too coarse
    assert watch.corrected("a", cost) == cost
    assert watch.corrected("b", cost).token == pytest.approx(0.2, rel=0.02)
    assert watch.corrected("b", cost).read == pytest.approx(0.04, rel=0.02)
    assert watch.corrected("c", cost) == cost
    net = DraftCost(0.1, net=True)
    assert watch.corrected("b", net) == net
    watch.took("b", 1000.0, 1.0)  # one disturbed round does little
    assert watch.corrected("b", cost).token < 0.22


def test_rest_is_counted_from_the_last_time_a_source_was_asked() -> None:
    scouting = Scouting(1.0)
    for _ in range(REST):
        scouting.passed(1.0)
    assert scouting.rest("a") == REST
    scouting.ask("a")
    scouting.passed(1.0)
    assert (scouting.rest("a"), scouting.rest("b")) == (1, REST + 1)


def test_the_line_about_the_favourite_comes_once_and_when_it_changes() -> None:
    known, costs = Favourite(), {"head": 0.08, "big": 0.4}
    for _ in range(4):
        known.note("big", 1)
    assert known.news(costs) == ""
    for _ in range(16):
        known.note("head", 3)
    line = "auto: drafts with head: 3.0 tokens a round at 0.08 of a step each; big gave 1.0"
    assert known.news(costs) == line
    assert known.news(costs) == ""
    for _ in range(20):
        known.note("ngram", 5)
    moved = "auto: moved to ngram: 5.0 tokens a round for nothing; big gave 1.0, head gave 3.0"
    assert known.news(costs) == moved
    for _ in range(3):
        known.note("head", 3)  # now and then is no change
    assert known.news(costs) == ""
