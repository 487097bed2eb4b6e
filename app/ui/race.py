"""The race tab: prompts, both modes, one after the other, and on as a conversation. Wiring only."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import gradio as gr

from app import race_board, series_board
from app.controller import Controller
from app.line import Job
from app.race_prompts import joined
from app.series import MOST_RUNS, SeriesView
from app.ui.reply_settings import ReplySettings, options_of
from app.ui.seen import lasting
from app.ui.visit import said, session_of
from app.words import marked, tr
from specdec import prompt_sets
from specdec.contract import Mode
from specdec.errors import SpecdecError

Update = dict[Any, Any]
ORDERS: Mapping[str, tuple[Mode, Mode]] = {
    "Standard first": ("standard", "speculative"),
    "Speculative first": ("speculative", "standard"),
}
TOKENS = 160
EVERY, ALL = marked("All kinds"), ""
"""Menu values: every kind there is, every prompt of a kind."""


@dataclass(frozen=True, slots=True)
class Race:
    """Its components."""

    kind: Any
    example: Any
    prompt: Any
    order: Any
    runs: Any
    tokens: Any
    go: Any
    stop: Any
    board: Any
    on: Any
    message: Any
    send: Any


def prompts() -> Mapping[str, Sequence[str]]:
    """The example prompts by kind, kinds as the menu shows them, all of them last."""
    kinds = {kind.capitalize(): prompt_sets.load(kind) for kind in prompt_sets.kinds()}
    return {**kinds, EVERY: tuple(text for texts in kinds.values() for text in texts)}


def layout() -> Race:
    """A prompt, a few knobs, the board, and the box that goes on."""
    by_kind = prompts()
    first = next(iter(by_kind))
    with gr.Column(elem_id="race"):
        with gr.Row(elem_id="race-pick"):
            kind = gr.Dropdown(
                [(tr(EVERY) if kind == EVERY else kind, kind) for kind in by_kind],
                value=first,
                label=tr("Kind of prompt"),
                scale=1,
                min_width=150,
            )
            example = gr.Dropdown(
                _examples(by_kind[first]), value=by_kind[first][0], label=tr("Example"), scale=4
            )
        prompt = gr.Textbox(
            by_kind[first][0],
            label=tr("Prompt (several: a line of --- between two)"),
            lines=2,
            max_lines=6,
            elem_id="race-prompt",
        )
        with gr.Row(elem_id="race-run"):
            orders = zip((tr("Standard first"), tr("Speculative first")), ORDERS, strict=True)
            order = gr.Radio(list(orders), value=next(iter(ORDERS)), label=tr("Order (alternates)"))
            runs = gr.Number(
                1, label=tr("Runs of a prompt"), precision=0, minimum=1, maximum=MOST_RUNS,
                min_width=120, elem_id="race-runs",
            )  # fmt: skip
            tokens = gr.Number(
                TOKENS, label=tr("Most tokens a lane"), precision=0, minimum=1, min_width=120
            )
            go = gr.Button(tr("Race"), variant="primary", elem_id="go", scale=0, min_width=110)
            stop = gr.Button(
                tr("Stop"),
                variant="stop",
                elem_id="race-stop",
                visible=False,
                scale=0,
                min_width=110,
            )
        board = gr.HTML(
            race_board.empty(), elem_id="board", js_on_load=None, apply_default_css=False
        )
        with gr.Row(elem_id="race-on", visible=False) as on:
            message = gr.Textbox(
                label=tr("Go on: the next message, sent to both lanes"),
                lines=1,
                max_lines=6,
                scale=1,
                elem_id="race-message",
            )
            send = gr.Button(tr("Go on"), elem_id="race-send", scale=0, min_width=110)
    return Race(kind, example, prompt, order, runs, tokens, go, stop, board, on, message, send)


def _examples(texts: Sequence[str]) -> list[tuple[str, str]]:
    return [(tr("All {n} of them", n=len(texts)), ALL), *((text, text) for text in texts)]


class RaceWiring:
    """Handlers of the race tab."""

    def __init__(self, controller: Controller, parts: Race, settings: ReplySettings) -> None:
        self.controller = controller
        self.parts = parts
        self.settings = settings
        self.by_kind = prompts()

    def wire(self, mode: Any, arrived: Any) -> None:
        """Attach the handlers; sampling and system prompt are the chat's. `arrived`: a tab has."""
        parts = self.parts
        quiet: dict[str, Any] = {"show_progress": "hidden", "api_visibility": "private"}
        shown = [parts.board, parts.go, parts.stop, parts.on, parts.message]
        parts.kind.change(self.pick, parts.kind, [parts.example, parts.prompt], **quiet)
        parts.example.input(self.fill, [parts.kind, parts.example], parts.prompt, **quiet)
        parts.go.click(
            self.run,
            [parts.prompt, parts.order, parts.runs, parts.tokens, mode, *self.settings.inputs],
            shown,
            concurrency_limit=None,
            **quiet,
        )
        gr.on(
            [parts.send.click, parts.message.submit],
            self.go_on,
            parts.message,
            shown,
            concurrency_limit=None,
            **quiet,
        )
        parts.stop.click(self.stop, None, None, **quiet)
        arrived.then(self.come_back, None, shown, concurrency_limit=None, **quiet)

    def pick(self, kind: str) -> tuple[Any, str]:
        """The examples of a kind, the first one in the box; of all kinds, all of them."""
        found = self.by_kind[kind]
        value = ALL if kind == EVERY else found[0]
        return gr.update(choices=_examples(found), value=value), self.fill(kind, value)

    def fill(self, kind: str, example: str) -> str:
        """What the box holds for an example."""
        return joined(tuple(self.by_kind[kind])) if example == ALL else example

    @lasting
    async def run(
        self,
        request: gr.Request,
        prompt: str,
        order: str,
        runs: Any,
        tokens: Any,
        *controls: Any,
    ) -> AsyncIterator[Update]:
        """Run the races and show them as they go."""
        session = session_of(self.controller, request)
        try:
            options = options_of(*controls)
            limit = int(tokens or 0)
            options = replace(options, sampling=replace(options.sampling, max_tokens=limit))
            job = self.controller.races.start(
                session, prompt, options, ORDERS[order], int(runs or 0)
            )
        except SpecdecError as error:
            yield {self.parts.board: said(error)}
            return
        async for update in self._follow(job):
            yield update

    @lasting
    async def go_on(self, request: gr.Request, message: str) -> AsyncIterator[Update]:
        """Send the next message to both lanes."""
        session = session_of(self.controller, request)
        try:
            job = self.controller.races.go_on(session, message)
        except SpecdecError as error:
            gr.Warning(str(error))
            yield {self.parts.message: gr.skip()}
            return
        async for update in self._follow(job):
            yield update

    @lasting
    async def come_back(self, request: gr.Request) -> AsyncIterator[Update]:
        """Show the race that a tab loaded anew had, and go on watching it."""
        job = self.controller.races.back(session_of(self.controller, request))
        if job is None:
            yield {self.parts.board: gr.skip()}
            return
        async for update in self._follow(job):
            yield update

    async def _follow(self, job: Job[SeriesView]) -> AsyncIterator[Update]:
        parts = self.parts
        yield {
            parts.go: gr.update(visible=False),
            parts.stop: gr.update(visible=True),
            parts.on: gr.update(visible=False),
            parts.message: "",
        }
        async for now in self.controller.races.watch(job):
            yield {parts.board: series_board.board(now)}
        yield {
            parts.go: gr.update(visible=True),
            parts.stop: gr.update(visible=False),
            parts.on: gr.update(visible=job.snapshot.now.outcome is not None),
        }

    def stop(self, request: gr.Request) -> None:
        """End it within one round."""
        self.controller.races.stop(session_of(self.controller, request))
