"""From a folder of manifests to static pods. Pure but for reading the files.

Rules: upstream's kubelet. A static pod's name has the node's name at its end; its uid is a hash of the
manifest, so a changed manifest is another pod. It must not refer to API objects: it has to run where there is
no API server.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import yaml

from mooring.kube.objects import Pod

SOURCE = "kubernetes.io/config.source"
HASH = "kubernetes.io/config.hash"
MIRROR = "kubernetes.io/config.mirror"
SUFFIXES = (".yaml", ".yml", ".json")
_NEEDS_API = ("persistentVolumeClaim", "configMap", "secret", "projected", "ephemeral")
_NO_EXECUTE: dict[str, str] = {"operator": "Exists", "effect": "NoExecute"}


class BadManifest(ValueError):
    """A manifest cannot be run as a static pod; the message names the file."""


@dataclass(frozen=True)
class StaticPod:
    """A pod of a manifest. `body` is what the API is shown of it."""

    pod: Pod
    body: dict[str, Any]

    @property
    def hash(self) -> str:
        return self.pod.uid


def read_folder(folder: Path, node_name: str) -> tuple[dict[str, StaticPod], list[BadManifest]]:
    """The pods by "namespace/name", and what could not be read. Hidden files are not looked at.

    Whatever is wrong with one file is a problem of that file: a field of another type than the API has, say,
    is found where it is used."""
    pods: dict[str, StaticPod] = {}
    problems: list[BadManifest] = []
    for path in sorted(folder.iterdir() if folder.is_dir() else ()):
        if path.name.startswith(".") or path.suffix not in SUFFIXES:
            continue
        try:
            for document in _documents(path):
                found = static_pod(document, node_name, path)
                if found.pod.key in pods:
                    raise BadManifest(f"{path}: there is another manifest of pod {found.pod.key}")
                pods[found.pod.key] = found
        except BadManifest as problem:
            problems.append(problem)
        except Exception as error:
            problems.append(BadManifest(f"{path}: {type(error).__name__}: {error}"))
    return pods, problems


def _documents(path: Path) -> Iterator[Any]:
    try:
        yield from (document for document in yaml.safe_load_all(path.read_text()) if document is not None)
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise BadManifest(f"{path}: {error}") from error


def static_pod(document: Any, node_name: str, path: Path) -> StaticPod:
    """The pod of one document. Raises `BadManifest`."""
    if not isinstance(document, dict) or document.get("kind") != "Pod" or document.get("apiVersion") != "v1":  # pyright: ignore[reportUnknownMemberType]
        raise BadManifest(f"{path}: this is not a Pod of v1")
    body: dict[str, Any] = json.loads(json.dumps(document, default=str))
    metadata, spec = body.setdefault("metadata", {}), body.setdefault("spec", {})
    if not metadata.get("name") or not spec.get("containers"):
        raise BadManifest(f"{path}: a pod needs a name and a container")
    _refuse_references(spec, path)
    uid = _hash(f"{node_name} {json.dumps(body, sort_keys=True)}")
    metadata |= {
        "name": f"{metadata['name']}-{node_name}",
        "namespace": metadata.get("namespace") or "default",
    }
    metadata["annotations"] = {**(metadata.get("annotations") or {}), SOURCE: "file", HASH: uid}
    spec["nodeName"] = node_name
    spec["tolerations"] = [*(spec.get("tolerations") or []), _NO_EXECUTE]
    body.pop("status", None)
    try:
        pod = msgspec.convert({**body, "metadata": {**metadata, "uid": uid}}, Pod, strict=False)
    except msgspec.ValidationError as error:
        raise BadManifest(f"{path}: {error}") from error
    return StaticPod(
        pod, {**body, "metadata": {**metadata, "annotations": {**metadata["annotations"], MIRROR: uid}}}
    )


def _refuse_references(spec: dict[str, Any], path: Path) -> None:
    for volume in spec.get("volumes") or ():
        for kind in _NEEDS_API:
            if kind in volume:
                raise BadManifest(f"{path}: volume {volume.get('name')}: a static pod cannot use {kind}")
    for container in (*(spec.get("initContainers") or ()), *spec["containers"]):
        sources: list[dict[str, Any]] = [
            variable.get("valueFrom") or {} for variable in container.get("env") or ()
        ]
        if container.get("envFrom") or any(
            {"configMapKeyRef", "secretKeyRef"} & source.keys() for source in sources
        ):
            raise BadManifest(
                f"{path}: container {container.get('name')}: variables of a static pod cannot be others'"
            )


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:32]
