"""The PersistentVolumes of the examples, as plugins see them."""

from __future__ import annotations

import msgspec
import yaml

from mooring.cluster.demo.scene import examples
from mooring.kube.objects import PersistentVolume
from mooring.volumes.spec import VolumeSpec


def volume_of(example: str) -> VolumeSpec:
    """That of the one PersistentVolume in the file."""
    objects = yaml.safe_load_all((examples() / example).read_text())
    (found,) = [each for each in objects if each["kind"] == "PersistentVolume"]
    return VolumeSpec.of_persistent_volume(msgspec.convert(found, PersistentVolume))
