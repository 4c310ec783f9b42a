"""What a node must know of its own instance: from the instance metadata service (IMDS), or from the operator.

Only version 2 of the service is used: a token first, then requests with it. The driver never requests
credentials. It does not guess: a missing or malformed answer is an error that says what to do (upstream fell
back to other sources and then reported a wrong limit of volumes: #2262, #2543).
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, cast

import aiohttp

from mooring.ebs.errors import MetadataError

TOKEN_S = 21600
"""The requested lifetime of a token in seconds; the longest that the service allows."""
TIMEOUT_S = 2.0
"""Time-out of one request. The service is on the same host and answers within milliseconds."""
PAUSES_S = (0.25, 0.5, 1.0, 2.0)
"""Pauses between tries, in seconds."""

_TOKEN = "/latest/api/token"  # a path, no token
_DOCUMENT = "/latest/dynamic/instance-identity/document"
_MACS = "/latest/meta-data/network/interfaces/macs/"
_BLOCK_DEVICES = "/latest/meta-data/block-device-mapping/"

_MAC = re.compile(r"[0-9a-f]{2}(:[0-9a-f]{2}){5}/?", re.IGNORECASE)
_EBS = re.compile(r"ebs\d+")
_INSTEAD = (
    "or tell the driver with --instance-id, --instance-type and --zone (EBS_INSTANCE_ID, EBS_INSTANCE_TYPE, EBS_ZONE), "
    "and AWS_REGION"
)


@dataclass(frozen=True)
class Instance:
    """An EC2 instance, as its identity document describes it. Unknown fields are empty."""

    instance_id: str = ""
    instance_type: str = ""
    zone: str = ""
    region: str = ""


class Metadata(Protocol):
    """A source of facts about the instance. Its methods raise MetadataError."""

    async def instance(self) -> Instance:
        """The facts that do not change while it runs. Only the region, which a node does not need, may be
        empty."""
        ...

    async def network_interfaces(self) -> int:
        """The number of network interfaces that are attached now."""
        ...

    async def boot_volumes(self) -> tuple[str, ...]:
        """The device names (`sdb`, `/dev/xvdba`) of the EBS volumes, without the root, that the instance had
        at its last start. Later attaches and detaches do not change this list."""
        ...


class Configured(Metadata):
    """The operator's values, and for missing ones those of `behind`. Without `behind`, one network interface
    and no volume but the root is assumed; `--reserved-volume-attachments` overrides that."""

    def __init__(self, instance: Instance, behind: Metadata | None) -> None:
        self._configured = instance
        self._behind = behind

    async def instance(self) -> Instance:
        configured = self._configured
        if configured.instance_id and configured.instance_type and configured.zone:
            return configured
        if self._behind is None:
            raise MetadataError(
                f"the instance metadata service is disabled: give the missing values by {_missing(configured)}"
            )
        discovered = await self._behind.instance()
        return Instance(
            configured.instance_id or discovered.instance_id,
            configured.instance_type or discovered.instance_type,
            configured.zone or discovered.zone,
            configured.region or discovered.region,
        )

    async def network_interfaces(self) -> int:
        return 1 if self._behind is None else await self._behind.network_interfaces()

    async def boot_volumes(self) -> tuple[str, ...]:
        return () if self._behind is None else await self._behind.boot_volumes()


class Imds(Metadata):
    """The instance metadata service at `endpoint`. Failed requests are retried for some seconds."""

    def __init__(self, endpoint: str) -> None:
        self._endpoint = endpoint.rstrip("/")
        self._token = ""
        self._instance: Instance | None = None

    async def instance(self) -> Instance:
        if self._instance is None:
            self._instance = parse_document(await self._get(_DOCUMENT))
        return self._instance

    async def network_interfaces(self) -> int:
        return parse_macs(await self._get(_MACS))

    async def boot_volumes(self) -> tuple[str, ...]:
        names = [name for name in (await self._get(_BLOCK_DEVICES)).split() if _EBS.fullmatch(name)]
        return tuple([(await self._get(_BLOCK_DEVICES + name)).strip() for name in names])

    # --- requests

    async def _get(self, path: str) -> str:
        """Raises MetadataError."""
        problem = ""
        for pause_s in (*PAUSES_S, None):
            try:
                status, text = await self._ask(path)
            except (aiohttp.ClientError, TimeoutError, OSError, UnicodeDecodeError) as error:
                problem = f"{type(error).__name__} {error}".strip()
            else:
                if status == 200:
                    return text
                problem = f"status {status}"
                if status in (403, 404):
                    break
            if pause_s is not None:
                await asyncio.sleep(pause_s)
        raise MetadataError(self._advice(path, problem))

    async def _ask(self, path: str) -> tuple[int, str]:
        """One try. After a 401 the token is dropped, so that the next try gets a new one."""
        timeout = aiohttp.ClientTimeout(total=TIMEOUT_S)
        async with aiohttp.ClientSession(timeout=timeout) as session:
            if not self._token:
                headers = {"X-aws-ec2-metadata-token-ttl-seconds": str(TOKEN_S)}
                async with session.put(
                    self._endpoint + _TOKEN, headers=headers, allow_redirects=False
                ) as reply:
                    if reply.status != 200:
                        return reply.status, ""
                    self._token = (await reply.text()).strip()
            headers = {"X-aws-ec2-metadata-token": self._token}
            async with session.get(self._endpoint + path, headers=headers, allow_redirects=False) as reply:
                if reply.status == 401:
                    self._token = ""
                return reply.status, await reply.text()

    def _advice(self, path: str, problem: str) -> str:
        where = f"the instance metadata service at {self._endpoint} does not answer {path} ({problem})"
        if problem == "status 403":
            switched_off = "it is switched off for this instance (MetadataOptions.HttpEndpoint)"
            return f"{where}: {switched_off}. Switch it on, {_INSTEAD}"
        if self._token:
            return f"{where}. Try again later, {_INSTEAD}"
        return (
            f"{where}: no token was given. For a container set the instance's hop limit to 2 or more "
            f"(MetadataOptions.HttpPutResponseHopLimit), or run it in the host's network, {_INSTEAD}"
        )


def parse_document(text: str) -> Instance:
    """Reads an instance identity document. Raises MetadataError if it is malformed or incomplete."""
    try:
        document: Any = json.loads(text)
    except ValueError as error:
        raise MetadataError(
            f"the instance identity document is not JSON ({error}): {_INSTEAD[3:]}"
        ) from error
    fields = cast("Mapping[str, Any]", document if isinstance(document, dict) else {})
    names = ("instanceId", "instanceType", "availabilityZone", "region")
    values = [fields.get(name) for name in names]
    if missing := [
        name for name, value in zip(names, values, strict=True) if not (isinstance(value, str) and value)
    ]:
        raise MetadataError(f"the instance identity document lacks {', '.join(missing)}: {_INSTEAD[3:]}")
    return Instance(*map(str, values))


def parse_macs(text: str) -> int:
    """The number of network interfaces in the service's list. Raises MetadataError for an empty list: every
    instance has one."""
    count = sum(bool(_MAC.fullmatch(line.strip())) for line in text.splitlines())
    if count == 0:
        raise MetadataError(
            "the instance metadata service lists no network interface. Say what volumes there may be with "
            "--volume-attach-limit"
        )
    return count


def _missing(configured: Instance) -> str:
    flags = {
        "--instance-id": configured.instance_id,
        "--instance-type": configured.instance_type,
        "--zone": configured.zone,
    }
    return ", ".join(flag for flag, value in flags.items() if not value)
