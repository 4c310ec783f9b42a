"""Whether a cluster suits the components that are to be installed: what is missing, what would fight. Pure.

`cluster.read` asks the cluster; here is what follows from its answers. A finding to be mended says how.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from mooring.controllers.fencing.kinds import FENCING_KINDS
from mooring.install.components import COMPONENTS, IMAGE, OURS, PART_OF

Level = Literal["ok", "look", "mend"]
"""`look`: it may be as it should be, and only a person can tell."""
OLDEST, TRIED = 33, (36,)
"""Minor versions of Kubernetes 1: the oldest that this is made for, and those of the tests."""
ATTACH_DETACH = ("persistentvolume-attach-detach-controller", "attachdetach")
"""The name of upstream's controller in `--controllers`, today and before 1.28."""
MANAGER = "kube-controller-manager"
EBS = "ebs.csi.aws.com"


@dataclass(frozen=True, slots=True)
class Finding:
    level: Level
    what: str
    mend: str = ""


@dataclass(frozen=True, slots=True)
class Workload:
    """A Deployment or DaemonSet: `commands` are the words of its containers, by name."""

    kind: str
    key: str
    labels: Mapping[str, str]
    commands: Mapping[str, Sequence[str]]
    images: Mapping[str, str]
    waiting: Sequence[str] = ()
    """Why containers of its pods do not run, as their nodes say."""

    @property
    def ours(self) -> bool:
        return self.labels.get(PART_OF) == OURS

    def __str__(self) -> str:
        return f"{self.kind} {self.key}"


@dataclass(frozen=True, slots=True)
class Cluster:
    """What was read. `managers`: the words of each kube-controller-manager that is visible, by pod.
    `unserved`: kinds of what is to be installed that the server does not have. `denied`: what the one who
    asks may not do. `kinds`: the definitions of fencing's kinds, by name. `holders`: of the Leases that our
    controllers hold, by name. `drivers`: the labels of each CSIDriver."""

    version: str
    apis: frozenset[str]
    managers: Mapping[str, Sequence[str]] = field(default_factory=dict[str, Sequence[str]])
    workloads: Sequence[Workload] = ()
    unserved: Sequence[str] = ()
    denied: Sequence[str] = ()
    kinds: Mapping[str, Mapping[str, Any]] = field(default_factory=dict[str, Mapping[str, Any]])
    holders: Mapping[str, str] = field(default_factory=dict[str, str])
    drivers: Mapping[str, Mapping[str, str]] = field(default_factory=dict[str, Mapping[str, str]])


def check(names: Sequence[str], cluster: Cluster) -> list[Finding]:
    """What there is to say before these components are installed, or while they are."""
    found = [*_version(cluster), *_apis(names, cluster), *_kinds_served(cluster), *_rights(cluster)]
    if "attach-detach" in names:
        found += [*_upstream(cluster), *_rivals(cluster, "attachdetach", "mooring-attachdetach")]
    if "fencing" in names:
        found += [*_kinds(cluster), *_rivals(cluster, "fencing", "mooring-fencing")]
    if any(name.startswith("ebs-driver") for name in names):
        found += _driver(cluster)
    return [*found, *_waiting(cluster)]


def _version(cluster: Cluster) -> Iterator[Finding]:
    parsed = re.match(r"v1\.(\d+)", cluster.version)
    tried = " and ".join(f"1.{minor}" for minor in TRIED)
    if parsed is None:
        yield Finding(
            "look", f"the API server says that it is {cluster.version[:60]!r}", f"tried with {tried}"
        )
    elif (minor := int(parsed[1])) < OLDEST:
        yield Finding(
            "mend", f"Kubernetes {cluster.version} is older than 1.{OLDEST}", "upgrade the cluster first"
        )
    elif minor not in TRIED:
        yield Finding("look", f"Kubernetes {cluster.version}: tried with {tried}", "observe first: --observe")
    else:
        yield Finding("ok", f"Kubernetes {cluster.version}")


def _apis(names: Sequence[str], cluster: Cluster) -> Iterator[Finding]:
    for name in names:
        missing = [each for each in COMPONENTS[name].apis if each not in cluster.apis]
        if missing:
            yield Finding(
                "mend",
                f"{name} needs {', '.join(missing)}, which the API server does not serve",
                _served(missing),
            )


def _kinds_served(cluster: Cluster) -> Iterator[Finding]:
    if cluster.unserved:
        what = f"the API server does not serve {', '.join(cluster.unserved)}"
        yield Finding("mend", what, "is it a cluster's? `mooring up` runs its controllers itself")


def _served(missing: Sequence[str]) -> str:
    if any(each.startswith("snapshot.") for each in missing):
        return "install the VolumeSnapshot kinds and a snapshot controller, or leave snapshots out"
    return "enable them: --runtime-config of kube-apiserver"


def _rights(cluster: Cluster) -> Iterator[Finding]:
    if cluster.denied:
        yield Finding(
            "mend",
            f"you may not {'; '.join(sorted(cluster.denied)[:6])}",
            "ask the cluster's administrator for the role cluster-admin, or to install it",
        )
    else:
        yield Finding("ok", "you may make all the objects")


def _upstream(cluster: Cluster) -> Iterator[Finding]:
    """kube-controller-manager's own attach/detach controller: two would fight over every volume."""
    if not cluster.managers:
        yield Finding(
            "look",
            "no kube-controller-manager is visible: whether it attaches volumes cannot be seen from here",
            f"switch that off (--controllers=*,-{ATTACH_DETACH[0]}), or install with --observe, which writes nothing",
        )
    for pod, words in cluster.managers.items():
        if runs_attach_detach(words):
            yield Finding(
                "mend",
                f"pod {pod} runs upstream's attach/detach controller",
                f"start it with --controllers=*,-{ATTACH_DETACH[0]} first, or install with --observe",
            )
        else:
            yield Finding("ok", f"pod {pod} leaves attaching to others")


def runs_attach_detach(words: Sequence[str]) -> bool:
    """Whether a kube-controller-manager with this command line attaches volumes. As there: lists of several
    flags are one list, its first word about a controller counts, and no space is taken away."""
    split = [part for word in words for part in _words(word)]
    lists = [word.partition("=")[2] for word in split if word.startswith("--controllers=")]
    lists += [split[at + 1] for at, word in enumerate(split[:-1]) if word == "--controllers"]
    named = [name for each in lists for name in each.split(",")] or ["*"]
    for name in named:
        if name.removeprefix("-") in ATTACH_DETACH:
            return not name.startswith("-")
    return "*" in named


def _words(text: str) -> list[str]:
    """A word as it is, or the words of a shell's line that starts the program."""
    if MANAGER not in text:
        return [text]
    try:
        return shlex.split(text)
    except ValueError:
        return [text]


def _rivals(cluster: Cluster, controller: str, lease: str) -> Iterator[Finding]:
    running = [each for each in cluster.workloads if runs_controller(each, controller)]
    strangers = [each for each in running if not each.ours]
    ours = [each for each in running if each.ours]
    for each in [*strangers, *ours[1:]]:
        yield Finding(
            "mend",
            f"{each} runs the controller {controller} too",
            f"delete one of the two: they share a Lease ({lease})",
        )
    for each in ours[:1]:
        yield Finding("ok", f"{each} runs the controller {controller}")
    if not running and (holder := cluster.holders.get(lease)):
        yield Finding(
            "mend", f"the Lease kube-system/{lease} is held by {holder[:80]}, which no Deployment here is",
            "end that process: `mooring controller` runs somewhere",
        )  # fmt: skip


def runs_controller(workload: Workload, name: str) -> bool:
    """Whether it is `mooring controller` with this one."""
    for words in workload.commands.values():
        chosen = [word.partition("=")[2] for word in words if word.startswith("--controllers=")]
        if "controller" in words and any(name in each.split(",") for each in chosen):
            return True
    return False


def _kinds(cluster: Cluster) -> Iterator[Finding]:
    for kind in FENCING_KINDS:
        name, there = kind["metadata"]["name"], cluster.kinds.get(kind["metadata"]["name"])
        if there is None:
            continue
        own, served = _schemas(kind["spec"]), _schemas(there)
        if strange := sorted(served.keys() - own.keys()):
            yield Finding(
                "mend", f"{name} is there with {', '.join(strange)}, which this version does not know",
                "install the version of Mooring that brought it, or a newer one",
            )  # fmt: skip
        elif served != own:
            yield Finding(
                "look", f"{name} is there with other fields", "it is replaced by what install prints"
            )
        else:
            yield Finding("ok", f"{name} is there")


def _schemas(spec: Mapping[str, Any]) -> dict[str, Any]:
    return {each["name"]: each["schema"]["openAPIV3Schema"] for each in spec["versions"]}


def _driver(cluster: Cluster) -> Iterator[Finding]:
    strangers = [
        each for each in cluster.workloads
        if not each.ours and any("ebs-csi-driver" in image or "/ebs-plugin" in image for image in each.images.values())
    ]  # fmt: skip
    for each in strangers:
        yield Finding(
            "mend", f"{each} is another driver of {EBS}", "remove it first: docs/ebs.md, taking over"
        )
    labels = cluster.drivers.get(EBS)
    if labels is not None and labels.get(PART_OF) != OURS and not strangers:
        yield Finding(
            "look", f"CSIDriver {EBS} is there, of another hand", "find out whether its driver still runs"
        )


def _waiting(cluster: Cluster) -> Iterator[Finding]:
    for each in cluster.workloads:
        if not each.ours:
            continue
        for reason in each.waiting[:3]:
            yield Finding("mend", f"{each}: {reason}", "is the image where the nodes find it? --image")
        if IMAGE in each.images.values():
            yield Finding(
                "mend", f"{each} has the image {IMAGE!r}, which stands for yours", "apply it with --image"
            )
