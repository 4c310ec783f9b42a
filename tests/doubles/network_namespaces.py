"""Network namespaces on the bridge of pods, in the place of machines and pods: a server answers on each."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from mooring.cluster.machines.guest.network import INTERFACE
from mooring.cluster.machines.network import MachineNetwork
from mooring.node import bridge
from mooring.node.runtime import PodNetwork

PORT = 8080
_SERVE = """
import socketserver, sys
class Echo(socketserver.BaseRequestHandler):
    def handle(self):
        while data := self.request.recv(100):
            self.request.sendall(data)
socketserver.ThreadingTCPServer.allow_reuse_address = True
socketserver.ThreadingTCPServer((sys.argv[1], int(sys.argv[2])), Echo).serve_forever()
"""
_CONNECT = """
import socket, sys
with socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=float(sys.argv[3])) as connection:
    connection.sendall(b"x")
    assert connection.recv(1) == b"x"
"""


def ip(*words: str) -> str:
    return subprocess.run(["ip", *words], capture_output=True, text=True, check=True).stdout


class Server:
    """Says back what it hears, until it is closed."""

    def __init__(self, address: str, port: int = PORT, python: Sequence[str] = (sys.executable,)) -> None:
        self._process = subprocess.Popen([*python, "-c", _SERVE, address, str(port)])

    def close(self) -> None:
        self._process.kill()
        self._process.wait()


class Namespace:
    """A network namespace with a server; its `interface` is plugged into the bridge by the link `outside`."""

    def __init__(self, outside: str, interface: str) -> None:
        self.name = f"motest-{os.getpid()}-{outside}"
        ip("netns", "add", self.name)
        ip("link", "add", outside, "type", "veth", "peer", "name", interface, "netns", self.name)
        ip("link", "set", outside, "master", bridge.BRIDGE, "up")
        self._server = Server("", PORT, self.python)

    @property
    def python(self) -> list[str]:
        """What runs a program of Python in it."""
        return ["ip", "netns", "exec", self.name, sys.executable]

    def run(self, *words: str) -> str:
        return subprocess.run([*self.python, *words], capture_output=True, text=True, check=True).stdout

    def close(self) -> None:
        self._server.close()
        ip("netns", "delete", self.name)


class StandIn(Namespace):
    """In the place of a machine: its interface is plugged in where the tap would be."""

    def __init__(self, root: Path, network: MachineNetwork) -> None:
        self.link = f"v{network.tap}"
        super().__init__(self.link, INTERFACE)
        self.root, self.network = root, network

    def configure(self) -> None:
        words = (str(self.root), str(self.network.address), str(self.network.addresses))
        self.run("-m", "mooring.cluster.machines.guest.network", *words)


class StandInPod(Namespace):
    """In the place of a pod of a node of this host."""

    def __init__(self, network: PodNetwork) -> None:
        super().__init__(network.host_interface, "eth0")
        self.address = network.address
        for command in (f"address add {network.address}/{network.prefix} dev eth0", "link set eth0 up"):
            ip("-n", self.name, *command.split())


def answer(
    python: Sequence[str], address: object, port: int = PORT, patience_s: float = 3
) -> subprocess.CompletedProcess[str]:
    """How it went when a server was asked, once."""
    command = [*python, "-c", _CONNECT, str(address), str(port), str(patience_s)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def reaches(python: Sequence[str], address: object, port: int = PORT) -> bool:
    """Whether a server answers; asked some times, while it starts."""
    for _ in range(10):
        if answer(python, address, port).returncode == 0:
            return True
        time.sleep(0.2)
    return False


def is_silent(python: Sequence[str], address: object, port: int = PORT) -> bool:
    """Whether there is no answer, also none to the question which hardware has that address, as with a cable
    that was pulled. A refusal is an AssertionError."""
    for _ in range(2):
        done = answer(python, address, port, patience_s=1)
        if done.returncode == 0:
            return False
    assert "TimeoutError" in done.stderr or "No route to host" in done.stderr, done.stderr
    return True
