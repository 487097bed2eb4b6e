"""Which torch: every kind of machine against every kind of index."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from app.gpu import Hardware
from app.torch_build import INDEX, Offer, Part, Plan, ask_pip, download_size, plan, read_report

CPU = Hardware("cpu", "Linux", "none")


def offer(version: str, *parts: tuple[str, str]) -> Offer:
    named = (("torch", version), *parts)
    return Offer(tuple(Part(name, version, f"https://x/{name}.whl") for name, version in named))


PLAIN_CPU = offer("2.13.0+cpu", ("sympy", "1.14.0"))
PYPI_LINUX = offer("2.13.0", ("cuda-toolkit", "13.0.3.0"), ("nvidia-cudnn-cu13", "9.20.0.48"))
PYPI_WINDOWS = offer("2.13.0", ("sympy", "1.14.0"))


class Pip:
    """Answers dry runs from a table of index -> offer and notes what was asked."""

    def __init__(self, **offers: Offer) -> None:
        self.offers = offers
        self.asked: list[str] = []

    def __call__(self, extra: Sequence[str]) -> Offer | None:
        index = extra[1].removeprefix(f"{INDEX}/") if extra else "default"
        self.asked.append(index)
        return self.offers.get(index)


def chosen(hardware: Hardware, pip: Pip) -> Plan:
    return plan(hardware, pip, lambda offer: 2_500_000_000)


def cuda(version: tuple[int, int], system: str = "Linux") -> Hardware:
    return Hardware("cuda", system, "test", version)


def index_of(plan: Plan) -> str | None:
    return plan.args[1].removeprefix(f"{INDEX}/") if plan.args else None


@pytest.mark.parametrize(
    ("found", "version"),
    [
        (PLAIN_CPU, None),
        (PYPI_WINDOWS, None),
        (PYPI_LINUX, (13, 0)),
        (offer("2.13.0+cu126"), (12, 6)),
        (offer("2.11.0", ("nvidia-cuda-runtime-cu12", "12.8.90")), (12, 8)),
        (offer("2.11.0", ("nvidia-nccl-cu14", "3.0")), (0, 0)),
    ],
)
def test_the_cuda_of_an_offer(found: Offer, version: tuple[int, int] | None) -> None:
    assert found.cuda == version


def test_a_local_cpu_wheel_is_taken_as_it_is() -> None:
    pip = Pip(default=PLAIN_CPU)
    assert chosen(CPU, pip) == Plan((), "pip's default is a CPU build")
    assert pip.asked == ["default"]


def test_a_cpu_machine_prefers_pytorch_s_cpu_index() -> None:
    found = chosen(CPU, Pip(default=PYPI_LINUX, cpu=PLAIN_CPU))
    assert index_of(found) == "cpu"
    assert found.ask is None


@pytest.mark.parametrize("at_cpu", [{}, {"cpu": PYPI_LINUX}])
def test_where_only_the_big_build_can_be_had_the_user_is_asked(at_cpu: dict[str, Offer]) -> None:
    found = chosen(CPU, Pip(default=PYPI_LINUX, **at_cpu))
    assert found.args == ()
    assert found.ask == 2_500_000_000


def test_linux_with_a_new_driver_takes_the_default() -> None:
    found = chosen(cuda((13, 1)), Pip(default=PYPI_LINUX))
    assert found.args == ()
    assert "13.0" in found.reason
    assert found.ask is None


def test_linux_with_an_older_driver_takes_the_matching_index() -> None:
    pip = Pip(default=PYPI_LINUX, cu128=offer("2.13.0+cu128"), cu126=offer("2.13.0+cu126"))
    assert index_of(chosen(cuda((12, 8)), pip)) == "cu128"
    assert index_of(chosen(cuda((12, 7)), pip)) == "cu126"
    assert "cu130" not in pip.asked


def test_windows_takes_pytorch_s_own_index() -> None:
    pip = Pip(default=PYPI_WINDOWS, cu130=offer("2.13.0+cu130"), cu126=offer("2.13.0+cu126"))
    assert index_of(chosen(cuda((13, 2), "Windows"), pip)) == "cu130"
    assert index_of(chosen(cuda((12, 9), "Windows"), pip)) == "cu126"


def test_a_local_wheel_that_answers_for_an_index_is_not_taken_for_cuda() -> None:
    """A wheel folder in pip's configuration answers whatever the index is."""
    pip = Pip(default=PLAIN_CPU, cu130=PLAIN_CPU, cu128=PLAIN_CPU)
    found = chosen(cuda((13, 0)), pip)
    assert found.args == ()
    assert "GPU stays unused" in found.reason


def test_an_old_driver_is_told_and_gets_a_cpu_build() -> None:
    found = chosen(cuda((11, 8)), Pip(default=PYPI_LINUX, cpu=PLAIN_CPU))
    assert index_of(found) == "cpu"
    assert "only up to 11.8" in found.reason


def test_a_mac_takes_the_default() -> None:
    pip = Pip()
    assert chosen(Hardware("mps", "Darwin", "test"), pip).args == ()
    assert pip.asked == []


def test_a_silent_pip_is_said() -> None:
    assert "does not say" in chosen(CPU, Pip()).reason


def test_the_size_counts_files_here_and_admits_what_it_cannot_know(tmp_path: Path) -> None:
    file = tmp_path / "a b.whl"
    file.write_bytes(b"x" * 1000)
    here = Part("torch", "2", file.as_uri())
    assert download_size(Offer((here, here))) == 2000
    assert download_size(Offer((here, Part("x", "1", "http://127.0.0.1:9/x.whl")))) == 0


def test_pip_is_really_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A wheel made here, no index: the report is pip's own."""
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    name = "torch-2.12.0+cpu-py3-none-any.whl"
    _wheel(tmp_path / name, "torch", "2.12.0+cpu")
    extra = ("--no-index", "--find-links", str(tmp_path), "--no-deps")
    found = ask_pip(Path(sys.executable), "torch>=2.11,<2.14", extra)
    assert found is not None
    assert found.cuda is None
    assert [part.version for part in found.parts] == ["2.12.0+cpu"]
    assert download_size(found) == (tmp_path / name).stat().st_size
    assert ask_pip(Path(sys.executable), "torch>=3", extra) is None


def test_a_report_without_torch_is_no_offer() -> None:
    assert read_report({"install": []}) is None


def _wheel(path: Path, name: str, version: str) -> None:
    import zipfile

    info = f"{name}-{version}.dist-info"
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr(
            f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        )
        wheel.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        wheel.writestr(f"{info}/RECORD", "")
