"""`mooring cloud` in the lab's network: the nodes are its instances, and find its metadata service where that
of EC2 is."""

from __future__ import annotations

import json
import shlex
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.kubelet.lab.network import API_HOST, BRIDGE, node_address
from tests.kubelet.lab.node import Node
from tests.real.server import process
from waiting import until_in_thread

from mooring.cluster.processes import mooring

PORT = 7480
METADATA = "169.254.169.254"
ENDPOINT = f"http://{API_HOST}:{PORT}"
ROOT_DISK = "/dev/xvda "
IN_NODE = "/run/instance-devices"


class Cloud:
    """One that runs; instance 1 is the first of the nodes."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def environment(self, instance: str = "") -> dict[str, str]:
        """What a client needs, of an instance if it is named."""
        said = self._asked("env", *([instance] if instance else []))
        lines = [line.removeprefix("export ").split("=", 1) for line in said.splitlines()]
        return {name: shlex.split(value)[0] for name, value in lines}

    def attached(self) -> dict[str, str]:
        """Volume -> instance, as the cloud itself has it, without the instances' own disks."""
        volumes = json.loads(self._asked("status", "-o", "json"))["volumes"]
        attached = [each for each in volumes if each["attached"] and ROOT_DISK not in each["attached"]]
        return {each["volume_id"]: each["attached"].split()[0] for each in attached}

    def _asked(self, *words: str) -> str:
        command = mooring("cloud", *words, "--data-dir", str(self._folder))
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout


@contextmanager
def cloud(folder: Path, nodes: list[Node]) -> Iterator[Cloud]:
    """With as many instances as nodes."""
    words = (
        "--data-dir",
        str(folder),
        "--port",
        str(PORT),
        "--instances",
        str(len(nodes)),
        "--devices",
        "on",
    )
    with process(mooring("cloud", *words), folder.with_suffix(".log")):
        running = Cloud(folder)
        until_in_thread((folder / "endpoint.json").exists, "the cloud serves")
        rules = [f"ip daddr {API_HOST} tcp dport {PORT} dnat to 127.0.0.1"]
        for number, node in enumerate(nodes, 1):
            own = running.environment(str(number))
            address = own["AWS_EC2_METADATA_SERVICE_ENDPOINT"].removeprefix("http://")
            rules.append(
                f"ip saddr {node_address(node.number)} ip daddr {METADATA} tcp dport 80 dnat to {address}"
            )
            Path(own["MOORING_CLOUD_DEVICES"]).mkdir(parents=True, exist_ok=True)
            node.run("mkdir", "-p", IN_NODE)
            node.run("mount", "--bind", own["MOORING_CLOUD_DEVICES"], IN_NODE)
        _reach_loopback(rules)
        try:
            yield running
        finally:
            subprocess.run(["nft", "delete", "table", "ip", "cloud"], check=True)
            for node in nodes:
                node.run("umount", IN_NODE)


def _reach_loopback(rules: list[str]) -> None:
    """The cloud listens on loopback alone, with an address for each instance's metadata."""
    Path(f"/proc/sys/net/ipv4/conf/{BRIDGE}/route_localnet").write_text("1")
    chain = "\n".join(["type nat hook prerouting priority dstnat", *rules])
    table = f"table ip cloud {{ chain in {{\n{chain}\n}}\n}}"
    subprocess.run(["nft", "-f", "-"], input=table, text=True, check=True)
