"""Defaults only, and in time: torch is not imported before they are set."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from specdec.torch_env import SETTINGS, prepare


def test_what_the_user_set_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_WAIT_POLICY", "ACTIVE")
    monkeypatch.delenv("THP_MEM_ALLOC_ENABLE", raising=False)
    prepare()

    assert os.environ["OMP_WAIT_POLICY"] == "ACTIVE"
    assert os.environ["THP_MEM_ALLOC_ENABLE"] == SETTINGS["THP_MEM_ALLOC_ENABLE"]


@pytest.mark.parametrize("module", ["specdec.worker", "specdec.cli", "specdec.process"])
def test_entry_points_import_no_torch_before_it(module: str) -> None:
    code = f"import sys, {module}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
