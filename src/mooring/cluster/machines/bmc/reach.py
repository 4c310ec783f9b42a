"""How to reach a machine's devices: ports, files, and command lines that can be pasted. Pure.

No secret is in a command line: clients read it from its file.
"""

from __future__ import annotations

import shlex
from typing import Any

from mooring.cluster.machines.bmc.inventory import USER, Inventory, Managed, Paths
from mooring.cluster.machines.bmc.ipmi import CIPHER_SUITE


def commands(paths: Paths, inventory: Inventory, machine: Managed) -> dict[str, str]:
    """By program; each asks for the state, and says so in its last word or words."""
    password = str(paths.password)
    script = f"cat {shlex.quote(password)}"
    who = f"--username {USER} --password-script {shlex.quote(script)}"
    private = f"--snmp-priv-prot AES --snmp-priv-passwd-script {shlex.quote(script)}"
    snmp = f"--snmp-version 3 --snmp-sec-level authPriv --snmp-auth-prot SHA {private} {who}"
    bmc = f"--ip {inventory.address} --ipport"
    return {
        "ipmitool": f"ipmitool -I lanplus -C {CIPHER_SUITE} -H {inventory.address} -p {machine.ipmi_port} -U {USER} "
        f"-f {shlex.quote(password)} chassis power status",
        "fence_ipmilan": f"fence_ipmilan --lanplus --cipher={CIPHER_SUITE} {bmc} {machine.ipmi_port} {who} -o status",
        "fence_redfish": f"REQUESTS_CA_BUNDLE={shlex.quote(str(paths.certificate))} fence_redfish {bmc} "
        f"{machine.redfish_port} {who} -o status",
        "fence_apc_snmp": f"fence_apc_snmp {bmc} {inventory.strip_port} --plug {machine.socket} {snmp} -o status",
        "fence_ifmib": f"fence_ifmib {bmc} {inventory.switch_port} --plug {machine.socket} {snmp} -o status",
    }


def reach(paths: Paths, inventory: Inventory, machine: Managed) -> dict[str, Any]:
    """All of it, for programs."""
    return {
        "machine": machine.name,
        "systemUUID": str(machine.uuid),
        "address": inventory.address,
        "user": USER,
        "passwordFile": str(paths.password),
        "communityFile": str(paths.community),
        "ipmi": {"port": machine.ipmi_port, "interface": "lanplus", "cipherSuite": CIPHER_SUITE},
        "redfish": {
            "url": f"https://{inventory.address}:{machine.redfish_port}",
            "system": f"/redfish/v1/Systems/{machine.name}",
            "certificateFile": str(paths.certificate),
        },
        "powerStrip": {"port": inventory.strip_port, "socket": machine.socket},
        "switch": {"port": inventory.switch_port, "interface": machine.socket},
        "commands": commands(paths, inventory, machine),
    }
