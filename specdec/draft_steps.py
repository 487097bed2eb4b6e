"""A draft's steps one after another on the device: each token is chosen there and fed to the next.

Knows a scorer that takes tensors, and settings; nothing of caches kept between rounds, or of who
verifies. For the rule `match` only: there a draft's own law is not asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import torch

from specdec.drafters.base import Context, Held
from specdec.draws import Sight, draw_rows, on_device
from specdec.scorer import Resident, Scorer


def on_device_scorer(scorer: Scorer, context: Context) -> Resident | None:
    """The scorer, where steps on its device are worth it: a host that reads each token waits.

    On an Apple GPU greedy drafts only, which need no more than an argmax: the rest of `draws` has
    not run there. A `reject` draft must report its laws, so it is made step by step.
    """
    device: torch.device | None = getattr(scorer, "device", None)  # a wrapped one's is found too
    if device is None or context.rule != "match":
        return None
    greedy = context.sampling.temperature == 0
    stays = device.type == "cuda" or (device.type == "mps" and greedy)
    return cast(Resident, scorer) if stays else None


@torch.inference_mode()
def draft_steps(
    scorer: Resident,
    fresh: Sequence[int],
    context: Context,
    k: int,
    vocab: int,
    ends: frozenset[int],
) -> Held:
    """k tokens to follow `context.tokens`, of which `fresh` are read first; the host reads none.

    `fresh` and all drafted tokens but the last are then cached. Ids from `vocab` on are never
    drafted. A draw that the device is not sure of is taken as it is: a draft may be wrong.
    """
    device, index = scorer.device, len(context.tokens) - context.reply_start
    keys = on_device(context.noise.keys(index, k, "target"), device)
    drafted = torch.zeros(k, dtype=torch.int64, device=device)
    tops = torch.zeros(k, device=device)
    ids = on_device(fresh, device)
    for j in range(k):
        logits = scorer.score_tensor(ids)[-1:, :vocab]
        sight = Sight(context.tokens, drafted, context.reply_start, j)
        ids, _ = draw_rows(logits, context.sampling, sight, keys[j : j + 1])
        drafted[j : j + 1].copy_(ids)
        tops[j : j + 1].copy_(logits.amax(1))
    return Held(drafted, tops, ends)
