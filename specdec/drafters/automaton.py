"""A suffix automaton over token ids, grown one token at a time. Knows ids and places only.

Blumer et al. 1985, "The smallest automaton recognizing the subwords of a text": its states are the
sets of runs that end at the same places. The state that the newest one links to holds the longest
run of last tokens that also ended earlier, of whatever length.
"""

from __future__ import annotations

_WALK = 64
"""States marked a token. Paths of links are longer only where short loops go round for long: there
the shortest runs may name an older place than their most recent one, and it holds all the same."""


class Automaton:
    """Answers for the text so far: `run` last tokens occurred before, and `place` follows them.

    `place` is an index into the tokens given, of the token after the most recent earlier
    occurrence; runs may overlap. A token costs amortised constant time; n tokens have at most 2 n
    states and 3 n transitions.
    """

    __slots__ = ("_end", "_last", "_length", "_link", "_next", "place", "run", "size")

    def __init__(self) -> None:
        self.run = self.place = 0
        self.size = 0  # tokens given
        self._last = 0
        self._next: list[dict[int, int]] = [{}]
        self._link = [-1]
        self._length = [0]  # of the longest run of a state
        self._end = [0]  # the place after its most recent occurrence

    def extend(self, token: int) -> None:
        """Append a token and look up the longest run that now ends the text."""
        self.size += 1
        new = self._add({}, self.size, 0, self.size)
        state, after = self._last, self._next
        while state >= 0 and token not in after[state]:
            after[state][token] = new
            state = self._link[state]
        if state >= 0:
            self._link[new] = self._split(state, token)
        self._last = new
        state = self._link[new]
        self.run, self.place = self._length[state], self._end[state]
        for _ in range(_WALK):
            if state == 0:
                break
            self._end[state] = self.size
            state = self._link[state]

    def _split(self, state: int, token: int) -> int:
        """The state of `state`'s longest run and `token`, cut from a longer one where need be."""
        whole, length = self._next[state][token], self._length[state] + 1
        if self._length[whole] == length:
            return whole
        part = self._add(
            dict(self._next[whole]), length, self._link[whole], self._end[whole]
        )  # occurred, until now, where the whole did
        self._link[whole] = part
        while state >= 0 and self._next[state].get(token) == whole:
            self._next[state][token] = part
            state = self._link[state]
        return part

    def _add(self, after: dict[int, int], length: int, link: int, end: int) -> int:
        self._next.append(after)
        self._length.append(length)
        self._link.append(link)
        self._end.append(end)
        return len(self._next) - 1
