"""Prompts against the tokenizer's own rendering, with replies spliced in by ids."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tokenizers.processors import TemplateProcessing
from transformers import AutoTokenizer

from specdec.errors import PromptError, SettingError
from specdec.prompt import PromptBuilder, decode
from specdec.request import ChatRequest, Message
from tests.tiny import TEMPLATE, write_tokenizer

NO_SYSTEM = (
    "{% if messages[0]['role'] == 'system' %}{{ raise_exception('no system') }}{% endif %}"
    + TEMPLATE
)
STRIPS = TEMPLATE.replace("m['content']", "m['content'].split('</think>')[-1]")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tokenizer")
    write_tokenizer(path)
    return path


@pytest.fixture
def tokenizer(folder: Path) -> Any:
    return AutoTokenizer.from_pretrained(folder)


def ids(text: str) -> tuple[int, ...]:
    return tuple(text.encode())


def test_a_prompt_is_what_the_template_renders(tokenizer: Any) -> None:
    prompt = PromptBuilder(tokenizer).build([Message("user", "héllo")], 1000)
    assert (
        decode_all(tokenizer, prompt.ids)
        == "<|im_start|>user\nhéllo<|im_end|>\n<|im_start|>assistant\n"
    )
    assert prompt.ids[0] == 257
    assert prompt.ids.count(258) == 1
    assert (prompt.dropped_turns, prompt.notice) == (0, "")


def raw(text: str) -> ChatRequest:
    return ChatRequest((Message("user", text),), raw=True)


def test_raw_text_is_the_prompt_without_a_template(tokenizer: Any) -> None:
    builder = PromptBuilder(tokenizer)
    assert builder.of(raw("héllo"), 6).ids == ids("héllo")
    assert builder.of(ChatRequest((Message("user", "x"),)), 99) == builder.build(
        [Message("user", "x")], 99
    )
    with pytest.raises(PromptError, match="takes 6 tokens; 5 fit"):
        builder.of(raw("héllo"), 5)
    with pytest.raises(PromptError, match="empty"):
        builder.of(raw(""), 5)
    with pytest.raises(PromptError, match="model does not"):
        PromptBuilder(tokenizer, 100).of(raw("hello"), 9)
    with pytest.raises(SettingError, match="one message"):
        ChatRequest((Message("user", "a"), Message("user", "b")), raw=True)


def test_raw_text_begins_with_what_the_tokenizer_begins_text_with(folder: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.backend_tokenizer.post_processor = TemplateProcessing(
        single="<|im_start|> $A <|im_end|>",
        special_tokens=[("<|im_start|>", 257), ("<|im_end|>", 258)],
    )
    tokenizer.eos_token, tokenizer.bos_token = "<|im_end|>", "<|im_start|>"
    builder = PromptBuilder(tokenizer)
    assert builder.of(raw("ab"), 9).ids == (257, *ids("ab"))
    assert builder.of(raw("ab<|im_end|>"), 9).ids == (257, *ids("ab"), 258)
    assert builder.of(raw("<|im_start|>ab"), 9).ids == (257, *ids("ab"))


def test_a_replys_own_ids_stand_in_the_prompt_unencoded(tokenizer: Any) -> None:
    class Merging:
        """Encodes 'ab' as one id that generation never produced."""

        chat_template = TEMPLATE

        def __getattr__(self, name: str) -> Any:
            return getattr(tokenizer, name)

        def __call__(self, text: str, **rest: Any) -> dict[str, list[int]]:
            return {
                "input_ids": [
                    300 if c == "\x01" else b
                    for c in text.replace("ab", "\x01")
                    for b in c.encode()
                ]
            }

    talk = [Message("user", "ab"), Message("assistant", "xab", ids("xab")), Message("user", "q")]
    got = PromptBuilder(Merging()).build(talk, 1000).ids
    assert got.count(300) == 1  # the user's text is encoded, the reply is not
    start = got.index(ord("x"))
    assert got[start : start + 3] == ids("xab")
    edited = [talk[0], Message("assistant", "yab", ids("xab")), talk[2]]
    assert (
        PromptBuilder(Merging()).build(edited, 1000).ids.count(300) == 2
    )  # text wins over stale ids


def test_a_template_that_rewrites_replies_is_obeyed(tokenizer: Any) -> None:
    tokenizer.chat_template = STRIPS
    said = "<think>hm</think>yes"
    talk = [Message("user", "a"), Message("assistant", said, ids(said)), Message("user", "b")]
    text = decode_all(tokenizer, PromptBuilder(tokenizer).build(talk, 1000).ids)
    assert "hm" not in text
    assert "assistant\nyes<|im_end|>" in text


def test_oldest_whole_turns_are_dropped_and_counted(tokenizer: Any) -> None:
    builder = PromptBuilder(tokenizer)
    talk = [Message("system", "SYS")]
    for i in range(6):
        talk += [Message("user", f"question {i}"), Message("assistant", f"answer {i}")]
    talk.append(Message("user", "the last one"))
    limit = builder.count(talk) - 50
    prompt = builder.build(talk, limit)
    text = decode_all(tokenizer, prompt.ids)
    assert len(prompt.ids) <= limit
    assert prompt.dropped_turns >= 1
    assert "SYS" in text
    assert "the last one" in text
    first = prompt.dropped_turns
    assert f"question {first}" in text
    assert f"question {first - 1}" not in text
    assert f"answer {first - 1}" not in text


def test_a_message_that_can_never_fit_says_the_figures(tokenizer: Any) -> None:
    with pytest.raises(PromptError, match=r"takes \d+ tokens .* 20 fit"):
        PromptBuilder(tokenizer).build([Message("user", "x" * 100)], 20)


def test_a_template_without_system_role_gets_it_in_the_first_turn(tokenizer: Any) -> None:
    tokenizer.chat_template = NO_SYSTEM
    talk = [Message("system", "be brief"), Message("user", "hi")]
    prompt = PromptBuilder(tokenizer).build(talk, 1000)
    assert "user\nbe brief\n\nhi<|im_end|>" in decode_all(tokenizer, prompt.ids)
    assert "no system prompt" in prompt.notice


def test_a_template_that_refuses_is_a_prompt_error(tokenizer: Any) -> None:
    tokenizer.chat_template = "{{ raise_exception('roles must alternate') }}"
    with pytest.raises(PromptError, match="roles must alternate"):
        PromptBuilder(tokenizer).build([Message("user", "hi")], 100)


def test_a_model_without_template_gets_plain_text_and_says_so(tokenizer: Any) -> None:
    tokenizer.chat_template = None
    prompt = PromptBuilder(tokenizer).build([Message("user", "hi")], 100)
    assert decode_all(tokenizer, prompt.ids) == "User: hi\n\nAssistant:"
    assert "no chat template" in prompt.notice


def test_without_a_template_the_prompt_begins_as_the_tokenizer_says(tokenizer: Any) -> None:
    """C06: one begin token, also before a reply's own ids, and no end token anywhere."""
    tokenizer.chat_template = None
    tokenizer.backend_tokenizer.post_processor = TemplateProcessing(
        single="<|endoftext|> $A <|im_end|>",
        special_tokens=[("<|endoftext|>", 256), ("<|im_end|>", 258)],
    )
    talk = [Message("user", "hi"), Message("assistant", "yo", ids("yo")), Message("user", "so?")]
    for messages, said in (
        (talk[:1], "User: hi\n\nAssistant:"),
        (talk, "User: hi\n\nAssistant: yo\n\nUser: so?\n\nAssistant:"),
    ):
        got = PromptBuilder(tokenizer).build(messages, 1000).ids
        assert got == (256, *ids(said))


def test_a_word_without_a_row_in_the_model_is_named(tokenizer: Any) -> None:
    talk = [Message("user", "hi <|endoftext|>")]
    assert 256 in PromptBuilder(tokenizer, 259).build(talk, 100).ids
    with pytest.raises(PromptError, match=r"'<\|im_end\|>', which the tokenizer knows"):
        PromptBuilder(tokenizer, 258).build(talk, 100)


@pytest.mark.parametrize("talk", [[], [Message("tool", "x")]])  # type: ignore[arg-type]
def test_empty_talk_and_unknown_roles_are_refused(tokenizer: Any, talk: list[Message]) -> None:
    with pytest.raises(PromptError):
        PromptBuilder(tokenizer).build(talk, 100)


def test_text_is_left_as_it_is(tokenizer: Any) -> None:
    text = "  two  spaces , and don't tidy . "
    assert decode(tokenizer, ids(text)) == text


def decode_all(tokenizer: Any, numbers: tuple[int, ...]) -> str:
    return str(tokenizer.decode(list(numbers), skip_special_tokens=False))
