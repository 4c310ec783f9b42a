"""An API server that refuses some of what it is asked, for as long as a test wants: a quota, a right that was
taken away, an admission webhook, an object that is not valid any more."""

from __future__ import annotations

import json

from controller_stage import ControllerStage

from mooring.kube.transport import Request, Response, Transport
from mooring.simulation.parts.faulty_transport import FaultyTransport, Match

WHY = "denied by the policy of this cluster"


class Refusals:
    """Stands between the wire and the API server. What it refuses is in `refused`, as "METHOD path"."""

    def __init__(self, inner: Transport, match: Match, status: int, why: str = WHY) -> None:
        self._inner = inner
        self._match = match
        self._status = status
        self._why = why
        self.last = True
        self.refused: list[str] = []

    def end(self) -> None:
        """From now on everything is let through."""
        self.last = False

    async def send(self, request: Request) -> Response:
        if not (self.last and self._match(request)):
            return await self._inner.send(request)
        self.refused.append(f"{request.method} {request.path}")
        body = {"kind": "Status", "reason": "Refused", "message": self._why, "code": self._status}
        return Response(self._status, {}, json.dumps(body).encode())

    async def close(self) -> None:
        await self._inner.close()


def refuse(stage: ControllerStage, match: Match, status: int = 403, why: str = WHY) -> Refusals:
    """What matches is refused from now on."""
    return refuse_on(stage.wire, match, status, why)


def refuse_on(wire: FaultyTransport, match: Match, status: int = 403, why: str = WHY) -> Refusals:
    """The same to one client: the user that it is may not do it."""
    refusals = Refusals(wire.inner, match, status, why)
    wire.inner = refusals
    return refusals
