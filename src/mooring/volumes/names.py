"""Names that several parts must agree on: unique volume names, VolumeAttachment names, annotations.

Pure. CSI volumes are named as in upstream, so that Mooring and kube-controller-manager can take over from
each other. For plugin volumes upstream has no VolumeAttachment, so those names are ours.
"""

from __future__ import annotations

import hashlib
import re
from typing import Any

from mooring.kube.objects import VolumeAttachment

_PLACE = re.compile(r"/plugins/[^/]+/mounts/(.+)")

CSI_PLUGIN = "kubernetes.io/csi"

ATTACHER = "plugins.mooring.dev"
"""`spec.attacher` of the VolumeAttachments of plugin volumes."""
ATTACHER_FINALIZER = "mooring.dev/attacher"

PLUGIN = "mooring.dev/plugin"
VOLUME_NAME = "mooring.dev/volume-name"
DETACHING = "mooring.dev/detaching"
NODE_UID = "mooring.dev/node-uid"
NODE_MACHINE = "mooring.dev/node-machine"
"""On a VolumeAttachment: the machine that it was made for (`mooring.volumes.machines`)."""
ATTACH_REQUESTED_AT = "mooring.dev/attach-requested-at"
DETACH_REQUESTED_AT = "mooring.dev/detach-requested-at"
DETACHED = "mooring.dev/detached"
"""On a VolumeAttachment that is being deleted: the storage has detached the volume. An unanswered detach may
still take effect on its own node, which waits until that is over; other nodes may have the volume."""
ATTACH_EPOCH = "mooring.dev/attach-epoch"
"""On a VolumeAttachment: the epoch of the lock under which it was made
(`mooring.volumes.attachment_lock`)."""
FORCE_DETACH_SINCE = "mooring.dev/force-detach-since"
"""On a VolumeAttachment: since when no pod wants the volume there and the node does not answer."""
FORCE_DETACH_REPORT = "mooring.dev/force-detach-report"
"""Beside it: the last report of the node's agent by then. A node that has reported since was there meanwhile,
whether or not a controller has seen it."""
NODE_ABSENT_SINCE = "mooring.dev/node-absent-since"
"""On a marked VolumeAttachment: when a live read after the mark found no Node."""
CONFIRMED_DEAD = "mooring.dev/node-confirmed-dead"
"""On a VolumeAttachment: an operator's statement about its node (`mooring.volumes.statements`)."""
FENCE_EVIDENCE = "mooring.dev/fence-evidence"
"""On a VolumeAttachment: evidence that its node was fenced (`mooring.volumes.statements`)."""
BROKEN = "mooring.dev/break-attachment"
"""On a VolumeAttachment: an operator broke it on purpose; by whom, and when."""
VOLUMES_ATTACHED_WRITE = "mooring.dev/volumes-attached-write"
INLINE_VOLUME = "mooring.dev/inline-volume"
"""On the VolumeAttachment of a volume that a pod defines itself: that volume, as JSON."""
CONTROLLER_MANAGED = "volumes.kubernetes.io/controller-managed-attach-detach"
"""On a Node: attaching and detaching its volumes is the attach/detach controller's work."""
NAME_HELD = "NodeNameHeldByAnother"
"""Reason of the event on a Node about a second agent that was refused its name."""
RECONSTRUCTED = "mooring.dev/reconstructed"
"""On a Node: its agent wrote volumesInUse after it had looked at its own mounts; the value is the boot ID."""
STATUS_WRITE = "mooring.dev/status-write"
"""On a Node: differs after each status write of its agent."""
AWAITED = "mooring.dev/volumes-awaited"
"""On a Node, as JSON: the volumes of its volumesInUse that a pod waits for and of which nothing
is mounted, each with the epoch of the lock that the agent has seen. Only volumes that were
taken from this node by force."""


def attachable_volume_name(plugin: str, volume_name: str) -> str:
    """The unique name of a volume that is attached, or mounted once for a node: the same for all pods."""
    return f"{plugin}/{volume_name}"


def pod_volume_name(plugin: str, pod_uid: str, spec_name: str) -> str:
    """The unique name of a volume that each pod has for itself."""
    return f"{plugin}/{pod_uid}-{spec_name}"


def split_volume_name(unique_name: str) -> tuple[str, str]:
    """Plugin and volume name of an attachable volume's unique name. Raises ValueError if it is none."""
    parts = unique_name.split("/", 2)
    if len(parts) != 3 or not all(parts):
        raise ValueError(
            f"{unique_name!r} is not a unique volume name: it has the form <plugin namespace>/<plugin>/<volume name>"
        )
    return f"{parts[0]}/{parts[1]}", parts[2]


def csi_volume_name(driver: str, handle: str) -> str:
    """The volume name of a CSI volume, as upstream's CSI plugin gives it."""
    return f"{driver}^{handle}"


def split_csi_volume_name(volume_name: str) -> tuple[str, str]:
    """Driver and handle. Raises ValueError if it is no CSI volume name."""
    driver, separator, handle = volume_name.partition("^")
    if not (driver and separator and handle):
        raise ValueError(f"{volume_name!r} is not a CSI volume name: it has the form <driver>^<handle>")
    return driver, handle


def volume_of(record: VolumeAttachment) -> str:
    """Returns the unique name of the volume that one of our VolumeAttachments is about; "" for others'."""
    annotations = record.metadata.annotations
    plugin, name = annotations.get(PLUGIN), annotations.get(VOLUME_NAME)
    return attachable_volume_name(plugin, name) if plugin and name else ""


def inline_csi_name(record: VolumeAttachment) -> str:
    """Returns the unique name of the CSI volume that the VolumeAttachment itself contains, since a pod
    defines it; "" for any other VolumeAttachment."""
    written: Any = (record.spec.source.inline_volume_spec or {}).get("csi") or {}
    driver, handle = written.get("driver"), written.get("volumeHandle")
    return attachable_volume_name(CSI_PLUGIN, csi_volume_name(driver, handle)) if driver and handle else ""


def is_about(record: VolumeAttachment, unique_name: str) -> bool:
    """Whether a VolumeAttachment is about the volume, by its annotations or else by its own name."""
    own = volume_of(record)
    if own:
        return own == unique_name
    plugin, name = split_volume_name(unique_name)
    return plugin == CSI_PLUGIN and volume_attachment_name(plugin, name, record.spec.node_name) == record.name


def volume_attachment_name(plugin: str, volume_name: str, node: str) -> str:
    """The name of the one VolumeAttachment of this volume and node."""
    if plugin == CSI_PLUGIN:
        driver, handle = split_csi_volume_name(volume_name)
        return "csi-" + _sha256(handle + driver + node)
    return "mooring-" + _sha256(f"{plugin}/{volume_name}^{node}")


def is_made_of_handle(name: str) -> bool:
    """Whether the name of a VolumeAttachment is such as CSI volumes' are: of one volume, and of no other."""
    return re.fullmatch("csi-[0-9a-f]{64}", name) is not None


def attacher_name(plugin: str, volume_name: str) -> str:
    """Returns the attacher that carries out the volume's VolumeAttachments (`spec.attacher`)."""
    return split_csi_volume_name(volume_name)[0] if plugin == CSI_PLUGIN else ATTACHER


def inline_persistent_volume_name(unique_name: str) -> str:
    """Returns the `persistentVolumeName` for the VolumeAttachment of a volume without a PersistentVolume. No
    PersistentVolume has such a name, and the API server does not look for one."""
    return "inline-" + _sha256(unique_name)


def volume_name_by_place(device_mount_path: str) -> str | None:
    """Returns the volume whose device is mounted at `<root>/plugins/<plugin>/mounts/<volume
    name>`; None for another path."""
    found = _PLACE.search(device_mount_path)
    return found[1] if found else None


def escape_plugin_name(plugin: str) -> str:
    """A plugin's name as a directory name, as the kubelet writes it."""
    return plugin.replace("/", "~")


def unescape_plugin_name(directory: str) -> str:
    return directory.replace("~", "/")


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
