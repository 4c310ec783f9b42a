"""Mooring's own control plane: the embedded API server, and all controllers but the one that the lab starts
as a part of its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from tests.kubelet.lab.control import GRACE_S, ControlPlane
from tests.kubelet.lab.network import API_HOST
from tests.real.server import process
from waiting import until_in_thread

from mooring.apiserver.data_directory import load_tokens
from mooring.apiserver.transport import tls
from mooring.cluster.joining import kubelet_configuration
from mooring.cluster.options import ALL_CONTROLLERS
from mooring.cluster.processes import mooring

PORT = 7443
LAB = "10.77.0.0/24"


class Embedded(ControlPlane):
    """Its programs are the administrator's: the lab judges the kubelets' rights here."""

    def __init__(self, programs: Path, folder: Path) -> None:
        data = folder / "apiserver"
        self._tokens = load_tokens(data)
        self._data = data
        authority = tls.of(data, API_HOST).authority.read_bytes()
        super().__init__(f"https://{API_HOST}:{PORT}", authority, self._tokens.admin(), programs, folder)
        self.kubeconfig = folder / "kubeconfig"

    def log(self) -> str:
        """What the API server has noted."""
        return (self._folder / "apiserver.log").read_text(errors="replace")

    def kubeconfig_of_node(self, name: str) -> str:
        return self._text(self._tokens.node(name))

    def settings_of_kubelets(self) -> dict[str, Any]:
        return kubelet_configuration(tls.of_client(self._data).authority)

    def kubeconfig_of_account(self, name: str) -> Path:
        return self.kubeconfig


@contextmanager
def embedded(programs: Path, folder: Path) -> Iterator[Embedded]:
    """Without nodes yet."""
    kubeconfig = folder / "kubeconfig"
    where = (
        "--data-dir",
        str(folder / "apiserver"),
        "--port",
        str(PORT),
        "--kubeconfig-out",
        str(kubeconfig),
    )
    reached = ("--machines-address", API_HOST, "--node-endpoints", LAB)
    names = ",".join(each for each in ALL_CONTROLLERS.split(",") if each != "attachdetach")
    grace = ("--node-monitor-grace-period", str(GRACE_S))
    with ExitStack() as stack:
        server = mooring("apiserver", *where, *reached, "--log-level", "debug")
        stack.enter_context(process(server, folder / "apiserver.log"))
        until_in_thread(kubeconfig.exists, "the API server serves")
        controllers = mooring("controller", "--controllers", names, "--kubeconfig", str(kubeconfig), *grace)
        stack.enter_context(process(controllers, folder / "controllers.log"))
        yield Embedded(programs, folder)
