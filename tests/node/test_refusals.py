"""What the API server, or a disk, refuses an agent is told on the pod that waits for it, and is not asked for
without end."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Callable
from typing import Any

import pytest

from mooring.kube.errors import ApiError, Forbidden, ServerError
from mooring.kube.transport import Request

Play = Callable[[Any], None]
FULL = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
WHY = "denied by the policy of this cluster"


def refusing(method: str, path: str, error: ApiError | None = None) -> Callable[[Request], Any]:
    """What a gate raises of such requests."""

    def gate(request: Request) -> Any:
        if request.method == method and path in request.path:
            raise error or Forbidden(f"{method} {path}: {WHY}", status=403)

    return gate


async def is_told(stage: Any, reason: str, why: str) -> bool:
    return any(code == reason and why in message for code, message in await stage.events())


@pytest.mark.parametrize("error", [FULL, PermissionError(errno.EROFS, "Read-only file system")])
def test_a_pod_says_that_its_sandbox_cannot_be_stored(play: Play, error: OSError):
    async def story(stage: Any) -> None:
        await stage.start()
        stage.machine.failures["start-sandbox"] = error
        await stage.create_pod()
        await stage.until(lambda: is_told(stage, "FailedCreatePodSandBox", str(error)))
        stage.machine.failures.clear()
        await stage.until(lambda: is_running(stage))

    play(story)


def test_a_pod_says_that_its_claim_may_not_be_read(play: Play):
    async def story(stage: Any) -> None:
        await stage.start()
        stage.gate = refusing("GET", "persistentvolumeclaims/c")
        volume = {"name": "data", "persistentVolumeClaim": {"claimName": "c"}}
        await stage.create_pod(volumes=[volume])
        await stage.until(lambda: is_told(stage, "FailedMount", WHY))

    play(story)


def test_a_pod_says_that_its_image_cannot_be_unpacked(play: Play, monkeypatch: pytest.MonkeyPatch):
    async def full(self: Any, image: str) -> None:
        raise FULL

    monkeypatch.setattr("mooring.node.images.store.ImageStore.prepare", full)

    async def story(stage: Any) -> None:
        await stage.start()
        await stage.create_pod()

        async def waits() -> bool:
            statuses = (await stage.pod()).status.container_statuses
            states = [each.state.waiting for each in statuses]
            return [(each.reason, each.message) for each in states if each] == [("ErrImagePull", str(FULL))]

        await stage.until(waits)
        assert await is_told(stage, "Failed", str(FULL))

    play(story)


def test_a_status_that_is_refused_is_written_ever_more_seldom_and_the_pod_says_so(play: Play):
    async def story(stage: Any) -> None:
        await stage.start()
        tried: list[str] = []
        gate = refusing("PATCH", "pods/web-0/status")

        def counting(request: Request) -> Any:
            try:
                gate(request)
            except Forbidden:
                tried.append(request.path)
                raise

        stage.gate = counting
        await stage.create_pod()
        await stage.until(lambda: is_told(stage, "FailedStatusUpdate", WHY))
        await asyncio.sleep(100)
        tried.clear()
        await asyncio.sleep(600)
        assert 0 < len(tried) < 10
        stage.gate = lambda request: None
        await asyncio.sleep(125)
        assert await stage.phase() == "Running"

    play(story)


def test_a_status_that_finds_no_answer_is_written_as_soon_as_there_is_one(play: Play):
    async def story(stage: Any) -> None:
        await stage.start()
        stage.gate = refusing("PATCH", "pods/web-0/status", ServerError("no quorum", status=500))
        await stage.create_pod()
        await asyncio.sleep(600)
        stage.gate = lambda request: None
        await asyncio.sleep(2.1)
        assert await stage.phase() == "Running"

    play(story)


async def is_running(stage: Any) -> bool:
    return await stage.phase() == "Running"
