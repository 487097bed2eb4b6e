"""Reads a model's files again and compares their sums. Knows files, no torch."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from specdec import folder as files
from specdec.errors import SourceError
from specdec.pair import Phase
from specdec.registry import Entry
from specdec.sources import Store
from specdec.transfer import Cancelled, Meter, Progress

_BLOCK = 1 << 22


@dataclass(frozen=True, slots=True)
class Broken:
    """A file that is not what it was."""

    name: str
    why: str


@dataclass(frozen=True, slots=True)
class Integrity:
    """`compared` files were read whole; `basis` says what they were compared with.

    `mendable`: the broken ones alone can be fetched anew.
    """

    broken: tuple[Broken, ...]
    compared: int
    bytes: int
    basis: str
    mendable: bool = False


def check_files(store: Store, entry: Entry, progress: Progress, cancelled: Cancelled) -> Integrity:
    """Read every file of a model that is here. Raises SourceError: not here, cancelled."""
    own = store.folder(entry)
    folder = own if own.is_dir() else store.cached(entry)
    if folder is None:
        raise SourceError(f"{entry.name} is not on this machine.", "Download it first.")
    want, basis = _expected(store, entry, folder)
    sizes = files.sizes(folder)
    total = sum(sizes.values())
    meter = Meter(entry.id, total, lambda p: progress(_checking(p)), cancelled)
    broken, done, seen = [], 0, dict[str, str]()
    for name, size in sizes.items():
        digest = _digest(folder / name, want.get(name, ""), partial(_tell, meter, done, name))
        done += size
        seen[name] = digest
        if name in want and digest != want[name]:
            broken.append(Broken(name, "its bytes are not those that were fetched"))
    broken += [Broken(name, "it is missing") for name in want if name not in sizes]
    if not broken and (why := files.problem(folder)) is not None:
        broken.append(Broken(Path(why.split(" ")[0]).name, why))
    if not broken and not want and folder == own and entry.folder is None:
        store.pins.take_sums(entry.id, seen)
    mendable = folder == own and entry.repo is not None and _from_hub(store, entry)
    compared = sum(name in want for name in sizes)
    return Integrity(tuple(broken), compared, total, basis, mendable)


def drop_broken(store: Store, entry: Entry, found: Integrity) -> None:
    """Delete the broken files, so that the next fetch brings those and keeps the rest.

    Of a model that was made here from another file everything goes. Raises SourceError for files
    that are not ours.
    """
    folder = store.folder(entry)
    if entry.folder is not None or not folder.is_dir():
        raise SourceError(
            f"{entry.name} lies outside this program's folder and is not changed.",
            "Copy or fetch it anew where it came from.",
        )
    if not found.mendable:
        store.remove(entry)
        return
    with store.lock(entry):
        for one in found.broken:
            (folder / one.name).unlink(missing_ok=True)


def _from_hub(store: Store, entry: Entry) -> bool:
    pin = store.pins.get(entry.id)
    return pin is not None and pin.origin == "hub"


def _expected(store: Store, entry: Entry, folder: Path) -> tuple[dict[str, str], str]:
    """Sums by file name ("git:..." for git's own), and in words where they are from."""
    pin = store.pins.get(entry.id)
    ours = folder == store.folder(entry)
    if ours and pin is not None and pin.hashes:
        return pin.hashes, "the sums taken when they were fetched"
    if not ours and (blobs := _blob_sums(folder)):
        return blobs, "the sums by which the hub's cache names them"
    if ours and pin is not None and pin.origin == "hub" and entry.repo and store.hub.reachable():
        listing = store.hub.listing(entry.repo, pin.revision)
        named = {file.name: file.sha256 for file in listing.files if file.sha256}
        return named, "the sums the hub names"
    return {}, "nothing: no sums were taken when they came; sizes and headers are right"


def _blob_sums(folder: Path) -> dict[str, str]:
    """A snapshot of the hub's cache is links to files that are named by their sums."""
    found = {}
    for file in folder.iterdir():
        if file.is_symlink():
            name = file.resolve().name
            if len(name) in (40, 64) and not set(name) - set("0123456789abcdef"):
                found[file.name] = name if len(name) == 64 else f"git:{name}"
    return found


def _digest(file: Path, like: str, seen: Callable[[int], None]) -> str:
    """sha256, or what git names a blob by where `like` is such a sum."""
    git = like.startswith("git:")
    digest = hashlib.sha1(usedforsecurity=False) if git else hashlib.sha256()
    if git:
        digest.update(f"blob {file.stat().st_size}\0".encode())
    done = 0
    with file.open("rb") as stream:
        while block := stream.read(_BLOCK):
            digest.update(block)
            done += len(block)
            seen(done)
    return f"git:{digest.hexdigest()}" if git else digest.hexdigest()


def _tell(meter: Meter, before: int, name: str, count: int) -> None:
    meter(before + count, name)


def _checking(phase: Phase) -> Phase:
    return Phase("checking", phase.model, phase.detail, phase.done, phase.total, phase.rate)
