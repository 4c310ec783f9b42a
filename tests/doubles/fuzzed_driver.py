"""A CSI driver that is asked anything: the right code, nothing executed, nothing outside its folders
touched."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Container, Iterable, Sequence
from pathlib import Path
from typing import Any

from csi_answers import code_of
from csi_messages import messages, nearly
from google.protobuf.message import Message
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mooring.csi.client import Client
from mooring.csi.errors import Code
from mooring.csi.rpc import Rpc
from mooring.mounts.table import read_mount_table


def world_outside(root: Path) -> tuple[Any, ...]:
    """What must not change: mounts that are not below the test's own folder, and marks that a command would
    leave."""
    mounts = {
        mount.mount_point for mount in read_mount_table() if not mount.mount_point.startswith(str(root))
    }
    return mounts, os.path.exists("/tmp/pwned"), sorted(os.listdir(root))


def _flags(request: Message) -> Iterable[str]:
    capability = getattr(request, "volume_capability", None)
    return capability.mount.mount_flags if capability is not None else ()


def _has_strange_flags(request: Message, known: Container[str]) -> bool:
    """Whether mount(8) may refuse the mount flags: the answer is then INTERNAL, with what it said."""
    return any(flag not in known for flag in _flags(request))


def fuzz(
    client: Client,
    rpcs: Iterable[Rpc[Any, Any]],
    good: Sequence[Message],
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
    known_flags = {flag for request in good for flag in _flags(request)}

    @settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    @given(asked)
    def ask(question: tuple[Rpc[Any, Any], Message]) -> None:
        code = asyncio.run(code_of(client.call(*question, timeout_s)))
        assert code in fine or (code is Code.INTERNAL and _has_strange_flags(question[1], known_flags))
        assert world_outside(root) == before

    ask()
