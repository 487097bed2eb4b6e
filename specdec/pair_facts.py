"""What a loaded pair takes and how fast its steps are, as numbers a page may show. No tensors."""

from __future__ import annotations

from specdec import memory
from specdec.depot import Depot
from specdec.draft_form import draft_form
from specdec.drafters.costs import by_length
from specdec.ground import Drafting, Ground
from specdec.pair import Memory, Pace
from specdec.pairing import WITHOUT_FILES
from specdec.request import MAX_K


def memory_of(depot: Depot, ground: Ground, drafting: Drafting) -> Memory:
    """Weights as held, the draft by the estimate of the fit check, caches when they are full."""
    names = tuple(drafting.members) or (drafting.choice.value,)
    form = draft_form(depot.options.draft_dtype, ground.where)
    draft, caches = 0, ground.model.kv_bytes * ground.context
    for name in names:
        if name in WITHOUT_FILES:
            continue
        entry = depot.registry.get(name)
        draft += memory.weight_bytes(entry, form) or 0
        tokens = min(ground.context, entry.context or ground.context)
        caches += memory.kv_bytes(entry.shape, tokens) or 0
    return Memory(ground.free, ground.model.weight_bytes, draft, caches)


def pace_of(ground: Ground, drafting: Drafting) -> Pace:
    """The costs that the draft length is chosen by."""
    runner = ground.runner
    drafts = tuple((name, cost.token) for name, cost in drafting.costs.items() if cost.token)
    return Pace(runner.plain_cost, tuple(by_length(runner.costs, MAX_K)), drafts)
