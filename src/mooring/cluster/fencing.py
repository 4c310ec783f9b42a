"""`mooring up --fencing`: the mechanisms of this cluster's devices, and a policy that uses them.

The mechanisms and their Secret are written anew at each start, as ports may have changed; those of iSCSI
servers whenever there is another one. The policy is made once: after that it is its user's.
"""

from __future__ import annotations

import contextlib
from base64 import b64encode
from collections.abc import Mapping, Sequence
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any

from mooring.cluster.machines.bmc.inventory import USER, Inventory, Paths, load
from mooring.cluster.machines.bmc.ipmi import CIPHER_SUITE
from mooring.cluster.storage import tgt
from mooring.cluster.storage.iscsi import control_socket
from mooring.cluster.storage.record import ISCSI_PORT, Server
from mooring.controllers.fencing.host_agent import KIND as HOST_AGENT
from mooring.kube.client import Client
from mooring.kube.errors import AlreadyExists
from mooring.kube.objects import Secret
from mooring.kube.objects.fencing import FenceMechanism, FencePolicy
from mooring.mounts.blocking import blocking

MANAGER = "mooring-up"
NAMESPACE = "kube-system"
BMC_SECRET, SNMP_SECRET = "mooring-bmc", "mooring-snmp"
CLOUD_SECRET = "mooring-cloud"
BMC, REDFISH, STRIP, SWITCH = "bmc", "redfish", "power-strip", "switch-port"
INSTANCE = "instance"
HOST_AGENT_S = 300
"""As the longest time that the agents of a cluster with common settings need."""
SERVES = "mooring.dev/storage-server"
"""Label of the mechanisms of storage servers."""

POLICY: dict[str, Any] = {
    "metadata": {"name": "default"},
    "spec": {
        "detectors": [{"type": "Ready"}, {"type": "Mechanism", "mechanism": BMC}],
        "ladder": [
            {"mechanism": BMC, "confirmWith": [STRIP]},
            {"mechanism": STRIP, "confirmWith": [BMC]},
        ],
    },
}
"""All nodes. The strip of these machines measures what they draw, so that it is a second source for the
BMC."""


CLOUD_POLICY: dict[str, Any] = {
    "metadata": {"name": "default"},
    "spec": {
        "detectors": [{"type": "Ready"}],
        "ladder": [{"mechanism": INSTANCE, "confirmWith": [BMC]}, *POLICY["spec"]["ladder"]],
    },
}
"""Where the nodes are instances of a cloud: those are stopped first."""


async def install(client: Client, paths: Paths, cloud: Mapping[str, str] | None = None) -> None:
    """Teaches the cluster its mechanisms, and makes the policy unless there is one of its name. `cloud`:
    where the cloud is of which the nodes are instances, as AWS's environment variables."""
    inventory = await blocking(load, paths)
    assert inventory is not None
    password = (await blocking(paths.password.read_text)).strip()
    for name, values in (
        (BMC_SECRET, {"password": password}),
        (SNMP_SECRET, {"password": password, "snmp_priv_passwd": password}),
    ):
        await _secret(client, name, values)
    certificate = await blocking(paths.certificate.read_text)
    for name, spec in mechanisms(inventory, certificate).items():
        await client.apply(FenceMechanism, name, {"spec": spec}, field_manager=MANAGER, force=True)
    if cloud is not None:
        await _install_cloud(client, cloud)
    with contextlib.suppress(AlreadyExists):
        await client.create(FencePolicy, POLICY if cloud is None else CLOUD_POLICY)


async def install_host_agent(client: Client) -> None:
    """Teaches the cluster that nodes announce watchdogs; no policy names it until its user does."""
    spec = {"type": HOST_AGENT, "timeoutSeconds": HOST_AGENT_S}
    await client.apply(FenceMechanism, HOST_AGENT, {"spec": spec}, field_manager=MANAGER, force=True)


async def _install_cloud(client: Client, cloud: Mapping[str, str]) -> None:
    secret = {"secret_access_key": cloud["AWS_SECRET_ACCESS_KEY"]}
    await _secret(client, CLOUD_SECRET, secret)
    spec = {
        "type": "ec2",
        "parameters": {
            "endpoint": cloud["AWS_ENDPOINT_URL_EC2"],
            "region": cloud["AWS_REGION"],
            "access_key_id": cloud["AWS_ACCESS_KEY_ID"],
        },
        "secretRef": {"namespace": NAMESPACE, "name": CLOUD_SECRET},
        "timeoutSeconds": 60,
    }
    await client.apply(FenceMechanism, INSTANCE, {"spec": spec}, field_manager=MANAGER, force=True)


async def teach_storage(
    client: Client, servers: Sequence[Server], parts: Mapping[str, IPv4Network], sockets: Path
) -> None:
    """A mechanism for each iSCSI server: no policy names it until its user does. Those of servers that were
    removed go."""
    wanted = storage_mechanisms(servers, parts, sockets)
    for name, spec in wanted.items():
        body = {"metadata": {"labels": {SERVES: "iscsi"}}, "spec": spec}
        await client.apply(FenceMechanism, name, body, field_manager=MANAGER, force=True)
    for record in (await client.list(FenceMechanism)).items:
        if SERVES in record.metadata.labels and record.name not in wanted:
            await client.delete(FenceMechanism, record.name)


def storage_mechanisms(
    servers: Sequence[Server], parts: Mapping[str, IPv4Network], sockets: Path
) -> Mapping[str, dict[str, Any]]:
    """The specs of the iSCSI servers' FenceMechanisms, by name. `parts`: addresses of the nodes' machines.
    Pure."""
    nodes = {
        node: {"networks": str(part), "acl": ",".join(sorted(tgt.wanted({node: part})))}
        for node, part in parts.items()
    }
    return {
        f"iscsi-{server.name}": {
            "type": "iscsi-tgt",
            "parameters": {
                "target": server.target,
                "portals": f"{server.address}:{ISCSI_PORT}",
                "socket": str(control_socket(sockets, server)),
            },
            "nodes": nodes,
            "timeoutSeconds": 20,
        }
        for server in servers
    }


async def _secret(client: Client, name: str, values: Mapping[str, str]) -> None:
    data = {key: b64encode(value.encode()).decode() for key, value in values.items()}
    await client.apply(Secret, name, {"data": data}, NAMESPACE, field_manager=MANAGER, force=True)


def mechanisms(inventory: Inventory, certificate: str) -> Mapping[str, dict[str, Any]]:
    """The specs of the FenceMechanisms, by name. Pure."""
    who = {"ip": inventory.address, "username": USER}
    who |= {"login_timeout": "3", "shell_timeout": "3", "power_timeout": "4"}
    snmp = {
        **who,
        "snmp_version": "3",
        "snmp_sec_level": "authPriv",
        "snmp_auth_prot": "SHA",
        "snmp_priv_prot": "AES",
    }
    plugs = {each.name: {"plug": str(each.socket)} for each in inventory.machines}
    of_bmc = {"secretRef": {"namespace": NAMESPACE, "name": BMC_SECRET}, "timeoutSeconds": 30}
    of_snmp = {**of_bmc, "secretRef": {"namespace": NAMESPACE, "name": SNMP_SECRET}}
    return {
        BMC: {
            "type": "ipmi",
            "parameters": {**who, "cipher": str(CIPHER_SUITE), "power_wait": "0"},
            "nodes": {each.name: {"ipport": str(each.ipmi_port)} for each in inventory.machines},
            **of_bmc,
        },
        REDFISH: {
            "type": "redfish",
            "parameters": {**who, "ca_certificate": certificate},
            "nodes": {each.name: {"ipport": str(each.redfish_port)} for each in inventory.machines},
            **of_bmc,
        },
        STRIP: {
            "type": "power-strip",
            "parameters": {**snmp, "ipport": str(inventory.strip_port)},
            "nodes": plugs,
            **of_snmp,
        },
        SWITCH: {
            "type": "switch-port",
            "parameters": {**snmp, "ipport": str(inventory.switch_port)},
            "nodes": plugs,
            **of_snmp,
        },
    }
