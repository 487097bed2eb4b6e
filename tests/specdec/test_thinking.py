"""Templates that begin a thought, and replies whose thought is left out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from transformers import AutoTokenizer

from specdec.contract import Started
from specdec.engine import LocalEngine
from specdec.options import EngineOptions
from specdec.prompt import PromptBuilder
from specdec.request import Message
from tests.specdec.engines import ask, load, make_folders, of_kind, reply
from tests.tiny import TEMPLATE, write_tokenizer

OPENS = TEMPLATE.replace("assistant\n{% endif %}", "assistant\n<think>\n{% endif %}")


@pytest.fixture
def tokenizer(tmp_path: Path) -> Any:
    write_tokenizer(tmp_path)
    return AutoTokenizer.from_pretrained(tmp_path)


def test_the_tag_that_a_template_leaves_open_is_told(tokenizer: Any) -> None:
    """B05: as DeepSeek's R1 does it, and as a template that closes it again (no thinking) does."""
    talk = [Message("user", "hi <think>")]
    assert not PromptBuilder(tokenizer).build(talk, 99).thinking
    tokenizer.chat_template = OPENS
    assert PromptBuilder(tokenizer).build(talk, 99).thinking
    tokenizer.chat_template = OPENS.replace("<think>\n", "<think>\n\n</think>\n\n")
    assert not PromptBuilder(tokenizer).build(talk, 99).thinking


def test_the_engine_passes_it_on(tmp_path: Path) -> None:
    folders = make_folders(tmp_path)
    engine = LocalEngine(EngineOptions(folders.data, device="cpu", offline=True))
    load(engine, folders.target, "none")
    session = engine._session
    assert session is not None
    for template, thinking in ((TEMPLATE, False), (OPENS, True)):
        session.prompts._tokenizer.chat_template = template
        events, _ = reply(engine, ask("hi", max_tokens=2))
        assert of_kind(events, Started)[0].thinking == thinking
    engine.close()


def test_a_reply_without_its_thought_keeps_its_own_ids(tokenizer: Any) -> None:
    """C10: a byte-level tokenizer shows which bytes were encoded anew."""
    fresh: list[str] = []

    class Watched:
        chat_template = TEMPLATE

        def __getattr__(self, name: str) -> Any:
            return getattr(tokenizer, name)

        def __call__(self, text: str, **rest: Any) -> Any:
            fresh.append(text)
            return tokenizer(text, **rest)

    said = "<think>\nhm\n</think>\n\nyes"
    talk = [Message("user", "a"), Message("assistant", "yes", tuple(said.encode()))]
    got = PromptBuilder(Watched()).build([*talk, Message("user", "b")], 999).ids
    assert bytes(i for i in got if i < 256).count(b"yes") == 1
    assert b"hm" not in bytes(i for i in got if i < 256)
    assert not any("yes" in text for text in fresh)
