"""A cluster of real kubelets: its control plane, its nodes, Mooring's parts, and what stories ask of them."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from tests.kubelet.lab.control import ControlPlane
from tests.kubelet.lab.embedded import embedded
from tests.kubelet.lab.images import archives
from tests.kubelet.lab.network import own_network
from tests.kubelet.lab.node import Node
from tests.kubelet.lab.parts import DRIVER, Parts, parts
from tests.kubelet.lab.upstream import upstream
from waiting import until_in_thread

PATIENCE_S = 90.0
CLASS = {
    "apiVersion": "storage.k8s.io/v1",
    "kind": "StorageClass",
    "metadata": {"name": "disk", "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
    "provisioner": DRIVER,
    "volumeBindingMode": "WaitForFirstConsumer",
    "allowVolumeExpansion": True,
}
CSI_DRIVER = {
    "apiVersion": "storage.k8s.io/v1",
    "kind": "CSIDriver",
    "metadata": {"name": DRIVER},
    "spec": {"attachRequired": True, "podInfoOnMount": False, "fsGroupPolicy": "File"},
}


class Cluster:
    """One that runs."""

    def __init__(self, control: ControlPlane, nodes: dict[str, Node], parts: Parts, programs: Path) -> None:
        self.control, self.nodes, self.parts, self.programs = control, nodes, parts, programs

    def until(self, what: str, holds: Any, seconds: float = PATIENCE_S) -> Any:
        return until_in_thread(holds, what, seconds=seconds, state=self.state)

    def state(self) -> str:
        """What a person would look at first when a wait was in vain."""
        kinds = "nodes,pods,pvc,pv,volumeattachments"
        events = self.control.kubectl("get", "events", "--sort-by=.lastTimestamp").splitlines()[-15:]
        found = self.control.kubectl("get", kinds, "-A", "-o", "wide")
        return "\n".join([found, *events, *self._logs_of_parts()])

    def _logs_of_parts(self) -> list[str]:
        """The last lines of what runs as pods of kube-system."""
        names = self.control.kubectl("get", "pods", "-n", "kube-system", "-o", "name").split()
        words = ("logs", "-n", "kube-system", "--all-containers", "--prefix", "--tail=8")
        return [
            subprocess.run(
                self.control.command(*words, each), check=False, capture_output=True, text=True
            ).stdout
            for each in names
        ]

    def running(self, pod: str, *, not_uid: str = "") -> dict[str, Any] | None:
        """The pod once it is ready, if it is another one than that."""
        found = self.control.find("pod", pod)
        if found is None or found["metadata"]["uid"] == not_uid or "deletionTimestamp" in found["metadata"]:
            return None
        conditions = {each["type"]: each["status"] for each in found["status"].get("conditions", [])}
        return found if conditions.get("Ready") == "True" else None

    def until_running(self, pod: str, *, not_uid: str = "", seconds: float = PATIENCE_S) -> dict[str, Any]:
        return self.until(f"pod {pod} runs", lambda: self.running(pod, not_uid=not_uid), seconds)

    def read(self, pod: str, file: str) -> list[str]:
        """The lines of a file in the pod."""
        return self.output(pod, "cat", file).splitlines()

    def output(self, pod: str, *words: str) -> str:
        """What a program says in the pod; nothing if it failed there."""
        return self.control.kubectl("exec", pod, "--", "sh", "-c", '"$@" || true', "sh", *words)

    def node_of(self, pod: dict[str, Any]) -> Node:
        return self.nodes[pod["spec"]["nodeName"]]

    def ready(self, node: str) -> str:
        """The status of the Node's condition Ready."""
        found = self.control.find("node", node) or {}
        conditions = found.get("status", {}).get("conditions", [])
        return next((each["status"] for each in conditions if each["type"] == "Ready"), "")

    def attachments(self) -> dict[str, str]:
        """Volume -> node, of the VolumeAttachments that say attached."""
        return {
            each["spec"]["source"]["persistentVolumeName"]: each["spec"]["nodeName"]
            for each in self.control.get("volumeattachments")["items"]
            if each.get("status", {}).get("attached")
        }

    def start(self, node: Node) -> None:
        """Switches a node on, and waits until it can have volumes."""
        node.start()
        self.until(f"{node.name} is Ready", lambda: self.ready(node.name) == "True")
        self.parts.start_on(node)
        self.until(f"the kubelet of {node.name} knows the driver", lambda: self._knows_driver(node.name))

    def _knows_driver(self, node: str) -> bool:
        found = self.control.find("csinode", node) or {}
        return any(each["name"] == DRIVER for each in found.get("spec", {}).get("drivers") or ())


@contextmanager
def cluster(programs: Path, folder: Path, count: int = 2, *, on_embedded: bool = False) -> Iterator[Cluster]:
    """With so many nodes, all ready for volumes; its control plane is upstream's, or Mooring's own."""
    (folder / "images").mkdir()
    archives(folder / "images")
    with ExitStack() as stack:
        stack.enter_context(own_network())
        names = [f"node-{number + 1}" for number in range(count)]
        (folder / "control").mkdir()
        plane = (
            embedded(programs, folder / "control")
            if on_embedded
            else upstream(programs, folder / "control", names)
        )
        control: ControlPlane = stack.enter_context(plane)
        made = stack.enter_context(parts(control, folder / "parts"))
        lab = Cluster(control, {}, made, programs)
        made.start_controllers()
        control.apply(CLASS, CSI_DRIVER)
        for number, name in enumerate(names, 1):
            kubeconfig, settings = control.kubeconfig_of_node(name), control.settings_of_kubelets()
            node = Node(number, folder / name, programs, kubeconfig, settings)
            stack.callback(node.lose_power)
            lab.nodes[name] = node
            node.start()
        for node in lab.nodes.values():
            lab.until(f"{node.name} is Ready", lambda name=node.name: lab.ready(name) == "True")
            made.start_on(node)
        for node in lab.nodes.values():
            lab.until(f"{node.name} knows the driver", lambda name=node.name: lab._knows_driver(name))
        yield lab
