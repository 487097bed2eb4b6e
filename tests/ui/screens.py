"""The two screens that the main tests run on: wide and light, narrow and dark."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import pytest


@dataclass(frozen=True)
class Screen:
    """Sizes in CSS pixels."""

    width: int
    height: int
    scheme: Literal["light", "dark"]


WIDE = Screen(1440, 900, "light")
PHONE = Screen(390, 844, "dark")

on_both_screens = pytest.mark.parametrize(
    "context", [WIDE, PHONE], indirect=True, ids=["wide light", "phone dark"]
)
