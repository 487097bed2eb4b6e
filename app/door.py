"""A second way into the same application: its own port, its own gate, the same event loop.

A tunnel ends here and nowhere else. So what comes by it is told from what is asked on this
machine by the port alone, and the owner's own address stays as it was.
"""

from __future__ import annotations

import asyncio
import concurrent.futures

import uvicorn

from app import ports
from app.access import Access
from app.security import Gate
from app.server import HTTP, Server
from specdec.errors import EngineError


class SideDoor:
    """Open from the start; everybody who comes by it needs a login of `access`."""

    def __init__(self, server: Server, access: Access) -> None:
        """Raises EngineError when it cannot be opened."""
        if access.open:
            raise EngineError("A public door needs logins.")
        self._loop = server.loop
        self._listener = ports.listen("127.0.0.1", 0)
        self._reach = ports.reach(self._listener)
        gate = Gate(server.site.gate.app, access)
        self._server = uvicorn.Server(uvicorn.Config(gate, lifespan="off", **HTTP))
        self._serving = asyncio.run_coroutine_threadsafe(
            self._server.serve([self._listener]), self._loop
        )
        opening = asyncio.run_coroutine_threadsafe(self._started(), self._loop)
        try:
            opening.result(10)
        except concurrent.futures.TimeoutError:
            self._listener.close()
            raise EngineError("The way for guests did not open.", "See the lines above.") from None

    @property
    def reach(self) -> tuple[str, int]:
        """Host and port of it."""
        return self._reach

    def close(self) -> None:
        """Cut every connection that came by it, streams too; safe to call twice."""
        if self._serving.done() or self._loop.is_closed():
            return
        self._loop.call_soon_threadsafe(self._cut)
        try:
            self._serving.result(2)
        except (concurrent.futures.TimeoutError, concurrent.futures.CancelledError):
            return  # the whole server is ending: its loop takes this one with it

    async def _started(self) -> None:
        while not self._server.started:
            await asyncio.sleep(0.01)

    def _cut(self) -> None:
        self._server.should_exit = self._server.force_exit = True
        for listening in self._server.servers:
            listening.close()
        for connection in list(self._server.server_state.connections):
            if isinstance(connection.transport, asyncio.WriteTransport):
                connection.transport.abort()
