"""Requests to the API of a storage's own controller: JSON over HTTPS, for plugins that ask one.

Guarantees: each request ends within its deadline; no more than `ANSWER_BYTES` of an answer are read; no
redirect is followed, no proxy of the environment asked, no cookie kept; what a server says is quoted in one
short printable line, and its secrets are not. A request that was certainly not carried out raises NotAsked or
StorageRefused; whatever is not certain, OutcomeUnknown.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

import aiohttp
import msgspec

from mooring.mounts.blocking import blocking
from mooring.volumes.errors import NotAsked, OutcomeUnknown, StorageRefused

ANSWER_BYTES, SAID_CHARACTERS = 4 << 20, 200
DEADLINE_S = 30.0

_T = TypeVar("_T")


class RefusedBy(StorageRefused):
    """The server's answer says no; `status` is that of HTTP."""

    def __init__(self, message: str, status: int) -> None:
        self.status = status
        super().__init__(message)


class _Said(msgspec.Struct):
    """What the servers here say with a refusal."""

    message: str = ""
    description: str = ""
    code: str = ""


def _always() -> None:
    """Who holds no Lease may."""


@dataclass(frozen=True)
class Api:
    """One server's API below `url`, which ends without a slash. `context` reads this node's certificates anew
    for each request, as they are replaced. `credentials`: what to look at when it refuses them. `may_order`
    raises where this process may change nothing any more: it is asked just before a request that would."""

    url: str
    service: str
    credentials: str
    context: Callable[[], ssl.SSLContext]
    headers: Callable[[], Mapping[str, str]] = field(default=dict[str, str])
    deadline_s: float = DEADLINE_S
    may_order: Callable[[], None] = _always

    async def ask(self, method: str, path: str, kind: type[_T], body: object = None) -> _T:
        """The answer, of that kind. `path` begins with a slash, and is made of checked names alone."""
        status, content = await self._answer(method, path, body)
        if not 200 <= status < 300:
            raise self._failed(status, content, f"{method} {path}")
        return read(content, kind, f"{self.service} at {self.url} answers {method} {path}")

    async def _answer(self, method: str, path: str, body: object) -> tuple[int, bytes]:
        try:
            context, headers = await blocking(self.context), dict(await blocking(self.headers))
        except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
            raise NotAsked(
                f"{self.service} is not asked, because its credentials on this machine cannot be read "
                f"({said(str(error))}): look at {self.credentials}"
            ) from None
        if method != "GET":
            self.may_order()
        try:
            async with asyncio.timeout(self.deadline_s):
                return await self._send(method, path, body, context, headers)
        except aiohttp.ClientConnectorError as error:
            raise NotAsked(f"{self.service} does not answer at {self.url}: {said(str(error))}") from None
        except TimeoutError:
            raise OutcomeUnknown(
                f"{self.service} at {self.url} has not answered {method} {path} within {self.deadline_s:g} s"
            ) from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise OutcomeUnknown(
                f"{self.service} at {self.url} broke off at {method} {path} ({said(str(error))}): look at it, and at "
                f"{self.credentials}"
            ) from None

    async def _send(
        self, method: str, path: str, body: object, context: ssl.SSLContext, headers: dict[str, str]
    ) -> tuple[int, bytes]:
        data = None if body is None else msgspec.json.encode(body)
        headers = {**headers, **({} if data is None else {"Content-Type": "application/json"})}
        async with (
            aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar(), timeout=_OWN) as session,
            session.request(
                method, self.url + path, data=data, headers=headers, ssl=context, allow_redirects=False
            ) as answer,
        ):
            content = b""
            while part := await answer.content.read(ANSWER_BYTES + 1 - len(content)):
                content += part
            if len(content) > ANSWER_BYTES:
                raise ValueError(f"more than {ANSWER_BYTES} bytes")
            return answer.status, content

    def _failed(self, status: int, content: bytes, what: str) -> StorageRefused | OutcomeUnknown:
        quoted = refusal(content)
        if status in (401, 403):
            return RefusedBy(
                f"{self.service} at {self.url} refuses this machine ({status}{quoted}): look at {self.credentials}",
                status,
            )
        if 400 <= status < 500 and status != 408:
            return RefusedBy(f"{self.service} at {self.url} refuses {what} ({status}{quoted})", status)
        return OutcomeUnknown(f"{self.service} at {self.url} answers {what} with {status}{quoted}")


_OWN = aiohttp.ClientTimeout(total=None)  # the deadline is asyncio's


def read(content: bytes, kind: type[_T], what: str) -> _T:
    """The answer, of that kind. Raises OutcomeUnknown, with `what` answers so."""
    try:
        return msgspec.json.decode(content, type=kind)
    except (msgspec.MsgspecError, RecursionError, ValueError) as error:
        raise OutcomeUnknown(f"{what} with what it should not: {said(str(error))}") from None


def refusal(content: bytes) -> str:
    """What an answer says of why, after a colon; "" if it says nothing that is understood."""
    try:
        found = msgspec.json.decode(content, type=_Said)
    except (msgspec.MsgspecError, RecursionError, ValueError):
        return ""
    words = said(found.message or found.description or found.code)
    return f": {words}" if words else ""


def said(text: str) -> str:
    """Words from outside: one short line of printable characters."""
    line = " ".join(
        "".join(each if each.isprintable() else " " for each in text[: SAID_CHARACTERS * 4]).split()
    )
    return line[:SAID_CHARACTERS]
