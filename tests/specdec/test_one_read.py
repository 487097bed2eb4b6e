"""A round whose draft stays on its device: one read, and the same rounds as where all is read."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from specdec import turn, verify
from specdec.captured import CapturedScorer
from specdec.contract import Finished, NeverCancel, Notice, Round, Sampling
from specdec.decoder import Weights
from specdec.detokenize import TextStream
from specdec.drafters.base import Context, Drafter
from specdec.drafters.model import ModelDrafter
from specdec.drafters.none import NoDrafter
from specdec.errors import EngineError
from specdec.graphs import Graphs
from specdec.loading import load_model
from specdec.noise import Noise
from specdec.runner import Layout, LeanScorer
from specdec.scorer import Scorer
from specdec.trial import Cycle
from specdec.turn import Task, Turn
from tests.specdec.graph_kit import Recorder
from tests.specdec.reads_kit import Reads
from tests.tiny import TOKENS, tiny_model

pytestmark = pytest.mark.usefixtures("one_thread")

WIDTH = 8
LAYOUT = Layout(WIDTH, tuple(range(1, WIDTH + 1)), True, doubling=True)
PROMPT = tuple(random.Random(2).choices(range(TOKENS), k=40))
KS = (4, 1, 7, 3, 2)
SETTINGS = [
    Sampling(temperature=0, max_tokens=40, seed=1),
    Sampling(temperature=0.8, max_tokens=40, seed=2),
    Sampling(0.8, 40, 0.9, 0.02, 1.2, 0.1, 0.1, max_tokens=40, seed=3),
]


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Weights:
    folder = tiny_model(tmp_path_factory.mktemp("read"), "llama", seed=4)
    weights = load_model(folder, torch.device("cpu"), torch.float32).weights
    assert weights is not None
    return weights


class Half(LeanScorer):
    """A draft that is right but for every fifth place. `calls` are (position, rows) of its steps.

    From `rotten` on its logits are not numbers.
    """

    calls: list[tuple[int, int]]
    rotten = 10**9

    def score_tensor(self, ids: Tensor) -> Tensor:
        self.calls.append((self.length, len(ids)))
        logits = super().score_tensor(ids).clone()
        if self.length % 5 == 0:
            logits[-1] = logits[-1].roll(1)
        return logits * torch.nan if self.length >= self.rotten else logits


@dataclass
class Pair:
    """A target and its draft over the same weights; `again` are the draws made twice so far."""

    target: LeanScorer
    draft: Half
    drafter: Drafter
    ends: frozenset[int] = frozenset()
    again: list[int] = field(default_factory=list)

    @classmethod
    def of(cls, weights: Weights, ends: frozenset[int] = frozenset()) -> Pair:
        draft = Half(weights, LAYOUT, 400, TOKENS, False)
        draft.calls = []
        drafter = ModelDrafter(draft, "half", TOKENS, ends)
        return cls(LeanScorer(weights, LAYOUT, 400, TOKENS, True), draft, drafter, ends)

    def turn(self, sampling: Sampling) -> Turn:
        task = Task(PROMPT, sampling, "match", Noise.of(sampling.seed or 0, PROMPT), self.ends, 400)
        text = TextStream(lambda ids: "".join(chr(0x100 + i) for i in ids))
        self.target.rewind(min(self.target.length, len(PROMPT) - 1))
        self.lengths = Cycle(KS)
        return Turn(task, self.target, self.drafter, self.lengths, text)

    def rounds(self, sampling: Sampling) -> list[Round]:
        return [e for e in self.turn(sampling).run(NeverCancel()) if isinstance(e, Round)]


def told(rounds: list[Round]) -> list[tuple[object, ...]]:
    return [(r.ids, r.text, r.spans, r.drafted, r.accepted, r.k) for r in rounds]


@pytest.fixture
def on_device(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """The CPU does as a CUDA device; the indices of draws that had to be made again."""
    again: list[int] = []
    plain = verify.draw

    def judge(rule, draft, rows, noise, index):  # type: ignore[no-untyped-def]
        return verify.match_on_device(draft, rows, noise, index)

    def stays(scorer: Scorer, context: Context) -> LeanScorer | None:
        return scorer if isinstance(scorer, LeanScorer) and context.rule == "match" else None

    def redraw(p, noise, index, stream):  # type: ignore[no-untyped-def]
        again.append(index)
        return plain(p, noise, index, stream)

    with monkeypatch.context() as patch:
        patch.setattr(turn, "judge", judge)
        patch.setattr("specdec.drafters.model.on_device_scorer", stays)
        patch.setattr(verify, "draw", redraw)
        yield again


def plain_ids(weights: Weights, sampling: Sampling, ends: frozenset[int]) -> tuple[int, ...]:
    pair = Pair.of(weights, ends)
    pair.drafter = NoDrafter()
    made = pair.turn(sampling)
    list(made.run(NeverCancel()))
    return made.reply


@pytest.mark.parametrize("sampling", SETTINGS, ids=["greedy", "T0.8", "filters"])
def test_the_host_reads_once_a_round(
    weights: Weights, sampling: Sampling, on_device: list[int]
) -> None:
    """A draw that the device is not sure of is made again, with reads of its own."""
    pair, once = Pair.of(weights), 0
    events = pair.turn(sampling).run(NeverCancel())
    while True:
        on_device.clear()
        with Reads() as reads:
            event = next(events)
        if isinstance(event, Finished):
            break
        if isinstance(event, Round) and not on_device:
            assert reads.seen == ["tolist"]
            once += event.drafted > 0
    rounds = len(pair.lengths.outcomes)
    assert once == rounds if sampling.temperature == 0 else once >= 0.9 * rounds
    full = [accepted == drafted for drafted, accepted in pair.lengths.outcomes]
    assert 3 <= sum(full) <= rounds - 3


class Ones(TorchFunctionMode):
    """Tensors without data hold ones for whoever asks by `tolist`: sure, finite, all the same."""

    count = 0

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if getattr(func, "__name__", "") != "tolist":
            return func(*args, **(kwargs or {}))
        assert args[0].is_meta
        self.count += 1
        return [1.0] * len(args[0])


@pytest.mark.usefixtures("on_device")
@pytest.mark.parametrize(
    ("sampling", "captured"),
    [(SETTINGS[0], True), (SETTINGS[1], False), (SETTINGS[2], True)],
    ids=range(3),
)
def test_a_device_without_data_serves_but_for_that_read(
    tmp_path: Path, sampling: Sampling, captured: bool
) -> None:
    """torch's meta device has shapes alone, and refuses whatever would read a number."""
    weights = load_model(tiny_model(tmp_path, "llama"), torch.device("meta"), torch.float32).weights
    assert weights is not None
    pair = Pair.of(weights)
    if captured:  # the work of a captured call, run as it is
        pair.target, draft = (
            CapturedScorer(weights, LAYOUT, 400, TOKENS, True, Graphs(Recorder(fail="no graphs")))
            for _ in range(2)
        )
        pair.drafter = ModelDrafter(draft, "captured", TOKENS, frozenset())
    rounds: list[Round] = []
    with Ones() as ones:
        for event in pair.turn(replace(sampling, max_tokens=20)).run(NeverCancel()):
            assert not isinstance(event, Notice), event.text
            assert ones.count == isinstance(event, Round)
            rounds += [event] if isinstance(event, Round) else []
            ones.count = 0
    assert sum(len(r.ids) for r in rounds) == 20
    assert sum(r.accepted for r in rounds) == sum(r.drafted for r in rounds) > 10


@pytest.mark.parametrize("sampling", SETTINGS, ids=["greedy", "T0.8", "filters"])
def test_every_round_is_the_one_of_a_host_that_reads_all(
    weights: Weights, sampling: Sampling, request: pytest.FixtureRequest
) -> None:
    """The draft's calls too: it learns which of its tokens were kept without having read them."""
    said = []
    for _ in range(2):
        pair = Pair.of(weights)
        first = told(pair.rounds(sampling))
        again = told(pair.rounds(sampling))  # the next reply finds the draft's cache in order
        said.append((first, again, pair.draft.calls, pair.lengths.outcomes))
        request.getfixturevalue("on_device")  # from here on
    assert said[0] == said[1]
    assert said[0][0] == said[0][1]


@pytest.mark.parametrize("place", [2, 4, 5, 11])
def test_an_end_in_mid_draft_ends_reply_and_counters(
    weights: Weights, place: int, request: pytest.FixtureRequest
) -> None:
    end = plain_ids(weights, SETTINGS[1], frozenset())[place]
    ends = frozenset({end})
    said = []
    for _ in range(2):
        pair = Pair.of(weights, ends)
        made = pair.turn(SETTINGS[1])
        events = list(made.run(NeverCancel()))
        last = events[-1]
        assert isinstance(last, Finished)
        assert (last.reason, last.ids) == ("end", plain_ids(weights, SETTINGS[1], ends))
        assert pair.target.length == len(made.tokens) - 1
        rounds = told([e for e in events if isinstance(e, Round)])
        said.append((rounds, last.metrics.drafted, last.metrics.accepted, pair.lengths.outcomes))
        request.getfixturevalue("on_device")  # from here on
    assert said[0] == said[1]


@pytest.mark.usefixtures("on_device")
@pytest.mark.parametrize("rotten", [41, 46])
@pytest.mark.parametrize("sampling", SETTINGS[::2], ids=["greedy", "filters"])
def test_a_draft_that_turns_rotten_is_told_of_and_never_heard(
    weights: Weights, sampling: Sampling, rotten: int
) -> None:
    pair = Pair.of(weights)
    pair.draft.rotten = rotten
    made = pair.turn(sampling)
    events = list(made.run(NeverCancel()))
    notices = [e for e in events if isinstance(e, Notice)]
    assert len(notices) == 1
    assert "The draft failed and is off for this reply: The model's scores" in notices[0].text
    later = [e for e in events[events.index(notices[0]) :] if isinstance(e, Round)]
    assert len(later) >= 15
    assert all(e.drafted == 0 for e in later)
    assert made.reply == plain_ids(weights, sampling, frozenset())
    pair.draft.rotten = 10**9
    healed = pair.rounds(sampling)  # the next reply asks it again
    assert tuple(i for r in healed for i in r.ids) == made.reply
    assert sum(r.accepted for r in healed) > 15


@pytest.mark.usefixtures("on_device")
def test_a_round_that_fails_leaves_no_unread_token_behind(weights: Weights) -> None:
    """The draft's scorer then holds what it never learned of; the next reply forgets it."""

    class Failing(LeanScorer):
        fails_at = 3

        def score_tensor(self, ids: Tensor) -> Tensor:
            self.fails_at -= 1
            if self.fails_at == 0:
                raise EngineError("out of memory", "")
            return super().score_tensor(ids)

    pair = Pair.of(weights)
    pair.target = Failing(weights, LAYOUT, 400, TOKENS, True)
    with pytest.raises(EngineError, match="out of memory"):
        pair.rounds(SETTINGS[1])
    held = pair.draft.length
    again = pair.rounds(SETTINGS[1])
    assert held > len(PROMPT) + 2
    assert tuple(i for r in again for i in r.ids) == plain_ids(weights, SETTINGS[1], frozenset())
    assert sum(r.accepted for r in again) > 15
