"""`GET /manifest.json`, `/pwa_icon...`: what lets a browser install the page as a program.

gradio's page names the manifest whatever it is told, without a cookie: behind a login a browser
gets none, and installs nothing. Its own manifest wants an icon in PNG and makes it with Pillow,
which reads no SVG: these stand before it. The PNG files were drawn from `assets/icon.svg`.
"""

from __future__ import annotations

from pathlib import Path

from fastapi import APIRouter
from starlette.responses import FileResponse, JSONResponse, Response

ASSETS = Path(__file__).resolve().parents[1] / "assets"
SIZES = (192, 512)


def manifest() -> dict[str, object]:
    """As W3C's Web Application Manifest names it."""
    icons: list[dict[str, str]] = [
        {"src": f"./pwa_icon/{size}", "sizes": f"{size}x{size}", "type": "image/png"}
        for size in SIZES
    ]
    whole = {"src": "./pwa_icon", "sizes": "512x512", "type": "image/png", "purpose": "maskable"}
    return {
        "name": "specdec chat",
        "short_name": "specdec",
        "description": "Chat with a model on your own machine, decoded speculatively.",
        "id": "./",
        "start_url": "./",
        "scope": "./",
        "display": "standalone",
        "background_color": "#faf9f7",
        "theme_color": "#0f766e",
        "icons": [*icons, whole],
    }


def make_installable() -> APIRouter:
    """Both routes."""
    router = APIRouter()

    @router.get("/manifest.json")
    def get_manifest() -> Response:
        return JSONResponse(manifest(), media_type="application/manifest+json")

    @router.get("/pwa_icon")
    def get_maskable() -> Response:
        return FileResponse(ASSETS / "icon-maskable.png")

    @router.get("/pwa_icon/{size}")
    def get_icon(size: int) -> Response:
        if size not in SIZES:
            return Response("There is no icon of this size.", 404, media_type="text/plain")
        return FileResponse(ASSETS / f"icon-{size}.png")

    return router
