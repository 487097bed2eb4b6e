"""One run of the program, in order: names checked, port bound, engine started, page served.

Knows how the parts fit; the engine comes from outside. Imports gradio only when all else stands.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
import webbrowser
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from app import ports
from app.access import Access, Login, make_logins
from app.ending import Ending
from app.options import LaunchOptions
from app.settings import SettingsFile
from specdec.contract import ChatEngine
from specdec.options import EngineOptions
from specdec.pairing import WITHOUT_FILES
from specdec.paths import data_dir
from specdec.registry import load_registry

Say = Callable[[str], None]
EngineMaker = Callable[[EngineOptions], ChatEngine]


def run(options: LaunchOptions, make_engine: EngineMaker, say: Say) -> int:
    """Serve until Ctrl-C or SIGTERM, then end the process. Raises SpecdecError at start-up."""
    folder = data_dir(options.data_dir)
    options = _names_checked(options, folder)
    ending = Ending()
    ending.listen()
    failed = True
    try:
        _start(options, folder, make_engine, say, ending)
        failed = False
        ending.wait()
    except KeyboardInterrupt:
        failed = False
        say("Closing.")
    finally:
        ending.close()
        if not failed:
            ending.exit(0)
    return 1


def _start(
    options: LaunchOptions, folder: Path, make_engine: EngineMaker, say: Say, ending: Ending
) -> None:
    listener = ports.listen(options.host, options.port)
    ending.add(listener.close)
    url = ports.address(listener)
    port = listener.getsockname()[1]
    if options.port not in (0, port):
        say(f"Port {options.port} is in use; taking {port}.")
    settings = SettingsFile(folder / "settings.json")
    engine = make_engine(
        EngineOptions(
            data_dir=folder,  # no pair: what an engine falls back to would outlive a later choice
            device=options.device,
            dtype=options.dtype,
            draft_dtype=options.draft_dtype,
            weights=options.weights or settings.settings.weights,
            offline=options.offline,
            ngram_store=options.ngram_store,
        )
    )
    folder_of_page = _empty_folder()

    from app.controller import Controller
    from app.history import History

    history = History(folder / "history.db")
    ending.add(history.close)
    ending.add(engine.close)  # before the history: a reply that breaks off is still stored
    controller = Controller(engine, history, settings, offline=options.offline)
    ending.add(controller.close)
    ending.add(lambda: shutil.rmtree(folder_of_page, ignore_errors=True))
    controller.start(options.target, options.draft)
    for notice in controller.notices:
        say(notice)

    from app.api.routes import make_api
    from app.door import SideDoor
    from app.downloads import make_downloads
    from app.health import health
    from app.server import Server, make_site
    from app.share import open_tunnel
    from app.ui import page

    access = Access(_logins(options))
    site = make_site(
        page.build(controller),
        access,
        lambda: health(engine.status()),
        page.look(),
        (make_api(controller), make_downloads(controller)),
    )
    server = Server(site, listener)
    server.start()
    ending.add(server.stop)
    controller.sharing.attach(lambda way: SideDoor(server, way), open_tunnel, _chosen(options))
    ending.add(controller.sharing.close)
    _announce(options, access, url, say)
    if options.share:
        from app.share_sheet import printed

        controller.sharing.begin(options.share_hours, told=lambda view: say(printed(view)))
    if options.browser:
        threading.Thread(target=webbrowser.open, args=(url,), daemon=True).start()


def _names_checked(options: LaunchOptions, folder: Path) -> LaunchOptions:
    """Raises UnknownModelError naming the nearest; a local folder becomes an absolute path."""
    registry = load_registry(folder)

    def known(name: str | None) -> str | None:
        if name is None or name in WITHOUT_FILES:
            return name
        found = registry.get(name).folder
        return str(found.absolute()) if found else name

    if options.target in WITHOUT_FILES:
        registry.get(options.target)  # a draft, not a model that answers
    return replace(options, target=known(options.target), draft=known(options.draft))


def _empty_folder() -> str:
    """gradio may serve files of the working directory and its cache: both are empty and our own."""
    folder = tempfile.mkdtemp(prefix="specdec-chat-")
    cache = Path(folder) / "cache"
    cache.mkdir()
    os.environ["GRADIO_TEMP_DIR"] = str(cache)
    os.chdir(folder)
    return folder


def _logins(options: LaunchOptions) -> tuple[Login, ...]:
    protected = options.auth or not ports.is_loopback(options.host)
    return make_logins(options.auth) if protected else ()


def _chosen(options: LaunchOptions) -> Login | None:
    """The owner may come through a public link too, with a login that they chose themselves."""
    return make_logins(options.auth)[0] if options.auth else None


def _announce(options: LaunchOptions, access: Access, url: str, say: Say) -> None:
    say(f"Chat: {url}")
    for login in access.logins:
        what = "your chats and settings" if login.role == "owner" else "chat only, nothing is kept"
        say(f"Login for {login.role} ({what}): {login.user} / {login.password}")
    key = f", API key {access.key}" if access.key else ""
    say(f"For other programs (OpenAI's API): {url}/v1{key}")
    if not ports.is_loopback(options.host):
        say("Other machines on this network reach it too, over plain HTTP: use one you trust.")
    if options.share:
        say("Making a public link ...")
    say("Ctrl-C ends it.")
