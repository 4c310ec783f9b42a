"""What can be installed, and the objects of it. Pure, but for reading the package's own files.

The files are `deploy/` of the checkout, which the wheel has as `mooring/install/manifests`: one source for
`mooring install`, kustomize and the Helm chart. Every object is labelled, so that what was installed can be
found again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from mooring import __version__
from mooring.apiserver.errors import Obj
from mooring.controllers.fencing.kinds import FENCING_KINDS
from mooring.install import kustomize

MANIFESTS = Path(__file__).parent / "manifests"
PART_OF, COMPONENT, VERSION = (
    "app.kubernetes.io/part-of",
    "mooring.dev/component",
    "app.kubernetes.io/version",
)
OURS = "mooring"
IMAGE = "mooring"
"""What the files say for our image."""


class Unknown(ValueError):
    """A component that there is not, or components that cannot be together."""


@dataclass(frozen=True, slots=True)
class Component:
    """`apis`: the groups and versions that it cannot do without; `excludes`: what it cannot be beside."""

    about: str
    objects: Callable[[], list[Obj]]
    apis: tuple[str, ...] = ()
    excludes: tuple[str, ...] = ()


def _file(name: str) -> Callable[[], list[Obj]]:
    return lambda: kustomize.resource(MANIFESTS / name)


def _folder(name: str) -> Callable[[], list[Obj]]:
    return lambda: kustomize.build(MANIFESTS / name)


def _fencing() -> list[Obj]:
    head = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}
    return [*({**head, **each} for each in FENCING_KINDS), *_file("fencing.yaml")()]


def _snapshots() -> list[Obj]:
    """The driver's objects with snapshots; of these, what the component changes replaces what the driver
    has."""
    return kustomize.component(
        kustomize.build(MANIFESTS / "ebs-driver/overlays/any-node"),
        MANIFESTS / "ebs-driver/components/snapshots",
    )


_STORAGE = ("apps/v1", "coordination.k8s.io/v1", "rbac.authorization.k8s.io/v1", "storage.k8s.io/v1")
_DRIVERS = ("ebs-driver", "ebs-driver-any-node", "ebs-driver-node-only", "ebs-driver-with-snapshots")


def _driver(name: str, about: str, objects: Callable[[], list[Obj]], *apis: str) -> Component:
    return Component(about, objects, (*_STORAGE, *apis), tuple(each for each in _DRIVERS if each != name))


COMPONENTS: Mapping[str, Component] = MappingProxyType({
    "attach-detach": Component(
        "the attach/detach controller, in place of kube-controller-manager's", _file("attach-detach.yaml"), _STORAGE
    ),
    "fencing": Component(
        "cuts lost nodes off, so that what they had may move", _fencing, (*_STORAGE, "apiextensions.k8s.io/v1")
    ),
    "forced-removal": Component(
        "a pod that may still run is removed by force only by a person who has confirmed it",
        _file("forced-removal.yaml"), ("admissionregistration.k8s.io/v1",),
    ),
    "ebs-driver": _driver(
        "ebs-driver", "ebs.csi.aws.com, its controller on infrastructure nodes", _folder("ebs-driver/base")
    ),
    "ebs-driver-any-node": _driver(
        "ebs-driver-any-node", "the same, its controller on any node", _folder("ebs-driver/overlays/any-node")
    ),
    "ebs-driver-node-only": _driver(
        "ebs-driver-node-only", "the same without a controller: that runs elsewhere",
        _folder("ebs-driver/overlays/node-only"),
    ),
    "ebs-driver-with-snapshots": _driver(
        "ebs-driver-with-snapshots", "the same on any node, with snapshots", _snapshots, "snapshot.storage.k8s.io/v1"
    ),
})  # fmt: skip
DEFAULT = ("attach-detach",)


@dataclass(frozen=True, slots=True)
class Settings:
    """What differs from cluster to cluster. `replicas` 0: as the files say. With `observe`, the attach/detach
    controller writes nothing, and says what it would do."""

    image: str
    replicas: int = 0
    observe: bool = False


def objects(names: Sequence[str], settings: Settings) -> list[Obj]:
    """The objects of components, in an order in which a cluster takes them. Raises Unknown."""
    _check(names)
    return [
        _settled(_labelled(obj, name), settings)
        for name in dict.fromkeys(names)
        for obj in COMPONENTS[name].objects()
    ]


def _check(names: Sequence[str]) -> None:
    if not names:
        raise Unknown(f"no component is named; there are: {', '.join(COMPONENTS)}")
    for name in names:
        if name not in COMPONENTS:
            raise Unknown(f"there is no component {name!r}; there are: {', '.join(COMPONENTS)}")
        if beside := sorted(set(names) & set(COMPONENTS[name].excludes)):
            raise Unknown(f"{name} and {beside[0]} are forms of one thing: name one of them")


def _labelled(obj: Obj, component: str) -> Obj:
    metadata = obj["metadata"]
    labels = {PART_OF: OURS, **metadata.get("labels", {}), COMPONENT: component, VERSION: __version__}
    return {**obj, "metadata": {**metadata, "labels": labels}}


def _settled(obj: Obj, settings: Settings) -> Obj:
    """A workload with the image, as many replicas, and its arguments; anything else as it is."""
    template = obj.get("spec", {}).get("template")
    if template is None:
        return obj
    observes = settings.observe and obj["metadata"]["labels"][COMPONENT] == "attach-detach"
    containers = [_container(each, settings, observes) for each in template["spec"]["containers"]]
    template = {**template, "spec": {**template["spec"], "containers": containers}}
    replicas = 1 if observes else settings.replicas
    given = {"replicas": replicas} if replicas and "replicas" in obj["spec"] else {}
    return {**obj, "spec": {**obj["spec"], **given, "template": template}}


def _container(container: dict[str, Any], settings: Settings, observes: bool) -> dict[str, Any]:
    args = container.get("args", [])
    if observes:
        args = [*(each for each in args if not each.startswith("--leader-elect")), "--observe"]
    image = settings.image if container["image"] == IMAGE else container["image"]
    return {**container, "image": image, "args": args}
