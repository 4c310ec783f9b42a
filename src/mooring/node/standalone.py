"""The way to an API server that does not exist: for an agent that runs static pods alone."""

from __future__ import annotations

from mooring.kube.errors import Unreachable
from mooring.kube.transport import Request, Response

_REFUSAL = (
    b'{"kind":"Status","status":"Failure","reason":"Forbidden","code":403,"message":"there is no API server"}'
)


class NoServer:
    """A transport on which every request is without an answer; but events are refused, so that they go to the
    log."""

    async def send(self, request: Request) -> Response:
        if request.path.endswith("/events"):
            return Response(403, {}, _REFUSAL)
        raise Unreachable(
            f"{request.method} {request.path}: this agent runs without an API server (--standalone)"
        )

    async def close(self) -> None:
        """Nothing is held."""
