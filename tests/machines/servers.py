"""Servers of storage on the machines' bridge, with a name space of their own: a script runs them there."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
from itertools import takewhile
from pathlib import Path

from mooring.node.bridge import BRIDGE

SERVES = b"serves\n"


class BridgedServer:
    """Runs a shell script that prints `serves` when it does. It is given `{address}` and `{directory}`, and
    has mounts of its own. Afterwards nothing of it is left."""

    def __init__(self, kind: str, address: str, script: str) -> None:
        self.address = address
        self.name = f"{kind[:3]}{os.getpid()}"
        self.directory = Path(tempfile.mkdtemp(prefix=f"mooring-{kind}-"))
        self._script = script
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        link, peer = self.name, f"{self.name}p"
        _run(f"ip netns add {self.name}")
        _run(f"ip link add {link} type veth peer name {peer} netns {self.name}")
        _run(f"ip link set {link} master {BRIDGE} up")
        for words in (f"addr add {self.address}/16 dev {peer}", f"link set {peer} up", "link set lo up"):
            _run(f"ip -n {self.name} {words}")
        script = self._script.replace("{address}", self.address).replace("{directory}", str(self.directory))
        command = ["ip", "netns", "exec", self.name, "unshare", "-m", "sh", "-c", script]
        self._process = subprocess.Popen(
            command, start_new_session=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        assert self._process.stdout is not None
        before = list(takewhile(lambda line: line != SERVES, iter(self._process.stdout.readline, b"")))
        assert self._process.poll() is None, before

    def run(self, *words: str) -> str:
        """A program in its network; its output."""
        command = ["ip", "netns", "exec", self.name, *words]
        done = subprocess.run(command, check=True, timeout=60, capture_output=True, text=True)
        return done.stdout.strip()

    def reachable(self, yes: bool) -> None:
        _run(f"ip link set {self.name} {'up' if yes else 'down'}")

    def stop(self) -> None:
        pids = subprocess.run(["ip", "netns", "pids", self.name], capture_output=True, text=True, check=False)
        for pid in pids.stdout.split():
            os.kill(int(pid), signal.SIGKILL)
        try:
            if self._process is not None:
                self._process.communicate(timeout=30)
        finally:
            subprocess.run(["ip", "netns", "delete", self.name], check=False)
            subprocess.run(["ip", "link", "delete", self.name], check=False, stderr=subprocess.DEVNULL)
        self.directory.rmdir()


def _run(words: str) -> None:
    subprocess.run(words.split(), check=True, timeout=20)
