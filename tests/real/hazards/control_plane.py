"""The processes of the control plane: the controllers under test, each behind a proxy, and the rest of
upstream's.

A controller under test is given nothing but a kubeconfig.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.real.hazards.proxy import Proxy, proxy
from tests.real.hazards.stage import HazardCluster
from tests.real.server import HOST, RealServer, free_ports

from mooring.apiserver.data_directory import write_kubeconfig
from mooring.cluster.processes import mooring
from mooring.kube.client import Client
from mooring.kube.http import HttpTransport
from mooring.kube.tls import Trust


@dataclass(frozen=True)
class ControllerProgram:
    """How a process of the control plane is started: from the folder of the real programs, and the
    kubeconfig."""

    name: str
    command: Callable[[Path, Path], list[str]]


def _manager(*flags: str) -> Callable[[Path, Path], list[str]]:
    def command(programs: Path, kubeconfig: Path) -> list[str]:
        own = [f"--kubeconfig={kubeconfig}", "--leader-elect=false", f"--bind-address={HOST}", *flags]
        ports = [f"--secure-port={free_ports(1)[0]}", f"--cert-dir={kubeconfig.with_suffix('.certificates')}"]
        return [str(programs / "kube-controller-manager"), *own, *ports]

    return command


def _mooring(*flags: str) -> Callable[[Path, Path], list[str]]:
    command = mooring("controller", "--controllers=attachdetach", *flags)
    return lambda programs, kubeconfig: [*command, "--kubeconfig", str(kubeconfig)]


_ATTACH_DETACH = "persistentvolume-attach-detach-controller"
REST = ControllerProgram(
    "rest", _manager(f"--controllers=*,-{_ATTACH_DETACH}", "--kube-api-qps=500", "--kube-api-burst=1000")
)
"""All of upstream's controllers but attach/detach."""
UPSTREAM = ControllerProgram("upstream", _manager(f"--controllers={_ATTACH_DETACH}"))
UPSTREAM_NO_FORCE = ControllerProgram(
    "upstream-no-force", _manager(f"--controllers={_ATTACH_DETACH}", "--disable-force-detach-on-timeout")
)
MOORING = ControllerProgram("mooring", _mooring())
MOORING_ELECTED = ControllerProgram("mooring-elected", _mooring("--leader-elect=true"))


class Running:
    """A process of the control plane that can be killed and started again, by several scenarios together:
    `parties` of them must ask for it before it is done."""

    parties = 1

    def __init__(
        self, controller: ControllerProgram, programs: Path, folder: Path, way: Proxy, name: str
    ) -> None:
        self.controller = controller
        self._programs = programs
        self._kubeconfig = folder / f"{name}.kubeconfig"
        write_kubeconfig(self._kubeconfig, way.url, token="", authority=b"")
        self._log = folder / f"{name}.log"
        self._process: asyncio.subprocess.Process | None = None
        self._come = 0
        self._acted = asyncio.Event()

    async def start(self) -> None:
        with self._log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *self.controller.command(self._programs, self._kubeconfig),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def send(self, number: int) -> None:
        """A signal to its process."""
        assert self._process is not None
        self._process.send_signal(number)

    async def kill(self) -> None:
        """kill -9."""
        if self._process is not None and self._process.returncode is None:
            self._process.kill()
            await self._process.wait()

    async def hand_over(self, controller: ControllerProgram) -> None:
        """Another one takes its place."""
        await self.kill()
        self.controller = controller
        await self.start()

    def ended(self) -> bool:
        return self._process is not None and self._process.returncode is not None

    def says(self, text: str) -> bool:
        """Whether its log has the text."""
        return text in self._log.read_text(errors="replace")

    async def killed(self) -> None:
        """kill -9, once all have come so far."""
        await self._together(self.kill)

    async def started_again(self) -> None:
        """Starts it once all have come so far."""
        await self._together(self.start)

    async def _together(self, act: Callable[[], Awaitable[None]]) -> None:
        self._come += 1
        if self._come == self.parties:
            self._come, acted, self._acted = 0, self._acted, asyncio.Event()
            await act()
            acted.set()
        else:
            await self._acted.wait()


@asynccontextmanager
async def stage(
    server: RealServer, programs: Path, folder: Path, *under_test: ControllerProgram
) -> AsyncGenerator[tuple[HazardCluster, list[Running]]]:
    """A cluster with all of upstream's other controllers, and those under test behind one proxy."""
    async with AsyncExitStack() as stack:
        trust = Trust(authority=server.authority.read_bytes())
        client = Client(HttpTransport(server.url, token=server.token, trust=trust))
        stack.push_async_callback(client.close)
        between, plain = [await stack.enter_async_context(proxy(server)) for _ in range(2)]
        played = HazardCluster(client, between)
        running = [
            Running(each, programs, folder, between, f"{each.name}-{number}")
            for number, each in enumerate(under_test)
        ]
        rest = Running(REST, programs, folder, plain, REST.name)
        for each in (rest, *running):
            await each.start()
            stack.push_async_callback(each.kill)
        playing = [asyncio.create_task(part) for part in (played.attacher(), played.heartbeats())]
        for task in playing:
            stack.callback(task.cancel)
        yield played, running
        for task in playing:
            assert not task.done(), task.result()
        assert not rest.ended(), f"upstream's other controllers ended: see {folder}"
