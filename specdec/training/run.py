"""`train-draft` from text to a registered head, in steps that each go on where they were.

The order of it. Knows the parts and the folder they work in; nothing of their insides.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from filelock import FileLock, Timeout

from specdec import device
from specdec.checkpoint import read_config
from specdec.depot import Depot
from specdec.errors import SettingError
from specdec.families import shape_of
from specdec.tokenizer import load_tokenizer
from specdec.training import export, files, vocab
from specdec.training.beginning import begin
from specdec.training.chats import Chat, split
from specdec.training.clock import Clock
from specdec.training.gather import Loaded, Say, Student, lessons, texts
from specdec.training.lessons import Shelf
from specdec.training.module import DraftHead, Size
from specdec.training.plan import Plan
from specdec.training.practice import Ends
from specdec.training.register import register
from specdec.training.teacher import frozen_ends, taps_of
from specdec.training.train import Pace, Trainer


def train_draft(plan: Plan, say: Say) -> str:
    """Make the head and return the id it is registered under.

    Raises a SpecdecError that says what to do.
    """
    depot = Depot(plan.options, lambda phase: None, lambda: False)
    student = _student(depot, plan.target)
    with _alone(plan.out / "work") as work:
        return _train(plan, work, depot, student, say)


def _train(plan: Plan, work: Path, depot: Depot, student: Student, say: Say) -> str:
    clock = Clock(work / "clock.json", plan.minutes)
    _begin(work, plan, student)
    loaded = Loaded(depot, student, say)
    own, data = texts(plan, work, student, loaded, clock, say)
    train, held = split(own, data)
    shelf, exam = lessons(plan, work, train, held, student, loaded, clock, say)
    loaded.drop()
    ids = vocab.choose(_saying(own, data, held), train, plan.vocab)
    trainer = _trainer(plan, work, student, ids, shelf, exam)
    clock.enter("train")

    def progress(updates: int) -> float:
        return max(clock.trained, updates / plan.updates if plan.updates else 0.0)

    trainer.run(Pace(progress), clock.save, say)
    if not trainer.place.updates:
        raise SettingError(
            "The minutes were over before training began.",
            "Say the same again with more --minutes: what is written and read is kept.",
        )
    card = _card(plan, student, bool(own), exam, held, shelf, ids, trainer, clock)
    output = None if student.shape.tied else trainer.ends.rows
    export.write_head(plan.out, trainer.head, output, ids, student.shape.rows, card)
    return register(plan.options.data_dir, plan.out, student.files.entry)


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


@contextmanager
def _alone(work: Path) -> Iterator[Path]:
    """The folder to work in, for one run at a time; a run that is killed lets it go."""
    work.mkdir(parents=True, exist_ok=True)
    lock = FileLock(work / "lock")
    try:
        lock.acquire(timeout=0)
    except Timeout as error:
        raise SettingError(
            f"Another run is working in {work.parent}.", "Wait for it, or name another --out."
        ) from error
    try:
        yield work
    finally:
        lock.release()


def _begin(work: Path, plan: Plan, student: Student) -> None:
    """Write down what this folder is for. Raises SettingError when it was begun for something else.

    Minutes, updates, chats, disk and the vocabulary may change, and a file may come to chats: what
    was held out stays so. Another file could bring what was held out of the first.
    """
    asked = {
        "target": student.files.entry.id,
        "data sha256": None if plan.data is None else _digest(plan.data),
        "seed": plan.seed,
        "chats": plan.write,
        "vocab": plan.vocab,
        "disk": plan.disk_gb,
    }
    begun = files.read_json(work / "run.json") or {}
    for name in ("target", "data sha256", "seed"):
        if begun.get(name) not in (None, asked[name]):
            raise SettingError(
                f"{plan.out} was begun with another {name}: {begun[name]}, now {asked[name]}.",
                "Say the same again to go on, or name another --out.",
            )
    if begun != asked:
        files.write_json(work / "run.json", asked)


def _digest(file: Path) -> str:
    with file.open("rb") as data:
        return hashlib.file_digest(data, "sha256").hexdigest()


def _saying(own: Sequence[Chat], data: Sequence[Chat], held: Sequence[Chat]) -> list[Chat]:
    """Whose replies say which ids are worth drafting: the target's own, where it wrote some."""
    out = {chat.digest for chat in held}
    return [chat for chat in own or data if chat.digest not in out]


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
    begin(head, student.files.folder, shape)
    return Trainer(head.to(where), ends, shelf, exam, work / "checkpoint.safetensors", plan.seed)


def _card(
    plan: Plan,
    student: Student,
    wrote: bool,
    exam: Shelf,
    held: Sequence[Chat],
    shelf: Shelf,
    ids: tuple[int, ...],
    trainer: Trainer,
    clock: Clock,
) -> dict[str, Any]:
    place = trainer.place
    sources = ["chats the target wrote itself"] if wrote else []
    sources += [plan.data.name] if plan.data else []
    return {
        "target": student.files.entry.id,
        "data": " and ".join(sources),
        "sequences": shelf.sequences,
        "tokens_gathered": shelf.tokens,
        "held_out": exam.sequences,
        "updates": place.updates,
        "tokens_trained": place.tokens,
        "minutes": round(clock.spent / 60, 2),
        "device": str(student.where.device),
        "vocab": len(ids),
        "covered": round(vocab.covered(held, ids), 4),
        "acceptance": place.history[-1],
        "history": place.history,
        "command": plan.command,
    }
