"""The runners a check compares: one that is exact, and the one that takes as few rows as it can.

Knows how scorers are opened and timed; nothing of replies.
"""

from __future__ import annotations

from dataclasses import dataclass

from specdec import measure
from specdec.assemble import WIDTH, Target
from specdec.check_replay import fill
from specdec.errors import SettingError
from specdec.scorer import Scorer
from specdec.session import Session
from specdec.target import open_scorer


@dataclass(frozen=True, slots=True)
class Runners:
    """`made` speculates and `plain` decodes plainly for (a), `single` takes one row a call.

    They are the same exact runner but for tests that must see a check fail. `why_not` says why no
    runner here is exact.
    """

    name: str
    made: Scorer
    plain: Scorer
    single: Scorer
    why_not: str = ""


def open_runners(session: Session, target: Target) -> Runners:
    """The exact runner that serves, else the static one; and the one that takes as few rows."""
    model, vocab = target.ground.model, target.ground.vocab
    single = open_scorer(model, "fast", WIDTH, session.pair.context, vocab, exact=False)
    name, why_not = session.runner, ""
    scorer = session.open_scorer(name)
    if not scorer.exact:
        try:
            static = session.open_scorer("static")
        except SettingError as error:
            why_not = f"{error.message} {error.hint}"
        else:
            if static.exact:
                name, scorer = "static", static
            else:
                why_not = "not even calls of one width give a row the same bits at every place"
    return Runners(name, scorer, scorer, single, why_not)


def step_ms(scorer: Scorer) -> float:
    """Milliseconds of a one-row step on a short cache."""
    fill(scorer, [0] * WIDTH)
    return measure.step_seconds(scorer, [1])[1] * 1e3
