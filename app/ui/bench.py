"""The benchmark tab: kinds of prompts x drafters, for the owner. Wiring only."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any

import gradio as gr

from app import bench_board
from app.bench_plan import MOST_RUNS, MOST_TOKENS
from app.bench_view import BenchView
from app.controller import Controller
from app.line import Job
from app.ui.seen import lasting
from app.ui.visit import said, session_of
from app.words import tr
from specdec import prompt_sets
from specdec.errors import SpecdecError

Update = dict[Any, Any]
KINDS = ("chat", "code")
FIRST, TOKENS, RUNS = 2, 64, 1
"""A first look takes minutes, not an hour."""


@dataclass(frozen=True, slots=True)
class BenchTab:
    """Its components."""

    tab: Any
    drafters: Any
    kinds: Any
    first: Any
    tokens: Any
    runs: Any
    go: Any
    stop: Any
    board: Any


def layout() -> BenchTab:
    """What to measure, and the board; shown to the owner alone."""
    with gr.Tab(tr("Benchmark"), id="bench", visible=False) as tab, gr.Column(elem_id="bench"):
        drafters = gr.CheckboxGroup(
            [],
            label=tr("Drafters that can draft for the loaded target"),
            info=tr("Plain decoding is always measured beside them."),
            elem_id="bench-drafters",
        )
        known = prompt_sets.kinds()
        kinds = gr.CheckboxGroup(
            [(kind.capitalize(), kind) for kind in known],
            value=[kind for kind in KINDS if kind in known],
            label=tr("Kinds of prompts"),
            elem_id="bench-kinds",
        )
        with gr.Row(elem_id="bench-run"):
            first = gr.Number(
                FIRST, label=tr("Prompts of a kind"), precision=0, minimum=1, min_width=120
            )
            tokens = gr.Number(
                TOKENS, label=tr("Tokens a reply"), precision=0, minimum=8, maximum=MOST_TOKENS,
                min_width=120,
            )  # fmt: skip
            runs = gr.Number(
                RUNS, label=tr("Runs"), precision=0, minimum=1, maximum=MOST_RUNS, min_width=120
            )
            go = gr.Button(
                tr("Measure"), variant="primary", elem_id="bench-go", scale=0, min_width=110
            )
            stop = gr.Button(
                tr("Stop"),
                variant="stop",
                elem_id="bench-stop",
                visible=False,
                scale=0,
                min_width=110,
            )
        board = gr.HTML(
            bench_board.empty(), elem_id="bench-board", js_on_load=None, apply_default_css=False
        )
    return BenchTab(tab, drafters, kinds, first, tokens, runs, go, stop, board)


class BenchWiring:
    """Handlers of the benchmark tab."""

    def __init__(self, controller: Controller, parts: BenchTab) -> None:
        self.controller = controller
        self.parts = parts

    def wire(self, page: gr.Blocks) -> None:
        """Attach the handlers."""
        parts = self.parts
        quiet: dict[str, Any] = {"show_progress": "hidden", "api_visibility": "private"}
        shown = [parts.board, parts.go, parts.stop]
        parts.tab.select(self.choices, parts.drafters, parts.drafters, **quiet)
        parts.go.click(
            self.run,
            [parts.drafters, parts.kinds, parts.first, parts.tokens, parts.runs],
            shown,
            concurrency_limit=None,
            **quiet,
        )
        parts.stop.click(self.stop, None, None, **quiet)
        arrived = page.load(self.arrive, None, parts.tab, **quiet)
        arrived.then(self.resume, None, shown, concurrency_limit=None, **quiet)

    def arrive(self, request: gr.Request) -> Any:
        """The tab is there for the owner."""
        return gr.update(visible=session_of(self.controller, request).role == "owner")

    def choices(self, request: gr.Request, chosen: Sequence[str]) -> Any:
        """What can draft now; what was chosen stays chosen where it still can."""
        entries = self.controller.benches.drafters(session_of(self.controller, request))
        ids = [id for _, id in entries]
        kept = [id for id in chosen if id in ids] or ids[:1]
        return gr.update(choices=entries, value=kept)

    @lasting
    async def run(
        self,
        request: gr.Request,
        drafters: Sequence[str],
        kinds: Sequence[str],
        first: Any,
        tokens: Any,
        runs: Any,
    ) -> AsyncIterator[Update]:
        """Measure, and show it as it goes."""
        session = session_of(self.controller, request)
        sizes = (int(value or 0) for value in (first, tokens, runs))
        try:
            job = self.controller.benches.start(session, drafters, kinds, *sizes)
        except SpecdecError as error:
            yield {self.parts.board: said(error)}
            return
        async for update in self._follow(job):
            yield update

    @lasting
    async def resume(self, request: gr.Request) -> AsyncIterator[Update]:
        """Show the benchmark that runs, or was the last."""
        session = session_of(self.controller, request)
        job = self.controller.benches.current(session) if session.role == "owner" else None
        if job is None:
            yield {self.parts.board: gr.skip()}
            return
        async for update in self._follow(job):
            yield update

    def stop(self, request: gr.Request) -> None:
        """End it within one round."""
        self.controller.benches.stop(session_of(self.controller, request))

    async def _follow(self, job: Job[BenchView]) -> AsyncIterator[Update]:
        go, stop = self.parts.go, self.parts.stop
        yield {go: gr.update(visible=False), stop: gr.update(visible=True)}
        async for now in self.controller.benches.watch(job):
            yield {self.parts.board: bench_board.board(now)}
        yield {go: gr.update(visible=True), stop: gr.update(visible=False)}
