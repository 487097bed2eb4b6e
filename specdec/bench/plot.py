"""A result as a picture: tokens a second by kind, a bar for each engine and drafter.

matplotlib is an extra; it is imported here, when a picture was asked for, and nowhere else.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from specdec.bench.card import Result
from specdec.bench.sample import rows
from specdec.errors import SettingError


def check() -> None:
    """Raises SettingError when there is no matplotlib."""
    if find_spec("matplotlib") is None:
        raise SettingError(
            "A picture needs matplotlib, which is not installed.",
            'Run: pip install "specdec-chat[bench]" (or: pip install matplotlib).',
        )


def draw(result: Result, file: Path) -> None:
    """Write a PNG: medians as bars, lowest and highest as whiskers, the plain limit as a line."""
    from matplotlib.figure import Figure

    found = rows(result.samples)
    kinds = list(dict.fromkeys(row.kind for row in found))
    series = list(dict.fromkeys((row.engine, row.drafter) for row in found))
    width = 0.8 / len(series)
    figure = Figure(figsize=(2.5 + 2.2 * len(kinds), 4.2), dpi=150, layout="constrained")
    axes = figure.add_subplot()
    for place, (engine, drafter) in enumerate(series):
        own = [row for row in found if (row.engine, row.drafter) == (engine, drafter)]
        at = [kinds.index(row.kind) + (place + 0.5) * width - 0.4 for row in own]
        low = [row.tok_s - row.tok_s_min for row in own]
        high = [row.tok_s_max - row.tok_s for row in own]
        axes.bar(
            at, [row.tok_s for row in own], width, yerr=[low, high],
            error_kw={"elinewidth": 0.8}, label=f"{engine}, {drafter}",
        )  # fmt: skip
    axes.axhline(result.physics.limit, color="grey", linestyle="--", linewidth=1)
    axes.annotate(
        "plain limit: one read of all weights a token", (0.01, result.physics.limit),
        xycoords=("axes fraction", "data"), va="bottom", fontsize=7, color="grey",
    )  # fmt: skip
    axes.set_xticks(range(len(kinds)), kinds)
    axes.set_ylabel("tokens a second")
    settings = result.card.settings
    axes.set_title(f"{settings['target']}, {result.card.dtype}", fontsize=9)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(fontsize=7, frameon=False)
    figure.savefig(file, format="png")
