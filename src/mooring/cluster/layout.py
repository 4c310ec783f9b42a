"""Where a cluster keeps its files, and which process runs there.

<data dir>/
  up.lock               held by the `mooring up` that runs
  schema.json           the number of the form in which all this is (`mooring.data_schema`)
  cluster.json          nodes and port, for the next start
  kubeconfig            the admin's
  control.sock          commands of `mooring node …`
  apiserver/            the API server's store and secrets
  array/                the disk array
  bmc/                  the machines' BMCs, power strip and switch, with `up --bmc`
  cloud/                the cloud, with `up --cloud`
  nodes/<name>/         a node's root directory
  storage/<name>/       a storage server: its record, who may use it, its disks
  machines/<name>/      the disk of a machine with a kernel of its own, and its mount table while it runs
  run/<part>.json       pid and start time of each running part
  run/ebs/              sockets of the cloud's driver
  logs/<part>.log
  logs/csi.jsonl        every call of a CSI driver
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path


class ClusterError(Exception):
    """Something about this cluster that its user can mend; the message says how."""


@dataclass(frozen=True)
class Layout:
    """The paths under one data directory."""

    root: Path

    @property
    def lock(self) -> Path:
        return self.root / "up.lock"

    @property
    def settings(self) -> Path:
        return self.root / "cluster.json"

    @property
    def kubeconfig(self) -> Path:
        return self.root / "kubeconfig"

    @property
    def control(self) -> Path:
        return self.root / "control.sock"

    @property
    def apiserver(self) -> Path:
        return self.root / "apiserver"

    @property
    def array(self) -> Path:
        return self.root / "array"

    @property
    def cloud(self) -> Path:
        return self.root / "cloud"

    @property
    def nodes(self) -> Path:
        return self.root / "nodes"

    @property
    def run(self) -> Path:
        return self.root / "run"

    @property
    def logs(self) -> Path:
        return self.root / "logs"

    @property
    def csi_trace(self) -> Path:
        return self.logs / "csi.jsonl"

    def node(self, name: str) -> Path:
        """The root directory of a node's agent."""
        return self.nodes / name

    def machine(self, name: str) -> Path:
        """What belongs to a node's machine rather than to its agent."""
        return self.root / "machines" / name

    def node_kubeconfig(self, name: str) -> Path:
        return self.node(name) / "kubeconfig"

    def node_endpoint_token(self, name: str) -> Path:
        """What the API server shows to the node's agent."""
        return self.node(name) / "endpoint.token"

    def make(self) -> None:
        """Creates the directories; ClusterError if that is not possible."""
        try:
            for directory in (self.root, self.apiserver, self.array, self.nodes, self.run, self.logs):
                directory.mkdir(parents=True, exist_ok=True)
            self.root.chmod(0o700)
        except OSError as error:
            raise ClusterError(f"cannot make the data directory {self.root}: {error.strerror}") from error


def default_data_dir() -> Path:
    """/var/lib/mooring for root, else the user's own."""
    if os.geteuid() == 0 and "MOORING_ROOTLESS" not in os.environ:
        return Path("/var/lib/mooring")
    return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local/share") / "mooring"


def open_layout(data_dir: str | None) -> Layout:
    """The layout of a data directory given on the command line, else of MOORING_DATA_DIR, else the
    default."""
    chosen = data_dir or os.environ.get("MOORING_DATA_DIR")
    return Layout(Path(chosen).absolute() if chosen else default_data_dir())
