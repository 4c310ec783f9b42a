"""What an `rbd` source means: checked values, from which orders to the kernel and paths are made. Pure.

Guarantee: no text of an `Image` has a blank, a comma or a slash in it, so that none can be taken for another
word of an order, or lead out of the plugin's directory.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from mooring.kube.objects import RBDVolumeSource
from mooring.volumes.errors import InvalidSpec
from mooring.volumes.host import VolumeHost
from mooring.volumes.plugins.ceph.cluster import Cluster, cluster, monitor
from mooring.volumes.spec import VolumeSpec

PLUGIN_NAME = "kubernetes.io/rbd"
DEFAULT_FS_TYPE = "ext4"

_NAME = re.compile(r"[A-Za-z0-9_][\w.+-]{0,95}", re.ASCII)  # the kernel's limit: RBD_MAX_IMAGE_NAME_LEN


@dataclass(frozen=True)
class Image:
    """An image of a pool, and how it is used."""

    cluster: Cluster
    pool: str
    name: str
    fs_type: str = DEFAULT_FS_TYPE
    read_only: bool = False

    def __str__(self) -> str:
        return f"image {self.pool}/{self.name} of {self.cluster}"


def written(spec: VolumeSpec) -> RBDVolumeSource | None:
    """The `rbd` source of the spec, unchecked."""
    return spec.definition.rbd if spec.definition is not None else None


def image(spec: VolumeSpec, pod_namespace: str = "") -> Image:
    """Raises InvalidSpec for a spec that is not RBD's, or that cannot be meant. `pod_namespace` is of use for
    a volume that a pod defines itself: its Secret is there."""
    source = written(spec)
    if source is None:
        raise InvalidSpec(f"volume {spec.name} has no rbd source")
    for field, text in (("image", source.image), ("pool", source.pool or "rbd")):
        if not _NAME.fullmatch(text):
            raise InvalidSpec(
                f"rbd.{field} {text[:100]!a} of volume {spec.name} must be of letters, digits and _.+-: correct it"
            )
    return Image(
        cluster(spec, source, source.keyring, pod_namespace),
        source.pool or "rbd",
        source.image,
        source.fs_type or DEFAULT_FS_TYPE,
        source.read_only or spec.read_only,
    )


def volume_name(of: Image) -> str:
    """`MONITOR:POOL:IMAGE`. Upstream has no monitor in it: images of two clusters would be one volume."""
    return f"{of.cluster.monitors[0]}:{of.pool}:{of.name}"


def global_path(host: VolumeHost, of: Image, *, block: bool = False) -> Path:
    """Where the volume is mounted for the node; for a raw device, the name by which it is recorded."""
    below = "volumeDevices" if block else "mounts"
    return host.get_plugin_dir(PLUGIN_NAME) / below / str(of.cluster.monitors[0]) / of.pool / of.name


def image_at(path: str) -> Image | None:
    """What a global path says of its image; None if it is none."""
    if len(parts := Path(path).parts) < 4:
        return None
    below, first, pool, name = parts[-4:]
    if below not in ("mounts", "volumeDevices") or not (_NAME.fullmatch(pool) and _NAME.fullmatch(name)):
        return None
    try:
        return Image(Cluster((monitor(first, path),), "admin"), pool, name)
    except InvalidSpec:
        return None
