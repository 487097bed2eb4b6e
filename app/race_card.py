"""What a race came to, to be shared: a JSON document and a picture of it. Knows no pages.

It tells the machine, the pair and the settings; of the user neither words, names nor paths.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from app.card_png import draw
from app.measured import Sheet
from app.race_prompts import Prompt
from app.series import Ran, SeriesView, summary
from specdec.bench.card import Card, machine, versions
from specdec.bench.plan import LAW
from specdec.contract import Pair

SCHEMA, VERSION = "specdec.race", 1


def card_of(view: SeriesView, engine: Mapping[str, str]) -> dict[str, Any]:
    """The document; `engine` are the versions of what computes. Raises ValueError before the first
    race is over."""
    found, pair, options = summary(view.done), view.pair, view.plan.options
    if found is None or pair is None:
        raise ValueError("a card is of races that are over")
    sampling = options.sampling
    settings = {
        "target": public(pair.target.value),
        "draft": public(pair.draft.value),
        "draft_dtype": pair.draft_dtype.value,
        "runner": pair.runner.value,
        "exact": pair.exact,
        "rule": "match",
        "k": options.k,
        **{name: getattr(sampling, name) for name in LAW},
        "tokens": sampling.max_tokens,
        "stop_strings": len(sampling.stop),
        "system_prompt": bool(options.system.strip()),
        "runs": view.plan.runs,
        "races_planned": view.plan.races,
    }
    seed = sampling.seed if sampling.seed is not None else view.now.seed
    card = Card(_machine(pair), {**versions(), **engine}, pair.dtype.value, settings, seed)
    return {
        "schema": SCHEMA,
        "version": VERSION,
        "made": datetime.now(UTC).date().isoformat(),
        "card": asdict(card),
        "summary": _rounded(asdict(found)),
        "prompts": [prompt_row(prompt) for prompt in view.plan.prompts],
        "races": [_race(ran) for ran in view.done],
    }


def sheet_of(document: Mapping[str, Any]) -> Sheet:
    """The files a card can be saved as."""
    return Sheet(
        f"race-{stem(document['card']['settings']['target'])}-{document['made']}",
        {"json": lambda: as_bytes(document), "png": lambda: draw(document)},
    )


def as_bytes(document: Mapping[str, Any]) -> bytes:
    """A document as it is saved."""
    return (json.dumps(document, indent=1, ensure_ascii=False) + "\n").encode()


def stem(target: str) -> str:
    """A model's name as every file system and header takes it."""
    return re.sub(r"[^a-z0-9.]+", "-", public(target).lower()).strip("-.") or "model"


def public(name: str) -> str:
    """A model's name without the folder it lies in."""
    return re.split(r"[/\\]", name.rstrip("/\\"))[-1]


def prompt_row(prompt: Prompt) -> dict[str, str]:
    """A prompt that comes with the program by its name, any other by a digest alone."""
    return {"name": prompt.name} if prompt.name else {"sha256": prompt.digest}


def _machine(pair: Pair) -> dict[str, Any]:
    return machine(pair.device.value, None, None)


def _race(ran: Ran) -> dict[str, Any]:
    outcome = ran.outcome
    return _rounded(
        {
            "prompt": ran.place,
            "run": ran.run,
            "order": list(ran.order),
            "ratio": outcome.ratio,
            "baseline_tok_s": outcome.baseline,
            "baseline_runner": outcome.baseline_runner,
            "saved_s": ran.saved_s,
            "identical": outcome.identical,
            "tokens_compared": outcome.compared,
            "first_difference": outcome.difference.index if outcome.difference else None,
            "speculative": ran.speculative.to_json(),
            "standard": ran.standard.to_json(),
        }
    )


def _rounded(row: dict[str, Any]) -> dict[str, Any]:
    return {key: round(v, 4) if isinstance(v, float) else v for key, v in row.items()}
