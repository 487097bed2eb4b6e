"""A small file of the user's, written whole or not at all, and kept aside when it is damaged."""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path

from app.words import tr
from specdec.errors import SettingError


def write_whole(path: Path, text: str, what: str) -> None:
    """`what` names it in the error. Raises SettingError; the file that was there then stays."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=path.name)
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(text)
            Path(name).replace(path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise SettingError(
            tr("The {what} {path} cannot be written: {error}.", what=what, path=path, error=error),
            tr("Check the folder's permissions and free space."),
        ) from error


def set_aside(path: Path) -> Path:
    """Rename a file that cannot be read, and say to what. Raises OSError."""
    aside = path.with_name(f"{path.name}.damaged-{time.strftime('%Y%m%d-%H%M%S')}")
    path.replace(aside)
    return aside
