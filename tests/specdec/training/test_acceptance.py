"""Acceptance as told from one unrolled pass is that of chains drafted token by token."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from specdec.errors import EngineError
from specdec.training.acceptance import measure
from specdec.training.chats import Chat
from specdec.training.lessons import Shelf, Stored
from specdec.training.loss import step_loss, total_loss
from specdec.training.module import DraftHead, Size
from specdec.training.practice import STEPS, Ends, stack, unroll
from specdec.training.teacher import Lesson
from specdec.training.train import Pace, Trainer

pytestmark = pytest.mark.usefixtures("one_thread")

SIZE = Size(32, 48, 4, 2, 8, 1e-5, 1e4, 64, (1, 2, 3))
VOCAB, IDS = 3, (0, 2)


def scene(lengths: tuple[int, ...]) -> tuple[DraftHead, Ends, torch.Tensor, list[Stored]]:
    """A random head, and texts that mostly follow a random target's likeliest words."""
    torch.manual_seed(4)
    head = DraftHead(SIZE)
    output = torch.randn(VOCAB, 32)
    ends = Ends(torch.randn(VOCAB, 32), output[list(IDS)], torch.tensor(IDS))
    texts = []
    for n in lengths:
        last = torch.randn(n, 32).mul(0.5).bfloat16()
        logits = last.float() @ output.T
        top = logits.argmax(-1)
        ids = torch.randint(0, VOCAB, (n,))
        follow = torch.rand(n - 1) < 0.8
        ids[1:] = torch.where(follow, top[:-1], ids[1:])
        said = torch.rand(n) < 0.9
        taps = torch.randn(n, 96).bfloat16()
        texts.append(Stored(ids, said, taps, last, logits.logsumexp(-1), top))
    return head, ends, output, texts


@torch.no_grad()
def test_a_pass_tells_what_chains_keep() -> None:
    head, ends, output, texts = scene((43, 14, 51, 60, 40, 38, 57, 60))
    kept, tried = torch.zeros(2, STEPS), torch.zeros(2, STEPS)
    for text in texts:
        n = len(text.ids)
        law = (text.last.float() @ output.T).softmax(-1)
        for i in range(n - 1):
            steps = min(STEPS, n - 1 - i)
            embedded = ends.embed[text.ids[1 : i + 1 + steps]][None]
            outs = head(text.taps[None, : i + 1].float(), embedded, steps)
            greedy, chance = 1.0, 1.0
            for step in range(steps):
                at = i + 1 + step  # the token read; the draft stands for the one after it
                if at + 1 >= n or not text.said[at + 1]:
                    break
                draft = torch.zeros(VOCAB)
                draft[list(IDS)] = (outs[step][0, i] @ ends.rows.T).softmax(-1)
                right = float(draft.argmax() == text.top[at])
                kept[0, step] += greedy * right
                tried[0, step] += greedy
                kept[1, step] += chance * float(torch.minimum(law[at], draft).sum())
                tried[1, step] += chance
                follows = float(text.ids[at + 1] == text.top[at])
                greedy *= right * follows
                word = text.ids[at + 1]
                chance *= min(1.0, float(draft[word] / law[at, word]))
    found = measure(head, ends, [stack(texts[:2], kept.device), stack(texts[2:], kept.device)])
    assert tried[0].min() >= 1
    torch.testing.assert_close(torch.tensor(found.greedy), kept[0] / tried[0])
    torch.testing.assert_close(torch.tensor(found.reject), kept[1] / tried[1], atol=1e-4, rtol=1e-4)
    assert found.rows == int(tried[0, 0])


@torch.no_grad()
def test_what_a_row_is_to_say_is_the_target_s_own_law() -> None:
    head, ends, output, texts = scene((9, 12))
    batch = stack(texts, output.device)
    width = batch.ids.shape[1]
    for step, guess in enumerate(unroll(head, ends, batch)):
        said = sum(int(text.said[step + 2 :].sum()) for text in texts)
        assert len(guess.at) == said > 0
        for at, truth in zip(guess.at.tolist(), guess.truth, strict=True):
            text, place = texts[at // width], at % width
            law = (text.last[place].float() @ output.T).log_softmax(-1)
            torch.testing.assert_close(truth, law[list(IDS)], atol=1e-4, rtol=1e-4)


@torch.no_grad()
def test_text_that_no_model_said_is_all_learnt() -> None:
    head, ends, output, texts = scene((9, 12))
    texts[0].said.fill_(False)
    said = int(texts[1].said[2:].sum())
    first = unroll(head, ends, stack(texts, output.device))[0]
    assert len(first.at) == (9 - 2) + said


def test_a_batch_without_a_word_to_learn_moves_nothing() -> None:
    head, ends, output, texts = scene((9,))
    texts[0].said.fill_(False)[0] = True
    loss = total_loss(unroll(head, ends, stack(texts, output.device)))
    loss.backward()
    assert loss.item() == 0
    assert all(p.grad is None or not p.grad.any() for p in head.parameters())


@torch.no_grad()
def test_the_target_s_law_is_not_rounded_where_products_are() -> None:
    head, ends, output, texts = scene((9, 12))
    batch = stack(texts, output.device)
    exact = [guess.truth for guess in unroll(head, ends, batch)]
    with torch.autocast("cpu", torch.bfloat16):
        rounded = unroll(head, ends, batch)
    for one, guess in zip(exact, rounded, strict=True):
        assert torch.equal(one, guess.truth)
        assert guess.truth.dtype == torch.float32


def test_training_that_breaks_is_said_and_leaves_the_checkpoint(tmp_path: Path) -> None:
    head, ends, *_ = scene((9,))
    chat = Chat((0, 1, 2) * 3, ((2, 9),))
    lesson = Lesson(torch.full((9, 96), torch.nan), torch.ones(9, 32), torch.ones(9), torch.ones(9))
    shelf = Shelf(tmp_path / "lessons", [chat], 32)
    shelf.fill(lambda chats: [lesson], lambda: True)
    trainer = Trainer(head, ends, shelf, shelf, tmp_path / "checkpoint", 0)
    before = [weight.clone() for weight in head.parameters()]
    with pytest.raises(EngineError, match="after 0 updates the loss is nan"):
        trainer.run(Pace(lambda updates: 0.0), lambda: None, lambda text: None)
    assert all(torch.equal(a, b) for a, b in zip(before, head.parameters(), strict=True))
    assert not (tmp_path / "checkpoint").exists()


def test_the_loss_is_least_for_the_target_s_law_and_counts_what_can_be_said() -> None:
    torch.manual_seed(0)
    law = torch.randn(5, 8).log_softmax(-1)
    truth, own = law[:, :6], law[:, :6].clone().requires_grad_()
    best = step_loss(own, truth)
    assert best.abs() < 1e-6
    best.backward()
    assert own.grad is not None
    assert own.grad.abs().max() < 1e-6
    assert step_loss(torch.randn(5, 6), truth) > 0.01
    logits, inside = torch.randn(5, 6), truth.exp().sum(-1, keepdim=True)
    given = truth.exp() / inside
    rows = inside[:, 0] * (given * (given.log() - logits.log_softmax(-1))).sum(-1)
    torch.testing.assert_close(step_loss(logits, truth), rows.mean())
