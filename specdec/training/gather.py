"""What a head learns from: chats that are written or read, and what the target thinks of them.

Each step goes on where it was, and with more where more is asked for. Knows the target, the folder
and the clock; nothing of heads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from specdec.decoder import Weights
from specdec.depot import Depot, Files
from specdec.device import DeviceChoice
from specdec.errors import SettingError
from specdec.families import Shape
from specdec.loading import Model
from specdec.tokenizer import end_ids
from specdec.training.chats import Chat, read_chats, sample
from specdec.training.clock import Clock
from specdec.training.frame import frame_of
from specdec.training.lessons import Shelf, token_bytes
from specdec.training.plan import Plan
from specdec.training.teacher import Lesson, Teacher
from specdec.training.write import ChatFiles, Writer, write_chats

Say = Callable[[str], None]

WRITE, WRITE_AND_READ = 0.4, 0.6
"""Shares of all minutes that the target may write chats for, and write and read them for."""

FEWEST = 8
"""Chats for which the target may take longer than its share."""

EXAM = 10
"""Of the disk's room, one part in so many is for held-out text."""


@dataclass(frozen=True, slots=True)
class Student:
    """A target's files, and what a head needs of them."""

    files: Files
    where: DeviceChoice
    shape: Shape
    tokenizer: Any

    @property
    def vocab(self) -> int:
        """Ids that the tokenizer knows and the target has a row for."""
        return min(len(self.tokenizer), self.shape.rows)


class Loaded:
    """The target's weights, in memory only while somebody needs them."""

    def __init__(self, depot: Depot, student: Student, say: Say) -> None:
        self._depot, self._student, self._say = depot, student, say
        self._model: Model | None = None

    def weights(self) -> Weights:
        """Load, the first time."""
        if self._model is None:
            student, where = self._student, self._student.where
            self._say(f"loading {student.files.entry.id} in {where.dtype_choice.value}")
            self._model = self._depot.load(student.files, where.device, where.dtype, where.form)
        assert self._model.weights is not None  # only targets of the lean decoder have students
        return self._model.weights

    def drop(self) -> None:
        """Let the memory go: training needs it."""
        self._model = None


def texts(
    plan: Plan, work: Path, student: Student, loaded: Loaded, clock: Clock, say: Say
) -> tuple[list[Chat], list[Chat]]:
    """Chats that the target wrote, those of earlier runs too, and what the file brings.

    Raises SettingError for a file that is not understood, or a token the target does not know.
    """
    rows = [] if plan.data is None else read_chats(plan.data, student.tokenizer)
    data = sample(rows, _room(plan, student))
    kept = ChatFiles(work / "chats")
    if plan.write is not None:
        clock.enter("write")
        shelf = Shelf(work / "lessons", (), student.shape.hidden)
        _write(plan, kept, shelf, student, loaded, clock, say)
    own = list(kept)
    if max((max(chat.ids, default=0) for chat in (*own, *data)), default=0) >= student.vocab:
        raise SettingError(
            f"The text holds a token that {student.files.entry.id} has no row for.",
            "Give other text with --data, or choose another target.",
        )
    return own, data


def _room(plan: Plan, student: Student) -> int:
    """Tokens whose states may lie on disk."""
    return int(plan.disk_gb * 1e9) // token_bytes(student.shape.hidden)


def _write(
    plan: Plan,
    kept: ChatFiles,
    shelf: Shelf,
    student: Student,
    loaded: Loaded,
    clock: Clock,
    say: Say,
) -> None:
    assert plan.write is not None
    count, tokenizer, room = plan.write, student.tokenizer, _room(plan, student)
    frame = frame_of(tokenizer, end_ids(student.files.folder, tokenizer))

    def open_writer(rows: int) -> Writer:
        return Writer(loaded.weights(), student.vocab, frame, rows)

    def learn(chats: Sequence[Chat], thought: Sequence[Lesson]) -> None:
        shelf.add(chats, thought, room - room // EXAM)

    def go_on(done: int) -> bool:
        share = WRITE if done >= FEWEST else WRITE_AND_READ
        return clock.spent_on("write") < share * clock.total

    def told(text: str) -> None:
        clock.save()
        say(text)

    write_chats(kept, learn, count, plan.seed, open_writer, go_on, told)
    if (done := sum(1 for _ in kept)) < count:
        say(f"{done:,} of {count:,} chats are written; more would take more --minutes")


def lessons(
    plan: Plan,
    work: Path,
    train: Sequence[Chat],
    held: Sequence[Chat],
    student: Student,
    loaded: Loaded,
    clock: Clock,
    say: Say,
) -> tuple[Shelf, Shelf]:
    """What the target thinks of both; of held-out text first: without it nothing could be told.

    Disk bounds both together. Raises SettingError where it has no room.
    """
    clock.enter("read")
    hidden = student.shape.hidden
    room = _room(plan, student)
    exam, shelf = Shelf(work / "held", held, hidden), Shelf(work / "lessons", train, hidden)
    teacher: Teacher | None = None

    def teach(chats: Sequence[Chat]) -> list[Lesson]:
        nonlocal teacher
        if teacher is None:
            teacher = Teacher(loaded.weights(), student.vocab)
        return teacher.lessons(chats)

    def go_on() -> bool:
        clock.save()
        say(f"the target reads: {shelf.tokens:,} tokens so far")
        more = clock.spent_on("write", "read") < WRITE_AND_READ * clock.total
        return more or not shelf.sequences

    exam.fill(teach, lambda: True, max(room // EXAM, len(held[0].ids)))
    shelf.fill(teach, go_on, room - exam.tokens)
    if not shelf.sequences:
        raise SettingError("--disk leaves no room for training text.", "Allow more.")
    if shelf.missing:
        say(f"{shelf.missing:,} sequences wait for more --disk or --minutes")
    return shelf, exam
