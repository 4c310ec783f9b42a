"""A network of the test's own, so that clusters on this host and tests do not see one another."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from mooring.mounts import blocking
from mooring.node.supervisor import syscalls


@pytest.fixture(autouse=True)
def network_namespace(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """This process is in a new network namespace; what is made there goes with it. A thread is in that in
    which it was begun, so there are new ones."""
    before = os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    syscalls.unshare(syscalls.CLONE_NEWNET)
    try:
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
        with ThreadPoolExecutor(2) as pool:
            monkeypatch.setattr(blocking, "_pool", pool)
            yield
    finally:
        syscalls.setns(before, syscalls.CLONE_NEWNET)
        os.close(before)
