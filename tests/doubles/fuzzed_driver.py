"""A CSI driver that is asked anything: the right code, nothing executed, nothing outside its folders
touched."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Container, Iterable
from pathlib import Path
from typing import Any

from csi_messages import messages, nearly
from google.protobuf.message import Message
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mooring.csi.client import Client
from mooring.csi.errors import Code, CsiError
from mooring.csi.rpc import Rpc
from mooring.mounts.table import read_mount_table


def world_outside(root: Path) -> tuple[Any, ...]:
    """What must not change: mounts of the driver's disks and folders outside the test's own folder, and marks
    that a command would leave. Other mounts of the machine come and go without the driver."""
    mounts = {
        mount.mount_point
        for mount in read_mount_table()
        if not mount.mount_point.startswith(str(root))
        and (mount.root.startswith(str(root)) or _backing_file(mount.device).startswith(str(root)))
    }
    return mounts, os.path.exists("/tmp/pwned"), sorted(os.listdir(root))


def _backing_file(device: tuple[int, int]) -> str:
    """The file behind a loop device; "" for any other device."""
    major, minor = device
    try:
        return Path(f"/sys/dev/block/{major}:{minor}/loop/backing_file").read_text()
    except OSError:
        return ""


async def _answer(call: Awaitable[Any]) -> tuple[Code, str]:
    try:
        await call
    except CsiError as error:
        return error.code, error.message
    return Code.OK, ""


def fuzz(
    client: Client,
    rpcs: Iterable[Rpc[Any, Any]],
    good: Iterable[Message],
    known: Iterable[str],
    *,
    root: Path,
    fine: Container[Code],
    timeout_s: float,
) -> None:
    """Asks 300 times: what is nearly one of the `good` requests, or made of `known` words and of evil
    ones."""
    words, by_type = tuple(known), {type(request): request for request in good}
    asked = st.sampled_from(list(rpcs)).flatmap(
        lambda rpc: st.tuples(
            st.just(rpc),
            nearly(by_type[rpc.request], *words) if rpc.request in by_type else messages(rpc.request, *words),
        )
    )
    before = world_outside(root)

    @settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    @given(asked)
    def ask(question: tuple[Rpc[Any, Any], Message]) -> None:
        code, message = asyncio.run(_answer(client.call(*question, timeout_s)))
        a_tool_refused = (
            code is Code.INTERNAL and "failed with exit status" in message
        )  # what mount(8) says, say
        assert code in fine or a_tool_refused, f"{code}: {message}\n{question}"
        assert world_outside(root) == before

    ask()
