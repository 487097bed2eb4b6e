"""The words of the page's scripts, which ask for them by their English text: `specdec.tr`."""

from __future__ import annotations

import json

from app.words import tr


def element() -> str:
    """All of them in the user's language, as inert data for the head of the page."""
    said = json.dumps(words()).replace("<", "\\u003c")
    return f'<script type="application/json" id="words">{said}</script>'


def words() -> dict[str, str]:
    """By the English text. tests/app/test_words.py compares it with the scripts."""
    return {
        "Copied": tr("Copied"),
        "The file is larger than 8 MB: that is no conversation of this program.": tr(
            "The file is larger than 8 MB: that is no conversation of this program."
        ),
        "The file could not be sent: {name}": tr("The file could not be sent: {name}"),
        "Send": tr("Send"),
        "New line": tr("New line"),
        "Stop the reply": tr("Stop the reply"),
        "Search the conversations": tr("Search the conversations"),
        "This list": tr("This list"),
        "Keys": tr("Keys"),
        "The reply is being written": tr("The reply is being written"),
        "New title": tr("New title"),
        "Share this model": tr("Share this model"),
        "Delete {name} from the disk?": tr("Delete {name} from the disk?"),
        "Delete what was fetched of {name}?": tr("Delete what was fetched of {name}?"),
    }
