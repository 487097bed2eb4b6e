"""The panel of reply settings: system prompt, sampling, rule. Knows how values become `Options`."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import Any

import gradio as gr

from app.desk import Options
from app.effective import effective, name_of
from app.ui import preset_menu
from app.words import tr
from specdec.errors import SettingError
from specdec.request import MAX_K, Sampling

AUTO = "auto"


@dataclass(frozen=True, slots=True)
class ReplySettings:
    """Its components; `inputs` are in the order `options_of` takes them."""

    inputs: tuple[Any, ...]
    effective: Any
    reset: Any
    presets: preset_menu.PresetMenu


def layout() -> ReplySettings:
    """A drawer at the right edge."""
    start = values_of(Options())[1:]
    with gr.Sidebar(position="right", open=False, width=340, elem_id="drawer"):
        gr.HTML(
            f"<h2>{tr('Reply settings')}</h2>",
            elem_classes="drawer-title",
            js_on_load=None,
            apply_default_css=False,
        )
        effective = gr.HTML(
            effective_html(Options()), elem_id="effective", js_on_load=None, apply_default_css=False
        )
        menu = preset_menu.layout()
        system = gr.Textbox(
            start[0],
            label=tr("System prompt"),
            placeholder=tr("Nothing: the model's own behaviour"),
            lines=3,
            max_lines=8,
            elem_id="system",
        )
        temperature = gr.Slider(0, 2, start[1], step=0.05, label=tr("Temperature (0 = likeliest)"))
        top_k = gr.Number(start[2], label=tr("Top-k (0 = off)"), precision=0, minimum=0)
        top_p = gr.Slider(0.01, 1, start[3], step=0.01, label=tr("Top-p (1 = off)"))
        min_p = gr.Slider(0, 1, start[4], step=0.01, label=tr("Min-p (0 = off)"))
        seed = gr.Textbox(
            start[5], label=tr("Seed (empty = a fresh one each reply)"), elem_id="seed"
        )
        most = gr.Number(start[6], label=tr("Most tokens a reply"), precision=0, minimum=1)
        with gr.Accordion(tr("More"), open=False):
            repetition = gr.Slider(
                0.5, 2, start[7], step=0.01, label=tr("Repetition penalty (1 = off)")
            )
            frequency = gr.Slider(
                -2, 2, start[8], step=0.05, label=tr("Frequency penalty (0 = off)")
            )
            presence = gr.Slider(-2, 2, start[9], step=0.05, label=tr("Presence penalty (0 = off)"))
            stop = gr.Textbox(start[10], label=tr("Stop strings, one a line"), lines=2, max_lines=6)
            rule = gr.Radio(
                [(tr("match: same seed, same words"), "match"), (tr("reject: same law"), "reject")],
                value=start[11],
                label=tr("Rule for keeping drafts"),
            )
            k = gr.Dropdown(
                [AUTO, *map(str, range(MAX_K + 1))], value=start[12], label=tr("Longest draft")
            )
        reset = gr.Button(tr("Back to defaults"), size="sm", variant="secondary")
    inputs = (
        system, temperature, top_k, top_p, min_p, seed, most,
        repetition, frequency, presence, stop, rule, k,
    )  # fmt: skip
    for control in inputs:
        control.interactive = False  # until a tab knows the values kept for it: page.arrive
    return ReplySettings(inputs, effective, reset, menu)


def options_of(mode: str, *values: Any) -> Options:
    """Options from the controls, in the order of `inputs`. Raises SettingError with the field."""
    (system, temperature, top_k, top_p, min_p, seed, most, rep, freq, pres, stop, rule, k) = values
    return Options(
        sampling=Sampling(
            temperature=_number("temperature", temperature),
            top_k=int(_number("top_k", top_k)),
            top_p=_number("top_p", top_p),
            min_p=_number("min_p", min_p),
            repetition_penalty=_number("repetition_penalty", rep),
            frequency_penalty=_number("frequency_penalty", freq),
            presence_penalty=_number("presence_penalty", pres),
            seed=_seed(seed),
            max_tokens=int(_number("max_tokens", most)),
            stop=tuple(line for line in str(stop or "").splitlines() if line),
        ),
        mode="standard" if mode == "standard" else "speculative",
        rule="reject" if rule == "reject" else "match",
        k=None if k == AUTO else int(k),
        system=str(system or ""),
    )


def values_of(options: Options) -> list[Any]:
    """Values for the mode switch and `inputs`, from options."""
    s = options.sampling
    return [
        options.mode, options.system, s.temperature, s.top_k, s.top_p, s.min_p,
        "" if s.seed is None else str(s.seed), s.max_tokens, s.repetition_penalty,
        s.frequency_penalty, s.presence_penalty, "\n".join(s.stop), options.rule,
        AUTO if options.k is None else str(options.k),
    ]  # fmt: skip


def effective_html(options: Options) -> str:
    """What the settings come to, in words."""
    return f"<p class='effective'>{escape(effective(options.sampling))}</p>"


def _number(field: str, value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        raise SettingError(
            tr("{name} is empty or not a number.", name=name_of(field)), tr("Give it a number.")
        ) from None


def _seed(value: Any) -> int | None:
    text = str(value if value is not None else "").strip()
    if not text:
        return None
    try:
        return int(text)
    except ValueError:
        raise SettingError(
            tr("The seed {text} is not a whole number.", text=repr(text)),
            tr("Leave it empty for a fresh one."),
        ) from None
