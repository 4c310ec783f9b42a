"""A pod's network namespace: one interface on a bridge of the machine. Standard library only; needs `ip`
(iproute2).

Both ends of the link vanish with the namespace, so with the pod's last process: there is nothing to clean up.
"""

from __future__ import annotations

import os

from mooring.node.supervisor import syscalls

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypedDict

    class Network(TypedDict):
        bridge: str
        hostInterface: str
        address: str
        prefix: int
        gateway: str
        mac: str


def enter_network(network: Network) -> None:
    """Moves this process into a new network namespace with that address. `OSError` if it cannot be made."""
    host = os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    syscalls.unshare(syscalls.CLONE_NEWNET)
    pod = os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    # The parent, which stayed in the machine's namespace, says where the other end belongs.
    _ip(
        "link set lo up",
        f"link add eth0 address {network['mac']} type veth peer name {network['hostInterface']} netns {os.getppid()}",
        f"address add {network['address']}/{network['prefix']} dev eth0",
        "link set eth0 up",
        f"route add default via {network['gateway']}",
    )
    syscalls.setns(host, syscalls.CLONE_NEWNET)
    _ip(f"link set {network['hostInterface']} master {network['bridge']} up")
    syscalls.setns(pod, syscalls.CLONE_NEWNET)
    os.close(host)
    os.close(pod)


def _ip(*commands: str) -> None:
    """What `ip` has to complain about goes to standard error."""
    out, into = os.pipe()
    os.write(into, "".join(f"{command}\n" for command in commands).encode())
    os.close(into)
    actions = [(os.POSIX_SPAWN_DUP2, out, 0), (os.POSIX_SPAWN_CLOSE, out)]
    pid = os.posix_spawnp("ip", ["ip", "-batch", "-"], os.environ, file_actions=actions)
    os.close(out)
    _, status = os.waitpid(pid, 0)
    if status:
        raise OSError(f"cannot make the pod's network: ip exited with {os.waitstatus_to_exitcode(status)}")
