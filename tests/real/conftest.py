"""Real weights: fetched as a first start fetches them, or found under SPECDEC_TEST_DATA."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from specdec.assemble import assemble
from specdec.options import EngineOptions
from specdec.session import Session

Load = Callable[..., Session]


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder; models fetched into it stay for the whole run."""
    given = os.environ.get("SPECDEC_TEST_DATA")
    return Path(given) if given else tmp_path_factory.mktemp("data")


@pytest.fixture
def load(data: Path) -> Load:
    def load_pair(target: str, draft: str, dtype: str, draft_dtype: str | None = None) -> Session:
        options = EngineOptions(data, device="cpu", dtype=dtype, draft_dtype=draft_dtype)
        return assemble(options, target, draft, lambda phase: None, lambda: False)

    return load_pair
