"""Templates with the rules of published ones, on tiny models that answer.

The rules are those of Gemma 2, Mistral 0.1 and DeepSeek R1, in our words.
"""

from __future__ import annotations

import re

import pytest
from tokenizers.processors import TemplateProcessing

from specdec.contract import Started
from specdec.engine import LocalEngine
from specdec.options import EngineOptions
from specdec.request import Message
from tests.specdec.engines import ask, load, make_folders, of_kind, reply

ALTERNATE = (
    "{% for m in messages %}{% if (m['role'] == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('roles must alternate user/assistant') }}{% endif %}"
)
GEMMA = (
    "{{ bos_token }}{% if messages[0]['role'] == 'system' %}"
    "{{ raise_exception('System role not supported') }}{% endif %}" + ALTERNATE
    + "<start>{{ 'model' if m['role'] == 'assistant' else m['role'] }}\n{{ m['content'] | trim }}"
    "<end>\n{% endfor %}{% if add_generation_prompt %}<start>model\n{% endif %}"
)  # fmt: skip
MISTRAL = (
    "{{ bos_token }}" + ALTERNATE
    + "{% if m['role'] == 'user' %}[INST] {{ m['content'] }} [/INST]"
    "{% else %}{{ m['content'] }}{{ eos_token }}{% endif %}{% endfor %}"
)  # fmt: skip
R1 = (
    "{{ bos_token }}{% for m in messages %}{% set said = m['content'] %}"
    "{% if m['role'] == 'assistant' and '</think>' in said %}"
    "{% set said = said.split('</think>')[-1] %}{% endif %}"
    "<{{ m['role'] }}>{{ said }}{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}"
)
TALK = (
    Message("system", "Be brief."),
    Message("user", "one"),
    Message("assistant", "1", (49,)),
    Message("user", "two"),
)


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> LocalEngine:
    folders = make_folders(tmp_path_factory.mktemp("models"))
    engine = LocalEngine(EngineOptions(folders.data, device="cpu", offline=True))
    load(engine, folders.target, "none")
    return engine


def prompted(engine: LocalEngine, template: str | None, *talk: Message) -> tuple[Started, str]:
    """What the page is told, and the prompt as it was read."""
    session = engine._session
    assert session is not None
    tokenizer = session.prompts._tokenizer
    tokenizer.chat_template = template
    events, last = reply(engine, ask("", messages=talk, max_tokens=3, fresh=True))
    assert last.ids
    ids = session.prompts.build(talk, 999).ids
    return of_kind(events, Started)[0], str(tokenizer.decode(ids))


@pytest.mark.parametrize("template", [GEMMA, MISTRAL])
def test_a_system_prompt_goes_into_the_first_turn_where_a_template_refuses_it(
    engine: LocalEngine, template: str
) -> None:
    """C02."""
    started, text = prompted(engine, template, *TALK)
    assert "Be brief.\n\none" in text
    assert text.count("Be brief.") == 1
    assert "takes no system prompt" in started.notice
    started, _ = prompted(engine, template, *TALK[1:])
    assert "takes no system prompt" not in started.notice


def test_a_model_without_template_answers_and_the_reply_says_so(engine: LocalEngine) -> None:
    """C01."""
    started, text = prompted(engine, None, *TALK)
    assert text.endswith("Assistant: 1\n\nUser: two\n\nAssistant:")
    assert "no chat template" in started.notice


@pytest.mark.parametrize("template", [GEMMA, MISTRAL, R1, None])
def test_there_is_one_begin_token_whoever_writes_it(
    engine: LocalEngine, template: str | None
) -> None:
    """C06: the template does, or the tokenizer where there is none; never both, never neither."""
    session = engine._session
    assert session is not None
    tokenizer = session.prompts._tokenizer
    tokenizer.backend_tokenizer.post_processor = TemplateProcessing(
        single="<|endoftext|> $A", special_tokens=[("<|endoftext|>", 256)]
    )
    _, text = prompted(engine, template, *TALK)
    assert text.startswith("<|endoftext|>")
    assert text.count("<|endoftext|>") == 1
    assert not re.match(r"(<\|endoftext\|>){2}", text)


def test_a_thought_left_out_here_and_one_left_out_by_the_template_are_the_same(
    engine: LocalEngine,
) -> None:
    said = "<think>hm</think>1"
    whole = (*TALK[1:2], Message("assistant", said, tuple(said.encode())), TALK[3])
    _, by_template = prompted(engine, R1, *whole)
    _, by_us = prompted(engine, R1, whole[0], Message("assistant", "1", whole[1].ids), whole[2])
    assert by_template == by_us
    assert "hm" not in by_us
