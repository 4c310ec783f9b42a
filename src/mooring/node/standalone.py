"""The way to an API server that does not exist: for an agent that runs static pods alone."""

from __future__ import annotations

from mooring.kube.errors import Unreachable
from mooring.kube.transport import Request, Response


class NoServer:
    """A transport on which every request is without an answer."""

    async def send(self, request: Request) -> Response:
        raise Unreachable(f"{request.method} {request.path}: this agent runs without an API server (--standalone)")

    async def close(self) -> None:
        """Nothing is held."""
