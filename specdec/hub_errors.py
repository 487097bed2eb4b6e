"""What went wrong between us and the hub, in words.

Never the request itself: that holds the token (D01).
"""

from __future__ import annotations

import errno

from specdec.errors import BrokenConnectionError, SourceError

PAGES = "https://huggingface.co"


def page_of(repo: str) -> str:
    """Where a person reads about a repository, its licence, and asks for access."""
    return f"{PAGES}/{repo}"


def explain(repo: str, error: Exception) -> SourceError:
    """The real reason and what to do. A BrokenConnectionError is worth another try at once."""
    from huggingface_hub.errors import (
        GatedRepoError,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )

    page = page_of(repo)
    sign_in = "then give a token on the Models page, by `hf auth login`, or in HF_TOKEN"
    if isinstance(error, GatedRepoError):
        return SourceError(
            f"{repo} is gated: its licence must be accepted with a hub account.",
            f"Accept it at {page}, {sign_in}. Other models stay usable.",
        )
    if isinstance(error, RevisionNotFoundError):
        return SourceError(f"{repo} no longer has the pinned revision.", f"See {page}.")
    if isinstance(error, RepositoryNotFoundError):
        return SourceError(
            f"{repo} is not on the hub, or is private and needs a token.",
            f"Look at {page}; if it is yours, {sign_in[5:]}.",
        )
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return SourceError(
            f"The disk is full: {repo} did not fit.",
            "Free some space, then go on; what is here is kept.",
        )
    status = getattr(getattr(error, "response", None), "status_code", None)
    if status == 401:
        return SourceError(
            f"The hub did not accept the token it was sent for {repo}.",
            "Give another on the Models page, or remove it there.",
        )
    said = f"HTTP {status}" if status else type(error).__name__
    kind = SourceError if status and status < 500 and status != 429 else BrokenConnectionError
    return kind(f"The hub did not deliver {repo}: {said}.", "Try again; what is here is kept.")
