"""The target's own first layers draft: the same words as plain decoding, and the same law.

Real decoders with random weights over a few ids, so that all of full, partial and no acceptance
occur.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pytest
import torch

from specdec.check_law import LIMIT, surprise
from specdec.contract import Finished, NeverCancel, Notice, Round, Sampling
from specdec.decoder import Weights
from specdec.detokenize import TextStream
from specdec.drafters.base import Context, Drafter
from specdec.drafters.cascade import CascadeDrafter
from specdec.drafters.early_exit import EarlyExitDrafter
from specdec.drafters.ngram import NgramDrafter
from specdec.drafters.none import NoDrafter
from specdec.loading import load_model
from specdec.noise import Noise
from specdec.request import Rule
from specdec.runner import Layout, LeanScorer
from specdec.sampling import law
from specdec.scorer import Scorer
from specdec.session import Cached
from specdec.trial import Cycle
from specdec.turn import Task, Turn
from tests.fakes import TableScorer, random_table
from tests.tiny import tiny_model

V, CONTEXT, LAYERS = 12, 400, 5
PROMPT = tuple((7 * i * i + i) % 11 + 1 for i in range(90))  # more than a chunk
CHANGING = (3, 0, 7, 1, 0, 0, 0, 5)

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Weights:
    folder = tiny_model(tmp_path_factory.mktemp("deep"), hidden_size=32, num_hidden_layers=LAYERS)
    weights = load_model(folder, torch.device("cpu"), torch.float32).weights
    assert weights is not None
    return weights


def scorer(target: Weights, static: bool = True, vocab: int = V) -> LeanScorer:
    layout = Layout(8, (8,), True) if static else Layout.plain(8)
    return LeanScorer(target, layout, CONTEXT, vocab, static)


def drafter(layers: int = 3, ends: frozenset[int] = frozenset({0})) -> EarlyExitDrafter:
    return EarlyExitDrafter("early-exit", layers, ends, 0.5)


def reply(
    target: Scorer,
    drafter: Drafter,
    length: Cycle,
    prompt: Sequence[int] = PROMPT,
    sampling: Sampling | None = None,
    rule: Rule = "match",
    seed: int = 3,
    stop_after: int = 10**9,
) -> list[int]:
    """The ids of one reply; after `stop_after` rounds it is left."""
    sampling = sampling or Sampling(temperature=1.5, max_tokens=40)
    task = Task(tuple(prompt), sampling, rule, Noise.of(seed, prompt), frozenset({0}), CONTEXT)
    turn = Turn(task, target, drafter, length, TextStream(lambda ids: "x" * len(ids), ()))
    events, rounds = turn.run(NeverCancel()), 0
    for event in events:
        assert not (isinstance(event, Notice) and "failed" in event.text), event
        if isinstance(event, Round) and event.ids:
            assert target.length == len(turn.tokens) - 1
            rounds += 1
        if isinstance(event, Finished) or rounds > stop_after:
            break
    events.close()  # type: ignore[attr-defined]
    return turn.tokens[len(prompt) :]


SETTINGS = [
    Sampling(temperature=0, max_tokens=30),
    Sampling(temperature=0, repetition_penalty=1.5, frequency_penalty=0.3, max_tokens=30),
    Sampling(temperature=1.5, max_tokens=30),
    Sampling(temperature=0.8, top_k=6, top_p=0.9, repetition_penalty=1.2, max_tokens=30),
]


@pytest.mark.parametrize("sampling", SETTINGS, ids=["greedy", "penalised", "warm", "shaped"])
@pytest.mark.parametrize(
    ("ks", "static"),
    [((7,), True), (CHANGING, True), (CHANGING, False)],
    ids=["k 7", "k changes", "plain runner"],
)
def test_the_words_are_those_of_plain_decoding(
    sampling: Sampling, ks: tuple[int, ...], static: bool, target: Weights
) -> None:
    outcomes = []
    layers = 4 if sampling is SETTINGS[0] else 2  # where some are kept and some are not
    for seed in (2, 3):
        one, other, length = scorer(target, static), scorer(target, static), Cycle(ks)
        prompt = PROMPT[seed:]
        plain = reply(one, NoDrafter(), Cycle((0,)), prompt, sampling, seed=seed)
        assert reply(other, drafter(layers), length, prompt, sampling, seed=seed) == plain
        outcomes += length.outcomes
    assert any(accepted for _, accepted in outcomes)
    assert any(accepted < drafted for drafted, accepted in outcomes)


def test_more_layers_agree_more_and_all_some_and_none_are_kept(target: Weights) -> None:
    kept = {}
    for layers in (1, LAYERS - 1):
        length = Cycle((3,))
        for seed in range(6):
            reply(scorer(target), drafter(layers), length, seed=seed)
        outcomes = [pair for pair in length.outcomes if pair[0] == 3]
        kept[layers] = sum(accepted for _, accepted in outcomes) / len(outcomes)
    assert {0, 1, 3} <= {accepted for _, accepted in outcomes}
    assert kept[1] < kept[LAYERS - 1]


def test_paused_resumed_edited_and_left_it_drafts_as_a_new_one(target: Weights) -> None:
    """Prefix reuse, plain replies between, rounds without a draft, a reply left half-way."""
    cached, known = Cached(scorer(target)), drafter()
    said = [*PROMPT, *PROMPT[20:60], *PROMPT[5:75]]
    prompts = (said[:100], said[:180], said[:180], [*said[:120], *said[30:60]], said[50:])
    for count, prompt in enumerate(prompts):
        cached.keep_prefix(prompt, fresh=False)
        if count % 2:
            reply(cached.scorer, NoDrafter(), Cycle((0,)), prompt, stop_after=3)
            cached.ids = tuple(prompt[: cached.scorer.length])
        length, fresh = Cycle((0, 3, 0, 0, 5)), Cycle((0, 3, 0, 0, 5))
        cached.keep_prefix(prompt, fresh=False)
        stop = 4 if count == 2 else 10**9
        made = reply(cached.scorer, known, length, prompt, stop_after=stop)
        assert made == reply(scorer(target), drafter(), fresh, prompt, stop_after=stop)
        assert length.outcomes == fresh.outcomes
        tokens = [*prompt, *made]
        cached.ids = tuple(tokens[: cached.scorer.length])


def test_a_draft_that_nobody_scores_leaves_no_trace(target: Weights) -> None:
    one, known = scorer(target), drafter()
    known.watch(one)
    one.prefill(PROMPT[:63])
    first = known.propose(context(PROMPT[:64]), 4)
    assert known.propose(context(PROMPT[:64]), 4).tokens == first.tokens
    several = known.propose(context((*PROMPT[:64], 3)), 4)
    one.prefill(PROMPT[63:64])
    assert known.propose(context((*PROMPT[:64], 3)), 4).tokens == several.tokens


def test_the_law_that_each_token_was_drawn_from_is_told(target: Weights) -> None:
    """Without it the law of the reply would hold too, and fewer drafts would be kept."""
    one, known = scorer(target), drafter()
    known.watch(one)
    one.prefill(PROMPT[:63])
    rejecting = Context(**{**fields(context(PROMPT[:64])), "rule": "reject"})
    draft = known.propose(rejecting, 5)
    laws = [law for law in draft.laws if law is not None]
    assert len(laws) == len(draft.tokens) == 5
    for told, token in zip(laws, draft.tokens, strict=True):
        assert 0 < told.prob(token) < 1
        assert float(told.probs().sum()) == pytest.approx(1, abs=1e-4)


def context(tokens: Sequence[int]) -> Context:
    return Context(tokens, 5, Sampling(temperature=1.5), "match", Noise.of(1, PROMPT))


def test_nothing_is_drafted_after_an_end_id_nor_without_room(target: Weights) -> None:
    one, known = scorer(target), drafter()
    known.watch(one)
    one.prefill(PROMPT[:63])
    draft = known.propose(context(PROMPT[:64]), 5)
    assert len(draft.tokens) == 5
    ended = drafter(ends=frozenset(draft.tokens[:2]))
    ended.watch(one)
    assert ended.propose(context(PROMPT[:64]), 5).tokens == draft.tokens[:1]
    assert len(known.propose(context(PROMPT[:64]), 20).tokens) == 7  # the width is 8
    unsure = Context(**{**fields(context(PROMPT[:64])), "least": (1.1,) * 4})
    assert len(known.propose(unsure, 5).tokens) == 1


def fields(of: Context) -> dict[str, object]:
    return {name: getattr(of, name) for name in Context.__dataclass_fields__}


def test_without_a_target_of_lean_layers_the_reply_goes_on_plainly() -> None:
    known = drafter()
    assert known.offers(PROMPT)[0].blocked
    assert "no target" in known.propose(context(PROMPT), 3).reason
    table = random_table(V, 3)
    plain = reply(TableScorer(table, V), NoDrafter(), Cycle((0,)))
    sampling = Sampling(temperature=1.5, max_tokens=40)
    task = Task(PROMPT, sampling, "match", Noise.of(3, PROMPT), frozenset({0}), CONTEXT)
    text = TextStream(lambda ids: "x" * len(ids), ())
    turn = Turn(task, TableScorer(table, V), known, Cycle((3,)), text)
    said = [event.text for event in turn.run(NeverCancel()) if isinstance(event, Notice)]
    assert turn.tokens[len(PROMPT) :] == plain
    assert "cannot be left" in said[0]


def test_copies_come_first_in_a_cascade(target: Weights) -> None:
    prompt = (*PROMPT[:40], *PROMPT[:40], *PROMPT[:20])
    both = CascadeDrafter(drafter(), NgramDrafter())
    assert both.wants_hidden
    plain = reply(scorer(target), NoDrafter(), Cycle((0,)), prompt)
    assert reply(scorer(target), both, Cycle((5, 2)), prompt) == plain


FEW, SHORT, SAMPLES = 4, (2, 3, 1), 200
SHAPED = Sampling(temperature=1.2, top_p=0.95, repetition_penalty=1.1, max_tokens=5)


def test_the_law_of_a_reply_by_reject_is_the_target_s(target: Weights) -> None:
    """Joint law of the second to fourth token, which are drafted, against the exact one."""
    one = scorer(target, static=False, vocab=FEW)
    exact: dict[tuple[int, ...], float] = {}

    def walk(said: tuple[int, ...], mass: float) -> None:
        if len(said) == 4:
            exact[said] = mass
            return
        tokens = (*SHORT, *said)
        one.rewind(0)
        p = law(one.score(tokens)[-1], SHAPED, tokens, len(SHORT))
        for token, share in zip(p.ids.tolist(), p.probs().tolist(), strict=True):
            walk((*said, token) if token else (*said, 0, 0, 0, 0)[:4], mass * share)

    walk((), 1.0)
    said: Counter[tuple[int, ...]] = Counter()
    length = Cycle((2, 3, 1, 3))
    for seed in range(SAMPLES):
        one.rewind(0)
        made = reply(one, drafter(), length, SHORT, SHAPED, "reject", seed)
        said[(*made, 0, 0, 0, 0)[:4]] += 1
    assert set(said) <= set(exact)
    assert surprise(said, exact) < LIMIT
    kept = Counter(
        "full" if accepted == drafted else "part" if accepted else "none"
        for drafted, accepted in length.outcomes
    )
    assert min(kept["full"], kept["none"], kept["part"]) >= 10
