"""The model hub: is it there, which files, and their bytes. Resumes; never reads pickles or code.

Knows repositories and HTTP; nothing of packages, pins or conversion. A token is read by
huggingface_hub from its own places and appears in no message.
"""

from __future__ import annotations

import re
import threading
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from specdec.errors import BrokenConnectionError, SourceError
from specdec.folder import sha256
from specdec.hub_errors import explain
from specdec.transfer import Meter, check_disk

_TEXT_FILES = frozenset(
    {
        "config.json",
        "generation_config.json",
        "tokenizer.json",
        "tokenizer_config.json",
        "special_tokens_map.json",
        "added_tokens.json",
        "chat_template.jinja",
        "chat_template.json",
        "model.safetensors.index.json",
    }
)
_SHARD = re.compile(r"model(-\d+-of-\d+)?\.safetensors")
WAIT = 3.0  # seconds until a hub counts as not reachable


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """`sha256` is None for small files, which the hub keeps in git."""

    name: str
    size: int
    sha256: str | None = None


@dataclass(frozen=True, slots=True)
class Listing:
    """The files we take of a repository at one commit."""

    repo: str
    revision: str
    files: tuple[RemoteFile, ...]

    @property
    def bytes(self) -> int:
        return sum(file.size for file in self.files)


class Hub:
    """One endpoint. `offline` means: never ask."""

    def __init__(self, endpoint: str | None = None, offline: bool = False) -> None:
        from huggingface_hub import constants

        self.endpoint = (endpoint or constants.ENDPOINT).rstrip("/")
        self.offline = offline or bool(constants.HF_HUB_OFFLINE)

    def reachable(self) -> bool:
        """Whether the endpoint answers; decided within `WAIT` seconds, once per process."""
        return not self.offline and _answers(self.endpoint)

    def listing(self, repo: str, revision: str | None = None) -> Listing:
        """Files, sizes and commit of a repository.

        Raises SourceError: gated, not found, only pickled weights, hub not answering.
        """
        from huggingface_hub import HfApi
        from huggingface_hub.errors import HTTPError

        try:
            info = HfApi(endpoint=self.endpoint).model_info(
                repo, revision=revision, files_metadata=True, timeout=15
            )
        except (HTTPError, OSError) as error:
            raise explain(repo, error) from error
        found = [
            RemoteFile(s.rfilename, s.size or 0, s.lfs.sha256 if s.lfs else None)
            for s in info.siblings or ()
        ]
        return Listing(repo, info.sha or revision or "main", _choose(repo, found))

    def download(self, listing: Listing, folder: Path, meter: Meter) -> None:
        """Bring every file into `folder`; a finished or half-done one from an earlier try is used.

        Raises SourceError: disk full, cancelled, gated, checksum, connection lost.
        """
        folder.mkdir(parents=True, exist_ok=True)
        wanted = {file.name for file in listing.files}
        for old in folder.iterdir():  # of another revision, or of an older program
            if old.name.removesuffix(".part") not in wanted:
                old.unlink()
        here = sum(file.stat().st_size for file in folder.iterdir())
        check_disk(folder, listing.bytes - here, f"Fetching {listing.repo}")
        done = 0
        for file in listing.files:
            self._file(listing, file, folder, meter, done)
            done += file.size
        meter(listing.bytes, f"{listing.repo} is here")

    def _file(
        self, listing: Listing, file: RemoteFile, folder: Path, meter: Meter, before: int
    ) -> None:
        target, part = folder / file.name, folder / f"{file.name}.part"
        if target.is_file() and target.stat().st_size == file.size:
            return
        target.unlink(missing_ok=True)
        if part.is_file() and part.stat().st_size > file.size:
            part.unlink()  # of another version: asking for its end would fail for ever (D06)
        if not part.is_file() or part.stat().st_size < file.size:
            self._stream(listing, file, part, meter, before)
        if part.stat().st_size != file.size:
            raise BrokenConnectionError(
                f"{file.name} ended after {part.stat().st_size} of {file.size} bytes.",
                "Try again: it goes on from there.",
            )
        if file.sha256 and sha256(part) != file.sha256:
            part.unlink()
            raise SourceError(f"{file.name} has the wrong checksum; it was removed.", "Try again.")
        part.replace(target)

    def _stream(
        self, listing: Listing, file: RemoteFile, part: Path, meter: Meter, before: int
    ) -> None:
        from huggingface_hub import hf_hub_url
        from huggingface_hub.errors import HTTPError
        from huggingface_hub.utils import build_hf_headers, get_session, hf_raise_for_status

        url = hf_hub_url(listing.repo, file.name, revision=listing.revision, endpoint=self.endpoint)
        start = part.stat().st_size if part.exists() else 0
        headers: dict[str, str] = {**build_hf_headers(), "Accept-Encoding": "identity"}
        if start:
            headers["Range"] = f"bytes={start}-"
        try:
            with get_session().stream(
                "GET", url, headers=headers, follow_redirects=True, timeout=30
            ) as answer:
                if answer.status_code == 416:  # the part is not of this file
                    part.unlink()
                    raise SourceError(f"{file.name} cannot be resumed.", "Try again.")
                hf_raise_for_status(answer)
                resumed = start and answer.status_code == 206
                done = start if resumed else 0
                with part.open("ab" if resumed else "wb") as stream:
                    for block in answer.iter_bytes():  # as received: nothing is lost
                        stream.write(block)
                        done += len(block)
                        meter(before + done, f"{file.name} from the hub")
        except (HTTPError, OSError) as error:
            raise explain(listing.repo, error) from error


@cache
def _answers(endpoint: str) -> bool:
    """Asks in a thread: a network that swallows packets can hold name look-up for a minute."""
    heard = threading.Event()

    def ask() -> None:
        from huggingface_hub.errors import HTTPError
        from huggingface_hub.utils import get_session

        try:
            answer = get_session().head(f"{endpoint}/api/models", timeout=WAIT)
        except (HTTPError, OSError):
            return
        if answer.status_code < 500:
            heard.set()

    asking = threading.Thread(target=ask, name="hub-reachable", daemon=True)
    asking.start()
    asking.join(WAIT)
    return heard.is_set()


def _choose(repo: str, found: list[RemoteFile]) -> tuple[RemoteFile, ...]:
    """Text files by name, and the safetensors of transformers' layout. Nothing else is taken."""
    top = [file for file in found if "/" not in file.name]
    tensors = [file for file in top if file.name.endswith(".safetensors")]
    weights = [file for file in tensors if _SHARD.fullmatch(file.name)] or [
        file for file in tensors if not file.name.startswith("consolidated")
    ]
    if not weights:
        pickled = [file.name for file in top if file.name.endswith((".bin", ".pt", ".pth"))]
        why = f"only pickled weights ({pickled[0]})" if pickled else "no safetensors files"
        raise SourceError(
            f"{repo} has {why}.", "Pickles can run code and are refused; choose another model."
        )
    return tuple([file for file in top if file.name in _TEXT_FILES] + weights)
