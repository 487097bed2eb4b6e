"""A loaded pair, ready to make replies. Knows models, drafters and prompts; nothing of queues."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Protocol

from specdec.detokenize import Decode
from specdec.drafters.base import Drafter
from specdec.drafters.plan import Length
from specdec.drafters.store import Lease, ReplyStore
from specdec.pair import Pair
from specdec.prompt import PromptBuilder
from specdec.request import ChatRequest, Runner
from specdec.scorer import Scorer


@dataclass(slots=True)
class Cached:
    """A scorer and the ids whose keys and values it holds, of which conversation.

    `scored`: from there on each was scored by the last turn, as the tokens of a reply are; 0 where
    that is not known.
    """

    scorer: Scorer
    ids: tuple[int, ...] = ()
    conversation: str = ""
    scored: int = 0

    def keep_prefix(
        self,
        prompt: Sequence[int],
        fresh: bool,
        conversation: str = "",
        begun: Sequence[int] = (),
    ) -> int:
        """Rewind to what `prompt` shares with the cache, by ids (DESIGN 7, 7); how many tokens.

        The last token is always scored again, since its logits come next (C13). An exact runner
        keeps whole prefill chunks only, so that a reply never depends on history; of a reply
        `begun` after this prompt it keeps what was scored after it. Another conversation keeps
        nothing.
        """
        fresh = fresh or conversation != self.conversation
        self.conversation = conversation
        whole, same = (*prompt, *begun), 0
        for mine, theirs in zip(self.ids, whole, strict=False):
            if mine != theirs:
                break
            same += 1
        last = len(prompt) - 1
        goes_on = bool(begun) and self.scored == last < same
        if self.scorer.exact and not goes_on:
            keep = min(same, last, self.scorer.reusable, self.scorer.length)
            keep -= keep % self.scorer.chunk
        else:
            keep = min(same, len(whole) - 1, self.scorer.length)
        keep = 0 if fresh else keep
        self.scorer.rewind(keep)
        self.ids, self.scored = whole[:keep], 0
        return keep

    def note(self, tokens: Sequence[int], scored: int) -> None:
        """A turn ended with these tokens; those from `scored` on went through `score`."""
        self.ids, self.scored = tuple(tokens[: self.scorer.length]), scored

    def forget(self) -> None:
        """Nothing is known to be valid any more."""
        self.ids, self.scored = (), 0
        self.scorer.rewind(0)


class MakeLength(Protocol):
    """The draft length asked for, or with None what a conversation's outcomes say."""

    def __call__(self, k: int | None, conversation: str = "") -> Length: ...


@dataclass(slots=True)
class Session:
    """`open_scorer` makes the runner that was not chosen, when a race or a check asks for it.

    `store` is what n-gram drafts may copy from beside the conversation; None: nothing is kept.
    """

    pair: Pair
    prompts: PromptBuilder
    decode: Decode
    end_ids: frozenset[int]
    drafter: Drafter
    runner: Runner  # what "auto" means: static or fast
    open_scorer: Callable[[Runner], Scorer]
    make_length: MakeLength
    store: ReplyStore | None = None
    _scorers: dict[Runner, Cached] = field(default_factory=dict)

    def scorer(self, runner: Runner) -> tuple[Runner, Cached]:
        """The runner asked for, opened on first use, with what its cache holds."""
        name = self.runner if runner == "auto" else runner
        if name not in self._scorers:
            self._scorers[name] = Cached(self.open_scorer(name))
        return name, self._scorers[name]

    def lent(self, request: ChatRequest) -> AbstractContextManager[Lease | None]:
        """The store, open for this reply alone, where the request may use it; else None."""
        if self.store is None or request.fresh or not request.remember:
            return nullcontext()
        return self.store.lending(request.conversation)

    def speculates(self, request: ChatRequest) -> bool:
        """Whether this request drafts at all."""
        return request.mode == "speculative" and request.k != 0 and self.drafter.name != "none"
