"""The options of a driver are upstream's, and no author of a volume can forge one of Kubernetes'."""

from __future__ import annotations

import json

import pytest

from mooring.kube.objects import (
    FlexVolumeSource,
    ObjectMeta,
    PersistentVolume,
    PersistentVolumeSpec,
    Pod,
    PodSpec,
    SecretReference,
    Volume,
)
from mooring.volumes.errors import InvalidSpec
from mooring.volumes.plugins.flexvolume.options import options, pod_options, secret_of
from mooring.volumes.spec import VolumeSpec


def inline(**source: object) -> VolumeSpec:
    flex = FlexVolumeSource(driver="example.com/disk", **source)  # type: ignore[arg-type]
    return VolumeSpec.of_volume(Volume(name="data", flex_volume=flex))


def persistent(read_only: bool = False, **source: object) -> VolumeSpec:
    flex = FlexVolumeSource(driver="example.com/disk", **source)  # type: ignore[arg-type]
    pv = PersistentVolume(metadata=ObjectMeta(name="pv-1"), spec=PersistentVolumeSpec(flex_volume=flex))
    return VolumeSpec.of_persistent_volume(pv, read_only)


def test_a_driver_gets_type_mode_name_and_the_authors_options() -> None:
    assert options(inline(fs_type="xfs", options={"id": "7"})) == (
        '{"id":"7","kubernetes.io/fsType":"xfs","kubernetes.io/pvOrVolumeName":"data",'
        '"kubernetes.io/readwrite":"rw"}'
    )


def test_a_pods_own_volume_says_itself_that_it_is_read_only() -> None:
    assert json.loads(options(inline(read_only=True)))["kubernetes.io/readwrite"] == "ro"


def test_a_persistent_volume_is_read_only_if_its_claims_user_says_so() -> None:
    assert json.loads(options(persistent(read_only=True)))["kubernetes.io/readwrite"] == "ro"
    assert json.loads(options(persistent(options={}, read_only=False)))["kubernetes.io/readwrite"] == "rw"


def test_mount_tells_the_pod_and_its_group() -> None:
    pod = Pod(
        metadata=ObjectMeta(name="web", namespace="shop", uid="u"), spec=PodSpec(service_account_name="robot")
    )
    assert pod_options(pod, 17) == {
        "kubernetes.io/pod.name": "web",
        "kubernetes.io/pod.namespace": "shop",
        "kubernetes.io/pod.uid": "u",
        "kubernetes.io/serviceAccount.name": "robot",
        "kubernetes.io/mounterArgs.FsGroup": "17",
    }
    assert "kubernetes.io/mounterArgs.FsGroup" not in pod_options(pod, None)


@pytest.mark.parametrize(
    "key", ["kubernetes.io/readwrite", "Kubernetes.IO/secret/a", "a.k8s.io/x", "kubernetes.io", "k8s.io/a"]
)
def test_an_option_of_kubernetes_cannot_be_forged(key: str) -> None:
    with pytest.raises(InvalidSpec, match="reserved"):
        options(inline(options={key: "rw"}))


def test_options_that_no_program_can_be_given_are_refused() -> None:
    with pytest.raises(InvalidSpec, match="longer than"):
        options(inline(options={"a": "x" * 200_000}))


def test_markup_is_escaped_as_upstream_does() -> None:
    assert '"a":"\\u003c\\u0026\\u003eä"' in options(inline(options={"a": "<&>ä"}))


def test_a_secret_is_the_pods_unless_a_persistent_volume_names_another_namespace() -> None:
    reference = SecretReference(name="key", namespace="vault")
    assert secret_of(persistent(secret_ref=reference), "shop") == reference
    assert secret_of(persistent(secret_ref=SecretReference(name="key")), "shop") == SecretReference(
        name="key", namespace="shop"
    )
    assert secret_of(inline(secret_ref=reference), "shop") == SecretReference(name="key", namespace="shop")
    assert secret_of(inline(), "shop") is None
