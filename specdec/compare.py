"""Verify: a reply's ids against plain decoding in the runner that made them, from an empty cache.

Nothing is called identical unless compared here (DESIGN 5 and 8).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from specdec.contract import Cancel, Comparison, Finished, Reply
from specdec.detokenize import TextStream
from specdec.drafters.none import NoDrafter
from specdec.errors import EngineError, SettingError
from specdec.noise import Noise
from specdec.sampling import law
from specdec.session import Session
from specdec.turn import Task, Turn


def compare(session: Session, reply: Reply, cancel: Cancel) -> Comparison:
    """Raises SettingError without a seed, EngineError when cancelled before the end."""
    request = reply.request
    if request.sampling.seed is None:
        raise SettingError("This reply has no seed to repeat.", "Only replies made here have one.")
    if request.rule != "match":
        raise SettingError(
            "Replies under the rule 'reject' follow the same law, not the same words.",
            "Use the rule 'match' to compare words.",
        )
    limit = len(reply.ids) + (reply.reason == "end")  # the end id is one token more
    if limit == 0:
        return Comparison(True, 0)
    room = max(1, min(request.sampling.max_tokens, session.pair.context // 4))
    prompt = session.prompts.of(request, session.pair.context - room).ids
    noise = Noise.of(request.sampling.seed, prompt)
    if reply.prompt and reply.prompt != noise.prompt:
        raise SettingError(
            "The prompt is no longer the one this reply was made for: its template writes the date,"
            " or another number of turns fits.",
            "Regenerate the reply to verify that one.",
        )
    _, cached = session.scorer(request.runner)
    if max(reply.ids, default=0) >= cached.scorer.vocab:
        raise SettingError("This reply holds tokens that the model has not.", "Regenerate it.")
    cached.keep_prefix(prompt, True, request.conversation)
    wanted = replace(request.sampling, max_tokens=limit, stop=())
    task = Task(prompt, wanted, "match", noise, session.end_ids, session.pair.context)
    text = TextStream(session.decode)
    turn = Turn(task, cached.scorer, NoDrafter(), session.make_length(0), text)
    reason = ""
    for event in turn.run(cancel):
        if isinstance(event, Finished):
            reason = event.reason
    cached.ids = tuple(turn.tokens[: cached.scorer.length])
    if reason == "cancelled":
        raise EngineError("Verify was cancelled.", "Start it again to compare the whole reply.")
    plain = turn.reply
    rows = enumerate(zip(plain, reply.ids, strict=False))
    shorter = min(len(plain), len(reply.ids))
    place = next((i for i, (mine, theirs) in rows if mine != theirs), shorter)
    if place == len(plain) == len(reply.ids):
        return Comparison(True, place)
    expected, got = plain[place : place + 1], reply.ids[place : place + 1]
    gap = None
    if expected and got:
        before = (*prompt, *plain[:place])
        cached.scorer.rewind(len(before) - 1)
        logits = cached.scorer.score(before[-1:])[0]
        gap = gap_between(logits, task, before, expected[0], got[0])
    return Comparison(
        False,
        place + 1,
        place,
        gap,
        session.decode(expected) if expected else "the end",
        session.decode(got) if got else "the end",
    )


def gap_between(
    logits: Tensor, task: Task, before: Sequence[int], expected: int, got: int
) -> float:
    """Distance of two tokens in logit/T - log E, filters aside; in logits at T = 0."""
    greedy = task.sampling.temperature == 0
    plain = replace(
        task.sampling, temperature=task.sampling.temperature or 1.0, top_k=0, top_p=1.0, min_p=0.0
    )
    start = len(task.prompt)
    scores = law(logits, plain, before, start).scores[[expected, got]]
    if not greedy:
        ids = torch.tensor([expected, got], device=scores.device)
        scores = scores - task.noise.exponential(len(before) - start, "target", ids).log()
    return float(scores[0] - scores[1])
