"""One reply: prefill -> (propose, score, verify, rewind, emit)* -> finished. The only decode loop.

Plain decoding is the drafter that proposes nothing. Knows token ids, laws and text pieces; nothing
of conversations, queues or files.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from dataclasses import replace
from time import perf_counter

from specdec.contract import Cancel, Finished, FinishReason, Notice, Prefill, Round, SpanKind
from specdec.detokenize import TextStream
from specdec.drafters.base import Context, Draft, Drafter
from specdec.drafters.guard import Guarded
from specdec.drafters.plan import Length as Length
from specdec.drafters.plan import Moment, Offer, Plan, Timed, taken
from specdec.metrics import Metrics
from specdec.scorer import Scorer
from specdec.task import Task as Task
from specdec.verify import Outcome, Rows, judge

TurnEvent = Prefill | Round | Notice | Finished


class Turn:
    """Makes one reply. After every round target.length == len(tokens) - 1 (DESIGN 7, 1)."""

    def __init__(
        self,
        task: Task,
        target: Scorer,
        drafter: Drafter,
        length: Length,
        text: TextStream,
        clock: Callable[[], float] = perf_counter,
    ) -> None:
        self.tokens = [*task.prompt, *task.begun]  # prompt and reply, end id left out
        self._task = task
        self._target = target
        self._drafts = Guarded(drafter, self._now)
        self._length = length
        self._text = text
        self._clock = clock
        self._kinds: list[SpanKind] = ["bonus"] * len(task.begun)  # one a reply token
        self._reason: FinishReason | None = None
        self.begun = text.begin(task.begun)  # the text of what was begun, as far as it stands
        self._rounds = self._drafted = self._first_tokens = 0
        self._bare = False  # the last round found the end and added no token
        self._first_s = self._last_s = 0.0
        self._proposing = 0.0  # seconds the last draft took
        self._away = 0.0  # seconds spent by whoever reads the events
        self._off = False  # drafting was judged not to pay
        self._blocked = self._said = ""  # why nobody can draft, and what was last said of it

    def run(self, cancel: Cancel) -> Iterator[TurnEvent]:
        """Ends in exactly one `Finished`. A cancel is seen between prefill chunks and rounds.

        All times count the work in here only, not what is done with an event before the next.
        """
        events = self._events(cancel)
        try:
            for event in events:
                left = self._clock()
                yield event
                self._away += self._clock() - left
        finally:
            events.close()

    def _events(self, cancel: Cancel) -> Generator[TurnEvent, None, None]:
        began = self._now()
        reused = self._target.length
        try:
            self._drafts.watch(self._target)
            yield from self._prefill(cancel)
            self._drafts.begin(self.tokens)
            while self._reason is None:
                plan, offer = self._plan()
                if offer and offer.behind and not self._catch_up(offer, cancel):
                    break
                if cancel.is_set():
                    self._reason = "cancelled"
                    break
                started = self._now()
                draft = self._propose(plan, offer) if offer else Draft()
                yield from self._news(plan, draft)
                yield self._round(plan, offer, draft, started, began)
        finally:
            self._drafts.watch(None)
            self._rewind()
        if fault := self._drafts.told():
            yield Notice(fault)
        self._reason = self._reason or "cancelled"
        self._text.finish()
        rest, spans = self._text.take(last=True)
        if rest:
            yield Round((), rest, spans, 0, 0, 0.0, self._made, self._last_s - self._first_s)
        yield Finished(self._reason, self._metrics(reused, began), self.reply, self._text.text)

    @property
    def prompt(self) -> tuple[int, ...]:
        """Ids before the reply."""
        return self._task.prompt

    @property
    def reply(self) -> tuple[int, ...]:
        """Ids of the reply so far, the end id left out."""
        return tuple(self.tokens[len(self._task.prompt) :])

    @property
    def _made(self) -> int:
        return max(0, len(self._kinds) - len(self._task.begun))

    def _prefill(self, cancel: Cancel) -> Iterator[Prefill]:
        """Read all but the last token; that one is scored with the first round.

        An exact runner scores what was begun, for so it came to be: a chunk has other bits.
        """
        total, target = len(self.tokens) - 1, self._target
        read = len(self._task.prompt) - 1 if target.exact else total
        while (done := target.length) < total:
            yield Prefill(done, total)
            if cancel.is_set():
                self._reason = "cancelled"
                return
            if done < read:
                border = (done // target.chunk + 1) * target.chunk
                target.prefill(self.tokens[done : min(border, read)])
            else:
                target.score(self.tokens[done : min(done + target.room(), total)])
        yield Prefill(total, total)

    def _catch_up(self, offer: Offer, cancel: Cancel) -> bool:
        """Let who drafts read what it has not read yet, in pieces. False when cancelled."""
        while not self._drafts.catch_up(self.tokens, offer.source):
            if cancel.is_set():
                self._reason = "cancelled"
                return False
        return True

    def _news(self, plan: Plan, draft: Draft) -> Iterator[Notice]:
        """What the user should read: a failure, why nobody can draft, and on turning to or off."""
        if fault := self._drafts.told():
            yield Notice(fault)
        if (why := draft.reason or self._blocked) and why != self._said:
            self._said = why
            yield Notice(why)
        if plan.news:
            yield Notice(plan.news)
        if plan.off != self._off:
            self._off = plan.off
            yield Notice(plan.reason if plan.off else f"Speculation is on again: {plan.reason}")

    def _now(self) -> float:
        return self._clock() - self._away

    def _plan(self) -> tuple[Plan, Offer | None]:
        """What to draft and who drafts it, from past outcomes, the tokens and limits only.

        Nothing in the first round: the first token is out before the draft reads the prompt.
        """
        if self._rounds == 0:
            return Plan(0, "the first token comes before any draft"), None
        left = min(
            self._task.sampling.max_tokens - self._made,
            self._task.context - len(self.tokens),
        )
        most = max(0, min(left - 1, self._target.room() - 1))
        offers = self._drafts.offers(self.tokens)
        plan = self._length.choose(Moment(offers, most, len(self._kinds)))
        offer = taken(replace(plan, k=min(plan.k, most)), offers)
        self._blocked = "" if offer else next((o.blocked for o in offers if o.blocked), "")
        return replace(plan, k=min(plan.k, most) if offer else 0), offer

    def _round(
        self, plan: Plan, offer: Offer | None, draft: Draft, started: float, began: float
    ) -> Round:
        index = len(self._kinds)
        known, began_scoring = draft.held is None, self._now()
        draft, outcome = self._judged(draft, index)
        scored = self._now() - began_scoring
        kept = self._emit(outcome, len(draft.tokens))
        self._rewind()
        if offer and draft.tokens and self._drafts.sound(draft):
            self._length.learn(offer.learned_by, len(draft.tokens), outcome.accepted)
            if known and isinstance(self._length, Timed):  # else the device drafts while it scores
                self._length.took(offer.source, len(draft.tokens), self._proposing, scored)
        self._drafts.settle(self.tokens, outcome.accepted)
        now = self._now()
        self._last_s = now - began
        if self._rounds == 0:
            self._first_s, self._first_tokens = self._last_s, self._made
        self._rounds += 1
        self._bare = len(self._kinds) == index
        self._drafted += len(draft.tokens)
        if self._reason is not None:
            self._text.finish()
        text, spans = self._text.take(last=self._reason is not None)
        ids = tuple(self.tokens[len(self._task.prompt) + index :])
        return Round(
            ids,
            text,
            spans,
            len(draft.tokens),
            kept,
            now - started,
            self._made,
            self._last_s - self._first_s,
            plan.k,
            offer.source if offer else "",
            draft.reason or plan.reason,
        )

    def _judged(self, draft: Draft, index: int) -> tuple[Draft, Outcome]:
        """Score the draft and decide; it comes back known, however long its device kept it."""
        task, last = self._task, self.tokens[-1]
        if draft.held is None:
            logits = self._target.score([last, *draft.tokens])
        else:
            logits = self._target.score_tensor(draft.held.after(last))
        rows = Rows(logits, task.sampling, self.tokens, len(task.prompt))
        return judge(task.rule, draft, rows, task.noise, index)

    def _propose(self, plan: Plan, offer: Offer) -> Draft:
        task = self._task
        context = Context(
            self.tokens,
            len(task.prompt),
            task.sampling,
            task.rule,
            task.noise,
            offer.source,
            plan.least,
        )
        before = self._drafts.seconds
        draft = self._drafts.propose(context, plan.k)
        self._proposing = self._drafts.seconds - before
        return draft

    def _emit(self, outcome: Outcome, drafted: int) -> int:
        """Append the outcome's tokens up to the first that ends the reply; how many kept ones.

        Nothing after an end id, a stop string or a limit is emitted, counted or cached (7, 3).
        """
        before = len(self._kinds)
        last: SpanKind = "bonus" if outcome.accepted == drafted else "corrected"
        for j, token in enumerate(outcome.tokens):
            if token in self._task.end_ids:
                self._reason = "end"
                break
            kind: SpanKind = "kept" if j < outcome.accepted else last
            self.tokens.append(token)
            self._kinds.append(kind)
            if self._text.push(token, kind):
                self._reason = "stop"
                self._drop_after(self._text.kept)
                break
            if self._made >= self._task.sampling.max_tokens:
                self._reason = "length"
                break
            if len(self.tokens) >= self._task.context:
                self._reason = "context"
                break
        return self._kinds[before:].count("kept")

    def _drop_after(self, kept: int) -> None:
        del self.tokens[len(self._task.prompt) + kept :]
        del self._kinds[kept:]

    def _rewind(self) -> None:
        """Leave the cache valid on every exit, an error in the middle of a round included.

        Once an end id was drawn the last token is scored too; a cache that cannot be shortened
        keeps it, where forgetting it would mean to read the whole chat again.
        """
        scored = self._reason == "end" and not self._target.can_rewind
        keep = len(self.tokens) - (not scored)
        self._target.rewind(min(self._target.length, keep))

    def _metrics(self, reused: int, began: float) -> Metrics:
        return Metrics(
            prompt_tokens=len(self._task.prompt),
            reused_tokens=reused,
            new_tokens=self._made,
            rounds=self._rounds - self._bare,
            drafted=self._drafted,
            accepted=self._kinds.count("kept"),
            first_token_s=self._first_s,
            decode_s=self._last_s - self._first_s,
            draft_s=self._drafts.seconds,
            first_round_tokens=self._first_tokens,
        )
