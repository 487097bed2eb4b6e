"""Under `match` a draft's text becomes the target's tokens, not one to one; on real tokenizers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import torch

from specdec.drafters.base import Context
from specdec.drafters.reading import Reading
from specdec.drafters.translated import TranslatedDrafter
from specdec.noise import Noise
from specdec.request import Rule, Sampling
from specdec.tokenizer import load_tokenizer
from specdec.translated_draft import make_tongue, share
from tests.fakes import TableScorer, scripted_table
from tests.specdec.tongue_kit import CODE, ENGLISH, tongue_of, write_other

SIZE, MARKS = 480, ("<|over|>", "<|im_start|>", "<|im_end|>")
Encode = Callable[[str], list[int]]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A target of many words, and a draft of few."""
    base = tmp_path_factory.mktemp("respelled")
    target = write_other(base / "target", CODE + ENGLISH, SIZE, MARKS)
    return target, write_other(base / "draft", ENGLISH, 310)


def encode(folder: Path) -> Encode:
    tokenizer = load_tokenizer(folder)
    return lambda text: list(tokenizer(text, add_special_tokens=False)["input_ids"])


def saying(
    folders: tuple[Path, Path], begun: str, text: str, end: Sequence[int] = ()
) -> tuple[TranslatedDrafter, TableScorer]:
    """A draft that says `text` after `begun`, in its own tokens."""
    tongue, table, ends = tongue_of(*folders)
    own, vocab = load_tokenizer(folders[1]), len(load_tokenizer(folders[0]))
    said = [*tongue.encode(text), *end]
    start = len(Reading(tongue).read(encode(folders[0])(begun)) or ())
    fake = TableScorer(scripted_table(said, start, len(own)), len(own))
    finals = frozenset(theirs for _, theirs in ends)
    return TranslatedDrafter(fake, "d", tongue, share(table, ends, own, vocab), finals), fake


def asking(tokens: list[int], rule: Rule = "match", least: tuple[float, ...] = ()) -> Context:
    sampling = Sampling(temperature=0)
    return Context(tokens, 0, sampling, rule, Noise.of(1, ()), least=least)


def test_what_the_draft_says_is_spelled_by_the_target(folders: tuple[Path, Path]) -> None:
    target, draft = encode(folders[0]), encode(folders[1])
    begun, text = "It was the", " worst of times, it was the best"
    other, fake = saying(folders, begun, text)
    assert len(draft(text)) > len(target(text)) > 3
    tokens = other.propose(asking(target(begun)), len(draft(text))).tokens
    steps = len(fake.calls)
    assert list(tokens) == target(begun + text)[len(target(begun)) :][: len(tokens)]
    assert 3 < len(tokens) < steps


def test_more_than_was_asked_for_is_never_drafted(folders: tuple[Path, Path]) -> None:
    """One token of the draft's may be many of the target's."""
    target = encode(folders[0])
    turned = (folders[1], folders[0])  # the coarse one drafts
    other, fake = saying(turned, "It was", " the worst of times")
    tokens = other.propose(asking(encode(turned[0])("It was")), 2).tokens
    assert len(fake.calls) == len(tokens) == 2
    assert len(target(" the worst")) <= 2 < len(encode(turned[0])(" the worst"))


def test_an_end_comes_after_what_was_said(folders: tuple[Path, Path]) -> None:
    target = encode(folders[0])
    other, _ = saying(folders, "It was the", " dog", [2])
    assert list(other.propose(asking(target("It was the")), 9).tokens) == [*target(" dog"), 2]


def test_an_unfinished_character_waits_for_its_last_byte(folders: tuple[Path, Path]) -> None:
    target = encode(folders[0])
    for text, k, whole in (("\u4e2d", 2, ""), ("\u4e2d", 3, "\u4e2d"), ("a\u4e2d", 3, "a")):
        other, _ = saying(folders, "It was the", text)
        assert list(other.propose(asking(target("It was the")), k).tokens) == target(whole)[:k]


@pytest.mark.parametrize("rule", ["match", "reject"])
def test_reject_keeps_to_the_tokens_of_both(folders: tuple[Path, Path], rule: Rule) -> None:
    """The draft would say a letter that alone is no token of its target's text."""
    target = encode(folders[0])
    other, fake = saying(folders, "It was the", " worst of times")
    draft = other.propose(asking(target("It was the"), rule), 6)
    assert all((q is None) == (rule == "match") for q in draft.laws)
    if rule == "reject":
        assert len(draft.tokens) == len(fake.calls)


def test_a_step_counts_as_kept_when_all_its_text_was(folders: tuple[Path, Path]) -> None:
    target, begun, text = encode(folders[0]), "It was the", " worst of times"
    other, fake = saying(folders, begun, text)
    notes: list[bool] = []
    other._doubt._confidence.learn = lambda mass, kept: notes.append(kept)  # type: ignore[method-assign]
    least = (0.0,) * 8
    tokens = other.propose(asking(target(begun), least=least), 8).tokens
    assert len(fake.calls) > len(tokens)
    other.settle([*target(begun), *tokens[:1], 99], 1)
    words, _, _ = tongue_of(*folders)
    first = len(words.spell(tokens[0]) or b"")
    sizes = [len(words.own(i)) for i in encode(folders[1])(text)]
    steps = next(n for n in range(len(sizes)) if sum(sizes[: n + 1]) > first)
    assert steps > 1
    assert notes == [True] * steps + [False]


def test_ids_that_the_target_has_no_row_for_are_never_drafted(folders: tuple[Path, Path]) -> None:
    """Its tokenizer may know more ids than it has embeddings."""
    few, target = 300, encode(folders[0])
    _, table, ends = tongue_of(*folders)
    own, theirs = load_tokenizer(folders[1]), load_tokenizer(folders[0])
    tongue = make_tongue(table, ends, own, theirs, few, "d")
    text = " worst of times"
    cut = next(n for n, token in enumerate(target(text)) if token >= few)
    assert list(tongue.respell(text)) == target(text)[:cut]
    row = share(table, ends, own, few).row(torch.zeros(len(own)))
    assert row.shape == (few,)
    assert bool((row == 0).any())
