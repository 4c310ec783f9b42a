"""A node of the lab: the real kubelet with containerd and runc, in namespaces and cgroups of its own."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import yaml
from tests.kubelet.lab import cgroups, network
from tests.kubelet.lab.images import PAUSE
from waiting import until_in_thread

INIT = Path(__file__).with_name("node-init.sh")
NAMESPACES = ("--net", "--mount", "--pid", "--uts", "--ipc", "--cgroup")
NOTHING: Mapping[str, Any] = MappingProxyType({})
INTO_CGROUPS = 'while [ "$1" != -- ]; do echo $$ > "$1/cgroup.procs"; shift; done; shift; exec "$@"'


class Node:
    """Node `number` of a cluster; `folder` is its disk, which outlives a loss of power, and whose name it
    has."""

    def __init__(
        self,
        number: int,
        folder: Path,
        programs: Path,
        kubeconfig: str,
        given: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        """`given`: settings of its kubelet."""
        self.number, self.name = number, folder.name
        self._folder, self._programs = folder, programs
        self._cgroups: list[Path] = []
        self._outer: subprocess.Popen[bytes] | None = None
        self._pid = 0
        for each in ("kubelet", "containerd", "cni", "played"):
            (folder / each).mkdir(parents=True)
        (folder / "kubeconfig").write_text(kubeconfig)
        url = yaml.safe_load(kubeconfig)["clusters"][0]["cluster"]["server"]
        self._server = url.removeprefix("https://")
        (folder / "kubelet.yaml").write_text(yaml.safe_dump({**_kubelet(number), **given}))
        (folder / "containerd.toml").write_text(_containerd(folder))
        (folder / "cni" / "10-pods.conflist").write_text(json.dumps(_pod_network(number)))

    def start(self) -> None:
        """Switches it on."""
        self._cgroups = cgroups.make(f"lab-{self._folder.parent.name}-{self.name}")
        init = [str(INIT), self.name, str(self.number), str(self._folder), str(self._programs), self._server]
        options = ("--fork", "--kill-child", "--mount-proc", "--propagation", "private")
        command = ["unshare", *NAMESPACES, *options, *init]
        enter = ["sh", "-c", INTO_CGROUPS, "sh", *map(str, self._cgroups), "--", *command]
        with (self._folder / "init.log").open("ab") as log:
            self._outer = subprocess.Popen(enter, stdout=log, stderr=log, start_new_session=True)
        self._pid = until_in_thread(self._first_process, f"{self.name} has a first process")
        network.connect(self.number, self._pid)

    def _first_process(self) -> int:
        assert self._outer is not None
        assert self._outer.poll() is None, (self._folder / "init.log").read_text()
        children = Path(f"/proc/{self._outer.pid}/task/{self._outer.pid}/children").read_text().split()
        own = [int(each) for each in children if Path(f"/proc/{each}/cmdline").read_text().startswith("bash")]
        return own[0] if own else 0

    def lose_power(self) -> None:
        """All its processes end at once; its disk keeps what was synced and what was not."""
        if self._outer is not None:
            self._outer.kill()
            self._outer.wait()
            self._outer = None
            until_in_thread(lambda: not Path(f"/proc/{self._pid}").exists(), f"{self.name} is off")
            until_in_thread(self._empty, f"the cgroups of {self.name} are empty")
            cgroups.remove(self._cgroups)

    def _empty(self) -> bool:
        files = [file for each in self._cgroups for file in each.rglob("cgroup.procs")]
        return not any(file.read_text().strip() for file in files)

    def run(self, *words: str) -> str:
        """Runs a program in it, as at its console; what it said. Raises CalledProcessError."""
        return subprocess.run([*self.inside, *words], check=True, capture_output=True, text=True).stdout

    def import_image(self, archive: Path) -> None:
        self.run(str(self._programs / "ctr"), "-n", "k8s.io", "images", "import", str(archive))

    @property
    def inside(self) -> list[str]:
        """What a command line begins with to run in it."""
        return ["nsenter", "--target", str(self._pid), "--net", "--mount", "--pid", "--uts", "--ipc", "--"]

    def kill_kubelet(self) -> None:
        """It is started again at once, as by a service manager."""
        self.run("sh", "-c", f"kill -9 $(cat {self._folder}/kubelet.pid)")

    def stop_kubelet(self) -> None:
        (self._folder / "kubelet-stopped").touch()
        self.kill_kubelet()

    def start_kubelet(self) -> None:
        (self._folder / "kubelet-stopped").unlink()

    def log(self) -> str:
        """Of its kubelet."""
        return (self._folder / "kubelet.log").read_text(errors="replace")


def _kubelet(number: int) -> dict[str, Any]:
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
        "authorization": {"mode": "AlwaysAllow"},
        "cgroupDriver": "cgroupfs",
        "failCgroupV1": False,
        "failSwapOn": False,
        "address": network.node_address(number),
        "healthzPort": 0,
        "containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
        "resolvConf": "",
        "evictionHard": {"nodefs.available": "1%", "imagefs.available": "1%", "memory.available": "50Mi"},
        "imageGCHighThresholdPercent": 99,
        "nodeStatusUpdateFrequency": "1s",
    }


def _containerd(folder: Path) -> str:
    """It lacks CAP_SYS_RESOURCE on such a machine, without which no process may lower its OOM score."""
    return f"""
version = 3
root = "/var/lib/containerd"
state = "/run/containerd"
disabled_plugins = ["io.containerd.nri.v1.nri"]
[grpc]
  address = "/run/containerd/containerd.sock"
[plugins.'io.containerd.cri.v1.images'.pinned_images]
  sandbox = "{PAUSE}"
[plugins.'io.containerd.cri.v1.runtime']
  disable_apparmor = true
  restrict_oom_score_adj = true
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"
[plugins.'io.containerd.cri.v1.runtime'.cni]
  bin_dirs = ["/usr/lib/cni"]
  conf_dir = "{folder / "cni"}"
"""


def _pod_network(number: int) -> dict[str, Any]:
    addresses = {
        "type": "host-local",
        "dataDir": "/run/cni",
        "ranges": [[{"subnet": network.pod_range(number)}]],
    }
    bridge = {
        "type": "bridge",
        "bridge": "cni0",
        "isDefaultGateway": True,
        "hairpinMode": True,
        "ipam": addresses,
    }
    return {"cniVersion": "1.0.0", "name": "pods", "plugins": [bridge]}
