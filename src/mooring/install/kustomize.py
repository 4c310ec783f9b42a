"""What kustomize makes of a folder, as far as `deploy/` uses it. Pure, but for reading the folder.

A kustomization's own program is kubectl's; this one serves where there is none, from the files that are in
the package. It knows `resources`, `components`, `namespace`, `labels` (of objects alone) and `patches`, and
refuses whatever else a kustomization says, so that none is understood by halves. `tests/real` compares it
with kubectl.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, cast

import yaml

from mooring.apiserver.errors import Obj
from mooring.apiserver.objects.patches.json_patch import json_patch
from mooring.apiserver.objects.patches.strategic_merge import strategic_merge_patch
from mooring.apiserver.schema.facts import message_of, one
from mooring.install.resources import RESOURCES

KUSTOMIZATION = "kustomization.yaml"
_KNOWN = {"apiVersion", "kind", "resources", "components", "namespace", "labels", "patches"}
_DELETED: Obj = {"$patch": "delete"}


def build(folder: Path) -> list[Obj]:
    """The objects of a kustomization, in its order. Raises ValueError for what this module does not know."""
    said = _read(folder)
    objects = [each for name in said.get("resources", []) for each in resource(folder / name)]
    for name in said.get("components", []):
        objects = component(objects, folder / name)
    return _amended(objects, folder, said)


def component(objects: list[Obj], folder: Path) -> list[Obj]:
    """The objects with a component's patches. Raises ValueError as `build`."""
    return _amended(objects, folder, _read(folder))


def _read(folder: Path) -> dict[str, Any]:
    said = cast(dict[str, Any], yaml.safe_load((folder / KUSTOMIZATION).read_text()))
    if unknown := sorted(said.keys() - _KNOWN):
        raise ValueError(f"{folder / KUSTOMIZATION}: {', '.join(unknown)} is not known here")
    return said


def resource(path: Path) -> list[Obj]:
    """The objects of a file, or of a folder with a kustomization."""
    return build(path) if path.is_dir() else list(yaml.safe_load_all(path.read_text()))


def _amended(objects: list[Obj], folder: Path, said: dict[str, Any]) -> list[Obj]:
    for each in said.get("patches", []):
        text = (folder / each["path"]).read_text() if "path" in each else each["patch"]
        objects = _patched(objects, yaml.safe_load(text), each.get("target"))
    for each in said.get("labels", []):
        objects = [_labelled(obj, each) for obj in objects]
    if namespace := said.get("namespace"):
        objects = [_within(each, namespace) for each in objects]
    return objects


def _patched(objects: list[Obj], patch: Any, target: dict[str, str] | None) -> list[Obj]:
    """A patch without a target says by itself which object it is for. Raises ValueError if there is none."""
    wanted = target or {"kind": patch["kind"], "name": patch["metadata"]["name"]}
    if not any(_meant(each, wanted) for each in objects):
        raise ValueError(f"a patch is for {wanted}, which is not there")
    made = [_apply(each, patch) if _meant(each, wanted) else each for each in objects]
    return [each for each in made if each is not _DELETED]


def _meant(obj: Obj, target: dict[str, str]) -> bool:
    own = {"kind": obj["kind"], "name": obj["metadata"]["name"]}
    return all(re.fullmatch(pattern, own[key]) for key, pattern in target.items())


def _apply(obj: Obj, patch: Any) -> Obj:
    if isinstance(patch, list):
        return cast(Obj, json_patch(obj, patch))
    if patch.get("$patch") == "delete":
        return _DELETED
    group, _, version = str(obj["apiVersion"]).rpartition("/")
    message = message_of(group, version, obj["kind"])
    assert message is not None, obj["kind"]
    own = {key: value for key, value in patch.items() if key not in ("apiVersion", "kind", "metadata")}
    return _in_order(obj, strategic_merge_patch(obj, own, one(message)))


def _in_order(before: Obj, after: Obj) -> Obj:
    """Containers in the order in which they were, new ones last: the first is the one that commands mean."""
    if "template" not in after.get("spec", {}):
        return after
    names = [each["name"] for each in before["spec"]["template"]["spec"]["containers"]]
    containers: list[Obj] = after["spec"]["template"]["spec"]["containers"]
    containers.sort(key=lambda each: names.index(each["name"]) if each["name"] in names else len(names))
    return after


def _labelled(obj: Obj, said: dict[str, Any]) -> Obj:
    if said.keys() != {"pairs"}:
        raise ValueError(f"labels with {', '.join(sorted(said))} are not known here")
    metadata = obj["metadata"]
    return {**obj, "metadata": {**metadata, "labels": {**metadata.get("labels", {}), **said["pairs"]}}}


def _within(obj: Obj, namespace: str) -> Obj:
    """The object in the namespace, and so the accounts that it names."""
    made = _in_namespace(obj, namespace) if RESOURCES[obj["kind"]].namespaced else obj
    if "subjects" in made:
        subjects = [{**each, "namespace": namespace} for each in made["subjects"]]
        made = {**made, "subjects": subjects}
    return made


def _in_namespace(obj: Obj, namespace: str) -> Obj:
    return {**obj, "metadata": {**obj["metadata"], "namespace": namespace}}
