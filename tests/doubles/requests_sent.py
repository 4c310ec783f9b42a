"""What a controller asks of the API server, and what it marks and tells."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable
from contextlib import suppress
from itertools import count
from typing import Any
from unittest.mock import ANY

import pytest
from controller_stage import ControllerStage

from mooring.kube.errors import Unreachable
from mooring.kube.objects import Event
from mooring.kube.transport import Request
from mooring.simulation.parts.faulty_transport import FaultyTransport, Match

CHECKED = {"uid": ANY, "resourceVersion": ANY}
"""Metadata of a patch that is refused upon anything but what was read."""
_HASH = re.compile(r"-[a-z0-9]{10}\b|(?<=pvc)-[0-9a-f-]{36}")
Write = tuple[str, str, Any]
"""Method; path, without group and namespace; and body."""
Step = Callable[[], Awaitable[None]]


def writes(wire: FaultyTransport) -> list[Write]:
    """Every write from now on, as it is sent."""
    found: list[Write] = []

    def note(request: Request) -> bool:
        if request.method != "GET":
            path = re.sub(r"^.*/v1/(namespaces/[^/]+/)?", "", request.path)
            found.append((request.method, path, json.loads(request.body)))
        return False

    wire.lose(note)
    return found


def brief(write: Write) -> str:
    """A write with its preconditions: upon the same object, or upon that unchanged; without hashes."""
    method, path, body = write
    name = f" {body['metadata']['name']}" if method == "POST" else ""
    given = body["preconditions"] if method == "DELETE" else body["metadata"]
    condition = ", unchanged" if "resourceVersion" in given else ", the same" if "uid" in given else ""
    return _HASH.sub("", f"{method} {path}{name}{condition}")


def nth(number: int) -> Match:
    """Matches the request of that number, the first being 0."""
    numbers = count()
    return lambda request: next(numbers) == number


def lose_each(
    play: Callable[..., Any],
    begin: Callable[[ControllerStage], Awaitable[Step]],
    but: tuple[type[Exception], ...] = (),
) -> None:
    """Plays the step that `begin` leads to, and then again, with one of its requests after the other lost: it
    must fail each time, so that it comes back. `but`: errors in which the step itself may end."""

    async def story(stage: ControllerStage, lost: int | None = None) -> int:
        step = await begin(stage)
        before = len(stage.wire.sent)
        if lost is None:
            with suppress(*but):
                await step()
            return len(stage.wire.sent) - before
        stage.wire.lose(nth(lost))
        with pytest.raises(Unreachable):
            await step()
        return 0

    for lost in range(play(story)):
        play(lambda stage, lost=lost: story(stage, lost))


async def marked(controller: Any) -> list[Any]:
    """The keys that want work, which is done with that."""
    keys: list[Any] = []
    while len(controller.queue):
        keys.append(await controller.queue.get())
        controller.queue.done(keys[-1])
    return keys


async def told(stage: ControllerStage, controller: Any) -> list[tuple[str, str, str, str]]:
    """The Events: kind and name of what they are about, type, reason, message."""
    writing = asyncio.create_task(controller.recorder.run())
    await controller.recorder.flush()
    writing.cancel()
    return sorted(
        (f"{each.involved_object.kind} {each.involved_object.name}", each.type, each.reason, each.message)
        for each in (await stage.api.list(Event)).items
    )
