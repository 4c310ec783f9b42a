"""The lab's network: the process that makes it lives in it, as do all that it starts; nodes hang on its
bridge. No packet gets out or in."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mooring.node.supervisor import syscalls

API_HOST = "10.77.0.1"
BRIDGE = "lab0"
OUTSIDE = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
"""The network in which the tests were started."""


def outside() -> list[str]:
    """What a command line begins with to run there."""
    return ["nsenter", f"--net=/proc/{os.getpid()}/fd/{OUTSIDE}", "--"]


def node_address(number: int) -> str:
    return f"10.77.0.{10 + number}"


def pod_range(number: int) -> str:
    return f"10.78.{number}.0/24"


@contextmanager
def own_network() -> Iterator[None]:
    """This thread, and the processes that it starts from now on, are in a new network until the block
    ends."""
    before = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
    try:
        syscalls.unshare(syscalls.CLONE_NEWNET)
        ip("link", "set", "lo", "up")
        ip("link", "add", BRIDGE, "type", "bridge")
        ip("address", "add", f"{API_HOST}/24", "dev", BRIDGE)
        ip("link", "set", BRIDGE, "up")
        Path("/proc/sys/net/ipv4/ip_forward").write_text("1")
        yield
    finally:
        syscalls.setns(before, syscalls.CLONE_NEWNET)
        os.close(before)


def connect(number: int, pid: int) -> None:
    """Links the network of a process, which is a node's, to the bridge."""
    words = ("link", "add", _link(number), "type", "veth", "peer", "name", "eth0", "netns", str(pid))
    ip(*words)
    ip("link", "set", _link(number), "master", BRIDGE)
    ip("link", "set", _link(number), "up")
    ip("route", "replace", pod_range(number), "via", node_address(number))


def cut(number: int) -> None:
    """No packet passes between the node and the rest."""
    ip("link", "set", _link(number), "down")


def heal(number: int) -> None:
    ip("link", "set", _link(number), "up")


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


def _link(number: int) -> str:
    return f"node-{number}"
