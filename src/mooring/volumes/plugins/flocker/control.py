"""What is asked of Flocker's control service: which dataset, which node, and that it moves there."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Collection, Mapping
from functools import partial

from mooring.volumes.errors import OutcomeUnknown, VolumeError
from mooring.volumes.plugins.flocker.source import (
    Configured,
    Dataset,
    Existing,
    NodeState,
    node_of,
    primary_of,
    service,
    uuid_of,
)
from mooring.volumes.plugins.rest import Api

SERVICE = "localhost:4523"
FILES = {
    "caFile": "/etc/flocker/cluster.crt",
    "certFile": "/etc/flocker/apiuser.crt",
    "keyFile": "/etc/flocker/apiuser.key",
}
"""Settings, with upstream's defaults."""
MOVED_S, POLL_S = 120.0, 2.0


def api(settings: Mapping[str, str]) -> Api:
    """The service by these settings. Raises PluginError."""
    ca, certificate, key = (settings.get(name, default) for name, default in FILES.items())
    return Api(
        service(settings.get("controlService", SERVICE)),
        "Flocker's control service",
        f"{ca}, {certificate} and {key}",
        partial(_context, ca, certificate, key),
    )


def _context(ca: str, certificate: str, key: str) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=ca)
    context.load_cert_chain(certificate, key)
    return context


class Control:
    """The service. `moved_s` is how long a dataset has to come."""

    def __init__(self, of: Api, moved_s: float = MOVED_S, poll_s: float = POLL_S) -> None:
        self._api, self._moved_s, self._poll_s = of, moved_s, poll_s

    async def bring(self, wanted: Dataset, addresses: Collection[str]) -> str:
        """Has the dataset on the node with one of these addresses; its UUID. Idempotent. Raises VolumeError;
        OutcomeUnknown: it may come still."""
        configured = (
            [] if wanted.uuid else await self._api.ask("GET", "/configuration/datasets", list[Configured])
        )
        uuid = uuid_of(wanted, configured)
        node = node_of(addresses, await self._api.ask("GET", "/state/nodes", list[NodeState]))
        at = await self._at(uuid)
        if at is None:
            raise VolumeError(f"Flocker has no {wanted}: create it, or correct the volume's flocker source")
        if at != node:
            await self._api.ask("POST", f"/configuration/datasets/{uuid}", Configured, {"primary": node})
            await self._come(uuid, node, wanted)
        return uuid

    async def _at(self, uuid: str) -> str | None:
        return primary_of(uuid, await self._api.ask("GET", "/state/datasets", list[Existing]))

    async def _come(self, uuid: str, node: str, wanted: Dataset) -> None:
        """A service that does not answer meanwhile is asked again: it has been told already."""
        problem = "it is not there yet"
        try:
            async with asyncio.timeout(self._moved_s):
                while True:
                    try:
                        if await self._at(uuid) == node:
                            return
                    except VolumeError as error:
                        problem = str(error)
                    await asyncio.sleep(self._poll_s)
        except TimeoutError:
            raise OutcomeUnknown(
                f"Flocker was told to move {wanted} to this node, and has not within {self._moved_s:g} s ({problem}): "
                f"is it used on another node? It is looked up again"
            ) from None
