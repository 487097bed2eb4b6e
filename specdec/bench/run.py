"""Loads what a plan names, lets it race, and measures the memory it ran from.

The order of a benchmark. Knows loads and contenders; nothing of arguments or tables.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager

from specdec import threads
from specdec.assemble import WIDTH, Target, load_target, with_draft
from specdec.bench import card, llama, own, peers
from specdec.bench.bandwidth import read_bandwidth
from specdec.bench.card import Card, Result
from specdec.bench.physics import Physics
from specdec.bench.plan import CHOSEN, LAW, LLAMA, TRANSFORMERS, Plan
from specdec.bench.race import Prompts, Tell, race
from specdec.bench.sample import Contender, Sample
from specdec.contract import Message, Phase
from specdec.depot import Depot, Show
from specdec.pairing import NONE, WITHOUT_FILES
from specdec.scorer import Scorer
from specdec.session import Session
from specdec.target import open_scorer

LLAMA_CONTEXT = 4096


def measure(plan: Plan, tell: Tell) -> Result:
    """Raises SpecdecError for whatever cannot be loaded, or does not answer."""
    depot = Depot(plan.options, _phases(tell), lambda: False)
    target = load_target(depot, plan.target)
    plain = with_draft(depot, target, NONE)
    drafted = {
        name: with_draft(depot, target, None if name == CHOSEN else name) for name in plan.drafts
    }
    ids = _ids(plan, plain)
    device = target.ground.where.device
    with ExitStack() as stack:
        watched = own.watched(device.type, plain.scorer("auto")[1].scorer)
        passes = stack.enter_context(watched)
        mine = own.contenders(plain, drafted, fast_plain(target), passes, plan.sampling)
        theirs = stack.enter_context(_peers(plan, depot, target, drafted, tell))
        before = read_bandwidth(device)
        samples = race([*mine, *theirs], ids, plan.tokens, plan.runs, tell, plan.minutes)
    bandwidth, how = max(before, read_bandwidth(device))
    return Result(
        make_card(plan, plain, samples, bandwidth),
        samples,
        Physics(bandwidth, target.ground.model.step_bytes, how),
        facts(plain, drafted),
    )


def fast_plain(target: Target) -> Scorer | None:
    """The runner that pads nothing, for plain decoding; None where it is the one that serves."""
    ground = target.ground
    if not target.runner.exact:
        return None
    return open_scorer(ground.model, "fast", WIDTH, ground.context, ground.vocab, exact=False)


def _ids(plan: Plan, session: Session) -> Prompts:
    room = session.pair.context - plan.tokens
    return {
        kind: [session.prompts.build((Message("user", text),), room).ids for text in texts]
        for kind, texts in plan.prompts.items()
    }


@contextmanager
def _peers(
    plan: Plan, depot: Depot, target: Target, drafted: Mapping[str, Session], tell: Tell
) -> Iterator[list[Contender]]:
    """Other engines over the same files; a server of ours is ended on leaving."""
    with ExitStack() as stack:
        found: list[Contender] = []
        where = target.ground.where
        if TRANSFORMERS in plan.peers:
            draft = _model_draft(drafted)
            tell(f"loading {TRANSFORMERS} {target.picked.value} {draft} ...")
            folder = depot.ready(depot.registry.get(draft)).folder if draft else None
            found += peers.transformers_peers(
                target.ground.files.folder, folder, draft, where.device, where.dtype
            )
        if LLAMA in plan.peers and plan.server is not None:
            tell(f"starting {plan.server.binary.name} ...")
            server = llama.serving(plan.server, threads.most(), LLAMA_CONTEXT)
            found.append(stack.enter_context(server))
        yield found


def _model_draft(drafted: Mapping[str, Session]) -> str:
    """The first draft that is a model: transformers' assistant."""
    chosen = [session.pair.draft.value for session in drafted.values()]
    return next((name for name in chosen if name not in WITHOUT_FILES), "")


def make_card(plan: Plan, session: Session, samples: Sequence[Sample], bandwidth: float) -> Card:
    """What the figures depend on."""
    pair = session.pair
    return Card(
        machine=card.machine(pair.device.value, threads.most(), bandwidth),
        versions=card.versions(),
        dtype=pair.dtype.value,
        settings={
            "target": pair.target.value,
            "drafts": list(plan.drafts),
            "draft_dtype": plan.options.draft_dtype,
            "weights": plan.options.weights,
            "runner": pair.runner.value,
            "exact": pair.exact,
            **{name: getattr(plan.sampling, name) for name in LAW},
            "rule": "match",
            "tokens": plan.tokens,
            "runs": plan.runs,
            "prompts": {
                kind: len({s.place for s in samples if s.kind == kind}) for kind in plan.prompts
            },
            "peers": list(plan.peers),
        },
        seed=own.SEED,
    )


def facts(plain: Session, drafted: Mapping[str, Session]) -> tuple[str, ...]:
    """Lines that say what ran, with the reasons of the load."""
    pair = plain.pair
    lines = [
        f"Target {pair.target.value} on {pair.device.value} in {pair.dtype.value}"
        f" ({pair.dtype.reason}).",
        f"Runner {pair.runner.value}: {pair.runner.reason}.",
    ]
    for name, session in drafted.items():
        draft, form = session.pair.draft, session.pair.draft_dtype
        lines.append(f"Draft {name}: {draft.value}, {draft.reason}; {form.value}, {form.reason}.")
    notices = [note for one in (plain, *drafted.values()) for note in one.pair.notices]
    return (*lines, *dict.fromkeys(notices))


def _phases(tell: Tell) -> Show:
    said = [""]

    def show(phase: Phase) -> None:
        text = f"{phase.name} {phase.model}"
        if text != said[0]:
            said[0] = text
            tell(f"{text} ...")

    return show
