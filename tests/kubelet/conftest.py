"""Clusters of real kubelets: one with upstream's control plane, one with Mooring's own."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.kubelet.lab import cgroups, our_image
from tests.kubelet.lab.cluster import Cluster, cluster
from tests.real.server import assets

BUILT = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl", "kubelet", "containerd",
         "containerd-shim-runc-v2", "ctr", "snapshot-controller")  # fmt: skip
INSTALLED = {"runc": "runc", "ip": "iproute2", "nft": "nftables", "busybox": "busybox-static"}


def lacking(programs: Path | None) -> str:
    """What keeps real kubelets from running here, and how it is got; empty if nothing does."""
    if os.geteuid() != 0:
        return "needs root (namespaces, cgroups, loop devices)"
    if programs is None or not all((programs / each).exists() for each in BUILT):
        return "needs the real kubelet and containerd: run `scripts/assets kubelet`"
    absent = [package for name, package in INSTALLED.items() if shutil.which(name) is None]
    absent += [] if Path("/usr/lib/cni/bridge").exists() else ["containernetworking-plugins"]
    if absent:
        return f"needs Debian's {', '.join(absent)}"
    hierarchies = cgroups.missing()
    return f"needs cgroups of version 1; missing here: {', '.join(hierarchies)}" if hierarchies else ""


@pytest.fixture(scope="session")
def programs() -> Path:
    found = assets()
    if reason := lacking(found):
        pytest.skip(reason)
    assert found is not None
    return found


@pytest.fixture(scope="session")
def lab(programs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """With upstream's control plane."""
    with cluster(programs, tmp_path_factory.mktemp("lab")) as running:
        yield running


@pytest.fixture(scope="module")
def on_embedded(programs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """With Mooring's own."""
    with cluster(programs, tmp_path_factory.mktemp("embedded"), on_embedded=True) as running:
        yield running


@pytest.fixture(scope="session")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Mooring's own image."""
    try:
        return our_image.build(tmp_path_factory.mktemp("image"))
    except our_image.CannotBuild as reason:
        pytest.skip(f"no image: {reason}")
