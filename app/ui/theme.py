"""The look of the page: colours, system fonts, stylesheets and script. Loads nothing from afar."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gradio as gr

from app import script_words

ASSETS = Path(__file__).resolve().parents[2] / "assets"
STYLES = (
    "base.css",
    "chat.css",
    "composer.css",
    "race.css",
    "panel.css",
    "models.css",
    "share.css",
    "undo.css",
)
SCRIPTS = ("page.js", "reading.js", "composer.js")
SANS = ("system-ui", "-apple-system", "Segoe UI", "Roboto", "Noto Sans", "sans-serif")
MONO = ("ui-monospace", "SFMono-Regular", "Menlo", "Consolas", "DejaVu Sans Mono", "monospace")


def look() -> dict[str, Any]:
    """What gradio's mount or launch takes: theme, head, icon."""
    styles = "\n".join((ASSETS / name).read_text(encoding="utf-8") for name in STYLES)
    script = "\n".join((ASSETS / name).read_text(encoding="utf-8") for name in SCRIPTS)
    return {
        "theme": gr.themes.Base(
            primary_hue=gr.themes.colors.teal,
            neutral_hue=gr.themes.colors.stone,
            font=list(SANS),
            font_mono=list(MONO),
        ),
        "head": (
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            f"<style>\n{styles}</style>\n"  # gradio's own css= rewrites selectors and loses :has()
            f"{script_words.element()}\n"
            f"<script>\n{script}</script>"
        ),
        "favicon_path": str(ASSETS / "icon.svg"),
    }


def logo() -> str:
    """The logo as inline SVG, so that it takes the page's colours."""
    return (ASSETS / "logo.svg").read_text(encoding="utf-8")
