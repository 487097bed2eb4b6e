"""Small tokenizers that share words and no ids, tiny models that use them, and a fake of letters.

`write_other` is to be read as a draft's beside `tests.tiny`'s bytes.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
from torch import Tensor

from specdec.drafters.reading import Tongue
from specdec.drafters.shared_tokens import SharedTokens
from specdec.drafters.translated import TranslatedDrafter
from specdec.spelling import read_spelling
from specdec.token_table import TokenTable, build, end_pairs
from specdec.tokenizer import end_ids, load_tokenizer
from specdec.translated_draft import make_tongue
from tests.fakes import Table, TableScorer
from tests.tiny import TEMPLATE, tiny_model

ENGLISH = (
    "The quick brown fox jumps over the lazy dog. It was the best of times, it was the worst of"
    " times; nobody knew what the others were thinking, and nothing could be done about it.\n"
)
CODE = (
    "def read(path):\n    with open(path) as file:\n        return file.read()\n\n\nfor line in"
    " read(x).splitlines():\n    print(line, end='')  # \u00e9t\u00e9 \u4e2d\u6587 \U0001f600\n"
)
MARKERS = ("<|over|>", "<|im_start|>", "<|fin|>", "<|only|>")


def write_other(
    folder: Path, text: str = ENGLISH, size: int = 340, markers: tuple[str, ...] = MARKERS
) -> Path:
    """A tokenizer whose words are learned from `text`: markers first, then words, as SmolLM2's."""
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=[AddedToken(marker, special=True) for marker in markers],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator([text], trainer)
    tokenizer.save(str(folder / "tokenizer.json"))
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": markers[2],
        "pad_token": markers[0],
        "chat_template": TEMPLATE.replace("<|im_end|>", markers[2]),
        "model_max_length": 2048,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": [2, 0]}))
    return folder


def other_model(folder: Path, text: str = ENGLISH, seed: int = 5, **changes: Any) -> Path:
    """A tiny model with `write_other`'s tokens."""
    tiny_model(folder, seed=seed, vocab_size=344, eos_token_id=2, bos_token_id=1, **changes)
    return write_other(folder, text)


def tongue_of(target: Path, draft: Path) -> tuple[Tongue, TokenTable, tuple[tuple[int, int], ...]]:
    """How the draft of one folder reads the target of another, the table, and the ends."""
    table = build(read_spelling(target), read_spelling(draft))
    mine, theirs = load_tokenizer(draft), load_tokenizer(target)
    eos = (mine.eos_token_id, theirs.eos_token_id)
    ends = end_pairs(table, end_ids(draft, mine), end_ids(target, theirs), eos)
    return make_tongue(table, ends, mine, theirs, len(theirs), draft.name), table, ends


def letters_drafter(
    table: Table, vocab: int, end: int, unknown: frozenset[int] = frozenset(), **scorer: int
) -> tuple[TranslatedDrafter, TableScorer]:
    """A draft that says what `table` says of the target's ids, by ids of its own: reversed.

    Target's id t is a letter, `end` its end marker. The draft has an id more, for nothing. Those in
    `unknown` are told to be of no pair, as words are that take the target several tokens.
    """
    own = {t: vocab - t for t in range(vocab)}  # 1 .. vocab; its id 0 is nobody's
    theirs = {mine: t for t, mine in own.items()}

    def logits(ids: tuple[int, ...]) -> Tensor:
        row = torch.full((vocab + 1,), 3.0)  # its own id would often win
        said = table(tuple(theirs[i] for i in ids))
        for t, mine in own.items():
            row[mine] = said[t]
        return row

    tongue = Tongue(
        lambda t: None if t == end else bytes([64 + t]),
        {end: own[end]},
        lambda text: [own[ord(letter) - 64] for letter in text],
        lambda data: None,
        lambda mine: bytes([64 + theirs[mine]]),
        lambda text: [ord(letter) - 64 for letter in text],
    )
    fake = TableScorer(logits, vocab + 1, **scorer)
    pairs = [(mine, t) for t, mine in own.items() if t not in unknown]
    shared = SharedTokens(pairs, vocab, [own[t] for t in sorted(unknown)])
    return TranslatedDrafter(fake, "other", tongue, shared, frozenset({end})), fake
