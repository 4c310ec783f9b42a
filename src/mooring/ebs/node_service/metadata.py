"""What a node must know of its own instance: from the instance metadata service (IMDS), or as an operator
says.

Only version 2 of the service is spoken: a token first, then questions with it. No credentials are asked for.
Nothing is guessed: an answer that does not come, or makes no sense, is an error that says what to do
(upstream fell back to other sources there, and then told a wrong limit of volumes: #2262, #2543).
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
"""Seconds for which a token is asked; the service's longest."""
TIMEOUT_S = 2.0
"""Of one request. The service is on the same host and answers within milliseconds."""
PAUSES_S = (0.25, 0.5, 1.0, 2.0)
"""Between tries."""

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
    """An EC2 instance, as its identity document describes it. What is empty is not known."""

    instance_id: str = ""
    instance_type: str = ""
    zone: str = ""
    region: str = ""


class Metadata(Protocol):
    """What an instance can be asked about itself. Raises MetadataError."""

    async def instance(self) -> Instance:
        """What does not change while it runs. Only the region may be empty: a node has no need of it."""
        ...

    async def network_interfaces(self) -> int:
        """How many are attached now."""
        ...

    async def boot_volumes(self) -> tuple[str, ...]:
        """The device names (`sdb`, `/dev/xvdba`) of the EBS volumes, without the root, that the instance had
        when it was started last. What is attached and detached afterwards does not change it."""
        ...


class Told(Metadata):
    """What an operator says, and for the rest what `behind` says. Without that, one network interface and no
    volumes beside the root are assumed: `--reserved-volume-attachments` says otherwise."""

    def __init__(self, instance: Instance, behind: Metadata | None) -> None:
        self._told = instance
        self._behind = behind

    async def instance(self) -> Instance:
        told = self._told
        if told.instance_id and told.instance_type and told.zone:
            return told
        if self._behind is None:
            raise MetadataError(
                f"the instance metadata service is not to be asked: tell the driver what is missing, {_missing(told)}"
            )
        found = await self._behind.instance()
        return Instance(
            told.instance_id or found.instance_id,
            told.instance_type or found.instance_type,
            told.zone or found.zone,
            told.region or found.region,
        )

    async def network_interfaces(self) -> int:
        return 1 if self._behind is None else await self._behind.network_interfaces()

    async def boot_volumes(self) -> tuple[str, ...]:
        return () if self._behind is None else await self._behind.boot_volumes()


class Imds(Metadata):
    """The instance metadata service at `endpoint`. Failed requests are tried again, for some seconds."""

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
        """One try. A token that is no longer good is forgotten, so that the next try gets a new one."""
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
    """An instance identity document. Raises MetadataError if it is none, or does not say all."""
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
    """How many network interfaces the service lists. Raises MetadataError if it lists none, which cannot
    be."""
    count = sum(bool(_MAC.fullmatch(line.strip())) for line in text.splitlines())
    if count == 0:
        raise MetadataError(
            "the instance metadata service lists no network interface. Say what volumes there may be with "
            "--volume-attach-limit"
        )
    return count


def _missing(told: Instance) -> str:
    flags = {"--instance-id": told.instance_id, "--instance-type": told.instance_type, "--zone": told.zone}
    return ", ".join(flag for flag, value in flags.items() if not value)
