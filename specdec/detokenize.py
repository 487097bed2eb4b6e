"""Streaming text from token ids: whole characters only, stop strings cut wherever they straddle.

Knows token ids and a decode function; nothing of models or rounds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from specdec.contract import Span, SpanKind

Decode = Callable[[Sequence[int]], str]

_MARK = "\ufffd"
_HOLD = 8
"""Tokens held back for an unfinished character; none takes more than four bytes (B02)."""


class TextStream:
    """Push tokens one at a time, take the text that will never be taken back.

    What was taken is always a prefix of the one-shot decode of the tokens (DESIGN 7, 2). `decode`
    must skip special tokens and not tidy spaces. Windows as in vLLM's and TGI's detokenizers: a
    token is decoded together with those before it, so that leading-space marks survive (B03).
    """

    def __init__(self, decode: Decode, stop: Sequence[str] = ()) -> None:
        self._decode = decode
        self._stop = tuple(stop)
        self._ids: list[int] = []
        self._start = 0  # window: ids[start:] are decoded, ids[start:read] for context only
        self._read = 0
        self._given = 0  # characters of the window's text that were released
        self._held = 0  # tokens up to which all characters were released when some last were
        self._text = ""  # characters that are whole, stop string and all
        self._kinds: list[SpanKind] = []  # one a character of _text
        self._ends: list[int] = []  # len(_text) after each token
        self._taken = 0
        self._cut: int | None = None  # where a stop string begins

    def begin(self, ids: Sequence[int]) -> str:
        """Push what was said before; the text of it that stands, whatever follows."""
        for token in ids:
            if self.push(token, "bonus"):
                break
        return self.take()[0]

    def push(self, token: int, kind: SpanKind) -> bool:
        """Add one token. True when it completed a stop string: push no more."""
        self._ids.append(token)
        self._grow(self._whole(), kind)
        self._ends.append(len(self._text))
        return self._cut is not None

    def finish(self) -> None:
        """No token follows: release what was held back, an unfinished character included."""
        if self._cut is None:
            rest = self._decode(self._ids[self._start :])[self._given :]
            self._start, self._given = len(self._ids), 0
            self._grow(rest, self._kinds[-1] if self._kinds else "bonus")
            if self._ends:
                self._ends[-1] = len(self._text)

    def take(self, last: bool = False) -> tuple[str, tuple[Span, ...]]:
        """Text since the previous take, and spans; `last` also gives a half stop string (B07)."""
        end = len(self._text) if self._cut is None else self._cut
        if self._cut is None and not last:
            end -= self._half_stop()
        begin, self._taken = self._taken, max(end, self._taken)
        return self._text[begin : self._taken], _spans(self._kinds[begin : self._taken])

    @property
    def text(self) -> str:
        """Everything taken so far."""
        return self._text[: self._taken]

    @property
    def kept(self) -> int:
        """How many of the pushed tokens have a part in the text before a stop string."""
        if self._cut is None:
            return len(self._ids)
        cut = self._cut
        return next((i + 1 for i, end in enumerate(self._ends) if end >= cut), 0) if cut else 0

    def _whole(self) -> str:
        """Characters, beyond those given, that no token to come can change; '' if there are none.

        All but the marks at the very end, which may be an unfinished character: a token can end
        one character and begin the next. Marks that stay for `_HOLD` tokens are released too.
        """
        end = len(self._ids)
        text = self._decode(self._ids[self._start :])
        final, held = len(text.rstrip(_MARK)), end
        if final < len(text) and end - self._held >= _HOLD:
            # an unfinished character is at most three marks, so what is before is final
            final, held = max(final, len(text) - 3), end - 3
        fresh = text[self._given : final]
        if fresh:
            self._held, self._given = held, final
            if final == len(text):
                self._move(end)
        return fresh

    def _move(self, end: int) -> None:
        """All of `ids[:end]` is given: what came last is context now, what came before is not."""
        self._start, self._read = self._read, end
        self._given = len(self._decode(self._ids[self._start : end]))

    def _grow(self, fresh: str, kind: SpanKind) -> None:
        old = len(self._text)
        self._text += fresh
        self._kinds += [kind] * len(fresh)
        places = [self._text.find(s, max(0, old - len(s) + 1)) for s in self._stop]
        found = [p for p in places if p >= 0]
        if found:
            self._cut = min(found)

    def _half_stop(self) -> int:
        """Characters at the end that may be the beginning of a stop string."""
        tail = self._text[self._taken :]
        longest = 0
        for s in self._stop:
            for n in range(min(len(s) - 1, len(tail)), longest, -1):
                if tail.endswith(s[:n]):
                    longest = n
                    break
        return longest


def _spans(kinds: Sequence[SpanKind]) -> tuple[Span, ...]:
    """Runs of equal kind, as (start, end, kind)."""
    spans: list[Span] = []
    start = 0
    for i in range(1, len(kinds) + 1):
        if i == len(kinds) or kinds[i] != kinds[start]:
            spans.append(Span(start, i, kinds[start]))
            start = i
    return tuple(spans)
