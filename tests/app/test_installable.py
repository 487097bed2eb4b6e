"""The manifest and its icons: what a browser asks before it installs the page."""

from __future__ import annotations

from io import BytesIO

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from PIL import Image

from app.installable import make_installable, manifest


@pytest.fixture
def client() -> TestClient:
    app = FastAPI()
    app.include_router(make_installable())
    return TestClient(app)


def test_each_icon_is_a_png_of_the_size_it_names(client: TestClient) -> None:
    answer = client.get("/manifest.json")
    assert answer.headers["content-type"] == "application/manifest+json"
    icons = answer.json()["icons"]
    assert {icon.get("purpose", "any") for icon in icons} == {"any", "maskable"}
    for icon in icons:
        found = client.get("/" + icon["src"].removeprefix("./"))
        assert found.headers["content-type"] == icon["type"] == "image/png"
        size = "x".join(map(str, Image.open(BytesIO(found.content)).size))
        assert size == icon["sizes"]


def test_no_other_size_is_made_up(client: TestClient) -> None:
    assert client.get("/pwa_icon/100000").status_code == 404
    assert client.get("/pwa_icon/..%2Flogo.svg").status_code in (404, 422)


def test_it_opens_as_a_program_of_its_own() -> None:
    assert manifest()["display"] == "standalone"
