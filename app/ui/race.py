"""The race tab: one prompt, both modes, one after the other. Wiring only."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import gradio as gr

from app import race_board
from app.controller import Controller
from app.ui.reply_settings import ReplySettings, options_of
from app.ui.visit import said, session_of
from specdec import prompt_sets
from specdec.contract import Mode
from specdec.errors import SpecdecError

Update = dict[Any, Any]
ORDERS: Mapping[str, tuple[Mode, Mode]] = {
    "Standard first": ("standard", "speculative"),
    "Speculative first": ("speculative", "standard"),
}
TOKENS = 160


@dataclass(frozen=True, slots=True)
class Race:
    """Its components."""

    kind: Any
    example: Any
    prompt: Any
    order: Any
    tokens: Any
    go: Any
    stop: Any
    board: Any


def prompts() -> Mapping[str, Sequence[str]]:
    """The example prompts by kind, kinds as the menu shows them."""
    return {kind.capitalize(): prompt_sets.load(kind) for kind in prompt_sets.kinds()}


def layout() -> Race:
    """A prompt, two knobs, the board."""
    by_kind = prompts()
    first = next(iter(by_kind))
    with gr.Column(elem_id="race"):
        with gr.Row(elem_id="race-pick"):
            kind = gr.Dropdown(
                list(by_kind), value=first, label="Kind of prompt", scale=1, min_width=150
            )
            example = gr.Dropdown(
                list(by_kind[first]), value=by_kind[first][0], label="Example", scale=4
            )
        prompt = gr.Textbox(
            by_kind[first][0], label="Prompt", lines=2, max_lines=6, elem_id="race-prompt"
        )
        with gr.Row(elem_id="race-run"):
            order = gr.Radio(list(ORDERS), value=next(iter(ORDERS)), label="Order")
            tokens = gr.Number(
                TOKENS, label="Most tokens a lane", precision=0, minimum=1, min_width=120
            )
            go = gr.Button("Race", variant="primary", elem_id="go", scale=0, min_width=110)
            stop = gr.Button(
                "Stop", variant="stop", elem_id="race-stop", visible=False, scale=0, min_width=110
            )
        board = gr.HTML(race_board.EMPTY, elem_id="board", js_on_load=None, apply_default_css=False)
    return Race(kind, example, prompt, order, tokens, go, stop, board)


class RaceWiring:
    """Handlers of the race tab."""

    def __init__(self, controller: Controller, parts: Race, settings: ReplySettings) -> None:
        self.controller = controller
        self.parts = parts
        self.settings = settings
        self.by_kind = prompts()

    def wire(self, mode: Any) -> None:
        """Attach the handlers; sampling and system prompt are the chat's."""
        parts = self.parts
        quiet: dict[str, Any] = {"show_progress": "hidden", "api_visibility": "private"}
        parts.kind.change(self.pick, parts.kind, [parts.example, parts.prompt], **quiet)
        parts.example.input(lambda text: text, parts.example, parts.prompt, **quiet)
        parts.go.click(
            self.run,
            [parts.prompt, parts.order, parts.tokens, mode, *self.settings.inputs],
            [parts.board, parts.go, parts.stop],
            concurrency_limit=None,
            **quiet,
        )
        parts.stop.click(self.stop, None, None, **quiet)

    def pick(self, kind: str) -> tuple[Any, str]:
        """The examples of a kind, the first one in the box."""
        found = list(self.by_kind[kind])
        return gr.update(choices=found, value=found[0]), found[0]

    async def run(
        self, request: gr.Request, prompt: str, order: str, tokens: Any, *controls: Any
    ) -> AsyncIterator[Update]:
        """Run the race and show it as it goes."""
        session = session_of(self.controller, request)
        parts = self.parts
        try:
            options = options_of(*controls)
            limit = int(tokens or 0)
            options = replace(options, sampling=replace(options.sampling, max_tokens=limit))
            job = self.controller.race(session, prompt, options, ORDERS[order])
        except SpecdecError as error:
            yield {parts.board: said(error)}
            return
        yield {parts.go: gr.update(visible=False), parts.stop: gr.update(visible=True)}
        async for now in self.controller.watch_race(job):
            yield {parts.board: race_board.board(now)}
        yield {parts.go: gr.update(visible=True), parts.stop: gr.update(visible=False)}

    def stop(self, request: gr.Request) -> None:
        """End the race within one round."""
        self.controller.stop_race(session_of(self.controller, request))
