"""The menu of presets in the drawer of reply settings: its components. Layout only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import gradio as gr

from app.preset_file import MAX_FILE
from app.ui.seen import HIDDEN
from app.words import tr

BIND = """
element.addEventListener('change', async (event) => {
  const input = event.target.closest('input[type=file]');
  if (!input || !input.files.length) return;
  const file = input.files[0];
  const text = file.size > MOST ? '' : await file.text();
  input.value = '';
  trigger('take', {size: file.size, text: text});
});
""".replace("MOST", str(MAX_FILE))


@dataclass(frozen=True, slots=True)
class PresetMenu:
    """Its components. `undo` shows while `before` holds what undoes the last act."""

    menu: Any
    state: Any
    back: Any
    update: Any
    manage: Any
    name: Any
    save: Any
    rename: Any
    delete: Any
    files: Any
    told: Any
    undo: Any
    before: Any


def layout() -> PresetMenu:
    """A menu; what differs; and, for the owner, what can be done with presets."""
    with gr.Column(elem_id="presets"):
        menu = gr.Dropdown(
            [],
            label=tr("Preset"),
            allow_custom_value=True,  # which names there are is for the controller to say
            interactive=False,
            elem_id="preset",
        )
        state = gr.HTML("", elem_id="preset-state", js_on_load=None, apply_default_css=False)
        with gr.Row(elem_id="preset-acts"):
            back = gr.Button(tr("Set back"), size="sm", visible=HIDDEN, min_width=80)
            update = gr.Button(tr("Save changes"), size="sm", visible=HIDDEN, min_width=80)
        with gr.Accordion(tr("Your presets"), open=False, visible=False) as manage:
            name = gr.Textbox(label=tr("Name of a preset"), max_lines=1, elem_id="preset-name")
            with gr.Row():
                save = gr.Button(tr("Save"), size="sm", variant="primary", min_width=60)
                rename = gr.Button(tr("Rename"), size="sm", min_width=60)
                delete = gr.Button(tr("Delete"), size="sm", min_width=60)
            files = gr.HTML("", elem_id="preset-files", js_on_load=BIND, apply_default_css=False)
        told = gr.HTML("", elem_id="preset-told", js_on_load=None, apply_default_css=False)
        undo = gr.Button(tr("Undo"), size="sm", visible=HIDDEN, elem_id="preset-undo")
    before = gr.State(None)
    return PresetMenu(
        menu, state, back, update, manage, name, save, rename, delete, files, told, undo, before
    )
