"""The target's tokens as the draft's: the same ids however they grew, were cut or were edited."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest

from specdec.drafters import reading
from specdec.drafters.reading import Reading, Tongue
from specdec.tokenizer import load_tokenizer
from tests.specdec.tongue_kit import CODE, ENGLISH, tongue_of, write_other
from tests.tiny import write_tokenizer

START, END, OTHER = 257, 258, 256


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    base = tmp_path_factory.mktemp("reading")
    write_tokenizer(base / "target")
    return base / "target", write_other(base / "draft", ENGLISH + CODE, 420)


@pytest.fixture(scope="module")
def tongue(folders: tuple[Path, Path]) -> Tongue:
    return tongue_of(*folders)[0]


def ids(text: str) -> list[int]:
    """As the target has it: a byte a token."""
    return list(text.encode())


def scratch(tongue: Tongue, tokens: list[int]) -> list[int] | None:
    return Reading(tongue).read(tokens)


def test_a_text_is_read_as_the_drafts_own_tokenizer_reads_it(
    folders: tuple[Path, Path], tongue: Tongue
) -> None:
    own = load_tokenizer(folders[1])
    for text in (ENGLISH * 30, CODE * 20, "", "x", ENGLISH[:300]):
        assert scratch(tongue, ids(text)) == own(text, add_special_tokens=False)["input_ids"]


def test_a_long_text_is_encoded_in_pieces(folders: tuple[Path, Path], tongue: Tongue) -> None:
    """Only the last piece is encoded again."""
    asked: list[int] = []

    def encode(text: str) -> list[int]:
        asked.append(len(text))
        return list(tongue.encode(text))

    made = Reading(replace(tongue, encode=encode))
    text = ENGLISH * 30
    made.read(ids(text))
    assert len(asked) > 10
    assert max(asked) <= reading._MOST
    asked.clear()
    made.read(ids(text + " more"))
    assert sum(asked) <= reading._MOST
    made.read(ids(text + " more"))
    assert len(asked) == 1


def grown(random_: random.Random) -> list[int]:
    """Text, markers, whole and broken characters, and runs without a place to cut."""
    parts: list[list[int]] = []
    for _ in range(random_.randrange(1, 12)):
        kind = random_.randrange(7)
        if kind < 3:
            start = random_.randrange(len(ENGLISH))
            parts.append(ids((ENGLISH * 4)[start : start + random_.randrange(500)]))
        elif kind == 3:
            parts.append(ids((CODE * 3)[: random_.randrange(400)]))
        elif kind == 4:
            parts.append([random_.choice([START, END, OTHER])])
        elif kind == 5:
            parts.append(random_.choices(range(256), k=random_.randrange(40)))
        else:
            parts.append(
                ids("\u4e2d\U0001f600" * random_.randrange(300))[: random_.randrange(1500)]
            )
    return [token for part in parts for token in part]


@pytest.mark.parametrize("seed", range(6))
def test_growing_and_edits_give_what_a_fresh_reading_gives(tongue: Tongue, seed: int) -> None:
    random_ = random.Random(seed)
    made, tokens = Reading(tongue), list[int]()
    for _ in range(60):
        what = random_.randrange(4)
        if what == 0:
            del tokens[random_.randrange(len(tokens) + 1) :]
        elif what == 1 and tokens:
            tokens[random_.randrange(len(tokens))] = random_.randrange(259)
        else:
            tokens += grown(random_)[: random_.choice([1, 2, 7, 3000])]
        assert made.read(tokens) == scratch(tongue, tokens)


def test_an_edit_where_a_piece_was_cut_undoes_the_cut(tongue: Tongue) -> None:
    text = ids(ENGLISH * 4)
    made = Reading(tongue)
    made.read(text)
    cuts = [closed.place for closed in made._closed[1:]]
    assert cuts
    for place in cuts:
        other, fresh = [*text[:place], ord("x"), *text[place + 1 :]], Reading(tongue)
        assert made.read(other) == fresh.read(other)
        assert made._closed == fresh._closed
        assert made.read(text[:place]) == scratch(tongue, text[:place])
        assert made.read(text) == scratch(tongue, text)


def test_how_the_target_cuts_the_text_does_not_matter(
    folders: tuple[Path, Path], tmp_path: Path
) -> None:
    coarse = write_other(
        tmp_path / "coarse", ENGLISH + CODE, 500, ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
    )
    one, two = tongue_of(folders[0], folders[1])[0], tongue_of(coarse, folders[1])[0]
    target = load_tokenizer(coarse)
    for text in (ENGLISH * 20, (CODE + ENGLISH) * 9, "\u4e2d" * 900):
        cut = target(text, add_special_tokens=False)["input_ids"]
        assert len(cut) < len(text.encode()) / 1.5
        assert scratch(two, cut) == scratch(one, ids(text))


def test_markers_become_the_drafts_own_or_nothing(tongue: Tongue) -> None:
    read = scratch(tongue, [OTHER, START, *ids("user"), END, *ids("\n")])
    user, line = list(tongue.encode("user")), list(tongue.encode("\n"))
    assert read == [1, *user, 2, *line]  # <|endoftext|> is no marker of the draft's


def test_text_that_looks_like_a_marker_is_text(tongue: Tongue) -> None:
    read = scratch(tongue, ids("<|fin|>"))
    assert read is not None
    assert len(read) > 1
    assert 2 not in read


def test_an_unfinished_character_is_read_by_its_bytes(tongue: Tongue) -> None:
    text = ids("ab \U0001f600")
    whole = [scratch(tongue, text[:n]) for n in range(len(text) + 1)]
    assert all(read is not None for read in whole)
    made = Reading(tongue)
    for n, read in enumerate(whole):
        assert made.read(text[:n]) == read


def test_one_that_the_draft_has_no_bytes_for_waits(tongue: Tongue) -> None:
    mute = replace(tongue, spell_out=lambda data: None)
    made, text = Reading(mute), ids("ab \U0001f600!")
    said = [made.read(text[:n]) is None for n in range(len(text) + 1)]
    assert said == [False] * 4 + [True] * 3 + [False] * 2
    assert made.read(text) == scratch(tongue, text)


def test_what_begins_every_text_is_read_once(tongue: Tongue) -> None:
    begun = replace(tongue, begin=(1,))
    assert scratch(begun, []) == [1]
    assert scratch(begun, ids("a")) == [1, *tongue.encode("a")]
    assert scratch(begun, [START, *ids("a")]) == [1, *tongue.encode("a")]
    assert scratch(begun, [START, START]) == [1, 1]
