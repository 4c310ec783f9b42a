"""A real kubelet joins `mooring up`, by what `mooring node join` gives it."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.kubelet.lab.cluster import CLASS, CSI_DRIVER, Cluster
from tests.kubelet.lab.control import ControlPlane
from tests.kubelet.lab.images import archives
from tests.kubelet.lab.network import API_HOST, own_network
from tests.kubelet.lab.node import Node
from tests.kubelet.lab.parts import parts
from tests.real.server import process

from mooring.cluster.processes import mooring

pytestmark = [pytest.mark.root, pytest.mark.timeout(300)]
EXAMPLE = Path(__file__).parents[2] / "examples" / "statefulset.yaml"


class Up(ControlPlane):
    """`mooring up --join`, with one node of its own."""

    def __init__(self, programs: Path, folder: Path) -> None:
        self.data = folder / "up"
        self._kubectl, self._folder = programs / "kubectl", folder
        self.kubeconfig = self.data / "kubeconfig"

    def kubeconfig_of_account(self, name: str) -> Path:
        return self.kubeconfig

    def join(self, name: str, out: Path) -> str:
        """Writes the files of a node, for a place where it sees them under the same path."""
        words = mooring(
            "node", "join", name, "--out", str(out), "--at", str(out), "--data-dir", str(self.data)
        )
        return subprocess.run(words, check=True, capture_output=True, text=True).stdout


@pytest.fixture
def joined(programs: Path, tmp_path: Path) -> Iterator[Cluster]:
    """A cluster of one machine of `mooring up`, cordoned, and one real kubelet."""
    (tmp_path / "images").mkdir()
    archives(tmp_path / "images")
    with ExitStack() as stack:
        stack.enter_context(own_network())
        control = Up(programs, tmp_path)
        where = ("--data-dir", str(control.data), "--port", "0", "--join", f"{API_HOST}/24")
        drivers = ("--csi", "disk.mooring.dev=registered")
        stack.enter_context(process(mooring("up", "--nodes", "1", *where, *drivers), tmp_path / "up.log"))
        lab = Cluster(control, {}, stack.enter_context(parts(control, tmp_path / "parts")), programs)
        lab.until(
            "its own node is Ready", lambda: control.kubeconfig.exists() and lab.ready("node-1") == "True"
        )
        lab.parts.start_driver()
        control.apply(CLASS, CSI_DRIVER)
        files = tmp_path / "files"
        assert f"--hostname-override=kubelet-a --kubeconfig={files}/kubeconfig" in control.join(
            "kubelet-a", files
        )
        settings = json.loads((files / "kubelet.json").read_text())
        node = Node(2, tmp_path / "kubelet-a", programs, (files / "kubeconfig").read_text(), settings)
        stack.callback(node.lose_power)
        lab.nodes[node.name] = node
        lab.start(node)
        control.kubectl("cordon", "node-1")
        yield lab


def test_a_real_kubelet_joins_and_runs_the_demos_stateful_set(joined: Cluster):
    lab = joined
    lab.control.kubectl("apply", "-f", str(EXAMPLE))
    pod = lab.until_running("recorder-0")
    assert pod["spec"]["nodeName"] == "kubelet-a"
    lab.until("it records", lambda: "wrote 3" in lab.control.kubectl("logs", "recorder-0"))
    lab.control.kubectl("delete", "pod", "recorder-0")
    lab.until_running("recorder-0", not_uid=pod["metadata"]["uid"])
    assert int(lab.control.kubectl("logs", "recorder-0").split()[1]) >= 3, "it has found its records"
