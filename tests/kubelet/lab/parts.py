"""Mooring's parts beside real kubelets, with the accounts and rights that `deploy/` gives them."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.kubelet.lab.control import ControlPlane
from tests.kubelet.lab.node import Node
from tests.real.server import process
from waiting import until_in_thread

from mooring.cluster.processes import mooring

DRIVER = "disk.mooring.dev"
IN_NODE = f"/var/lib/kubelet/plugins/{DRIVER}"
ATTACH_DETACH = "mooring-attach-detach"
CONTROLLER = "ebs-csi-controller"
"""What a CSI driver's controller may do is the same for each driver; `deploy/` has it for this one."""

ROLES = ("provisioner", "attacher", "resizer")


class Parts:
    """Logs are in `folder`, the disks in its `array`."""

    def __init__(self, control: ControlPlane, folder: Path) -> None:
        self._control, self._folder = control, folder
        self._running: dict[str, ExitStack] = {}
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self.array = folder / "array"
        self._version: list[str] = []

    def change_version(self, package: Path | None, nodes: Iterable[Node]) -> None:
        """Goes over to another version of Mooring (a folder of packages; None: this one), part after part:
        there is a candidate for the attach/detach controller all the time, as with a Deployment of two."""
        self._version = ["env", f"PYTHONPATH={package}"] if package is not None else []
        self.start_attach_detach("next")
        self.stop("attachdetach")
        self.start_attach_detach()
        self.stop("next")
        for name in (*ROLES, "driver"):
            self.stop(name)
        self.start_driver()
        for node in nodes:
            self.stop_on(node)
            self.start_on(node)

    def start_controllers(self) -> None:
        """The attach/detach controller, and the disk driver with its CSI roles."""
        self.start_attach_detach()
        self.start_driver()

    def start_driver(self) -> None:
        """The disk driver's controller service, and its CSI roles."""
        socket = self._folder / "controller.sock"
        where = ("--array", str(self.array), "--machine", "lab")
        self._start(
            "driver", "csi", "disk-driver", "--mode", "controller", "--endpoint", f"unix://{socket}", *where
        )
        until_in_thread(socket.exists, "the driver listens")
        for role in ROLES:
            self._start(role, "csi", role, "--csi-address", str(socket), account=CONTROLLER)

    def start_attach_detach(self, name: str = "attachdetach", *options: str) -> None:
        words = ("controller", "--controllers=attachdetach", "--leader-elect=true", *options)
        self._start(name, *words, account=ATTACH_DETACH)

    def start_on(self, node: Node) -> None:
        """The driver's node service, and what makes it known to the kubelet."""
        socket = f"{IN_NODE}/csi.sock"
        node.run("mkdir", "-p", IN_NODE, "/var/lib/kubelet/plugins_registry")
        where = ("--node-id", node.name, "--array", str(self.array), "--machine", "lab")
        words = ("csi", "disk-driver", "--mode", "node", "--endpoint", f"unix://{socket}", *where)
        self._start(f"driver-{node.name}", *words, inside=node.inside)
        folder = ("--plugin-registration-path", "/var/lib/kubelet/plugins_registry")
        words = ("csi", "registrar", "--csi-address", socket, "--kubelet-registration-path", socket, *folder)
        self._start(f"registrar-{node.name}", *words, inside=node.inside)

    def stop_on(self, node: Node) -> None:
        """What has ended with the node."""
        for name in (f"registrar-{node.name}", f"driver-{node.name}"):
            self.stop(name)

    def stop(self, name: str) -> None:
        self._running.pop(name).close()

    def kill(self, name: str) -> None:
        """Ends a part without a chance to give anything up."""
        self._processes[name].kill()
        self.stop(name)

    def log(self, name: str) -> str:
        return (self._folder / f"{name}.log").read_text(errors="replace")

    def said_of(self, name: str) -> str:
        """What the candidates for the attach/detach controller have logged of an object, for an error."""
        logs = [*sorted(self._folder.glob("attachdetach*.log")), *self._folder.glob("next.log")]
        said = (
            f"{each.stem}: {line}"
            for each in logs
            for line in self.log(each.stem).splitlines()
            if name in line
        )
        return "\n".join(list(said)[-60:])

    def why(self, *words: str) -> str:
        """What `mooring why` says, whatever its exit status is."""
        return self._command("why", *words).stdout

    def command(self, *words: str) -> str:
        """What a command of Mooring says to the administrator."""
        done = self._command(*words)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def _command(self, *words: str) -> subprocess.CompletedProcess[str]:
        command = mooring(*words, "--kubeconfig", str(self._control.kubeconfig))
        return subprocess.run(command, check=False, capture_output=True, text=True)

    def close(self) -> None:
        for name in reversed(list(self._running)):
            self.stop(name)

    def _start(self, name: str, *words: str, account: str = "", inside: list[str] | None = None) -> None:
        rights = ["--kubeconfig", str(self._control.kubeconfig_of_account(account))] if account else []
        command = [*(inside or []), *self._version, *mooring(*words, *rights, "--log-level", "debug")]
        stack = ExitStack()
        self._processes[name] = stack.enter_context(process(command, self._folder / f"{name}.log"))
        self._running[name] = stack


@contextmanager
def parts(control: ControlPlane, folder: Path) -> Iterator[Parts]:
    folder.mkdir()
    made = Parts(control, folder)
    made.array.mkdir()
    try:
        yield made
    finally:
        made.close()
        _release_devices(made.array)


def _release_devices(array: Path) -> None:
    """Of disks that a test has left with a node: they outlive its processes, as the kernel is this host's."""
    listed = subprocess.run(
        ["losetup", "--list", "--json"], check=True, capture_output=True, text=True
    ).stdout
    for each in json.loads(listed or '{"loopdevices": []}')["loopdevices"]:
        if each["back-file"].startswith(f"{array}/"):
            subprocess.run(["losetup", "--detach", each["name"]], check=True)
