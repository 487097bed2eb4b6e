"""`specdec.threads`: fewer threads where they pay, told with figures, and all for a prompt."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

from specdec import threads
from specdec.loading import load_model
from specdec.measure import choose_runner
from specdec.target import open_scorer
from tests.tiny import tiny_model


@pytest.fixture
def four() -> Iterator[None]:
    """A process that torch began with four threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(4)
    threads.most.cache_clear()
    threads.most()
    yield
    torch.set_num_threads(before)
    threads.most.cache_clear()
    threads.most()


class Costs:
    """A step and a clock: it takes what its number of threads says, in seconds."""

    def __init__(self, seconds: dict[int, float]) -> None:
        self.now = 0.0
        self._seconds = seconds

    def step(self) -> None:
        self.now += self._seconds[torch.get_num_threads()]

    def clock(self) -> float:
        return self.now


@pytest.mark.parametrize(
    ("seconds", "best"),
    [
        ({4: 0.010, 2: 0.006, 1: 0.009}, 2),
        ({4: 0.010, 2: 0.008, 1: 0.005}, 1),
        ({4: 0.010, 2: 0.020, 1: 0.040}, 4),
        ({4: 0.010, 2: 0.0098, 1: 0.0096}, 4),  # noise is no reason to leave cores idle
    ],
)
@pytest.mark.usefixtures("four")
def test_the_soonest_count_is_taken(seconds: dict[int, float], best: int) -> None:
    costs = Costs(seconds)
    taken = threads.choose(costs.step, costs.clock)
    assert taken.count == best
    assert f"{best} of 4" in taken.reason
    assert "10.0 ms with 4" in taken.reason
    assert torch.get_num_threads() == 4  # choosing changes nothing by itself


@pytest.mark.usefixtures("four")
def test_a_slow_step_is_not_repeated_for_long() -> None:
    costs = Costs({4: 3.0, 2: 4.0, 1: 5.0})
    assert threads.choose(costs.step, costs.clock).count == 4
    assert costs.now == pytest.approx(12.0)  # one turn, which counts


def test_one_thread_leaves_no_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "most", lambda: 1)
    assert threads.choose(lambda: pytest.fail("nothing is to be measured")) == threads.Taken(1, "")


def test_counts_are_halved_down_to_one() -> None:
    assert threads.counts(12) == [12, 6, 3, 1]
    assert threads.counts(1) == [1]


@pytest.mark.usefixtures("four")
def test_threads_are_given_back_after_an_error() -> None:
    def fail() -> None:
        assert torch.get_num_threads() == 1
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), threads.using(1):
        fail()
    assert torch.get_num_threads() == 4


@pytest.mark.usefixtures("four")
def test_a_load_settles_steps_and_prompts_take_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = load_model(tiny_model(tmp_path), torch.device("cpu"), torch.float32)
    monkeypatch.setattr(threads, "choose", lambda step: threads.Taken(1, "one is best"))
    chosen = choose_runner(model, 4, 64, model.vocab)
    assert torch.get_num_threads() == 1
    assert chosen.choice.reason.endswith("; one is best")
    seen = _counts_in(monkeypatch, "specdec.decoder.fill")
    scorer = open_scorer(model, "fast", 4, 64, model.vocab)
    scorer.prefill([1, 2, 3])
    assert seen() == 4
    assert torch.get_num_threads() == 1


def _counts_in(monkeypatch: pytest.MonkeyPatch, name: str) -> Callable[[], int]:
    from specdec import decoder

    real, seen = decoder.fill, []

    def spy(*given: object) -> None:
        seen.append(torch.get_num_threads())
        real(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(name, spy)
    return lambda: seen[-1]
