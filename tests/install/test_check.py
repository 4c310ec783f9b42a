"""What `mooring install --check` says of clusters of all kinds."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.controllers.fencing.kinds import FENCING_KINDS
from mooring.install.check import Cluster, Finding, Workload, check, runs_attach_detach
from mooring.install.components import COMPONENTS, PART_OF

WITHOUT = "--controllers=*,-persistentvolume-attach-detach-controller"
GOOD = Cluster(
    version="v1.36.3",
    apis=frozenset(api for each in COMPONENTS.values() for api in each.apis),
    managers={"kube-system/kube-controller-manager-a": ["kube-controller-manager", WITHOUT]},
)
KINDS = {each["metadata"]["name"]: each["spec"] for each in FENCING_KINDS}
OURS = Workload(
    "Deployment",
    "kube-system/mooring-attach-detach",
    {PART_OF: "mooring"},
    {"controller": ["controller", "--controllers=attachdetach"]},
    {"controller": "x:1"},
)


def mended(cluster: Cluster, *names: str) -> list[Finding]:
    return [each for each in check(names or ("attach-detach",), cluster) if each.level == "mend"]


def test_a_cluster_that_suits_has_nothing_to_mend():
    assert mended(GOOD, *(name for name in COMPONENTS if not name.startswith("ebs-"))) == []
    assert {each.level for each in check(("attach-detach",), GOOD)} == {"ok"}


def test_what_is_installed_already_is_well():
    assert mended(replace(GOOD, workloads=[OURS], kinds=KINDS), "attach-detach", "fencing") == []


@pytest.mark.parametrize(
    ("words", "runs"),
    [
        ([], True),
        (["--leader-elect=true"], True),
        (["--controllers=*"], True),
        (["--controllers", "*,-persistentvolume-attach-detach-controller"], False),
        ([WITHOUT], False),
        (["--controllers=*,-attachdetach"], False),
        (["--controllers=*,-attachdetach", "--controllers=*"], False),
        (["--controllers=*", "--controllers=attachdetach,-attachdetach"], True),
        (["--controllers=*, -persistentvolume-attach-detach-controller"], True),
        (["--controllers=node-lifecycle-controller"], False),
        (["--controllers=node-lifecycle-controller,persistentvolume-attach-detach-controller"], True),
        (["--controllers=*,-persistentvolume-binder-controller"], True),
        (["-c", f"exec kube-controller-manager {WITHOUT} 1>>/var/log/kcm.log 2>&1"], False),
        (["-c", "exec kube-controller-manager --controllers=* 'unfinished"], True),
    ],
)
def test_whether_upstreams_controller_runs_is_read_from_its_command_line(words: list[str], runs: bool):
    assert runs_attach_detach(["kube-controller-manager", *words]) is runs


def test_upstreams_controller_beside_ours_must_be_switched_off():
    cluster = replace(GOOD, managers={"kube-system/kcm": ["kube-controller-manager"], **GOOD.managers})
    (finding,) = mended(cluster)
    assert "kube-system/kcm" in finding.what
    assert "-persistentvolume-attach-detach-controller" in finding.mend


def test_upstreams_controller_that_cannot_be_seen_is_not_said_to_be_off():
    (finding,) = [
        each for each in check(("attach-detach",), replace(GOOD, managers={})) if each.level == "look"
    ]
    assert "--observe" in finding.mend


def test_upstreams_controller_is_of_no_concern_to_other_components():
    assert mended(replace(GOOD, managers={"a/b": ["kube-controller-manager"]}), "fencing") == []


@pytest.mark.parametrize(
    ("version", "level"),
    [
        ("v1.36.3", "ok"), ("v1.36.0-eks-1234", "ok"), ("v1.34.1", "look"), ("v1.37.0", "look"), ("v1.29.9", "mend"),
        ("", "look"), ("banana", "look"), ("v2.0", "look"),
    ],
)  # fmt: skip
def test_versions(version: str, level: str):
    first, *_ = check(("attach-detach",), replace(GOOD, version=version))
    assert first.level == level


def test_every_api_that_is_missing_is_named():
    for name, component in COMPONENTS.items():
        for api in component.apis:
            (finding, *_) = mended(replace(GOOD, apis=GOOD.apis - {api}), name)
            assert api in finding.what


def test_kinds_that_are_missing_are_named():
    (finding,) = mended(replace(GOOD, unserved=["deployments of apps/v1"]))
    assert "deployments of apps/v1" in finding.what


def test_rights_that_are_missing_are_named():
    (finding,) = mended(replace(GOOD, denied=["create clusterroles"]))
    assert "create clusterroles" in finding.what


def test_two_installations_are_one_too_many():
    other = replace(OURS, key="storage/mooring-attach-detach")
    (finding,) = mended(replace(GOOD, workloads=[OURS, other]))
    assert "storage/mooring-attach-detach" in finding.what


def test_an_installation_of_another_hand_is_named():
    stranger = Workload(
        "Deployment", "a/b", {}, {"c": ["controller", "--controllers=binding,attachdetach"]}, {"c": "y"}
    )
    (finding,) = mended(replace(GOOD, workloads=[OURS, stranger]))
    assert "a/b" in finding.what


def test_a_program_with_a_like_argument_is_no_rival():
    stranger = Workload("Deployment", "a/b", {}, {"c": ["--controllers=attachdetach"]}, {"c": "y"})
    assert mended(replace(GOOD, workloads=[stranger])) == []


def test_a_controller_outside_of_the_cluster_is_known_by_its_lease():
    (finding,) = mended(replace(GOOD, holders={"mooring-attachdetach": "laptop-1"}))
    assert "laptop-1" in finding.what
    assert mended(replace(GOOD, holders={"mooring-attachdetach": "pod"}, workloads=[OURS])) == []


def changed(**spec: Any) -> dict[str, Any]:
    name = FENCING_KINDS[0]["metadata"]["name"]
    return {**KINDS, name: {**KINDS[name], **spec}}


def test_kinds_of_a_newer_version_must_not_be_replaced():
    versions = [*KINDS[FENCING_KINDS[0]["metadata"]["name"]]["versions"]]
    newer = [*versions, {**versions[0], "name": "v1"}]
    (finding,) = mended(replace(GOOD, kinds=changed(versions=newer)), "fencing")
    assert "v1" in finding.what


def test_kinds_with_other_fields_are_said_to_be_replaced():
    (version,) = KINDS[FENCING_KINDS[0]["metadata"]["name"]]["versions"]
    other = [{**version, "schema": {"openAPIV3Schema": {"type": "object"}}}]
    found = check(("fencing",), replace(GOOD, kinds=changed(versions=other)))
    assert [each.level for each in found if "other fields" in each.what] == ["look"]


def test_another_driver_of_ebs_must_go_first():
    other = Workload(
        "DaemonSet", "kube-system/ebs-csi-node", {}, {"p": []}, {"p": "public.ecr.aws/aws-ebs-csi-driver:v1"}
    )
    (finding,) = mended(replace(GOOD, workloads=[other]), "ebs-driver")
    assert "ebs-csi-node" in finding.what


def test_a_csidriver_of_another_hand_is_shown():
    found = check(("ebs-driver",), replace(GOOD, drivers={"ebs.csi.aws.com": {}}))
    assert [each.level for each in found if "CSIDriver" in each.what] == ["look"]


def test_an_image_that_no_node_finds_is_said_with_its_reason():
    waiting = replace(OURS, waiting=["pod x waits: ImagePullBackOff: not found"])
    (finding,) = mended(replace(GOOD, workloads=[waiting]))
    assert "ImagePullBackOff" in finding.what


def test_the_files_own_word_for_the_image_is_no_image():
    (finding,) = mended(replace(GOOD, workloads=[replace(OURS, images={"controller": "mooring"})]))
    assert "--image" in finding.mend


@given(st.lists(st.text(max_size=60), max_size=6))
def test_no_command_line_breaks_the_check(words: list[str]):
    cluster = replace(GOOD, managers={"a/b": words})
    assert check(("attach-detach",), cluster)
