"""Whom a BMC would switch off, by its own word: read before anything is ordered."""

from __future__ import annotations

import asyncio
import json
import ssl
from base64 import b64encode
from collections.abc import Mapping
from typing import Any, cast
from urllib.parse import urlsplit

import aiohttp

from mooring.fence.agents.guid import guid_of
from mooring.fence.programs import Hidden, Run

ANSWER_BYTES = 1 << 20
_PASSED_ON = {"ip": "-H", "ipport": "-p", "username": "-U", "cipher": "-C", "privlvl": "-L"}


class NoIdentity(Exception):
    """The device does not answer, or has no word for it. `answered`: whether it spoke at all."""

    def __init__(self, message: str, *, answered: bool) -> None:
        super().__init__(message)
        self.answered = answered


async def ipmi_guid(given: Mapping[str, str], deadline: float, run: Run) -> dict[str, str]:
    """`guid`, as ipmitool tells it. Raises NoIdentity."""
    interface = "lan" if given.get("lanplus", "1").lower() in ("0", "no", "off", "false") else "lanplus"
    words = ["ipmitool", "-I", interface, "-N", given.get("ipmitool_timeout", "2")]
    for name, flag in _PASSED_ON.items():
        words += [flag, given[name]] if name in given else []
    with Hidden(given.get("password", "")) as password:
        ended = await run([*words, "-f", password.path, "mc", "guid"], deadline=deadline)
    guid = guid_of(ended.output)
    if ended.status != 0 or not guid:
        why = (ended.errors.strip().splitlines() or [ended.words()])[0][:200]
        raise NoIdentity(f"ipmitool mc guid: {why}", answered=ended.status == 0)
    return {"guid": guid}


async def redfish_system(given: Mapping[str, str], deadline: float, run: Run) -> dict[str, str]:
    """`systemUUID` and `system`, the path of the one system that this BMC is for. Raises NoIdentity."""
    _ = run
    try:
        async with asyncio.timeout(deadline), aiohttp.ClientSession() as session:
            path = given.get("systems_uri") or await _only_system(session, given)
            system = await _get(session, given, path)
    except (aiohttp.ClientError, OSError, TimeoutError, ValueError) as error:
        answered = isinstance(error, aiohttp.ClientResponseError | ValueError)
        raise NoIdentity(f"Redfish: {type(error).__name__}: {error}"[:300], answered=answered) from error
    told = system.get("UUID")
    return {"system": path, **({"systemUUID": told} if isinstance(told, str) and told else {})}


async def _only_system(session: aiohttp.ClientSession, given: Mapping[str, str]) -> str:
    root = await _get(session, given, given.get("redfish_uri", "/redfish/v1"))
    systems: Any = root.get("Systems")
    path: Any = cast("dict[str, Any]", systems).get("@odata.id") if isinstance(systems, dict) else None
    members: Any = (await _get(session, given, str(path))).get("Members")
    found = [
        str(cast("dict[str, Any]", each).get("@odata.id", ""))
        for each in (cast("list[Any]", members) if isinstance(members, list) else [])
        if isinstance(each, dict)
    ]
    if len(found) != 1:
        raise ValueError(f"it is for {len(found)} systems: say which by systems_uri ({', '.join(found)})")
    return found[0]


async def _get(session: aiohttp.ClientSession, given: Mapping[str, str], path: str) -> dict[str, Any]:
    if not path.startswith("/") or urlsplit(path).netloc:
        raise ValueError(f"{path[:100]!r} is no path of a Redfish resource")
    host = f"[{given['ip']}]" if ":" in given["ip"] else given["ip"]
    who = f"{given['username']}:{given['password']}"
    answer = await session.get(
        f"https://{host}:{given.get('ipport', '443')}{path}",
        headers={"Authorization": f"Basic {b64encode(who.encode()).decode()}", "OData-Version": "4.0"},
        ssl=_trust(given),
        allow_redirects=False,
        raise_for_status=True,
    )
    body = bytearray()
    while len(body) <= ANSWER_BYTES and (piece := await answer.content.read(ANSWER_BYTES)):
        body += piece
    if len(body) > ANSWER_BYTES:
        raise ValueError(f"its answer has more than {ANSWER_BYTES} bytes")
    found: Any = json.loads(body)
    if not isinstance(found, dict):
        raise ValueError("its answer is no object")
    return cast("dict[str, Any]", found)


def _trust(given: Mapping[str, str]) -> ssl.SSLContext | bool:
    if given.get("ssl_insecure", "0").lower() in ("1", "yes", "on", "true"):
        return False
    return ssl.create_default_context(cadata=given["ca_certificate"]) if "ca_certificate" in given else True
