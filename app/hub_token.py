"""The hub's access token, in huggingface_hub's own store: never logged, echoed or shown again.

Nothing here returns it. The engine and the downloads read it from the same place.
"""

from __future__ import annotations

import os
from pathlib import Path

from app.words import marked, tr
from specdec.errors import SettingError, SourceError

PLACE = marked(
    "huggingface_hub's own file in your home folder, which other programs of yours use too"
)


def known() -> bool:
    """Whether there is a token, wherever it came from. Asks no other host."""
    return from_environment() or _stored()


def from_environment() -> bool:
    """Whether HF_TOKEN gives it; that one cannot be removed here."""
    return bool(os.environ.get("HF_TOKEN") or os.environ.get("HUGGING_FACE_HUB_TOKEN"))


def keep(token: str) -> None:
    """Ask the hub whether it knows the token, and store it.

    Raises SettingError for one that cannot be a token or that HF_TOKEN would overrule, SourceError
    where the hub refuses it or does not answer. No error holds the token.
    """
    from huggingface_hub import login
    from huggingface_hub.errors import HTTPError

    token = token.strip()
    if not token.startswith("hf_") or len(token) > 400 or not token.isascii() or " " in token:
        raise SettingError(
            tr("That is no access token."), tr("It begins with hf_ and has no spaces.")
        )
    if from_environment():
        raise SettingError(
            tr("HF_TOKEN in the environment comes before any token given here."),
            tr("Unset it first."),
        )
    try:
        login(token)
    except (HTTPError, OSError, ValueError) as error:
        status = getattr(getattr(error, "response", None), "status_code", None)
        if status in (401, 403) or isinstance(error, ValueError):
            raise SourceError(
                tr("The hub does not accept this token."),
                tr("Make one with read access at https://huggingface.co/settings/tokens."),
            ) from None
        raise SourceError(
            tr("The hub does not answer: the token was not checked and is not kept."),
            tr("Try again when the network is there."),
        ) from None


def remove() -> None:
    """Forget the token in use; others in the same store stay.

    Raises SettingError where HF_TOKEN gives it.
    """
    if from_environment():
        raise SettingError(
            tr("The token comes from HF_TOKEN in the environment."),
            tr("Unset it there and start anew."),
        )
    from huggingface_hub import constants, get_token, logout
    from huggingface_hub.utils import get_stored_tokens

    now = get_token()
    for name in [name for name, token in get_stored_tokens().items() if token == now]:
        logout(name)
    Path(constants.HF_TOKEN_PATH).unlink(missing_ok=True)


def _stored() -> bool:
    from huggingface_hub import get_token

    return get_token() is not None
