"""What nvidia-smi says, in its own words."""

from __future__ import annotations

import pytest

from app.gpu import look, read_smi

TABLE = """Mon Nov 30 10:00:00 2026
+-----------------------------------------------------------------------------------------+
| NVIDIA-SMI 570.124.06             Driver Version: 570.124.06     CUDA Version: 12.8     |
|-----------------------------------------+------------------------+----------------------+
|   0  NVIDIA H200                    On  |   00000000:18:00.0 Off |                    0 |
"""


def test_driver_and_cuda_are_read() -> None:
    found = read_smi(0, TABLE, "Linux")
    assert (found.kind, found.cuda) == ("cuda", (12, 8))
    assert "570.124.06" in found.reason


@pytest.mark.parametrize(
    ("code", "text"),
    [
        (9, "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver."),
        (6, "No devices were found"),
        (0, ""),
        (12, TABLE),
    ],
)
def test_a_driver_that_does_not_work_is_no_gpu(code: int, text: str) -> None:
    found = read_smi(code, text, "Linux")
    assert found.kind == "cpu"
    assert found.cuda is None
    assert (text.splitlines() or ["no output"])[0] in found.reason


def test_a_machine_without_nvidia_smi(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.gpu.platform.system", lambda: "Linux")
    monkeypatch.setenv("PATH", "")
    assert look().kind == "cpu"
    assert "nvidia-smi" in look().reason


@pytest.mark.parametrize(("machine", "kind"), [("arm64", "mps"), ("x86_64", "cpu")])
def test_a_mac(monkeypatch: pytest.MonkeyPatch, machine: str, kind: str) -> None:
    monkeypatch.setattr("app.gpu.platform.system", lambda: "Darwin")
    monkeypatch.setattr("app.gpu.platform.machine", lambda: machine)
    assert look().kind == kind
