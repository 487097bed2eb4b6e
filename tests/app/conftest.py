"""Fixtures of the page's tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.app.api_kit import Api, serving
from tests.app.desk_kit import Kit


@pytest.fixture
def kit(tmp_path: Path) -> Iterator[Kit]:
    kit = Kit(tmp_path)
    yield kit
    kit.close()


@pytest.fixture
def serve_api(tmp_path: Path) -> Iterator[Callable[..., Api]]:
    """Makes servers; all end with the test."""
    with ExitStack() as stack:
        yield lambda *args, **more: stack.enter_context(serving(tmp_path, *args, **more))


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    """One for all tests that change nothing of it."""
    with serving(tmp_path_factory.mktemp("api")) as api:
        yield api
