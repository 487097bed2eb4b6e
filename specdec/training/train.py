"""The training loop: updates, progress, acceptance on held-out text, checkpoints.

Knows a head, files of lessons and a clock; nothing of where lessons come from or where heads go.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import torch

from specdec.errors import EngineError
from specdec.linear import multiplies
from specdec.training import acceptance, checkpoint
from specdec.training.acceptance import Acceptance
from specdec.training.checkpoint import Place
from specdec.training.lessons import Shelf, Stored
from specdec.training.loss import total_loss
from specdec.training.module import DraftHead
from specdec.training.order import TOGETHER, Pick, epoch
from specdec.training.practice import STEPS, Batch, Ends, stack, unroll

TOKENS = 512
"""Tokens of an update, padding included: many small updates learn more in the same time."""

SHALLOW, FEW = 0.6, 2
"""For so much of training the head is fed its own output up to this step alone: while its first
guesses are wrong, what follows them teaches little."""

WARM = 50
"""Updates over which the rate rises."""

FLOOR = 0.05
"""Of the peak rate, what is left at the end."""

CLIP = 1.0

RARELY = 15
"""Measuring may take one second in so many."""


def rate(peak: float, updates: int, done: float) -> float:
    """The learning rate after so many updates, when this share of training, 0 to 1, is over.

    A cosine to FLOOR over the whole. It follows from the share alone, so a run that is killed goes
    on with the rate it had, and one whose minutes are raised with what a longer run has there.
    """
    warm = min(1.0, (updates + 1) / WARM)
    return peak * warm * (FLOOR + (1 - FLOOR) * (1 + math.cos(math.pi * min(done, 1.0))) / 2)


def steps_of(done: float) -> int:
    """How often the head is fed its own output when this share of training is over."""
    return FEW if done < SHALLOW else STEPS


@dataclass(frozen=True, slots=True)
class Pace:
    """When to speak, measure and save, in seconds; `progress()` goes from 0 to 1 over training."""

    progress: Callable[[int], float]
    say_every: float = 30.0
    measure_every: float = 300.0
    save_every: float = 60.0
    now: Callable[[], float] = time.monotonic


class Trainer:
    """Trains one head; what must outlive the process is in `place` and the checkpoint."""

    def __init__(
        self, head: DraftHead, ends: Ends, shelf: Shelf, held: Shelf, file: Path, seed: int
    ) -> None:
        self.head, self.ends = head, ends
        self._shelf, self._held, self._file, self._seed = shelf, held, file, seed
        self._device = ends.rows.device
        self._peak = 0.02 / math.sqrt(head.size.hidden)
        self._optimiser = torch.optim.AdamW(
            head.parameters(), self._peak, betas=(0.9, 0.95), weight_decay=0.0
        )
        self.place: Place = checkpoint.load(file, head, self._optimiser)
        if self.place.sequences != shelf.sequences:  # the place in an epoch of others is none
            began = self.place.batch > 0
            self.place.epoch, self.place.batch = self.place.epoch + began, 0
            self.place.sequences = shelf.sequences
        self._open: dict[int, list[Stored]] = {}
        self._order: tuple[int, list[Pick]] | None = None
        self._losses: list[float] = []

    def run(self, pace: Pace, saved: Callable[[], None], say: Callable[[str], None]) -> None:
        """Train until `pace.progress` reaches 1; the last thing done is to measure and save."""
        spoke = measured = kept = pace.now()
        wait = pace.measure_every
        while (done := pace.progress(self.place.updates)) < 1:
            pick = self._next()
            self._update([self._part(pick.part)[i] for i in pick.places], done)
            now = pace.now()
            if now - spoke >= pace.say_every:
                spoke = now
                say(self._line(done))
            if now - measured >= wait:
                say(str(self.measure()))
                measured = pace.now()
                wait = max(pace.measure_every, RARELY * (measured - now))
            if now - kept >= pace.save_every:
                self._save(saved)
                kept = pace.now()
        say(f"{self._line(1.0)}; {self.measure()}")
        self._save(saved)

    def measure(self) -> Acceptance:
        """Acceptance on the held-out sequences; it goes into the place's history."""
        with self._autocast():
            found = acceptance.measure(self.head, self.ends, self._held_batches())
        self.place.history.append(
            {
                "updates": self.place.updates,
                "tokens": self.place.tokens,
                "loss": self._loss(),
                "greedy": [round(share, 4) for share in found.greedy],
                "reject": [round(share, 4) for share in found.reject],
                "rows": found.rows,
            }
        )
        return found

    def _save(self, saved: Callable[[], None]) -> None:
        checkpoint.save(self._file, self.head, self._optimiser, self.place)
        saved()

    def _update(self, lessons: list[Stored], done: float) -> None:
        batch = stack(lessons, self._device)
        for group in self._optimiser.param_groups:
            group["lr"] = rate(self._peak, self.place.updates, done)
        self._optimiser.zero_grad(set_to_none=True)
        with self._autocast():
            loss = total_loss(unroll(self.head, self.ends, batch, steps_of(done)))
        if not math.isfinite(told := float(loss.detach())):
            raise EngineError(
                f"Training broke: after {self.place.updates:,} updates the loss is {told}.",
                "Try another --dtype, or begin anew in another --out.",
            )
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(self.head.parameters(), CLIP)
        self._optimiser.step()
        self._losses = [*self._losses[-99:], told]
        self.place.updates += 1
        self.place.tokens += sum(len(lesson.ids) for lesson in lessons)
        self.place.batch += 1

    def _next(self) -> Pick:
        if self.place.batch >= len(picks := self._picks()):
            self.place.epoch, self.place.batch = self.place.epoch + 1, 0
            picks = self._picks()
        return picks[self.place.batch]

    def _picks(self) -> list[Pick]:
        """The updates of this epoch."""
        number = self.place.epoch
        if self._order is None or self._order[0] != number:
            self._order = number, epoch(self._shelf.lengths, TOKENS, self._seed, number)
        return self._order[1]

    def _part(self, part: int) -> list[Stored]:
        if part not in self._open:
            if len(self._open) == TOGETHER:
                del self._open[next(iter(self._open))]  # of the files before these
            self._open[part] = self._shelf.read(part)
        return self._open[part]

    def _held_batches(self) -> Iterator[Batch]:
        for part in self._held.lengths:
            stored = sorted(self._held.read(part), key=lambda lesson: len(lesson.ids))
            while stored:
                count = max(1, TOKENS // len(stored[-1].ids))
                yield stack(stored[-count:], self._device)
                stored = stored[:-count]

    def _autocast(self) -> torch.autocast:
        """bf16 products where the device has them; parameters stay in fp32."""
        kind = self._device.type
        has = kind == "cuda" and torch.cuda.is_bf16_supported(including_emulation=False)
        has = has or (kind == "cpu" and multiplies(torch.bfloat16))
        return torch.autocast(kind, torch.bfloat16, enabled=has)

    def _loss(self) -> float | None:
        return round(sum(self._losses) / len(self._losses), 4) if self._losses else None

    def _line(self, done: float) -> str:
        place = self.place
        return (
            f"{done:4.0%} {place.updates:,} updates, {place.tokens:,} tokens"
            f" (epoch {place.epoch + 1}), loss {self._loss()}"
        )
