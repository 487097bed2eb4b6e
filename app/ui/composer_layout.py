"""The message box and what stands around it: its components. Layout only."""

from __future__ import annotations

from typing import Any

import gradio as gr

from app.attachments import MAX_FILE
from app.ui.seen import HIDDEN
from app.words import tr

OPEN_DRAWER = "() => document.querySelector('#drawer .toggle-button').click()"
SHOW_KEYS = "() => window.specdec.help()"
PAPER_CLIP = (
    '<svg viewBox="0 0 24 24" aria-hidden="true">'
    '<path d="M20 11.5 12 19.5a5 5 0 0 1-7-7l8.5-8.5a3.3 3.3 0 0 1 4.7 4.7l-8.4 8.4a1.7 1.7 0 0 '
    '1-2.4-2.4l7.6-7.6"/></svg>'
)
BIND_CLIP = """
window.specdec.compose(
  element, MOST, (files) => trigger('attach', {files: files}), () => trigger('count'));
""".replace("MOST", str(MAX_FILE))
BIND_FILES = """
window.specdec.bind(element, (act, data) => { if (act === 'detach') trigger('detach', data); });
"""


def clip_html() -> str:
    """The paper clip, with the file chooser in it."""
    name = tr("Attach text files")
    return (
        f'<label class="clip" title="{name}">{PAPER_CLIP}'
        f'<input type="file" multiple aria-label="{name}"></label>'
    )


def layout() -> dict[str, Any]:
    """By the names `chat.Chat` has for them; the box waits for `page.arrive` and its value."""
    with gr.Column(elem_id="composer"):
        notice = gr.HTML("", elem_id="notice", js_on_load=None, apply_default_css=False)
        fit = gr.HTML("", elem_id="fit", js_on_load=None, apply_default_css=False)
        attached = gr.HTML("", elem_id="files", js_on_load=BIND_FILES, apply_default_css=False)
        with gr.Row(elem_id="write"):
            clip = gr.HTML(
                clip_html(),
                elem_id="clip",
                js_on_load=BIND_CLIP,
                apply_default_css=False,
                min_width=0,
            )
            box = gr.Textbox(
                label=tr("Message"),
                show_label=False,
                placeholder=tr("Write a message"),
                lines=1,
                max_lines=10,
                interactive=False,
                container=False,
                elem_id="message",
                scale=1,
            )
            send = gr.Button(tr("Send"), variant="primary", elem_id="send", scale=0, min_width=84)
            stop = gr.Button(
                tr("Stop"), variant="stop", elem_id="stop", visible=HIDDEN, scale=0, min_width=84
            )
        with gr.Row(elem_id="under"):
            mode = gr.Radio(
                [(tr("Speculative"), "speculative"), (tr("Standard"), "standard")],
                value="speculative",
                label=tr("Decoding"),
                show_label=False,
                interactive=False,
                container=False,
                elem_id="mode",
            )
            cancel_edit = gr.Button(
                tr("Cancel editing"), size="sm", visible=HIDDEN, elem_id="cancel-edit", scale=0
            )
            meter = gr.HTML("", elem_id="meter", js_on_load=None, apply_default_css=False)
            tune = gr.Button(tr("Reply settings"), size="sm", elem_id="tune", scale=0)
            clear = gr.Button(tr("Clear this conversation"), size="sm", elem_id="clear", scale=0)
            keys = gr.Button(tr("Keys ?"), size="sm", elem_id="help", scale=0)
    keys.click(None, None, None, js=SHOW_KEYS)
    tune.click(None, None, None, js=OPEN_DRAWER)
    return {
        "notice": notice,
        "fit": fit,
        "attached": attached,
        "clip": clip,
        "box": box,
        "send": send,
        "stop": stop,
        "cancel_edit": cancel_edit,
        "clear": clear,
        "mode": mode,
        "meter": meter,
    }
