"""Loads a smaller model of another tokenizer as a draft: its table, its reading, and its end ids.

Knows files, tokenizers and a scorer; nothing of how drafts are ranked, or of turns.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import takewhile
from typing import Any

import torch

from specdec.depot import Depot, Files
from specdec.draft_model import open_draft, with_copies
from specdec.drafters.reading import Tongue
from specdec.drafters.shared_tokens import SharedTokens
from specdec.drafters.translated import TranslatedDrafter
from specdec.errors import PairError
from specdec.ground import Drafting, Ground
from specdec.pair import Choice, DraftOption
from specdec.spelling import Kind, bytes_of, text_of
from specdec.token_table import TokenTable, end_pairs, open_table
from specdec.tokenizer import end_ids, load_tokenizer

_PROBES = ("a", " b", "c d", ".\n\n  e")
"""Texts whose ids must spell just them: a piece of a text is read without what stands before it."""


def load_translated_draft(
    depot: Depot, ground: Ground, files: Files, choice: Choice, options: tuple[DraftOption, ...]
) -> Drafting:
    """Raises PairError for one that cannot draft here, LoadError for files that are no model."""
    table = open_table(ground.files.folder, files.folder, depot.options.data_dir)
    own = load_tokenizer(files.folder)
    ends = end_pairs(
        table,
        end_ids(files.folder, own),
        end_ids(ground.files.folder, ground.tokenizer),
        (own.eos_token_id, ground.tokenizer.eos_token_id),
    )
    tongue = make_tongue(table, ends, own, ground.tokenizer, ground.vocab, files.entry.name)
    opened = open_draft(depot, ground, files, len(own))
    if opened.rows < len(own):
        raise PairError(
            f"{files.entry.name} cannot draft: it reads {opened.rows} of its own tokenizer's"
            f" {len(own)} tokens.",
            "Choose another draft.",
        )
    shared = share(table, ends, own, ground.vocab, ground.where.device)
    finals = frozenset(theirs for _, theirs in ends)
    drafter = TranslatedDrafter(opened.scorer, choice.value, tongue, shared, finals, opened.reach)
    return with_copies(depot, ground, opened, drafter, choice, options)


def share(
    table: TokenTable,
    ends: Sequence[tuple[int, int]],
    draft: Any,
    vocab: int,
    device: torch.device | None = None,
) -> SharedTokens:
    """The ids that mean the same, and those for text that takes the target several tokens."""
    known = {mine for mine, _ in table.words}
    known |= {i for i, token in draft.added_tokens_decoder.items() if token.special}
    rest = [i for i in range(len(draft)) if i not in known]
    pairs = [(mine, theirs) for mine, theirs in (*table.words, *ends) if theirs < vocab]
    return SharedTokens(pairs, vocab, rest, device)


def make_tongue(
    table: TokenTable,
    ends: Sequence[tuple[int, int]],
    draft: Any,
    target: Any,
    vocab: int,
    name: str,
) -> Tongue:
    """How a draft's tokenizer reads the target's ids.

    It reads the text, and those markers that it has as well; end markers become its own. Others are
    left out: spelled out they would be many tokens that it never saw in training. `vocab` ids are
    the target's, its tokenizer may know more. Raises PairError for a tokenizer that changes a text
    by what it cannot see of it.
    """
    backend = draft.backend_tokenizer
    backend.encode_special_tokens = True  # text that looks like a marker is text
    backend.no_truncation()
    backend.no_padding()

    def encode(text: str) -> Sequence[int]:
        return list(backend.encode(text, add_special_tokens=False).ids)

    def respell(text: str) -> Sequence[int]:
        ids = target.backend_tokenizer.encode(text, add_special_tokens=False).ids
        return list(takewhile(lambda token: token < vocab, ids))

    mine = _speller(table.draft, draft)

    def own(token: int) -> bytes:
        return mine(token) or b""

    for probe in _PROBES:
        if b"".join(map(own, encode(probe))) != probe.encode():
            raise PairError(
                f"{name} cannot draft for another tokenizer's target: its own does not read"
                f" {probe!r} as it stands.",
                "Choose another draft.",
            )

    def id_of(data: bytes) -> int | None:
        found: int | None = backend.token_to_id(text_of(table.draft, data))
        return found

    def spell_out(data: bytes) -> Sequence[int] | None:
        if (whole := id_of(data)) is not None:
            return [whole]
        ids = [i for i in (id_of(bytes([byte])) for byte in data) if i is not None]
        return ids if len(ids) == len(data) else None

    markers = {b: a for a, b in (*table.markers, *ends)}
    begin = tuple(backend.encode("", add_special_tokens=True).ids)
    begin = begin if draft.bos_token_id in begin[:1] else ()
    spell = _speller(table.target, target)
    return Tongue(spell, markers, encode, spell_out, own, respell, begin[:1])


def _speller(kind: Kind, tokenizer: Any) -> Callable[[int], bytes | None]:
    """The bytes of an id: of a word, or of an added token that is no marker."""
    added = tokenizer.added_tokens_decoder
    plain = {i: None if token.special else token.content.encode() for i, token in added.items()}
    backend = tokenizer.backend_tokenizer

    def spell(token: int) -> bytes | None:
        if token in plain:
            return plain[token]
        text = backend.id_to_token(token)
        return None if text is None else bytes_of(kind, text)

    return spell
