"""Draws text and panels on a picture, with the font that Pillow brings. Knows nothing of races."""

from __future__ import annotations

import io
import unicodedata
from dataclasses import dataclass
from typing import Literal

from PIL import Image, ImageDraw, ImageFont

SCALE = 2
"""Pixels a unit: sharp where screens are dense."""
TIMES = "\u00d7"

Align = Literal["left", "right"]


@dataclass(frozen=True, slots=True)
class Ink:
    """The colours of a picture, as on the page by day."""

    paper: str = "#faf9f7"
    panel: str = "#f1efeb"
    line: str = "#e2dfd9"
    text: str = "#1f1d1a"
    soft: str = "#625d56"
    accent: str = "#0f766e"
    accent_soft: str = "#d9efec"
    warn: str = "#8a5a00"
    warn_soft: str = "#fbf0d9"


class Pen:
    """A sheet of `width` x `height` units. Texts stand on the line `y`."""

    def __init__(self, width: int, height: int, ink: Ink) -> None:
        self.ink = ink
        self._image = Image.new("RGB", (width * SCALE, height * SCALE), ink.paper)
        self._draw = ImageDraw.Draw(self._image)

    def text(
        self,
        x: float,
        y: float,
        text: str,
        size: float,
        fill: str = "",
        *,
        bold: bool = False,
        align: Align = "left",
        room: float | None = None,
    ) -> float:
        """Write it, cut with ... to `room`; where it ends. The font has ASCII only, and a
        multiplication sign drawn by hand."""
        text = self._cut(plain(text), size, room)
        at = x - self.width(text, size) if align == "right" else x
        font, heavy = _font(size), round(size * SCALE / 44) if bold else 0
        color = fill or self.ink.text
        for number, part in enumerate(text.split(TIMES)):
            if number:
                self._times(at, y, size, color, heavy)
                at += _TIMES_WIDTH * size
            place = (at * SCALE, y * SCALE)
            self._draw.text(place, part, color, font, "ls", stroke_width=heavy, stroke_fill=color)
            at += font.getlength(part) / SCALE
        return at

    def width(self, text: str, size: float) -> float:
        """In units."""
        parts = plain(text).split(TIMES)
        length = sum(_font(size).getlength(part) for part in parts) / SCALE
        return length + (len(parts) - 1) * _TIMES_WIDTH * size

    def panel(
        self, x: float, y: float, width: float, height: float, fill: str, radius: float = 12
    ) -> None:
        """A filled rectangle with round corners; nothing where it has no size."""
        if width <= 0 or height <= 0:
            return
        box = [x * SCALE, y * SCALE, (x + width) * SCALE, (y + height) * SCALE]
        radius = min(radius, width / 2, height / 2)
        self._draw.rounded_rectangle(box, radius * SCALE, fill)

    def png(self) -> bytes:
        """The picture as a file."""
        out = io.BytesIO()
        self._image.save(out, "PNG", optimize=True)
        return out.getvalue()

    def _times(self, x: float, y: float, size: float, fill: str, heavy: int) -> None:
        half, middle = 0.19 * size * SCALE, (y - 0.29 * size) * SCALE
        centre = (x + _TIMES_WIDTH * size / 2) * SCALE
        thick = max(1, round(size * SCALE / 13)) + heavy
        for slope in (-1, 1):
            ends = (centre - half, middle - slope * half, centre + half, middle + slope * half)
            self._draw.line(ends, fill, thick)

    def _cut(self, text: str, size: float, room: float | None) -> str:
        if room is None or self.width(text, size) <= room:
            return text
        while text and self.width(text + "...", size) > room:
            text = text[:-1]
        return text.rstrip() + "..."


_TIMES_WIDTH = 0.56
"""Of the size of the letters."""


def plain(text: str) -> str:
    """The nearest text in ASCII and the multiplication sign."""
    parts = text.split(TIMES)
    nearest = (unicodedata.normalize("NFKD", part) for part in parts)
    return TIMES.join(part.encode("ascii", "ignore").decode() for part in nearest)


def _font(size: float) -> ImageFont.FreeTypeFont:
    found = ImageFont.load_default(size * SCALE)
    if not isinstance(found, ImageFont.FreeTypeFont):
        raise RuntimeError("Pillow was built without FreeType.")
    return found
