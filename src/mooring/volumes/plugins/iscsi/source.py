"""What an `iscsi` source means: checked values, from which argument lists and paths are made. Pure.

Guarantee: every text of a `Disk` has been looked at, so that none can be taken for an option, end a line of a
record of open-iscsi, or lead out of the plugin's directory. Portals are addresses, as upstream's API
documents them, never names: a name may lead elsewhere at the next login.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path

from mooring.kube.objects import ISCSIVolumeSource, SecretReference
from mooring.volumes.errors import InvalidSpec
from mooring.volumes.host import VolumeHost
from mooring.volumes.spec import VolumeSpec

PLUGIN_NAME = "kubernetes.io/iscsi"
DEFAULT_FS_TYPE = "ext4"
DEFAULT_INTERFACE = "default"
PORT = 3260  # RFC 7143
HIGHEST_LUN = 255
MOST_PORTALS = 16
LONGEST_NAME = 223  # bytes, RFC 7143, 4.2.7.1
LONGEST_INTERFACE = 64  # bytes, open-iscsi

_NAME = re.compile(
    r"(iqn\.\d{4}-\d{2}\.[A-Za-z0-9][A-Za-z0-9.:_-]*|eui\.[0-9A-Fa-f]{16}|naa\.[0-9A-Fa-f]{16,32})", re.ASCII
)
_INTERFACE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]*", re.ASCII)
_PORTAL = re.compile(r"(?:\[([^]]*)\](?::([0-9]{1,5}))?|([^:]*)(?::([0-9]{1,5}))?)", re.ASCII)
_DIRECTORY = re.compile(
    r"iface-([^/]+)/([0-9A-Fa-f.:\[\]]+)-((?:iqn|eui|naa)\.[^/]+)-lun-([0-9]{1,3})", re.ASCII
)


@dataclass(frozen=True, order=True)
class Portal:
    """Address and port of a target."""

    address: str
    port: int = PORT

    def __str__(self) -> str:
        return f"[{self.address}]:{self.port}" if ":" in self.address else f"{self.address}:{self.port}"


@dataclass(frozen=True)
class Disk:
    """A LUN, and how this node gets to it. The first portal is `targetPortal`."""

    target: str
    lun: int
    portals: tuple[Portal, ...]
    interface: str = DEFAULT_INTERFACE
    """open-iscsi's record of the interface that sessions use."""
    base_interface: str = ""
    """`interface` is made for this volume from that one, because it has an initiator's name of its own."""
    initiator: str = ""
    fs_type: str = DEFAULT_FS_TYPE
    read_only: bool = False
    chap_discovery: bool = False
    chap_session: bool = False
    secret: SecretReference | None = None

    def __str__(self) -> str:
        return f"LUN {self.lun} of {self.target}"


def written(spec: VolumeSpec) -> ISCSIVolumeSource | None:
    """The `iscsi` source of the spec, unchecked."""
    return spec.definition.iscsi if spec.definition is not None else None


def disk(spec: VolumeSpec) -> Disk:
    """Raises InvalidSpec for a spec that is not iSCSI's, or that cannot be meant."""
    source = written(spec)
    if source is None:
        raise InvalidSpec(f"volume {spec.name} has no iscsi source")
    where = f"iscsi of volume {spec.name}"
    found = dict.fromkeys(portal(text, where) for text in (source.target_portal, *source.portals))
    if len(found) > MOST_PORTALS:
        raise InvalidSpec(f"{where} has {len(found)} portals: at most {MOST_PORTALS} are used")
    if not 0 <= source.lun <= HIGHEST_LUN:
        raise InvalidSpec(f"lun {source.lun} of {where} must be 0 to {HIGHEST_LUN}")
    base = _interface(source.iscsi_interface or DEFAULT_INTERFACE, where)
    own = f"{next(iter(found))}:{spec.name}" if source.initiator_name else ""
    return Disk(
        target=_name(source.iqn, "iqn", where),
        lun=source.lun,
        portals=tuple(found),
        interface=_own_interface(own, where) if own else base,
        base_interface=base if own else "",
        initiator=_name(source.initiator_name, "initiatorName", where) if source.initiator_name else "",
        fs_type=source.fs_type or DEFAULT_FS_TYPE,
        read_only=source.read_only or spec.read_only,
        chap_discovery=source.chap_auth_discovery,
        chap_session=source.chap_auth_session,
        secret=_secret(spec, source, where),
    )


def portal(text: str, where: str) -> Portal:
    """`ADDRESS`, `ADDRESS:PORT` or `[IPV6]:PORT`. Raises InvalidSpec."""
    found = _PORTAL.fullmatch(text)
    host, port = (found[1] or found[3] or "", found[2] or found[4]) if found else (text, None)
    try:
        address = ip_address(host)
    except ValueError:
        address = None
    number = PORT if port is None else int(port)
    if address is None or "%" in host or not 0 < number < 1 << 16:
        raise InvalidSpec(
            f"{text[:100]!a} of {where} is not a portal: write ADDRESS, ADDRESS:PORT or [IPV6]:PORT, not a name"
        )
    return Portal(str(address), number)


def _name(text: str, field: str, where: str) -> str:
    if len(text) > LONGEST_NAME or not _NAME.fullmatch(text):
        raise InvalidSpec(
            f"{field} {text[:100]!a} of {where} is not an iSCSI name: it begins with iqn.YYYY-MM., eui. or naa., has "
            f"letters, digits and .:_- only, and at most {LONGEST_NAME} of them"
        )
    return text


def _interface(text: str, where: str) -> str:
    if len(text) > LONGEST_INTERFACE or not _INTERFACE.fullmatch(text):
        raise InvalidSpec(
            f"iscsiInterface {text[:100]!a} of {where} is not the name of an interface of open-iscsi"
        )
    return text


def _own_interface(name: str, where: str) -> str:
    """Upstream's rule for a volume with `initiatorName`: an interface of its own, `PORTAL:VOLUME`."""
    if len(name) > LONGEST_INTERFACE or "/" in name:
        raise InvalidSpec(
            f"{where} has an initiatorName: then its portal and name together must be shorter than {LONGEST_INTERFACE} "
            f"characters"
        )
    return name


def _secret(spec: VolumeSpec, source: ISCSIVolumeSource, where: str) -> SecretReference | None:
    if not (source.chap_auth_discovery or source.chap_auth_session):
        return None
    if source.secret_ref is None or not source.secret_ref.name:
        raise InvalidSpec(f"{where} asks for CHAP and names no Secret: add iscsi.secretRef")
    if spec.persistent_volume is None:
        raise InvalidSpec(
            f"{where} asks for CHAP: such a volume must be a PersistentVolume, whose secretRef names a namespace"
        )
    claim = spec.persistent_volume.spec.claim_ref
    namespace = source.secret_ref.namespace or (claim.namespace if claim is not None else "")
    if not namespace:
        raise InvalidSpec(
            f"{where} does not say in which namespace its Secret is: add iscsi.secretRef.namespace"
        )
    return SecretReference(name=source.secret_ref.name, namespace=namespace)


# --- names and places


def volume_name(disk: Disk) -> str:
    """As upstream: `PORTAL:IQN:LUN`."""
    return f"{disk.portals[0]}:{disk.target}:{disk.lun}"


def global_path(host: VolumeHost, disk: Disk, *, block: bool = False) -> Path:
    """Where the volume is mounted for the node; for a raw device, the name by which it is recorded."""
    plugin = host.get_plugin_dir(PLUGIN_NAME)
    directory = plugin / "volumeDevices" if block else plugin
    return directory / f"iface-{disk.interface}" / f"{disk.portals[0]}-{disk.target}-lun-{disk.lun}"


def disk_at(path: str) -> Disk | None:
    """What a global path says of its disk; None if it is none."""
    found = _DIRECTORY.fullmatch("/".join(Path(path).parts[-2:]))
    if found is None or not _NAME.fullmatch(found[3]) or int(found[4]) > HIGHEST_LUN:
        return None
    try:
        first = portal(found[2], path)
    except InvalidSpec:
        return None
    own = found[1].startswith(f"{first}:")
    if not (own or _INTERFACE.fullmatch(found[1])):
        return None
    return Disk(found[3], int(found[4]), (first,), found[1], DEFAULT_INTERFACE if own else "")
