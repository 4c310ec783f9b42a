"""The sources of volumes: in pods, and in PersistentVolumes, where references name a namespace, too."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from mooring.apiserver.errors import FieldError, Obj, forbidden_field, invalid_value, required, unsupported
from mooring.apiserver.objects.validation.checks import (
    NONE,
    Check,
    Errors,
    always,
    at,
    between,
    each,
    exactly,
    exclusive,
    file_mode,
    joined,
    local_path,
    needed,
    no_steps_back,
    objects,
    one_of,
    part,
    record,
    text,
    too_long,
)  # fmt: skip
from mooring.apiserver.objects.validation.claims import claim_template
from mooring.apiserver.objects.validation.formats import label_error, subdomain_error
from mooring.apiserver.objects.validation.references import file_field

_PARTITION = between(0, 255)
_HOST_TYPES = (
    "",
    "BlockDevice",
    "CharDevice",
    "Directory",
    "DirectoryOrCreate",
    "File",
    "FileOrCreate",
    "Socket",
)
_PULL_POLICIES = ("Always", "IfNotPresent", "Never")
_IQN = re.compile(r"iqn\.\d{4}-\d{2}\.([0-9A-Za-z\-.]+)(:[^,;*&$|\s]+)$", re.ASCII)
_EUI, _NAA = re.compile(r"eui.[0-9A-Za-z]{16}"), re.compile(r"naa.[0-9A-Za-z]{32}")


def _absolute(value: Any) -> Errors:
    return (
        NONE
        if (value or "").startswith("/")
        else [invalid_value("", value or "", "must be an absolute path")]
    )


def csi_driver_name(value: Any) -> Errors:
    """The name of a CSI driver: a subdomain, in either case, of at most 63 bytes."""
    if not value:
        return [required("")]
    errors = [too_long("", 63)] if len(value) > 63 else []
    why = subdomain_error(value.lower())
    return [*errors, invalid_value("", value, why)] if why is not None else errors


host_path = record(("path", needed(no_steps_back)), ("type", one_of(*_HOST_TYPES)))
_nfs = record(("server", needed()), ("path", needed()), ("path", always(_absolute)))
_ebs = record(("volumeID", needed()), ("partition", _PARTITION))
_gce = record(("pdName", needed()), ("partition", _PARTITION))
_monitored = record(("monitors", needed()))
_rbd = record(("monitors", needed()), ("image", needed()))
_vsphere, _photon, _portworx = (record((field, needed())) for field in ("volumePath", "pdID", "volumeID"))


def _host_path_source(source: Obj) -> Errors:
    errors = host_path(source)
    return errors if source.get("path") else errors[:1]


def _initiator(path: str) -> Check:
    """The name of an iSCSI initiator or target, at the path that upstream gives it."""

    def check(value: Any) -> Errors:
        for prefix, form in (("iqn", _IQN), ("eui", _EUI), ("naa", _NAA)):
            if value.startswith(prefix):
                fits = form.search(value) if prefix == "iqn" else form.fullmatch(value)
                return NONE if fits else [invalid_value(path, value, "must be valid format")]
        return [invalid_value(path, value, "must be valid format starting with iqn, eui, or naa")]

    return check


def _iscsi(source: Obj) -> Errors:
    errors: list[FieldError] = [] if source.get("targetPortal") else [required("targetPortal")]
    errors += _initiator("iqn")(source["iqn"]) if source.get("iqn") else [required("iqn")]
    errors += at("lun", between(0, 255)(source.get("lun")))
    if (source.get("chapAuthDiscovery") or source.get("chapAuthSession")) and source.get("secretRef") is None:
        errors.append(required("secretRef"))
    if (initiator := source.get("initiatorName")) is not None:
        errors += _initiator("initiatorname")(initiator)
    return errors


def _fc(source: Obj) -> Errors:
    names, ids = source.get("targetWWNs"), source.get("wwids")
    errors: list[FieldError] = []
    if not names and not ids:
        errors.append(required("targetWWNs", "must specify either targetWWNs or wwids, but not both"))
    if names and ids:
        errors.append(
            invalid_value("targetWWNs", names, "targetWWNs and wwids can not be specified simultaneously")
        )
    if names and source.get("lun") is None:
        errors.append(required("lun", "lun is required if targetWWNs is specified"))
    elif names:
        errors += at("lun", between(0, 255)(source["lun"]))
    return errors


def _flocker(source: Obj) -> Errors:
    name, uid = source.get("datasetName") or "", source.get("datasetUUID") or ""
    errors: list[FieldError] = []
    if not name and not uid:
        errors.append(required("", "one of datasetName and datasetUUID is required"))
    if name and uid:
        errors.append(
            invalid_value("", "resource", "datasetName and datasetUUID can not be specified simultaneously")
        )
    return [*errors, invalid_value("datasetName", name, "must not contain '/'")] if "/" in name else errors


def _quobyte(source: Obj) -> Errors:
    registry, detail = (
        source.get("registry") or "",
        "must be a host:port pair or multiple pairs separated by commas",
    )
    errors: list[FieldError] = []
    if not registry:
        errors.append(required("registry", detail))
    elif len(source.get("tenant") or "") >= 65:
        errors.append(required("tenant", "must be a UUID and may not exceed a length of 64 characters"))
    elif not all(_is_host_port(pair) for pair in registry.split(",")):
        errors.append(invalid_value("registry", registry, detail))
    return errors if source.get("volume") else [*errors, required("volume")]


def _is_host_port(pair: str) -> bool:
    host, colon, _ = pair.rpartition(":")
    if host.startswith("["):
        return bool(colon) and host.endswith("]")
    return bool(colon) and ":" not in host and not any(mark in pair for mark in "[]")


def _flex(source: Obj) -> Errors:
    errors: list[FieldError] = [] if source.get("driver") else [required("driver")]
    for key in part(source, "options"):
        domain = "." + key.partition("/")[0].lower()
        if domain.endswith((".kubernetes.io", ".k8s.io")):
            detail = "kubernetes.io and k8s.io namespaces are reserved"
            errors.append(invalid_value(f"options[{key}]", key, detail))
    return errors


def _azure_disk(source: Obj) -> Errors:
    kind, uri = source.get("kind"), source.get("diskURI") or ""
    errors = list(record(
        ("diskName", needed()), ("diskURI", needed()),
        ("cachingMode", one_of("None", "ReadOnly", "ReadWrite")), ("kind", one_of("Dedicated", "Managed", "Shared")),
    )(source))  # fmt: skip
    if kind == "Managed" and not uri.startswith("/subscriptions/"):
        disk = (
            "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}"
        )
        errors.append(unsupported("diskURI", uri, (disk,)))
    elif kind is not None and kind != "Managed" and not uri.startswith("https://"):
        blob = "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd"
        errors.append(unsupported("diskURI", uri, (blob,)))
    return errors


_named = record(("name", needed()))
_placed = record(("name", needed()), ("namespace", needed()))
_azure_file = (("secretName", needed()), ("shareName", needed()))
_scale_io = record(("gateway", needed()), ("system", needed()), ("volumeName", needed()))


def _storage_os(reference: Check) -> Check:
    return record(
        ("volumeName", needed(text(label_error))),
        ("volumeNamespace", text(label_error)),
        ("secretRef", reference),
    )


def _key_to_path(entry: Obj) -> Errors:
    return _KEY_TO_PATH(entry)


_KEY_TO_PATH = record(("key", needed()), ("path", needed()), ("path", local_path), ("mode", file_mode))


def _keyed(name: str) -> Check:
    """A volume of the keys of a ConfigMap or Secret."""
    return record((name, needed()), ("defaultMode", file_mode), ("items", each(_key_to_path)))


def _downward(source: Obj) -> Errors:
    errors = at("defaultMode", file_mode(source.get("defaultMode") or 0))
    return [*errors, *(error for item in objects(source.get("items")) for error in file_field(item))]


def _pod_csi(source: Obj) -> Errors:
    errors = at("driver", csi_driver_name(source.get("driver")))
    reference = source.get("nodePublishSecretRef")
    if reference is None:
        return errors
    name = reference.get("name") or ""
    if not name:
        return [*errors, required("nodePublishSecretRef.name")]
    why = subdomain_error(name)
    return [*errors, invalid_value("name", name, why)] if why is not None else errors


def _git(source: Obj) -> Errors:
    errors: list[FieldError] = [] if source.get("repository") else [required("repository")]
    directory = source.get("directory") or ""
    if directory.startswith("/"):
        errors.append(invalid_value("directory", directory, "must be a relative path"))
    return [*errors, *at("directory", no_steps_back(directory))]


def _glusterfs(source: Obj) -> Errors:
    return record(("endpoints", needed()), ("path", needed()))(source)


def _ephemeral(source: Obj) -> Errors:
    template = source.get("volumeClaimTemplate")
    return (
        [required("volumeClaimTemplate")]
        if template is None
        else at("volumeClaimTemplate", claim_template(template))
    )


class _Paths:
    """The paths that the sources of a projected volume fill, each once."""

    def __init__(self) -> None:
        self._seen: set[str] = set()

    def conflict(self, path: str, value: str) -> Errors:
        """An error if the path is filled already."""
        if path in self._seen:
            return [invalid_value("", value, "conflicting duplicate paths")]
        self._seen.add(path)
        return NONE


def _projected(source: Obj) -> Errors:
    errors = at("defaultMode", file_mode(source.get("defaultMode") or 0))
    paths = _Paths()
    for index, each_source in enumerate(objects(source.get("sources"))):
        kinds = [name for name in _PROJECTED if each_source.get(name) is not None]
        for name in kinds:
            errors += _PROJECTED[name](each_source[name], f"sources[{index}].{name}", paths)
        if len(kinds) > 1:
            errors.append(
                forbidden_field(f"sources[{index}]", "may not specify more than 1 volume type per source")
            )
    return errors


def _projected_keys(source: Obj, place: str, paths: _Paths) -> Errors:
    name = source.get("name") or ""
    errors: list[FieldError] = [] if name else [required(joined(place, "name"))]
    for index, item in enumerate(objects(source.get("items"))):
        errors += at(f"{place}.items[{index}]", _key_to_path(item))
        if item.get("path"):
            errors += paths.conflict(item["path"], name)
    return errors


def _projected_fields(source: Obj, place: str, paths: _Paths) -> Errors:
    errors: list[FieldError] = []
    for item in objects(source.get("items")):
        errors += at(place, file_field(item))
        if item.get("path"):
            errors += paths.conflict(item["path"], item["path"])
    return errors


def _projected_token(source: Obj, place: str, paths: _Paths) -> Errors:
    seconds, path = source.get("expirationSeconds") or 0, source.get("path") or ""
    errors: list[FieldError] = []
    if seconds < 600:
        detail = "may not specify a duration less than 10 minutes"
        errors.append(invalid_value(f"{place}.expirationSeconds", seconds, detail))
    if seconds > 2**32:
        detail = "may not specify a duration larger than 2^32 seconds"
        errors.append(invalid_value(f"{place}.expirationSeconds", seconds, detail))
    # As upstream: the path's errors are the whole source's.
    return [*errors, *(at("path", local_path(path)) if path else [required("path")])]


_PROJECTED = {
    "secret": _projected_keys,
    "configMap": _projected_keys,
    "downwardAPI": _projected_fields,
    "serviceAccountToken": _projected_token,
}


def _not_negative_size(value: Any) -> Errors:
    detail = "SizeLimit field must be a valid resource quantity"
    return [forbidden_field("", detail)] if str(value).startswith("-") else NONE


def image_source(*, in_pod: bool) -> Check:
    """An image as a volume. A template may leave the reference to the controller that creates pods from
    it."""
    return record(
        *((("reference", needed()),) if in_pod else ()),
        ("pullPolicy", always(one_of(*_PULL_POLICIES, needs=True))),
    )


def _pod_sources(*, in_pod: bool) -> Mapping[str, Check]:
    """The sources that a pod's volume can have, in the order in which upstream looks."""
    return {
        "emptyDir": record(("sizeLimit", _not_negative_size)),
        "hostPath": _host_path_source,
        "gitRepo": _git,
        "gcePersistentDisk": _gce,
        "awsElasticBlockStore": _ebs,
        "secret": _keyed("secretName"),
        "nfs": _nfs,
        "iscsi": _iscsi,
        "glusterfs": _glusterfs,
        "flocker": _flocker,
        "persistentVolumeClaim": record(("claimName", needed())),
        "rbd": _rbd,
        "cinder": record(("volumeID", needed()), ("secretRef", _named)),
        "cephfs": _monitored,
        "quobyte": _quobyte,
        "downwardAPI": _downward,
        "fc": _fc,
        "flexVolume": _flex,
        "configMap": _keyed("name"),
        "azureFile": record(*_azure_file),
        "vsphereVolume": _vsphere,
        "photonPersistentDisk": _photon,
        "portworxVolume": _portworx,
        "azureDisk": _azure_disk,
        "storageos": _storage_os(_named),
        "projected": _projected,
        "scaleIO": _scale_io,
        "csi": _pod_csi,
        "ephemeral": _ephemeral,
        "image": image_source(in_pod=in_pod),
    }


_NO_SOURCE = "must specify a volume type"


def _source_of_pod(*, in_pod: bool) -> Check:
    renamed = {"gcePersistentDisk": "persistentDisk", "gcePersistentDisk!": "gcePersistentDisk",
               "cephfs!": "cephFS", "downwardAPI!": "downwarAPI"}  # fmt: skip
    return exclusive(_pod_sources(in_pod=in_pod), none=lambda: required("", _NO_SOURCE), renamed=renamed)


pod_source = _source_of_pod(in_pod=True)
"""The source of a volume of a pod."""
template_source = _source_of_pod(in_pod=False)
"""The source of a volume of a pod template."""

_reference = record(("name", needed(exactly(subdomain_error))), ("namespace", needed(exactly(label_error))))
_csi_volume = record(
    ("driver", always(csi_driver_name)),
    ("volumeHandle", needed()),
    *(
        (f"{call}SecretRef", _reference)
        for call in ("controllerPublish", "controllerExpand", "nodePublish", "nodeExpand")
    ),
)


def _some_namespace(value: Any) -> Errors:
    if not value:
        detail = "if the endpointnamespace is set, it must be a valid namespace name"
        return [invalid_value("", value, detail)]
    return text(label_error)(value)


def _volume_iscsi(source: Obj) -> Errors:
    errors = list(_iscsi(source))
    if source.get("secretRef") is not None and not source["secretRef"].get("name"):
        errors.append(required("secretRef.name"))
    return errors


VOLUME_SOURCES: Mapping[str, Check] = {
    "hostPath": _host_path_source,
    "gcePersistentDisk": _gce,
    "awsElasticBlockStore": _ebs,
    "glusterfs": record(("endpoints", needed()), ("path", needed()), ("endpointsNamespace", _some_namespace)),
    "flocker": _flocker,
    "nfs": _nfs,
    "rbd": _rbd,
    "quobyte": _quobyte,
    "cephfs": _monitored,
    "iscsi": _volume_iscsi,
    "cinder": record(("volumeID", needed()), ("secretRef", _placed)),
    "fc": _fc,
    "flexVolume": _flex,
    "azureFile": record(*_azure_file, ("secretNamespace", needed())),
    "vsphereVolume": _vsphere,
    "photonPersistentDisk": _photon,
    "portworxVolume": _portworx,
    "azureDisk": _azure_disk,
    "scaleIO": _scale_io,
    "local": record(("path", needed(no_steps_back))),
    "storageos": _storage_os(_placed),
    "csi": _csi_volume,
}
"""The sources that a PersistentVolume can have, in the order in which upstream looks."""

volume_source = exclusive(
    VOLUME_SOURCES,
    none=lambda: required("", _NO_SOURCE),
    renamed={
        "gcePersistentDisk": "persistentDisk",
        "gcePersistentDisk!": "gcePersistentDisk",
        "cephfs!": "cephFS",
    },
    unchecked=("flexVolume",),
)
"""The source of a PersistentVolume."""
