"""Directories of an NFS export as volumes: one is made for each claim of a StorageClass, and removed with its
PersistentVolume. What is done on the export is `nfs_directories`'s.

Parameters: `server` and `path`, the export, whose directories the volumes are; `pathPattern`, where in it
(`DEFAULT_PATTERN`); `mode` of the directory, 0777 without it. Guarantees: whatever a claim, its labels and
annotations say, the directory is below the export, and no other volume's: a value can add no directory and no
`..`, and the last name ends with the PersistentVolume's, which has the claim's UID in it. Only a directory
that was made so is ever removed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from mooring.kube.objects import (
    NFSVolumeSource,
    ObjectMeta,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeSpec,
)
from mooring.volumes.errors import InvalidSpec
from mooring.volumes.interfaces import Deleter, Provisioner, VolumeOptions
from mooring.volumes.matching import PROVISIONED_BY, capacity
from mooring.volumes.plugins.disk_provisioning import requested_size
from mooring.volumes.plugins.nfs_directories import Directories
from mooring.volumes.plugins.nfs_source import PLUGIN_NAME, Export, export, mount_options
from mooring.volumes.spec import VolumeSpec

EXPORT = "mooring.dev/nfs-export"
"""Annotation of a PersistentVolume: the path of the export that it was made in."""
DEFAULT_PATTERN, DEFAULT_MODE = "${.PVC.namespace}-${.PVC.name}", "0777"
MOST_NAMES, LONGEST_NAME = 8, 230

_KNOWN = {"server", "path", "pathPattern", "mode"}
_FIELD = re.compile(
    r"\$\{\.PVC\.(namespace|name|labels|annotations)(?:\.([A-Za-z0-9._/-]{1,317}))?\}", re.ASCII
)
_PLAIN = re.compile(r"[-\w.]*", re.ASCII)
_PATH = re.compile(r"[-\w./]*", re.ASCII)
_MODE = re.compile(r"0?[0-7]{3}", re.ASCII)


def escaped(text: str) -> str:
    """The value as a part of one name of a directory: letters, digits and -_. stay, the rest is percent and
    hexadecimal digits."""
    return "".join(chr(each) if _PLAIN.fullmatch(chr(each)) else f"%{each:02X}" for each in text.encode())


def names_of(pattern: str, claim: PersistentVolumeClaim, pv_name: str) -> list[str]:
    """The names of the directory, one below the other. Raises InvalidSpec for a pattern that cannot be one,
    and for a claim that lacks a label or annotation that is in it."""
    parts = _filled(pattern, claim).split("/")  # values have no slash in them any more
    parts[-1] = f"{parts[-1]}-{pv_name}" if parts[-1] else pv_name
    names = [f"%2E{each[1:]}" if each.startswith(".") else each for each in parts]
    if not all(names) or len(names) > MOST_NAMES or any(len(each) > LONGEST_NAME for each in names):
        raise InvalidSpec(
            f"pathPattern {pattern[:100]!a} is not a path for claim {claim.key}: no name of it may be empty or longer "
            f"than {LONGEST_NAME} bytes, and {MOST_NAMES} are the most"
        )
    return names


def _filled(pattern: str, claim: PersistentVolumeClaim) -> str:
    literal = _FIELD.sub("", pattern)
    if not _PATH.fullmatch(literal):
        raise InvalidSpec(
            f"pathPattern has {literal[:50]!a} in it: beside ${{.PVC.namespace}}, ${{.PVC.name}}, ${{.PVC.labels.KEY}} "
            f"and ${{.PVC.annotations.KEY}} it may have letters, digits and -_./"
        )
    return _FIELD.sub(lambda found: escaped(_value(found[1], found[2] or "", claim)), pattern)


def _value(field: str, key: str, claim: PersistentVolumeClaim) -> str:
    meta = claim.metadata
    fields: Mapping[str, Mapping[str, str]] = {
        "namespace": {"": meta.namespace},
        "name": {"": meta.name},
        "labels": meta.labels,
        "annotations": meta.annotations,
    }
    value = fields[field].get(key, "")
    if not value:
        raise InvalidSpec(
            f"claim {claim.key} has no {field} {key[:100]!a}, and its class's pathPattern has it"
        )
    return value


def _mode(text: str) -> str:
    if not _MODE.fullmatch(text):
        raise InvalidSpec(f"mode {text[:50]!a} of the StorageClass is not one of three octal digits, as 0770")
    return text


class NFSProvisioner(Provisioner):
    """Makes the directory of one claim."""

    def __init__(self, directories: Directories, options: VolumeOptions) -> None:
        self._directories, self._options = directories, options

    async def provision(self) -> PersistentVolume:
        options, given = self._options, self._options.parameters
        if unknown := sorted(given.keys() - _KNOWN):
            raise InvalidSpec(
                f"the StorageClass has parameters that {PLUGIN_NAME} does not know: {unknown}. Known: {sorted(_KNOWN)}"
            )
        if options.claim.spec.volume_mode == "Block" or options.content is not None:
            raise InvalidSpec(
                f"claim {options.claim.key} wants a raw device, or content of another volume: a directory of a server "
                f"has neither"
            )
        requested_size(options.claim)  # nothing keeps to it, and it is what upstream demands
        within, mode = self._export(given), _mode(given.get("mode", DEFAULT_MODE))
        names = names_of(given.get("pathPattern") or DEFAULT_PATTERN, options.claim, options.pv_name)
        made = self._volume(within, names)
        spec = VolumeSpec.of_persistent_volume(made)
        await self._directories.make(str(within), mount_options(spec, within), names, mode)
        return made

    def _export(self, given: Mapping[str, str]) -> Export:
        source = NFSVolumeSource(server=given.get("server", ""), path=given.get("path", ""))
        pv = PersistentVolume(
            metadata=ObjectMeta(name="of the StorageClass"), spec=PersistentVolumeSpec(nfs=source)
        )
        return export(VolumeSpec.of_persistent_volume(pv))

    def _volume(self, within: Export, names: list[str]) -> PersistentVolume:
        options = self._options
        annotations = {PROVISIONED_BY: PLUGIN_NAME, EXPORT: within.path}
        path = "/".join([within.path.rstrip("/"), *names])
        return PersistentVolume(
            metadata=ObjectMeta(name=options.pv_name, annotations=annotations),
            spec=PersistentVolumeSpec(
                capacity={"storage": options.claim.spec.resources.requests["storage"]},
                access_modes=options.claim.spec.access_modes,
                persistent_volume_reclaim_policy=options.reclaim_policy,
                storage_class_name=options.claim.storage_class,
                mount_options=options.mount_options,
                nfs=NFSVolumeSource(server=within.server, path=path),
            ),
        )


class NFSDeleter(Deleter):
    """Removes the directory of one PersistentVolume."""

    def __init__(self, directories: Directories, spec: VolumeSpec) -> None:
        self._directories, self._spec = directories, spec

    def get_path(self) -> str:
        return ""

    async def delete(self) -> None:
        pv = self._spec.persistent_volume
        assert pv is not None
        of = export(self._spec)
        within, names = _made_at(pv, of)
        options = mount_options(self._spec, Export(of.server, within, read_only=False))
        await self._directories.remove(
            str(Export(of.server, within, read_only=False)), options, names, capacity(pv)
        )


def _made_at(pv: PersistentVolume, of: Export) -> tuple[str, list[str]]:
    """The export, and the names in it. Raises InvalidSpec for a directory that was not made here."""
    annotations = pv.metadata.annotations
    within = annotations.get(EXPORT, "")
    names = of.path.removeprefix(within.rstrip("/") + "/").split("/")
    if (
        annotations.get(PROVISIONED_BY) != PLUGIN_NAME
        or not within.startswith("/")
        or of.path != "/".join([within.rstrip("/"), *names])
        or not names[-1].endswith(pv.name)
        or not all(each not in ("", ".", "..") for each in names)
    ):
        raise InvalidSpec(
            f"volume {pv.name} was not made by a StorageClass of {PLUGIN_NAME} there: its directory is not removed. "
            f"Remove it at the server, and then the PersistentVolume"
        )
    return within, names
