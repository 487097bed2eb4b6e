"""Streaming text against the one-shot decode, and stop strings wherever they fall."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence

import pytest

from specdec.contract import Span
from specdec.detokenize import TextStream


def decode(ids: Sequence[int]) -> str:
    """One byte a token, as byte-level tokenizers decode."""
    return bytes(ids).decode("utf-8", errors="replace")


def tokens(text: str) -> list[int]:
    return list(text.encode())


FAMILY = "\U0001f468\u200d\U0001f469\u200d\U0001f467"
TEXTS = [
    "plain",
    f"family {FAMILY} end",
    "สวัสดีครับ",
    "日本語のテキスト",
    "naïve café €5",
    "a\n  b\tc",
]


@pytest.mark.parametrize("text", TEXTS)
def test_pieces_join_to_the_one_shot_decode_without_a_mark(text: str) -> None:
    stream = TextStream(decode)
    shown = ""
    for token in tokens(text):
        stream.push(token, "kept")
        piece, _ = stream.take()
        assert "\ufffd" not in piece
        shown += piece
        assert text.startswith(shown)
    stream.finish()
    shown += stream.take(last=True)[0]
    assert shown == text == stream.text


def test_unfinished_character_is_released_at_the_end() -> None:
    stream = TextStream(decode)
    for token in tokens("ab") + tokens("\U0001f600")[:2]:
        stream.push(token, "kept")
    assert stream.take()[0] == "ab"
    stream.finish()
    assert stream.take(last=True)[0] == "\ufffd"
    assert stream.text == decode(tokens("ab") + tokens("\U0001f600")[:2])


def test_invalid_bytes_are_held_back_for_a_bounded_time_only() -> None:
    stream = TextStream(decode)
    ids = [0xFF] * 40
    longest = shown = 0
    for n, token in enumerate(ids, 1):
        stream.push(token, "kept")
        shown += len(stream.take()[0])
        longest = max(longest, n - shown)
    assert longest <= 8
    stream.finish()
    stream.take(last=True)
    assert stream.text == decode(ids)


def test_random_bytes_always_give_a_prefix_of_the_one_shot_decode() -> None:
    rng = random.Random(5)
    for _ in range(200):
        ids = [
            rng.choice([0x41, 0xC3, 0xA9, 0xE2, 0x82, 0xAC, 0xF0, 0x9F, 0x98, 0x80])
            for _ in range(60)
        ]
        stream, whole = TextStream(decode), decode(ids)
        for token in ids:
            stream.push(token, "kept")
            stream.take()
            assert whole.startswith(stream.text)
        stream.finish()
        stream.take(last=True)
        assert stream.text == whole


STRADDLING = b"\x92\xe1\x9e"
"""Qwen2.5-Coder's token 72496: the end of one Khmer letter and the beginning of the next."""


def test_tokens_that_straddle_characters_are_shown_as_they_come() -> None:
    stream = TextStream(lambda ids: (STRADDLING * len(ids)).decode(errors="replace"))
    whole = (STRADDLING * 14).decode(errors="replace")
    for n in range(14):
        stream.push(0, "kept")
        stream.take()
        assert whole.startswith(stream.text)
        assert len(stream.text) == (n + 1 if n else 0)  # the letter the next token ends is held
    stream.finish()
    stream.take(last=True)
    assert stream.text == whole


@pytest.mark.parametrize("broken", [False, True])
def test_any_tokens_that_cut_characters_anywhere_give_the_one_shot_decode(broken: bool) -> None:
    """Whole text cut at random bytes; with `broken` some bytes are no text at all."""
    rng = random.Random(11)
    alphabet = ["a", "é", "ឞ", "日", "\U0001f600", "\u200d", "\ufffd", " "]
    for _ in range(300):
        data = bytearray("".join(rng.choices(alphabet, k=30)).encode())
        for place in range(len(data)):
            if broken and rng.random() < 0.1:
                data[place] = rng.choice([0xFF, 0xE1, 0x92, 0xF0])
        edges = sorted({0, len(data), *rng.sample(range(1, len(data)), k=len(data) // 3)})
        pieces = [bytes(data[a:b]) for a, b in itertools.pairwise(edges)]
        whole = bytes(data).decode(errors="replace")
        stream = TextStream(
            lambda ids, pieces=pieces: b"".join(pieces[i] for i in ids).decode(errors="replace")
        )
        for n in range(len(pieces)):
            stream.push(n, "kept")
            stream.take()
            assert whole.startswith(stream.text)
        stream.finish()
        stream.take(last=True)
        assert stream.text == whole


def test_a_character_takes_the_kind_of_its_last_token() -> None:
    stream = TextStream(decode)
    kinds = ["kept", "kept", "corrected", "bonus"]
    for token, kind in zip(tokens("é") + tokens("ab"), kinds, strict=True):
        stream.push(token, kind)  # type: ignore[arg-type]
    assert stream.take() == (
        "éab",
        (Span(0, 1, "kept"), Span(1, 2, "corrected"), Span(2, 3, "bonus")),
    )


@pytest.mark.parametrize("stop", ["STOP", "</end>", "aab"])
@pytest.mark.parametrize("step", [1, 2, 3, 5])
def test_stop_string_is_cut_however_it_straddles_tokens_and_rounds(stop: str, step: int) -> None:
    body = f"some aa text {FAMILY} "
    whole = body + stop + "never shown"
    pieces = [whole[i : i + step] for i in range(0, len(whole), step)]
    stream = TextStream(lambda ids: "".join(pieces[i] for i in ids), [stop, "unused"])
    shown = ""
    for token in range(len(pieces)):
        done = stream.push(token, "kept")
        shown += stream.take()[0]
        assert body.startswith(shown)
        if done:
            break
    assert done
    stream.finish()
    shown += stream.take(last=True)[0]
    assert shown == body == stream.text
    assert "".join(pieces[: stream.kept]).startswith(body)
    assert len("".join(pieces[: stream.kept - 1])) < len(body)


def test_half_a_stop_string_is_shown_at_the_end_and_not_before() -> None:
    stream = TextStream(decode, ["STOP"])
    for token in tokens("go ST"):
        stream.push(token, "kept")
    assert stream.take()[0] == "go "
    stream.finish()
    assert stream.take(last=True)[0] == "ST"


def test_text_waits_only_while_it_may_be_a_stop_string() -> None:
    stream = TextStream(decode, ["STOP"])
    seen = []
    for token in tokens("a ST b"):
        stream.push(token, "kept")
        seen.append(stream.take()[0])
    assert seen == ["a", " ", "", "", "ST ", "b"]


def test_a_stop_string_at_the_very_start_keeps_no_token() -> None:
    stream = TextStream(decode, ["no"])
    assert not stream.push(ord("n"), "kept")
    assert stream.push(ord("o"), "kept")
    assert stream.take(last=True) == ("", ())
    assert stream.kept == 0


def test_the_first_of_several_stop_strings_wins() -> None:
    stream = TextStream(lambda ids: "".join(["x one two"][i] for i in ids), ["two", "one"])
    assert stream.push(0, "kept")
    assert stream.take()[0] == "x "


def test_leading_space_marks_survive_as_in_the_whole_text() -> None:
    pieces = ["▁Hello", "▁world", ",", "▁again"]

    def sentencepiece(ids: Sequence[int]) -> str:
        return "".join(pieces[i] for i in ids).replace("▁", " ").removeprefix(" ")

    stream = TextStream(sentencepiece)
    for i in range(len(pieces)):
        stream.push(i, "kept")
    assert stream.take()[0] == "Hello world, again"
