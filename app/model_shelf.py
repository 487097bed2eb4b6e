"""The models this program knows, what of them is on disk, and what may be done with each.

Knows files and the queue of downloads; nothing of replies or pages. Every act is the owner's only.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import cached_property
from pathlib import Path

from app import hub_token
from app.chats import owner_only
from app.fetch_queue import FetchQueue, Task
from app.hub_search import Found, ask_hub, row_of
from app.model_row import Row, Where
from app.session import Session
from app.words import tr
from specdec import folder as files
from specdec.carrier import Carrier, Errand
from specdec.contract import ChatEngine, Choice, Memory
from specdec.errors import SettingError, SourceError
from specdec.hub_errors import page_of
from specdec.memory import fits, free_memory, kv_bytes, need_bytes, size_text, weight_bytes
from specdec.pairing import AUTO, CONTEXT, WITHOUT_FILES
from specdec.persistent import discard
from specdec.registry import Entry, load_registry
from specdec.sources import Store
from specdec.user_models import add_row, row_of_path, take_off


class ModelShelf:
    """One data folder. Every method may be called from any thread."""

    def __init__(self, engine: ChatEngine, data_dir: Path, offline: bool = False) -> None:
        self._engine = engine
        self.data_dir = data_dir
        self.offline = offline
        self._found: dict[str, Found] = {}  # of the last search of the hub
        self.queue = FetchQueue(lambda model, work: Carrier(Errand(data_dir, model, work, offline)))

    @cached_property
    def store(self) -> Store:
        return Store(self.data_dir, self.offline)

    def rows(self, session: Session) -> list[Row]:
        """Every model, in the registry's order. Asks no other host. Raises SettingError."""
        owner_only(session)
        free, tasks, loaded = self.budget(), self.queue.tasks(), self._loaded()
        registry = load_registry(self.data_dir)
        known = {entry.id for entry in load_registry()}
        return [self._row(e, free, tasks.get(e.id), loaded, e.id not in known) for e in registry]

    def entry(self, model: str) -> Entry:
        """Raises UnknownModelError."""
        return load_registry(self.data_dir).get(model)

    def budget(self) -> int:
        """Bytes a pair may take: what is free, and what the loaded one gives back."""
        pair = self._engine.status().pair
        held = pair.memory if pair else None
        if held is None:
            return free_memory("cpu")
        if pair and pair.device.value.startswith("cuda"):
            return held.before
        return free_memory("cpu") + held.weights + held.draft

    def disk_free(self) -> int:
        return shutil.disk_usage(self.data_dir).free

    def download(
        self, session: Session, model: str, then: Callable[[], None] | None = None
    ) -> None:
        """Fetch it, or go on; `then` is done when it is here.

        Raises SettingError for a guest, SourceError where it is known to fail: no network wanted,
        no token for what needs one, no room.
        """
        owner_only(session)
        entry = self.entry(model)
        if self.offline and entry.gguf is None:
            raise SourceError(
                tr("The program was started with --offline."), tr("Start without it.")
            )
        if entry.gated and not hub_token.known():
            page = page_of(entry.repo or "")
            raise SourceError(
                tr(
                    "{name} is gated: its licence must be accepted with a hub account.",
                    name=entry.name,
                ),
                tr("Ask for access at {page}, then give a token under Access.", page=page),
            )
        need = self._least(entry) - files.total(self.store.downloads(entry))
        if need > (free := self.disk_free()):
            raise SourceError(
                tr(
                    "{name} needs {need} of disk, {free} free.",
                    name=entry.name,
                    need=size_text(need),
                    free=size_text(free),
                ),
                tr("Free some space for {data_dir}.", data_dir=self.data_dir),
            )
        self.queue.put(entry.id, "fetch", then)

    def pause(self, session: Session, model: str) -> None:
        """Stop a download or a check; what came is kept."""
        owner_only(session)
        self.queue.pause(model)

    def cancel(self, session: Session, model: str) -> int:
        """Stop a download and delete what came; the bytes that frees. Raises SourceError."""
        owner_only(session)
        entry = self.entry(model)
        self.queue.drop(model)
        size = files.total(self.store.downloads(entry))
        discard(self.store, entry)
        return size

    def check(self, session: Session, model: str) -> None:
        """Read its files again and compare their sums."""
        owner_only(session)
        self.queue.put(self.entry(model).id, "check")

    def mend(self, session: Session, model: str) -> None:
        """Fetch what is broken, and only that where it is known."""
        owner_only(session)
        self.queue.put(self.entry(model).id, "mend")

    def delete(self, session: Session, model: str) -> int:
        """Delete its files; the bytes that frees. Raises SourceError: loaded, in use, not ours."""
        owner_only(session)
        entry = self.entry(model)
        if entry.id in self._loaded():
            raise SourceError(
                tr("{name} is loaded.", name=entry.name), tr("Unload it first, then delete it.")
            )
        if entry.folder is not None or not self.store.folder(entry).is_dir():
            raise SourceError(
                tr("The files of {name} are not in this program's folder.", name=entry.name),
                tr("They are left alone: other programs may use them."),
            )
        self.queue.drop(entry.id)
        size = files.total(self.store.folder(entry)) + files.total(self.store.downloads(entry))
        self.store.remove(entry)
        return size

    def add_path(self, session: Session, path: str) -> str:
        """Put a folder, or a GGUF file (which is unpacked), on the list; its name.

        Raises SpecdecError: one line that says what is wrong with it.
        """
        owner_only(session)
        row = row_of_path(path)
        model = add_row(self.data_dir, row)
        if "gguf" in row:
            self.queue.put(model)
        return str(row["name"])

    def ask_hub(self, session: Session, query: str) -> list[Found]:
        """See `hub_search.ask_hub`. Raises SettingError for a guest, SourceError when offline."""
        owner_only(session)
        if self.offline:
            raise SourceError(
                tr("The program was started with --offline."), tr("Start without it.")
            )
        self._found = {found.repo: found for found in ask_hub(query)}
        return list(self._found.values())

    def add_repo(self, session: Session, repo: str) -> str:
        """Put what was found on the list, at the revision that was seen; its name."""
        owner_only(session)
        found = self._found.get(repo)
        if found is None or found.why:
            raise SettingError(
                tr("{repo} is not among what was found.", repo=repo), tr("Search the hub again.")
            )
        row = row_of(found)
        add_row(self.data_dir, row)
        return str(row["name"])

    def forget(self, session: Session, model: str) -> None:
        """Take one of the user's own off the list. Raises SourceError for the loaded one."""
        owner_only(session)
        if self.entry(model).id in self._loaded():
            raise SourceError(tr("{model} is loaded.", model=model), tr("Unload it first."))
        self.queue.drop(model)
        take_off(self.data_dir, model)

    def keep_token(self, session: Session, token: str) -> None:
        """See `hub_token.keep`. Raises SettingError for a guest."""
        owner_only(session)
        hub_token.keep(token)

    def remove_token(self, session: Session) -> None:
        """See `hub_token.remove`. Raises SettingError for a guest."""
        owner_only(session)
        hub_token.remove()

    def plan(self, session: Session, target: str, draft: str) -> Memory | None:
        """What a pair would take, by the estimates of the fit check; None where one is unknown."""
        owner_only(session)
        entry = self.entry(target)
        weights, own = weight_bytes(entry, "bf16"), kv_bytes(entry.shape, CONTEXT)
        if weights is None or own is None:
            return None
        if draft in ("", *WITHOUT_FILES):
            return Memory(self.budget(), weights, 0, own)
        other = self.entry(draft)
        small = weight_bytes(other, "int4") if "head" not in other.roles else other.bytes
        if small is None:
            return None
        return Memory(self.budget(), weights, small, own + (kv_bytes(other.shape, CONTEXT) or 0))

    def close(self) -> None:
        self.queue.close()

    def _loaded(self) -> set[str]:
        status = self._engine.status()
        if status.phase is not None and status.phase.model:
            return {status.phase.model}
        if status.pair is None:
            return set()
        pair = status.pair
        several = pair.drafts if pair.draft.value == AUTO else ()
        members = {o.id for o in several if o.on_disk and o.verdict != "rejected"}
        return {pair.target.value, pair.draft.value} | members

    def _least(self, entry: Entry) -> int:
        """Bytes of disk that it takes in any case, as far as is known."""
        whole = entry.bytes or weight_bytes(entry, "bf16") or 0
        return whole if entry.packaged is None else min(whole, 2 * entry.packaged.bytes)

    def _row(
        self, entry: Entry, free: int, task: Task | None, loaded: set[str], added: bool
    ) -> Row:
        store = self.store
        folder, place = store.folder(entry), store.locate(entry)
        damage = (store.damage(entry) or "") if entry.folder is None else ""
        left = files.total(store.downloads(entry))
        fit = fits(need_bytes(entry, "bf16", CONTEXT), free)
        where: Where = ""
        if folder.is_dir():
            where = "ours" if entry.folder is None else "shipped" if entry.shipped else "local"
        elif place is not None:
            where = "cache"
        roles = " ".join(entry.roles)
        return Row(
            id=entry.id,
            name=entry.name,
            roles=entry.roles,
            where=where,
            disk=files.total(place or folder),
            left=left,
            fetch=entry.bytes or weight_bytes(entry, "bf16"),
            exact=entry.bytes is not None,
            licence=entry.licence,
            page=page_of(entry.repo) if entry.repo else "",
            gated=bool(entry.gated),
            fits=Choice({True: "yes", False: "no", None: "unknown"}[fit.ok], fit.reason),
            loaded=entry.id in loaded,
            added=added,
            damage=damage,
            task=task,
            words=f"{entry.id} {entry.name} {entry.family} {entry.repo or ''} {roles}".lower(),
        )
