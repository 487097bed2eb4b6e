"""Fixtures of the page's tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.app.api_kit import Api, serving
from tests.app.desk_kit import Kit, finish


@pytest.fixture
def kit(tmp_path: Path) -> Iterator[Kit]:
    kit = Kit(tmp_path)
    yield kit
    kit.close()


@pytest.fixture
def loaded(kit: Kit) -> Kit:
    """A pair by the owner's choice, and a fake that takes a little time."""
    finish(kit.controller.load(kit.owner(), "smollm2-135m-instruct", "ngram"))
    kit.script.token_s = 0.0005
    return kit


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
