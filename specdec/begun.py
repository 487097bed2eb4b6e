"""Whether a reply that was begun can go on. Knows ids and a prompt's digest; nothing of laws."""

from __future__ import annotations

from collections.abc import Sequence

from specdec.errors import PromptError, SettingError
from specdec.noise import Noise
from specdec.request import ChatRequest


def check_begun(
    request: ChatRequest, prompt: Sequence[int], noise: Noise, context: int, vocab: int
) -> None:
    """Raises SettingError for another prompt or ids the model has not, PromptError when full."""
    if request.prompt and request.prompt != noise.prompt:
        raise SettingError(
            "The prompt is no longer the one this reply was begun for: its template writes the"
            " date, or another number of turns fits.",
            "Regenerate the reply.",
        )
    if any(not 0 <= token < vocab for token in request.begun):
        raise SettingError("This reply holds tokens that the model has not.", "Regenerate it.")
    if request.begun and len(prompt) + len(request.begun) >= context:
        raise PromptError(
            "The context is full: the reply cannot go on.", "Start a new conversation."
        )
