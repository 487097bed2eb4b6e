"""Asks the hub for models, when somebody presses for it, and says which this program can run.

Nothing here is asked of anybody unless a person asks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from app.words import tr
from specdec.errors import SettingError, SourceError

MOST = 20
"""Results; a longer list says little more."""
ANSWER_S = 10.0
"""Seconds without a word after which the hub counts as silent."""
ASKED = {"sort": "downloads", "full": True, "config": True}


@dataclass(frozen=True, slots=True)
class Found:
    """One repository. `why` says what is against it, "" where nothing is known to be."""

    repo: str
    revision: str
    gated: bool
    licence: str
    why: str


def ask_hub(query: str) -> list[Found]:
    """The most fetched first. Raises SettingError for no words, SourceError where no answer came.

    The token goes along, where there is one: it shows what is private to its owner.
    """
    if not query.strip():
        raise SettingError(
            tr("There is nothing to look for."), tr("Write a name into the search first.")
        )
    from huggingface_hub import ModelInfo, constants
    from huggingface_hub.errors import HTTPError
    from huggingface_hub.utils import build_hf_headers, get_session

    try:
        # not HfApi's list_models: it has no time limit, and asks six times where it gets no answer
        answer = get_session().get(
            f"{constants.ENDPOINT}/api/models",
            params={**ASKED, "search": query.strip(), "limit": MOST},
            headers=build_hf_headers(),
            timeout=ANSWER_S,
        )
        answer.raise_for_status()
        return [judged(ModelInfo(**row)) for row in answer.json()]
    except (HTTPError, OSError, ValueError) as error:
        raise SourceError(
            tr("The hub does not answer, so only the models listed here can be searched."),
            tr("Try again when the network is there."),
        ) from error


def judged(info: Any) -> Found:
    """What its tags and its config say; the files themselves are looked at when they come."""
    tags = set(info.tags or ())
    names = list((info.config or {}).get("architectures") or ())
    why = ""
    if "custom_code" in tags:
        why = tr("brings code of its own, which is never run here")
    elif "safetensors" not in tags:
        why = tr("no safetensors weights")
        if "gguf" in tags:
            why = tr("no safetensors weights; add its GGUF file by path")
    elif names and not any(str(name).endswith("ForCausalLM") for name in names):
        why = tr("not a model that writes text ({name})", name=names[0])
    elif not info.sha:
        why = tr("the hub names no revision to pin")
    licence = next((t.removeprefix("license:") for t in tags if t.startswith("license:")), "")
    return Found(info.id, info.sha or "", bool(info.gated), licence, why)


def row_of(found: Found) -> dict[str, Any]:
    """Its row for the user's registry, pinned to the revision that was seen."""
    from specdec.user_models import slug

    name = found.repo.rpartition("/")[2]
    row = {"id": slug(name), "name": name, "family": found.repo.partition("/")[0]}
    row |= {"repo": found.repo, "revision": found.revision}
    known = {"licence": found.licence} if found.licence else {}
    return {**row, "roles": ["target", "draft"], "gated": found.gated, **known}
