"""Streaming with the decoder of Llama 2 and Gemma: space marks, and bytes of what has no piece."""

from __future__ import annotations

from typing import Any

import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from specdec.detokenize import TextStream
from specdec.prompt import decode

PIECES = (
    "▁",
    "▁Hello",
    "▁wor",
    "ld",
    ",",
    "▁again",
    ".",
    "▁▁",
    "▁x",
    "=",
    "1",
    "\n",
)


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    vocab = [("<unk>", 0.0), *((f"<0x{byte:02X}>", -9.0) for byte in range(256))]
    made = Tokenizer(models.Unigram([*vocab, *((p, -1.0) for p in PIECES)], 0, byte_fallback=True))
    made.pre_tokenizer = pre_tokenizers.Metaspace(split=False)
    made.decoder = decoders.Sequence(
        [
            decoders.Replace("▁", " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Strip(" ", 1, 0),
        ]
    )
    return PreTrainedTokenizerFast(tokenizer_object=made, unk_token="<unk>")


@pytest.mark.parametrize("every", [1, 2, 3])
@pytest.mark.parametrize(
    "text",
    [
        "Hello world, again.",
        "x=1\n  x=1",
        "Hello  again",
        "Hello 👩‍👩‍👧 world",
        "日本 ไทย",
        "=1 x",
    ],
)
def test_pieces_of_a_real_tokenizer_join_to_its_own_decode(
    tokenizer: Any, text: str, every: int
) -> None:
    """B03: a token decoded by itself loses the space before it; here the rounds join."""
    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    whole = decode(tokenizer, ids)
    assert whole.strip() == text.strip()
    stream, shown = TextStream(lambda some: decode(tokenizer, some)), ""
    for at, token in enumerate(ids):
        stream.push(token, "kept")
        if at % every == 0:
            shown += stream.take()[0]
            assert whole.startswith(shown)
    stream.finish()
    assert shown + stream.take(last=True)[0] == whole
    assert "".join(decode(tokenizer, [token]) for token in ids) != whole  # what must not be done
