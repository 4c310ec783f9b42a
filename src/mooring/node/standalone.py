"""What an agent that runs static pods alone has in the place of an API server: a way to it that leads
nowhere, and a Node that is read by none.
"""

from __future__ import annotations

from mooring.kube.errors import Unreachable
from mooring.kube.objects import Node
from mooring.kube.transport import Request, Response

_REFUSAL = (
    b'{"kind":"Status","status":"Failure","reason":"Forbidden","code":403,"message":"there is no API server"}'
)


class NoNode:
    """In the place of `Registration`: what this node uses need not be made known before it is used."""

    uid = ""
    node: Node | None = None

    def __init__(self, boot_id: str) -> None:
        self.boot_id = boot_id

    def published(self, volume: str) -> bool:
        return True

    async def publish(self) -> None:
        return


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
