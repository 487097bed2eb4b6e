"""One self-written chat as it grows: whose turn it is, what the template forces, when it ends.

Knows ids and the template's pieces; nothing of models, sampling or batches.
"""

from __future__ import annotations

from collections import deque

from specdec.training.chats import SHORTEST, Chat, Span
from specdec.training.frame import Frame

USER = 96
"""Most tokens of a user's turn; a longer one is cut there."""

AGAIN = 96
"""Tokens that must be left for a second turn to begin."""


class Speaker:
    """Feed it drawn ids with `hear`; `forced` is what comes next without a draw."""

    def __init__(self, frame: Frame, length: int, user_heat: float, reply_heat: float) -> None:
        """The heats are the temperatures to draw either's words with."""
        self.ids = list(frame.opening)
        self.replying = False
        self.done = False
        self._frame, self._length = frame, length
        self._user_heat, self._reply_heat = user_heat, reply_heat
        self._queue: deque[int] = deque()
        self._start = len(self.ids)
        self._replies: list[Span] = []

    @property
    def heat(self) -> float:
        """The temperature of whoever speaks."""
        return self._reply_heat if self.replying else self._user_heat

    @property
    def forced(self) -> bool:
        """Whether the template has the next word."""
        return bool(self._queue)

    def force(self) -> None:
        """Append what the template has next."""
        self.ids.append(self._queue.popleft())
        self._start = len(self.ids)
        self.done = len(self.ids) >= self._length

    def hear(self, token: int) -> None:
        """Append a drawn id, or end the turn with it."""
        frame = self._frame
        if self.replying:
            self._hear_reply(token)
            return
        ended = token in frame.ends or token == frame.to_reply[0]
        if not ended:
            self.ids.append(token)
        if len(self.ids) == self._start or len(self.ids) >= self._length:  # nothing, or too much
            self.done = True
        elif ended or len(self.ids) - self._start >= USER:
            self._queue.extend(frame.to_reply)
            self.replying = True

    def cut(self) -> None:
        """Let it end here: what was said of a reply is text like any other."""
        if self.done:
            return
        if self.replying and not self.forced and len(self.ids) > self._start:
            self._replies.append((self._start, len(self.ids)))
        self.done = True

    def chat(self) -> Chat | None:
        """What was said, or None where no reply came of it."""
        if len(self.ids) < SHORTEST or not self._replies:
            return None
        return Chat(tuple(self.ids), tuple(self._replies))

    def _hear_reply(self, token: int) -> None:
        """The id that ends a reply is the model's own word."""
        frame = self._frame
        self.ids.append(token)
        left = self._length - len(self.ids)
        ended = token in frame.ends or frame.to_user[:1] == (token,)
        if not ended and left > 0:
            return
        self._replies.append((self._start, len(self.ids)))
        if left < AGAIN or len(self._replies) > 1 or frame.to_user[:1] != (token,):
            self.done = True
            return
        self._queue.extend(frame.to_user[1:])
        self.replying = False
        self._start = len(self.ids)
