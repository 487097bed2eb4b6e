"""Counter-based noise: (seed, prompt, index, stream, id) -> an exponential. Knows integers only.

The hash is the same on every device and platform; no generator state, so nothing is to be given
back for positions that are thrown away. The draw itself is `sampling.draw`.
"""

from __future__ import annotations

import hashlib
import struct
import sys
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import torch
from torch import Tensor

Stream = Literal["target", "draft", "accept", "residual"]

_BLOCK_BITS = 6
BLOCK = 1 << _BLOCK_BITS
LARGEST, SMALLEST = 27.034, -2.828
"""Bounds of -log E: the least E is 2^-33 / BLOCK, the greatest below 24 ln 2 * (1 + 1/BLOCK)."""

_AHEAD, _REMEMBERED = 8, 24
"""Indices whose least noise is made at once, and kept: more than a round's, each costs little."""

_BITS = 32
_MASK = 0xFFFFFFFF
_LEAST, _PLACE = 1 << 30, 1 << 31  # above every token id: what is hashed for a block


@dataclass(frozen=True, slots=True)
class Noise:
    """The noise of one reply; `index` below counts tokens of the reply from 0."""

    seed: int
    digest: int  # 64 bits of a hash of the prompt ids
    _known: dict[tuple[int, Stream, int, torch.device], Tensor] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    @classmethod
    def of(cls, seed: int, prompt: Sequence[int]) -> Noise:
        """Noise for a reply to `prompt` ids under `seed`."""
        ids = array("q", prompt)
        if sys.byteorder == "big":
            ids.byteswap()
        digest = hashlib.blake2b(ids.tobytes(), digest_size=8).digest()
        return cls(seed, int.from_bytes(digest, "little"))

    @property
    def prompt(self) -> str:
        """The digest of the prompt, as text."""
        return f"{self.digest:016x}"

    def exponential(self, index: int, stream: Stream, ids: Tensor) -> Tensor:
        """E ~ Exp(1) for each of `ids` (int64 [n]) at reply `index`: float32 [n], all > 0.

        The least of a block of 64 is Exp(64), sits anywhere in it, and the others exceed it by
        Exp(1): independent exponentials, and a draw passes over blocks instead of ids.
        """
        first, second, _ = self._key(index, stream)
        return exponential(ids, first, second)

    def least(self, index: int, stream: Stream, blocks: int, device: torch.device) -> Tensor:
        """The least E of each of the first `blocks` blocks: float32 [b], not to be written to.

        Made for a few indices at once and remembered: the next draws ask for those that follow, and
        draft and target ask for the same under match.
        """
        what = (index, stream, blocks, device)
        if what not in self._known:
            keys = torch.tensor(self.keys(index, _AHEAD, stream), device=device)
            made = least(torch.arange(blocks, device=device), keys[:, :1], keys[:, 1:])
            for j, row in enumerate(made):
                self._known[index + j, stream, blocks, device] = row
            for old in list(self._known)[:-_REMEMBERED]:
                del self._known[old]
        return self._known[what]

    def in_blocks(self, index: int, stream: Stream, blocks: Tensor, lowest: Tensor) -> Tensor:
        """E for all ids of some blocks (int64 [b]) whose least E is known: float32 [b, 64].

        As `exponential`, which would make the words of its block for each id anew.
        """
        first, second, _ = self._key(index, stream)
        return in_blocks(blocks, lowest, first, second)

    def keys(self, index: int, count: int, stream: Stream) -> list[tuple[int, int]]:
        """The two keys of the noise at each of `count` indices from `index` on, for a device."""
        return [self._key(index + j, stream)[:2] for j in range(count)]

    def uniform(self, index: int, stream: Stream) -> float:
        """One u in (0, 1) for reply `index`: 52 random bits, independent of `exponential`."""
        word = self._key(index, stream)[2]
        return ((word >> 12) + 0.5) * 2.0**-52

    def _key(self, index: int, stream: Stream) -> tuple[int, int, int]:
        """Two 32-bit words for the hash of ids and a 64-bit one for `uniform`."""
        text = f"{self.seed} {self.digest} {index} {stream}".encode()
        first, second, word = struct.unpack("<IIQ", hashlib.blake2b(text, digest_size=16).digest())
        return first, second, word


Key = int | Tensor
"""One for all ids, or int64 [m, 1] for the m rows of ids [m, n]."""


def exponential(ids: Tensor, first: Key, second: Key) -> Tensor:
    """E for each of `ids` under two keys of 32 bits: float32, of the shape of both together."""
    n, block = ids.shape[-1], ids >> _BLOCK_BITS
    words = _words(torch.cat((ids, block | _LEAST, block | _PLACE), -1), first, second)
    both = _exponential(words[..., : 2 * n])
    own, lowest = both[..., :n], both[..., n:] / BLOCK
    here = _place(words[..., 2 * n :]) == (ids & (BLOCK - 1))
    return torch.where(here, lowest, lowest + own)


def least(block: Tensor, first: Key, second: Key) -> Tensor:
    """The least E of each block (int64 [b]): float32, of the shape of both together."""
    return _exponential(_words(block | _LEAST, first, second)) / BLOCK


def in_blocks(block: Tensor, lowest: Tensor, first: int, second: int) -> Tensor:
    """E for the ids of each block (int64 [b]), its least E (float32 [b]) given: float32 [b, 64]."""
    inside = torch.arange(BLOCK, device=block.device)
    ids = (block[:, None] * BLOCK + inside).view(-1)
    words = _words(torch.cat((ids, block | _PLACE)), first, second)
    own = _exponential(words[: len(ids)]).view(-1, BLOCK)
    here = _place(words[len(ids) :])[:, None] == inside
    return own.masked_fill_(here, 0).add_(lowest[:, None])


def _words(what: Tensor, first: Key, second: Key) -> Tensor:
    """32 random bits for each of `what`, int64, any device. Keyed before and in the middle.

    One key alone would only shuffle the words of another. The rounds are C. Wellons'
    (hash-prospector); every factor is below 2^31, so no product leaves int64.
    """
    x = what ^ first
    x ^= x >> 16
    x = x.mul_(0x21F0AAAD).bitwise_and_(_MASK)
    x ^= x >> 15
    x ^= second
    x = x.mul_(0x735A2D97).bitwise_and_(_MASK)
    x ^= x >> 15
    x = x.mul_(0x604BAA4D).bitwise_and_(_MASK)
    x ^= x >> 16
    return x


def _exponential(words: Tensor) -> Tensor:
    """E = -log1p(-u), u = (h + 1/2) 2^-32: a small E wins, and is exact because a small u is.

    -log(u) would make the small ones out of u near 1, where float32 has a rare 0.
    """
    u = (words.to(torch.float32) + 0.5) * 2.0**-_BITS
    # Rounding takes the last u below 1 to 1; E there is large and loses, but must be finite.
    return -torch.log1p(-u.clamp_(max=1 - 2.0**-24))


def _place(words: Tensor) -> Tensor:
    """Where in its block: the top six bits."""
    return words >> (_BITS - _BLOCK_BITS)
