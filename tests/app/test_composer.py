"""What a message would come to before it is sent, and that a reply is made of exactly that."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from app import attachment_view, bubbles
from app.composer import Composer
from app.cut import Cut, cut_of
from app.desk import Options
from app.fit import Fit, fit
from app.records import StoredMessage
from specdec.contract import Message, Sampling
from specdec.errors import BusyError, SettingError
from specdec.prompt import PromptBuilder
from tests.app.desk_kit import Kit, finish, held

OPTIONS = Options(Sampling(seed=7), system="Be kind")


def words(messages: Sequence[Message]) -> int:
    return sum(len(m.content.split()) for m in messages)


class _Words:
    """A tokenizer without a template: a word is a token."""

    eos_token_id = bos_token_id = None

    def __call__(self, text: str, add_special_tokens: bool) -> dict[str, list[int]]:
        return {"input_ids": [0] * len(text.split())}

    def decode(self, ids: Sequence[int], **_: object) -> str:
        return "word " * len(ids)


def talk(turns: int, system: bool) -> list[Message]:
    found = [Message("system", "be kind")] if system else []
    for number in range(turns):
        found += [Message("user", "q " * (number + 1)), Message("assistant", "a " * 3)]
    return [*found, Message("user", "last words here")]


@pytest.mark.parametrize("system", [True, False])
@pytest.mark.parametrize("turns", [0, 1, 2, 7])
def test_the_count_says_what_the_engine_will_do(turns: int, system: bool) -> None:
    messages, builder = talk(turns, system), PromptBuilder(_Words())
    for limit in range(builder.count([*messages[:system], messages[-1]]), 100):
        found, prompt = fit(builder.count, messages, limit, 100), builder.build(messages, limit)
        assert (found.tokens, found.dropped) == (len(prompt.ids), prompt.dropped_turns)
        assert found.fits
    assert not fit(builder.count, messages, 3, 100).fits


def test_dropping_is_found_in_few_counts() -> None:
    asked = 0

    def count(messages: Sequence[Message]) -> int:
        nonlocal asked
        asked += 1
        return words(messages)

    assert fit(count, talk(200, True), 1000, 4000).dropped > 100
    assert asked < 15


def test_what_was_said_before_sending_is_what_the_reply_reads(kit: Kit) -> None:
    owner, composer = kit.owner(), kit.controller.composer
    finish(kit.controller.start())
    finish(kit.controller.desk.send(owner, "hello", OPTIONS))
    composer.attach(owner, "notes.txt", b"one two three\n")
    (file,) = owner.tray.files
    assert file.tokens is not None
    found = composer.fit(owner, "and now?", OPTIONS)
    assert found is not None
    live = finish(kit.controller.desk.send(owner, "and now?", OPTIONS, owner.tray.files))
    assert live.metrics.prompt_tokens == found.tokens
    assert kit.engine.requests[-1].messages[-1].content.startswith("File: notes.txt\n\n```\none")
    rows = kit.controller.thread(owner).rows
    assert rows[2].content == "and now?"
    owner.tray.edit([file])
    edited = composer.fit(owner, "else", OPTIONS, rows[2].id)
    live = finish(kit.controller.desk.edit(owner, rows[2].id, "else", OPTIONS, owner.tray.files))
    assert edited is not None
    assert live.metrics.prompt_tokens == edited.tokens
    finish(kit.controller.desk.regenerate(owner, OPTIONS))
    assert kit.engine.requests[-1].messages == kit.engine.requests[-2].messages


def test_a_message_may_be_files_alone_and_then_names_its_conversation(kit: Kit) -> None:
    owner = kit.owner()
    kit.controller.composer.attach(owner, "report.csv", b"a,b\n")
    finish(kit.controller.desk.send(owner, "", OPTIONS, owner.tray.files))
    assert kit.controller.thread(owner).title == "report.csv"
    with pytest.raises(SettingError, match="empty"):
        kit.controller.desk.send(owner, " ", OPTIONS)


def test_words_and_files_have_one_limit(kit: Kit) -> None:
    owner = kit.owner()
    kit.controller.composer.attach(owner, "a.txt", b"x" * 300_000)
    with pytest.raises(SettingError, match="message and its files have 400,001"):
        kit.controller.desk.send(owner, "y" * 100_001, OPTIONS, owner.tray.files)


def test_nothing_is_guessed_while_no_model_could_count(kit: Kit) -> None:
    owner = kit.owner()
    kit.controller.composer.attach(owner, "a.txt", b"one")
    assert owner.tray.files[0].tokens is None
    assert kit.controller.composer.fit(owner, "hello", OPTIONS) is None
    finish(kit.controller.start())
    assert kit.controller.composer.fit(owner, "hello", OPTIONS) is not None
    owner.tray.done()
    assert kit.controller.composer.fit(owner, "  ", OPTIONS) is None


def test_counting_does_not_wait_for_a_reply(kit: Kit) -> None:
    owner, go = kit.owner(), held(kit)
    finish(kit.controller.start())
    job = kit.controller.desk.send(owner, "hello", OPTIONS)
    assert kit.controller.composer.fit(owner, "next", OPTIONS) is not None
    assert not job.done.is_set()
    go.set()
    finish(job)


def test_guests_cannot_fill_the_memory_with_files(
    kit: Kit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.composer.MAX_WAITING", 10)
    composer: Composer = kit.controller.composer
    composer.attach(kit.guest("one"), "a.txt", b"x" * 11)
    with pytest.raises(BusyError):
        composer.attach(kit.guest("two"), "b.txt", b"x")
    kit.guest("one").tray.done()
    composer.attach(kit.guest("two"), "b.txt", b"x")


def test_the_warning_says_what_will_be_left_out() -> None:
    at = Fit(90, 96, 128)
    assert attachment_view.warning(at) == ""
    assert "the oldest question and its reply do not fit" in attachment_view.warning(
        replace(at, dropped=1)
    )
    assert "3 oldest questions" in attachment_view.warning(replace(at, dropped=3))
    assert "takes 200 tokens with its system prompt, 96 fit" in attachment_view.warning(
        replace(at, tokens=200)
    )
    assert 'aria-valuenow="90"' in attachment_view.meter(at)
    assert "tight" in attachment_view.meter(replace(at, tokens=120))


def rows(*what: str, dropped: int = 0) -> list[StoredMessage]:
    """Letters say who speaks: u, a, e (an empty reply)."""
    made = [
        StoredMessage(10 + i, "c", "user" if c == "u" else "assistant", "" if c == "e" else "x")
        for i, c in enumerate("".join(what))
    ]
    return [*made[:-1], replace(made[-1], request={"dropped_turns": dropped})]


@pytest.mark.parametrize(
    ("talk", "dropped", "cut"),
    [
        ("ua", 0, None),
        ("ua", 3, None),
        ("uaua", 0, None),
        ("uaua", 1, Cut(12, 2)),
        ("uauaua", 1, Cut(12, 2)),
        ("uauaua", 2, Cut(14, 4)),
        ("uauaua", 9, Cut(14, 4)),
        ("ueuaua", 1, Cut(14, 3)),
        ("auaua", 1, Cut(11, 1)),
        ("auaua", 2, Cut(13, 3)),
    ],
)
def test_the_line_stands_where_the_engine_cut(talk: str, dropped: int, cut: Cut | None) -> None:
    assert cut_of(rows(talk, dropped=dropped)) == cut


def test_turns_left_out_are_said_with_the_reply_and_between_the_turns(kit: Kit) -> None:
    """Kept with the reply: another program that opens the history shows the same."""
    owner = kit.owner()
    finish(kit.controller.start())
    for text in ("first", "second", "third"):
        kit.script.dropped_turns = 2 if text == "third" else 0
        finish(kit.controller.desk.send(owner, text, OPTIONS))
    html = bubbles.thread(kit.controller.thread(owner))
    before, after = html.split("The 4 messages above did not fit and were left out")
    assert "second" in before
    assert "third" not in before
    assert "The first 2 questions and their replies did not fit and were left out." in after
    kit.script.dropped_turns = 0
    finish(kit.controller.desk.regenerate(owner, OPTIONS))
    assert "left out" not in bubbles.thread(kit.controller.thread(owner))
