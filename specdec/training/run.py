"""`train-draft` from text to a registered head, in steps that each go on where they were.

The order of it. Knows the parts and the folder they work in; nothing of their insides.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from specdec import device
from specdec.checkpoint import read_config
from specdec.decoder import Weights
from specdec.depot import Depot, Files
from specdec.device import DeviceChoice
from specdec.errors import SettingError
from specdec.families import Shape, shape_of
from specdec.loading import Model
from specdec.tokenizer import end_ids, load_tokenizer
from specdec.training import export, files, lessons, vocab
from specdec.training.chats import Chat, read_chats, split
from specdec.training.clock import Clock
from specdec.training.frame import frame_of
from specdec.training.lessons import Shelf
from specdec.training.module import DraftHead, Size
from specdec.training.plan import Plan
from specdec.training.practice import Ends
from specdec.training.register import register
from specdec.training.teacher import Teacher, frozen_ends, taps_of
from specdec.training.train import Pace, Trainer
from specdec.training.write import ChatFiles, Writer, write_chats

Say = Callable[[str], None]

WRITE_UNTIL, READ_UNTIL = 0.4, 0.6
"""Shares of the minutes after which the target writes no more chats, and reads no more of them."""


FEWEST = 8
"""Chats for which the target may take longer than its share."""


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


def train_draft(plan: Plan, say: Say) -> str:
    """Make the head and return the id it is registered under.

    Raises a SpecdecError that says what to do.
    """
    work = plan.out / "work"
    clock = Clock(work / "clock.json", plan.minutes)
    depot = Depot(plan.options, lambda phase: None, lambda: False)
    student = _student(depot, plan.target)
    _begin(work, plan, student)
    loaded = _Loaded(depot, student, say)
    train, held = split(_texts(plan, work, student, loaded, clock, say))
    shelf, exam = _lessons(plan, work, train, held, student, loaded, clock, say)
    loaded.drop()
    ids = vocab.choose((chat.ids for chat in train), plan.vocab)
    trainer = _trainer(plan, work, student, ids, shelf, exam)
    began = min(clock.spent / clock.total, 1.0)

    def progress(updates: int) -> float:
        time = (clock.spent / clock.total - began) / (1 - began) if began < 1 else 1.0
        return max(time, updates / plan.updates if plan.updates else 0.0)

    trainer.run(Pace(progress), clock.save, say)
    card = _card(plan, student, train, held, shelf, ids, trainer, clock)
    output = None if student.shape.tied else trainer.ends.rows
    export.write_head(plan.out, trainer.head, output, ids, student.shape.rows, card)
    return register(plan.options.data_dir, plan.out, student.files.entry)


class _Loaded:
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
        assert self._model.weights is not None  # _student refused what transformers alone can run
        return self._model.weights

    def drop(self) -> None:
        """Let the memory go: training needs it."""
        self._model = None


def _student(depot: Depot, target: str) -> Student:
    got = depot.ready(depot.registry.get(target))
    shape, reason = shape_of(read_config(got.folder))
    if shape is None or shape.gemma:
        raise SettingError(
            f"No head can be trained for {got.entry.id} yet:"
            f" {reason or 'its embedding is scaled and its logits are capped'}.",
            "Choose a Llama, Mistral, Qwen2, Qwen3, SmolLM3 or Phi-3 target.",
        )
    taps_of(shape.layers)
    where = device.choose(depot.options.device, depot.options.dtype)
    return Student(got, where, shape, load_tokenizer(got.folder))


def _begin(work: Path, plan: Plan, student: Student) -> None:
    """Write down what this folder is for. Raises SettingError when it was begun for something else.

    Minutes and updates may change: a head may be trained for longer.
    """
    data = None if plan.data is None else hashlib.sha256(plan.data.read_bytes()).hexdigest()
    asked = {
        "target": student.files.entry.id,
        "data sha256": data,
        "chats": plan.write,
        "vocab": plan.vocab,
        "disk": plan.disk_gb,
        "seed": plan.seed,
    }
    begun = files.read_json(work / "run.json")
    if begun is None:
        files.write_json(work / "run.json", asked)
        return
    changed = [name for name, value in asked.items() if begun.get(name) != value]
    if changed:
        raise SettingError(
            f"{plan.out} was begun with another {changed[0]}:"
            f" {begun.get(changed[0])}, now {asked[changed[0]]}.",
            "Say the same again to go on, or name another --out.",
        )


def _texts(
    plan: Plan, work: Path, student: Student, loaded: _Loaded, clock: Clock, say: Say
) -> list[Chat]:
    if plan.data is not None:
        return read_chats(plan.data, student.tokenizer)
    assert plan.write is not None
    tokenizer, folder = student.tokenizer, student.files.folder
    frame = frame_of(tokenizer, end_ids(folder, tokenizer))

    def open_writer(rows: int) -> Writer:
        return Writer(loaded.weights(), student.vocab, frame, rows)

    def go_on(done: int) -> bool:
        return clock.before(WRITE_UNTIL if done >= FEWEST else READ_UNTIL)

    def told(text: str) -> None:
        clock.save()
        say(text)

    kept = ChatFiles(work / "chats")
    write_chats(kept, plan.write, plan.seed, open_writer, go_on, told)
    return list(kept)


def _lessons(
    plan: Plan,
    work: Path,
    train: list[Chat],
    held: list[Chat],
    student: Student,
    loaded: _Loaded,
    clock: Clock,
    say: Say,
) -> tuple[Shelf, Shelf]:
    """Held-out text first: without it nothing could be told. Disk bounds both together."""
    hidden = student.shape.hidden
    room = int(plan.disk_gb * 1e9) // lessons.token_bytes(hidden)
    exam_chats = lessons.within(held, room // 10) or held[:1]
    train_chats = lessons.within(train, room - sum(len(chat.ids) for chat in exam_chats))
    if not train_chats:
        raise SettingError("--disk leaves no room for training text.", "Allow more.")
    if len(train_chats) < len(train):
        say(f"{len(train) - len(train_chats):,} of {len(train):,} sequences are left out (--disk)")
    exam = Shelf(work / "held", exam_chats, hidden)
    shelf = Shelf(work / "lessons", train_chats, hidden)
    wanted = [s for s in (exam, shelf) if len(s.ready) < len(s.parts)]
    if not wanted:
        return shelf, exam
    teacher = None

    def teach(chats: Any) -> list[Any]:
        nonlocal teacher
        if teacher is None:
            teacher = Teacher(loaded.weights(), student.vocab)
        return teacher.lessons(chats)

    def go_on(part: int) -> bool:
        clock.save()
        say(f"the target reads: {shelf.tokens:,} tokens so far, part {part + 1}")
        return part == 0 or clock.before(READ_UNTIL)

    exam.fill(teach, lambda part: True)
    shelf.fill(teach, go_on)
    return shelf, exam


def _trainer(
    plan: Plan,
    work: Path,
    student: Student,
    ids: tuple[int, ...],
    shelf: Shelf,
    exam: Shelf,
) -> Trainer:
    where, shape = student.where.device, student.shape
    embed, output = frozen_ends(student.files.folder, shape)
    own = torch.tensor(ids)
    ends = Ends(embed.to(where), output[own].float().to(where), own.to(where))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(plan.seed)
        head = DraftHead(Size.of(shape, taps_of(shape.layers)))
    return Trainer(head.to(where), ends, shelf, exam, work / "checkpoint.safetensors", plan.seed)


def _card(
    plan: Plan,
    student: Student,
    train: list[Chat],
    held: list[Chat],
    shelf: Shelf,
    ids: tuple[int, ...],
    trainer: Trainer,
    clock: Clock,
) -> dict[str, Any]:
    place = trainer.place
    return {
        "target": student.files.entry.id,
        "data": plan.data.name if plan.data else f"{plan.write:,} chats the target wrote itself",
        "sequences": sum(len(shelf.parts[part]) for part in shelf.ready),
        "tokens_gathered": shelf.tokens,
        "held_out": len(held),
        "updates": place.updates,
        "tokens_trained": place.tokens,
        "minutes": round(clock.spent / 60, 2),
        "device": str(student.where.device),
        "vocab": len(ids),
        "covered": round(vocab.covered((chat.ids for chat in train), ids), 4),
        "acceptance": place.history[-1],
        "history": place.history,
        "command": plan.command,
    }
