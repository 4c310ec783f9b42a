"""What an operator can say about one node agent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from mooring.node.hardware import Hardware, this_machine


@dataclass(frozen=True, kw_only=True)
class AgentOptions:
    """The options of an agent. Times are seconds; directories are absolute."""

    name: str
    """The Node's name."""
    root_dir: Path
    """Everything that this agent keeps; one agent for one directory."""
    boot_id: str
    """Names this boot of the machine; another after each start of the (possibly simulated) machine."""
    ended_boot_id: str = ""
    """A boot of this machine that is certainly over, as the switch of the machine says. "": not known."""
    agent_id: str = ""
    """Chosen once by chance and kept in `root_dir`: an agent that is restarted is the same one."""
    machine_id: str = ""
    """Of the operating system's installation (machine-id(5)); clones have the same."""
    system_uuid: str = ""
    """What the machine's firmware tells, and its BMC as GUID. "": not known."""
    provider_id: str = ""
    """What the machine is to its cloud (`aws:///us-east-1a/i-0123`). "": it is in none, or that is not
    known."""
    manifests_dir: Path | None = None
    """Where the manifests of static pods are."""
    enable_controller_attach_detach: bool = True
    """The attach/detach controller attaches this node's volumes; else the agent does, as kubelets once
    did."""
    standalone: bool = False
    """There is no API server: only static pods run, with volumes of this machine."""
    images_dir: Path | None = None
    """Where `image:` names a root file system folder or an OCI layout."""
    masked_dirs: tuple[Path, ...] = ()
    """Directories of the machine that pods on its root file system see empty, besides `root_dir`."""
    address: str = "127.0.0.1"
    pod_network: str = ""
    """The addresses of all pods of this host (a CIDR); "" and pods share the host's network."""
    endpoint_token: str = field(default="", repr=False)
    """What the API server shows when it asks for logs or runs commands; with "" no request is answered."""
    peer_port: int = 0
    """Where its peers ask it (UDP); 0: at any port that is free."""
    metrics_port: int | None = None
    """Where /metrics and /healthz are served, without a token; None: nowhere."""
    metrics_address: str = "127.0.0.1"
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    """Labels of the Node besides the well-known ones."""
    lease_duration_s: float = 40.0
    """How long the Lease holds; it is renewed four times as often."""
    self_fence: Path | None = None
    """The watchdog that resets this machine when its Lease is not renewed: a device, or a supervisor's
    socket."""
    self_fence_after_s: float = 40.0
    """So long without an acknowledged renewal, and this node ends its pods; with `self_fence` alone."""
    status_period_s: float = 300.0
    """The longest time between two writes of the Node's status; changes are written at once."""
    hardware: Hardware = field(default_factory=this_machine)
    plugin_settings: Mapping[str, Mapping[str, str]] = field(default_factory=dict[str, Mapping[str, str]])
    """Volume plugin to its settings."""
