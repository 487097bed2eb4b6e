"""What the menu of presets does: choose, save, rename, delete, export, import. Wiring only."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from html import escape
from typing import Any
from urllib.parse import quote

import gradio as gr

from app.controller import Controller
from app.desk import Options
from app.preset_file import MAX_FILE, Change, Preset, to_json
from app.presets import applied, differences, is_built_in
from app.session import Session
from app.ui import reply_settings
from app.ui.preset_menu import PresetMenu
from app.ui.seen import seen
from app.ui.visit import said, session_of
from app.words import tr
from specdec.errors import SettingError, SpecdecError

Update = dict[Any, Any]


class PresetWiring:
    """Handlers of the menu. Each act says what it did and can be undone."""

    def __init__(self, controller: Controller, parts: PresetMenu) -> None:
        self.controller = controller
        self.parts = parts
        self.outputs = [getattr(parts, name) for name in parts.__dataclass_fields__]
        self._controls: list[Any] = []

    def wire(self, controls: list[Any]) -> None:
        """`controls`: the mode switch and the inputs of the drawer."""
        parts, self._controls = self.parts, controls
        quiet: dict[str, Any] = {"show_progress": "hidden", "api_visibility": "private"}
        everything: dict[str, Any] = {**quiet, "outputs": [*self.outputs, *controls]}
        inputs = [parts.menu, *controls]
        parts.menu.input(self.choose, inputs, **everything)
        parts.back.click(self.choose, inputs, **everything)
        parts.update.click(self.overwrite, inputs, **everything)
        parts.save.click(self.save, [parts.name, *controls], **everything)
        parts.rename.click(self.rename, [parts.menu, parts.name, *controls], **everything)
        parts.delete.click(self.delete, inputs, **everything)
        parts.files.take(self.take, controls, **everything)
        parts.undo.click(self.undo, [parts.before, *controls], **everything)
        gr.on(
            [control.change for control in controls],
            self.compare,
            inputs,
            [parts.state, parts.back, parts.update],
            trigger_mode="always_last",
            **quiet,
        )

    def update(self, session: Session, now: Options) -> Update:
        """Everything the menu shows, beside controls that say `now`."""
        parts, owner = self.parts, session.role == "owner"
        presets = self.controller.presets.list(session)
        chosen = self.controller.presets.find(session, self.controller.presets.chosen(session))
        return {
            parts.menu: gr.update(
                choices=[p.name for p in presets], value=chosen.name, interactive=True
            ),
            parts.manage: gr.update(visible=owner),
            parts.rename: gr.update(interactive=not is_built_in(chosen.name)),
            parts.delete: gr.update(interactive=not is_built_in(chosen.name)),
            parts.files: files_html(chosen, presets) if owner else "",
            **self._differ(session, chosen, now),
        }

    def _differ(self, session: Session, chosen: Preset, now: Options) -> Update:
        found = differences(chosen, now)
        changeable = session.role == "owner" and not is_built_in(chosen.name)
        return {
            self.parts.state: state_html(chosen.name, found),
            self.parts.back: seen(bool(found)),
            self.parts.update: seen(bool(found) and changeable),
        }

    def compare(self, request: gr.Request, name: str, *values: Any) -> Update:
        """Say what differs from the preset chosen; a value nobody can read is said elsewhere."""
        session = session_of(self.controller, request)
        try:
            chosen = self.controller.presets.find(session, name)
            return self._differ(session, chosen, reply_settings.options_of(*values))
        except SpecdecError:
            return {self.parts.state: gr.skip()}

    def choose(self, request: gr.Request, name: str, mode: str, *values: Any) -> Update:
        """Put its values into the controls; what stood there can be put back."""
        session, parts = session_of(self.controller, request), self.parts
        presets = self.controller.presets
        try:
            preset = presets.choose(session, name)
            base = Options(mode="standard" if mode == "standard" else "speculative")
            options = applied(preset, replace(base, system=str(values[0] or "")))
            self.controller.keep(session, options)
        except SpecdecError as error:
            return {parts.menu: presets.chosen(session), **self._refused(error)}
        lost = [mode, *values] != reply_settings.values_of(options)
        told = tr("“{name}” is set.", name=preset.name) if lost else ""
        return {
            **self.update(session, options),
            **self._set(reply_settings.values_of(options)),
            **self._told(told, {"values": [mode, *values]} if lost else None),
        }

    def save(self, request: gr.Request, name: str, *values: Any) -> Update:
        """Keep what the controls say under a name; what it held can be put back."""

        def act(session: Session, options: Options) -> tuple[Change, str]:
            change = self.controller.presets.save(session, name, options)
            over = any(before is not None for before in change.values())
            made = next(iter(change))
            if over:
                return change, tr("“{name}” was overwritten.", name=made)
            return change, tr("“{name}” was saved.", name=made)

        return self._change(request, values, act)

    def overwrite(self, request: gr.Request, name: str, *values: Any) -> Update:
        """Keep what the controls say in the preset chosen."""
        return self.save(request, name, *values)

    def rename(self, request: gr.Request, name: str, new: str, *values: Any) -> Update:
        def act(session: Session, options: Options) -> tuple[Change, str]:
            change = self.controller.presets.rename(session, name, new)
            return change, tr("“{old}” is now “{new}”.", old=name, new=next(iter(change)))

        return self._change(request, values, act)

    def delete(self, request: gr.Request, name: str, *values: Any) -> Update:
        def act(session: Session, options: Options) -> tuple[Change, str]:
            change = self.controller.presets.delete(session, name)
            return change, tr("“{name}” was deleted.", name=name)

        return self._change(request, values, act)

    def take(self, request: gr.Request, event: gr.EventData, *values: Any) -> Update:
        """Import a file that was read in the browser."""

        def act(session: Session, options: Options) -> tuple[Change, str]:
            if int(event.size) > MAX_FILE:
                raise SettingError(
                    tr("The file is larger than 1 MB."), tr("Choose a file of presets.")
                )
            change = self.controller.presets.add(session, str(event.text))
            names = ", ".join(f"“{name}”" for name in change)
            if not names:
                return change, tr("All of them are here already.")
            return change, tr("Imported: {names}.", names=names)

        return self._change(request, values, act)

    def undo(self, request: gr.Request, before: dict[str, Any] | None, *values: Any) -> Update:
        """Put back what the last act changed."""
        if not before:
            return self._told("", None)
        if "values" in before:
            session = session_of(self.controller, request)
            values = tuple(before["values"])
            shown = {**self._set(list(values)), **self._told(tr("Put back."), None)}
            try:
                return {**self.update(session, reply_settings.options_of(*values)), **shown}
            except SpecdecError:  # what stood there could not be read either
                return shown

        def act(session: Session, options: Options) -> tuple[Change, str]:
            self.controller.presets.put_back(session, before["change"])
            return {}, tr("Put back.")

        return self._change(request, values, act)

    def _change(
        self,
        request: gr.Request,
        values: tuple[Any, ...],
        act: Callable[[Session, Options], tuple[Change, str]],
    ) -> Update:
        session = session_of(self.controller, request)
        try:
            options = reply_settings.options_of(*values)
            change, told = act(session, options)
        except SpecdecError as error:
            return self._refused(error)
        return {
            **self.update(session, options),
            **self._told(told, {"change": change} if change else None),
            self.parts.name: "",
        }

    def _set(self, values: list[Any]) -> Update:
        return dict(zip(self._controls, values, strict=True))

    def _told(self, text: str, before: dict[str, Any] | None) -> Update:
        return {
            self.parts.told: f'<p class="quiet" role="status">{escape(text)}</p>' if text else "",
            self.parts.undo: seen(before is not None),
            self.parts.before: before,
        }

    def _refused(self, error: SpecdecError) -> Update:
        """What could be undone still can."""
        return {self.parts.told: said(error)}


def state_html(name: str, found: list[str]) -> str:
    """What differs from the preset, in a line."""
    if not found:
        return ""
    text = tr("Changed since “{name}”: {what}", name=name, what=", ".join(found))
    return f'<p class="quiet" role="status">{escape(text)}</p>'


def files_html(chosen: Preset, presets: tuple[Preset, ...]) -> str:
    """Two files to save, one to read. Their text is in the links, so no route serves them."""
    own = [preset for preset in presets if not is_built_in(preset.name)]
    return (
        f"<p>{_link([chosen], f'{_slug(chosen.name)}.json', tr('Export this one'))}"
        f"{_link(own, 'presets.json', tr('Export all of yours')) if own else ''}</p>"
        f'<label class="import">{tr("Import presets")}'
        '<input type="file" accept=".json,application/json"></label>'
    )


def _slug(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9]+", "-", name).strip("-").lower() or "preset"


def _link(presets: list[Preset], name: str, text: str) -> str:
    data = quote(to_json(presets))
    return f'<a download="{name}" href="data:application/json;charset=utf-8,{data}">{text}</a>'
