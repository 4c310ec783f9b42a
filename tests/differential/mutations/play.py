"""Plays mutations to a server: what each is answered, as status code and field of the first cause."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any, NamedTuple

import aiohttp
from tests.differential.mutations.draw import Mutation, applied
from tests.differential.mutations.samples import APART, NAMESPACE, Obj, samples
from tests.differential.player import Send

_DRY = "?dryRun=All"
_JSON = {"content-type": "application/json"}
_CREATED, _EXISTS = 201, 409
_FELL = 0
"""The status of a request whose connection is closed without an answer: Go code has panicked."""


class Outcome(NamedTuple):
    """The answer to a mutation. `message` is for people, and not compared."""

    status: int
    field: str
    message: str = ""

    def agrees(self, other: Outcome) -> bool:
        return (self.status, self.field) == (other.status, other.field)

    def __str__(self) -> str:
        return f"{self.status} {self.field}".rstrip()


class Rejected(Exception):
    """A sample that a server does not take as valid."""


async def prepare(send: Send) -> dict[str, Obj]:
    """Create every sample, and read them back: updates start from what the server made of them."""
    for name in (NAMESPACE, APART):
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        await _sent(send, "POST", "/api/v1/namespaces", namespace)
    refused: list[str] = []
    for sample in samples().values():
        status, answer = await _sent(send, "POST", sample.collection, sample.obj)
        if status not in (_CREATED, _EXISTS):
            refused.append(f"{sample.name}: {status} {answer.get('message')}")
        if sample.obj["kind"] == "CustomResourceDefinition":
            await _established(send, sample.path)
    if refused:
        raise Rejected("\n".join(refused))
    return {name: (await _sent(send, "GET", sample.path, None))[1] for name, sample in samples().items()}


async def _established(send: Send, path: str) -> None:
    """Wait until the custom kind of a definition is served; the real server needs a moment."""
    for _ in range(100):
        _, definition = await _sent(send, "GET", path, None)
        conditions = (definition.get("status") or {}).get("conditions") or ()
        if any(each["type"] == "Established" and each["status"] == "True" for each in conditions):
            return
        await asyncio.sleep(0.1)


async def play(mutations: Sequence[Mutation], send: Send, *, at_once: int = 1) -> list[Outcome]:
    """The outcome of each mutation, in their order. Nothing is changed: every request is a dry run."""
    stored = await prepare(send)
    gate = asyncio.Semaphore(at_once)

    async def outcome(mutation: Mutation) -> Outcome:
        async with gate:
            return await _outcome(mutation, send, stored)

    return await asyncio.gather(*map(outcome, mutations))


async def _outcome(mutation: Mutation, send: Send, stored: dict[str, Obj]) -> Outcome:
    sample = samples()[mutation.sample]
    if mutation.verb == "create":
        status, answer = await _sent(send, "POST", sample.collection + _DRY, applied(sample.obj, mutation))
        status = _CREATED if status == _EXISTS else status
    else:
        status, answer = await _sent(
            send, "PUT", sample.path + _DRY, applied(stored[mutation.sample], mutation)
        )
        if status == _EXISTS:
            _, stored[mutation.sample] = await _sent(send, "GET", sample.path, None)
            status, answer = await _sent(
                send, "PUT", sample.path + _DRY, applied(stored[mutation.sample], mutation)
            )
    if _FELL < status < 400:
        return Outcome(status, "")
    causes = (answer.get("details") or {}).get("causes") or [{}]
    return Outcome(status, causes[0].get("field", ""), str(answer.get("message", ""))[:300])


async def _sent(send: Send, method: str, path: str, body: Any) -> tuple[int, Obj]:
    headers, data = (_JSON, json.dumps(body).encode()) if body is not None else ({}, b"")
    for last in (False, True):
        try:
            status, answer = await send(method, path, headers, data)
            break
        except aiohttp.ClientConnectionError as error:  # an idle connection was closed, or the handler fell
            if last:
                return _FELL, {"message": f"no answer: {error}"}
    try:
        return status, json.loads(answer)
    except ValueError:
        return status, {"message": answer.decode(errors="replace")}
