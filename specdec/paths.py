"""Where this program keeps chats, settings, models and logs. No torch."""

from __future__ import annotations

from pathlib import Path

from platformdirs import user_data_dir

from specdec.errors import SettingError

APP_NAME = "specdec-chat"


def data_dir(option: str | None) -> Path:
    """`--data-dir`, or the user's data folder; made if missing, and private.

    Raises SettingError when it cannot be made.
    """
    path = Path(option).expanduser() if option else Path(user_data_dir(APP_NAME, appauthor=False))
    path = path.absolute()
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise SettingError(
            f"The data folder {path} cannot be made: {error}.", "Choose another with --data-dir."
        ) from error
    return path
