"""What kustomizations say that is not understood is refused; `tests/real/install` compares the rest with
kubectl."""

from __future__ import annotations

from pathlib import Path

import pytest

from mooring.install.kustomize import build

MAP = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: one}\n"


def made(folder: Path, kustomization: str) -> Path:
    (folder / "kustomization.yaml").write_text(kustomization)
    (folder / "map.yaml").write_text(MAP)
    return folder


def test_what_is_not_known_is_refused(tmp_path: Path):
    with pytest.raises(ValueError, match="namePrefix"):
        build(made(tmp_path, "resources: [map.yaml]\nnamePrefix: x-\n"))


def test_a_patch_for_nothing_is_refused(tmp_path: Path):
    patch = "patches: [{target: {kind: ConfigMap, name: two}, patch: '[]'}]"
    with pytest.raises(ValueError, match="two"):
        build(made(tmp_path, f"resources: [map.yaml]\n{patch}\n"))


def test_a_name_is_meant_whole(tmp_path: Path):
    patch = "patches: [{target: {kind: ConfigMap, name: o}, patch: '[]'}]"
    with pytest.raises(ValueError, match="'name': 'o'"):
        build(made(tmp_path, f"resources: [map.yaml]\n{patch}\n"))


def test_the_namespace_is_that_of_all_but_what_is_of_the_whole_cluster(tmp_path: Path):
    (tmp_path / "role.yaml").write_text(
        "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: r}"
    )
    found = build(made(tmp_path, "resources: [map.yaml, role.yaml]\nnamespace: storage\n"))
    assert [each["metadata"].get("namespace") for each in found] == ["storage", None]
