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
    """A scorer and the ids whose keys and values it holds, of which conversation."""

    scorer: Scorer
    ids: tuple[int, ...] = ()
    conversation: str = ""

    def keep_prefix(self, prompt: Sequence[int], fresh: bool, conversation: str = "") -> int:
        """Rewind to what `prompt` shares with the cache, by ids (DESIGN 7, 7); how many tokens.

        The last prompt token is always scored again, since its logits begin the reply (C13). An
        exact runner keeps whole prefill chunks only, so that a reply never depends on history.
        Another conversation keeps nothing.
        """
        fresh = fresh or conversation != self.conversation
        self.conversation = conversation
        same = 0
        for mine, theirs in zip(self.ids, prompt, strict=False):
            if mine != theirs:
                break
            same += 1
        keep = 0 if fresh else min(same, len(prompt) - 1, self.scorer.reusable, self.scorer.length)
        if self.scorer.exact:
            keep -= keep % self.scorer.chunk
        self.scorer.rewind(keep)
        self.ids = tuple(prompt[:keep])
        return keep

    def forget(self) -> None:
        """Nothing is known to be valid any more."""
        self.ids = ()
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
