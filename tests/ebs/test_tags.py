"""The tags that the driver writes."""

from __future__ import annotations

import pytest

from mooring.csi.errors import Code, CsiError
from mooring.ebs.controller_service.tags import TagPolicy, deleted, specified, tag_list


def refused(call) -> CsiError:
    with pytest.raises(CsiError) as caught:
        call()
    assert caught.value.code is Code.INVALID_ARGUMENT
    return caught.value


def test_a_volume_is_found_by_its_name_and_as_the_drivers() -> None:
    assert TagPolicy().of_volume("pvc-1", {}, {}) == {
        "CSIVolumeName": "pvc-1",
        "ebs.csi.aws.com/cluster": "true",
    }
    assert TagPolicy().of_snapshot("s", {}) == {
        "CSIVolumeSnapshotName": "s",
        "ebs.csi.aws.com/cluster": "true",
    }


def test_a_cluster_id_marks_what_is_the_clusters() -> None:
    tags = TagPolicy(cluster_id="c").of_volume("pvc-1", {}, {})
    assert tags["kubernetes.io/cluster/c"] == "owned"
    assert (tags["Name"], tags["KubernetesCluster"]) == ("c-dynamic-pvc-1", "c")
    assert tags["ebs.csi.aws.com/cluster-name"] == "c"
    assert "KubernetesCluster" not in TagPolicy(cluster_id="c").of_snapshot("s", {})


def test_a_class_wins_over_the_operator_and_both_over_the_clusters_name() -> None:
    policy = TagPolicy({"Name": "mine", "team": "a"}, cluster_id="c")
    tags = policy.of_volume("pvc-1", {}, {"team": "b"})
    assert (tags["Name"], tags["team"]) == ("mine", "b")


def test_the_operators_tags_on_volumes_are_not_those_on_snapshots() -> None:
    policy = TagPolicy({"a": "1"}, {"b": "2"})
    assert "a" in policy.of_volume("v", {}, {})
    assert "a" not in policy.of_snapshot("s", {})
    assert policy.of_snapshot("s", {})["b"] == "2"


BAD = {
    "": "x",
    "aws:x": "x",
    "CSIVolumeName": "x",
    "kubernetes.io/created-for/pv/name": "x",
    "ebs.csi.aws.com/cluster": "false",
    "k" * 129: "x",
    "long": "v" * 257,
}


@pytest.mark.parametrize("key", BAD)
def test_a_tag_that_cannot_be_is_refused_or_left_out(key) -> None:
    refused(lambda: TagPolicy().of_volume("v", {}, {key: BAD[key]}))
    with pytest.raises(ValueError):
        TagPolicy({key: BAD[key]})
    lenient = TagPolicy({key: BAD[key]}, warn_on_invalid=True)
    assert lenient.of_volume("v", {}, {key: BAD[key], "good": "1"}) == TagPolicy().of_volume(
        "v", {}, {"good": "1"}
    )


def test_more_than_ec2_has_room_for_is_refused() -> None:
    assert len(TagPolicy().of_volume("v", {}, {f"k{n}": "" for n in range(48)})) == 50
    refused(lambda: TagPolicy().of_volume("v", {}, {f"k{n}": "" for n in range(49)}))


def test_a_class_names_tags_as_key_and_value() -> None:
    given = {"tagSpecification_1": "a=b=c", "tagSpecification_2": "empty=", "type": "gp3"}
    assert specified(given) == {"a": "b=c", "empty": ""}


@pytest.mark.parametrize("text", ["", "novalue", "=x", "a={{ .PVCName }}"])
def test_a_tag_without_a_key_or_with_a_template_is_refused(text) -> None:
    refused(lambda: specified({"tagSpecification_1": text}))


def test_the_drivers_own_tags_cannot_be_deleted() -> None:
    assert deleted({"tagDeletion_1": "b", "tagDeletion_2": "a", "iops": "3"}) == ("a", "b")
    refused(lambda: deleted({"tagDeletion_1": "CSIVolumeName"}))


def test_the_order_of_tags_is_always_the_same() -> None:
    assert tag_list({"b": "1", "a": "2"}) == tag_list({"a": "2", "b": "1"})
