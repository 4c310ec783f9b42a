"""The other objects that a pod or a PersistentVolume names. Pure; never raises for a malformed object.

The places are those of upstream's `VisitPodSecretNames`, `VisitPodConfigmapNames` (pkg/api/v1/pod/util.go)
and `VisitPVSecretNames` (pkg/api/v1/persistentvolume/util.go; of a CSI volume those that a node needs).
Stored objects are validated; a part of another form than expected names nothing, so in doubt a node gets no
right.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

from mooring.apiserver.errors import Obj

Named = tuple[str, str, str]
"""Resource, namespace and name of an object that another one names."""

CONFIG_MAPS, SECRETS, ACCOUNTS = "configmaps", "secrets", "serviceaccounts"
CLAIMS = "persistentvolumeclaims"
MIRROR = "kubernetes.io/config.mirror"

_CONTAINERS = ("containers", "initContainers", "ephemeralContainers")
_SECRET_SOURCES = ("cephfs", "cinder", "flexVolume", "rbd", "scaleIO", "iscsi", "storageos")
"""Sources of volumes whose Secret stands in `secretRef`."""
_NODE_SECRETS = ("nodePublishSecretRef", "nodeStageSecretRef", "nodeExpandSecretRef")


def of_pod(pod: Obj) -> Iterator[Named]:
    """The objects that a pod names in its namespace, with repetitions. A mirror pod names nothing, because a
    node can create one itself."""
    namespace, spec = str(pod["metadata"].get("namespace") or ""), _object(pod, "spec")
    if MIRROR in _object(pod["metadata"], "annotations"):
        return
    for resource, name in _in_spec(spec, str(pod["metadata"].get("name") or "")):
        if isinstance(name, str) and name:
            yield resource, namespace, name


def api_objects(spec: Obj) -> str:
    """The kind of API object to which a pod refers, in upstream's words; "" if it refers to none
    (podutil.HasAPIObjectReference)."""
    named = {resource for resource, name in _in_spec(spec, "") if name}
    if kind := next((each for each in (ACCOUNTS, SECRETS, CONFIG_MAPS) if each in named), ""):
        return kind
    if spec.get("resourceClaims"):
        return "resourceclaims"
    found_in = (_api_object_of_volume(volume) for volume in _objects(spec, "volumes"))
    return next((each for each in found_in if each), "")


def secrets_of_volume(volume: Obj) -> Iterator[tuple[str, str]]:
    """Namespace and name of the Secrets of a PersistentVolume that its node needs."""
    spec = _object(volume, "spec")
    own = str(_object(spec, "claimRef").get("namespace") or "")
    references = [_object(_object(spec, source), "secretRef") for source in _SECRET_SOURCES]
    references += [_object(_object(spec, "csi"), field) for field in _NODE_SECRETS]
    azure = _object(spec, "azureFile")
    references.append({"name": azure.get("secretName"), "namespace": azure.get("secretNamespace")})
    for each in references:
        if each.get("name"):
            yield str(each.get("namespace") or own), str(each["name"])


def claim_of_volume(volume: Obj) -> Named | None:
    """The claim that a PersistentVolume is reserved for, or None."""
    reference = _object(_object(volume, "spec"), "claimRef")
    if not reference.get("name"):
        return None
    return CLAIMS, str(reference.get("namespace") or ""), str(reference["name"])


def _in_spec(spec: Obj, pod: str) -> Iterator[tuple[str, Any]]:
    yield ACCOUNTS, spec.get("serviceAccountName")
    yield ACCOUNTS, spec.get("serviceAccount")  # the field's former name
    yield from ((SECRETS, each.get("name")) for each in _objects(spec, "imagePullSecrets"))
    yield from _in_containers(spec)
    for volume in _objects(spec, "volumes"):
        yield from _in_volume(volume, pod)


def _in_containers(spec: Obj) -> Iterator[tuple[str, Any]]:
    for container in (each for group in _CONTAINERS for each in _objects(spec, group)):
        for source in _objects(container, "envFrom"):
            yield SECRETS, _object(source, "secretRef").get("name")
            yield CONFIG_MAPS, _object(source, "configMapRef").get("name")
        for variable in _objects(container, "env"):
            origin = _object(variable, "valueFrom")
            yield SECRETS, _object(origin, "secretKeyRef").get("name")
            yield CONFIG_MAPS, _object(origin, "configMapKeyRef").get("name")


def _in_volume(volume: Obj, pod: str) -> Iterator[tuple[str, Any]]:
    yield CLAIMS, _object(volume, "persistentVolumeClaim").get("claimName")
    if volume.get("ephemeral") is not None:
        yield CLAIMS, f"{pod}-{volume.get('name')}"
    yield CONFIG_MAPS, _object(volume, "configMap").get("name")
    yield SECRETS, _object(volume, "secret").get("secretName")
    yield SECRETS, _object(volume, "azureFile").get("secretName")
    yield SECRETS, _object(_object(volume, "csi"), "nodePublishSecretRef").get("name")
    yield from (
        (SECRETS, _object(_object(volume, each), "secretRef").get("name")) for each in _SECRET_SOURCES
    )
    for source in _objects(_object(volume, "projected"), "sources"):
        yield SECRETS, _object(source, "secret").get("name")
        yield CONFIG_MAPS, _object(source, "configMap").get("name")


_LOCAL = frozenset({
    "awsElasticBlockStore", "azureDisk", "cephfs", "cinder", "downwardAPI", "emptyDir", "fc", "flexVolume", "flocker",
    "gcePersistentDisk", "gitRepo", "hostPath", "image", "iscsi", "nfs", "photonPersistentDisk", "portworxVolume",
    "quobyte", "rbd", "scaleIO", "storageos", "vsphereVolume",
})  # fmt: skip
"""Sources of volumes that refer to nothing in the API, but for the Secret of some."""

_REMOTE = {
    "configMap": "configmaps (via configmap volumes)",
    "secret": "secrets (via secret volumes)",
    "csi": "csidrivers (via CSI volumes)",
    "glusterfs": "endpoints (via glusterFS volumes)",
    "persistentVolumeClaim": CLAIMS,
    "ephemeral": "persistentvolumeclaims (via ephemeral volumes)",
    "azureFile": "secrets (via azureFile volumes)",
}
_PROJECTED = {
    "configMap": "configmaps (via projected volumes)",
    "secret": "secrets (via projected volumes)",
    "serviceAccountToken": "serviceaccounts (via projected volumes)",
    "clusterTrustBundle": "clustertrustbundles",
    "podCertificate": "podcertificates",
}


def _api_object_of_volume(volume: Obj) -> str:
    """The kind of object to which a volume refers, other than a Secret. An unknown source may refer to
    anything."""
    for source in (each for each in volume if each != "name" and volume[each] is not None):
        if source == "projected":
            references = (_projected(each) for each in _objects(_object(volume, source), "sources"))
            if first := next((each for each in references if each), ""):
                return first
        elif source not in _LOCAL:
            return _REMOTE.get(source, f"something of the unknown kind of volume {source}")
    return ""


def _projected(source: Obj) -> str:
    others = [each for each in source if source[each] is not None and each != "downwardAPI"]
    return _PROJECTED.get(others[0], f"something of the unknown source {others[0]}") if others else ""


def _object(obj: Obj, field: str) -> Obj:
    value = obj.get(field)
    return cast(Obj, value) if isinstance(value, dict) else {}


def _objects(obj: Obj, field: str) -> list[Obj]:
    value = obj.get(field)
    if not isinstance(value, list):
        return []
    return [cast(Obj, each) for each in cast(list[Any], value) if isinstance(each, dict)]
