"""The kinds that are made of agents: which agent, what it is given, what it shows. Data."""

from __future__ import annotations

from mooring.fence.agents import hiding, identities
from mooring.fence.agents.mechanism import FenceAgent, Kind
from mooring.fence.interface import Mechanism, Parameter, Scope

_TIMES = {
    "power_timeout": Parameter("Seconds in which an order must show"),
    "login_timeout": Parameter("Seconds for a login"),
    "shell_timeout": Parameter("Seconds for an answer"),
}
_SNMP = {
    "ip": Parameter("Address of the device", required=True),
    "ipport": Parameter("Its UDP port; 161"),
    "plug": Parameter("Number or name of the machine's outlet or port", required=True, per_node=True),
    "snmp_version": Parameter("1, 2c or 3", required=True),
    "community": Parameter("The community, of versions 1 and 2c", secret=True),
    "username": Parameter("The user, of version 3"),
    "snmp_sec_level": Parameter("noAuthNoPriv, authNoPriv or authPriv, of version 3"),
    "snmp_auth_prot": Parameter("MD5 or SHA"),
    "password": Parameter("The user's password for authentication", secret=True),
    "snmp_priv_prot": Parameter("DES or AES"),
    "snmp_priv_passwd": Parameter("The user's password for encryption", secret=True),
    **_TIMES,
}
_SNMP_PROGRAMS = {"snmpget": "snmp", "snmpset": "snmp", "snmpwalk": "snmp"}

KINDS = [
    Kind(
        "agent",
        "Any fence agent of ClusterLabs that cuts power, by its own parameters",
        Scope.POWER,
        parameters={"agent": Parameter("The agent's name, as fence_xyz", required=True)},
    ),
    Kind(
        "fabric-agent",
        "Any fence agent of ClusterLabs that cuts a port or a path and leaves the machine on",
        Scope.NETWORK,
        parameters={"agent": Parameter("The agent's name, as fence_xyz", required=True)},
    ),
    Kind(
        "ipmi",
        "Switches a machine off by its BMC, which speaks IPMI over LAN",
        Scope.POWER,
        "fence_ipmilan",
        {
            "ip": Parameter("Address of the BMC", required=True, per_node=True),
            "ipport": Parameter("Its UDP port; 623", per_node=True),
            "username": Parameter("The user", required=True),
            "password": Parameter("The user's password", required=True, secret=True),
            "cipher": Parameter("Cipher suite, as 3 or 17; if not given, ipmitool asks the BMC"),
            "lanplus": Parameter("0 for IPMI 1.5; 1"),
            "privlvl": Parameter("operator if the user is no administrator"),
            "ipmitool_timeout": Parameter("Seconds until a question is sent again; 2"),
            "power_wait": Parameter("Seconds to wait after each order; 2"),
            **_TIMES,
        },
        {"lanplus": "1"},
        hiding=hiding.from_ipmitool,
        identity=identities.ipmi_guid,
        programs={"ipmitool": "ipmitool"},
    ),
    Kind(
        "redfish",
        "Switches a machine off by its BMC, which speaks Redfish",
        Scope.POWER,
        "fence_redfish",
        {
            "ip": Parameter("Address of the BMC", required=True, per_node=True),
            "ipport": Parameter("Its TCP port; 443", per_node=True),
            "username": Parameter("The user", required=True),
            "password": Parameter("The user's password", required=True, secret=True),
            "systems_uri": Parameter("Path of the system, if the BMC is for several", per_node=True),
            "redfish_uri": Parameter("Path of the service; /redfish/v1"),
            "ca_certificate": Parameter("What the BMC's certificate is checked by, as PEM"),
            "ssl_insecure": Parameter("1: the BMC's certificate is not checked"),
            **_TIMES,
        },
        ours=frozenset({"ca_certificate"}),
        hiding=hiding.with_certificate,
        identity=identities.redfish_system,
    ),
    Kind(
        "power-strip",
        "Switches a machine's outlet of a rack's power strip off, over SNMP (APC)",
        Scope.POWER,
        "fence_apc_snmp",
        _SNMP,
        hiding=hiding.from_snmp,
        programs=_SNMP_PROGRAMS,
    ),
    Kind(
        "switch-port",
        "Takes a machine's port of a switch down, over SNMP (IF-MIB)",
        Scope.NETWORK,
        "fence_ifmib",
        _SNMP,
        hiding=hiding.from_snmp,
        programs=_SNMP_PROGRAMS,
    ),
    Kind(
        "virsh",
        "Destroys a virtual machine by libvirt's virsh on its host, over SSH",
        Scope.POWER,
        "fence_virsh",
        {
            "ip": Parameter("Address of the virtual machine's host", required=True),
            "ipport": Parameter("Its port of SSH; 22"),
            "username": Parameter("The user there", required=True),
            "password": Parameter("The user's password", secret=True),
            "identity_file": Parameter("Path of a private key on the controller's machine"),
            "plug": Parameter("The virtual machine's name", required=True, per_node=True),
            **_TIMES,
        },
        programs={"ssh": "openssh-client"},
    ),
]
_BY_KIND = {each.kind: each for each in KINDS}


def _made(kind: str) -> FenceAgent:
    return FenceAgent(_BY_KIND[kind])


def agent() -> Mechanism:
    """The mechanism of this kind, as are the next ones."""
    return _made("agent")


def fabric_agent() -> Mechanism:
    return _made("fabric-agent")


def ipmi() -> Mechanism:
    return _made("ipmi")


def redfish() -> Mechanism:
    return _made("redfish")


def power_strip() -> Mechanism:
    return _made("power-strip")


def switch_port() -> Mechanism:
    return _made("switch-port")


def virsh() -> Mechanism:
    return _made("virsh")
