"""What a class asks for."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.csi.driver.capacity import GIB
from mooring.csi.errors import Code, CsiError
from mooring.csi.proto import csi_pb2 as csi
from mooring.ebs.controller_service.parameters import (
    Change,
    VolumeParameters,
    change,
    snapshot_tags,
    volume_parameters,
)
from mooring.ebs.controller_service.volume_types import TYPES, iops_for, size_for


def code_of(call) -> Code:
    with pytest.raises(CsiError) as caught:
        call()
    return caught.value.code


def test_without_parameters_a_volume_is_gp3() -> None:
    assert volume_parameters({}, {}) == VolumeParameters(type="gp3")


def test_keys_count_in_any_case_of_letters() -> None:
    given_keys = {
        "TYPE": "io2",
        "iopsPerGB": "5",
        "AllowAutoIOPSPerGBIncrease": "true",
        "KmsKeyId": "k",
        "fsType": "xfs",
    }
    found = volume_parameters(given_keys, {})
    assert (found.type, found.iops_per_gb, found.auto_iops) == ("io2", 5, True)
    assert (found.encrypted, found.kms_key_id) == (True, "k")


def test_an_attributes_class_wins() -> None:
    found = volume_parameters(
        {"type": "gp2", "iopsPerGB": "3"}, {"type": "io2", "volumeType": "io1", "iops": "500"}
    )
    assert (found.type, found.iops, found.iops_per_gb) == ("io2", 500, 0)
    assert volume_parameters({}, {"volumeType": "io1"}).type == "io1"


def test_what_the_provisioner_tells_becomes_tags() -> None:
    found = volume_parameters({"csi.storage.k8s.io/pvc/name": "claim"}, {})
    assert found.metadata == {"kubernetes.io/created-for/pvc/name": "claim"}


@pytest.mark.parametrize("value", ["TRUE", "1", "yes", " true", ""])
def test_only_true_is_true(value) -> None:
    assert not volume_parameters({"encrypted": value}, {}).encrypted


@pytest.mark.parametrize(
    "given_keys",
    [
        {"sort": "x"},
        {"iops": "-1"},
        {"iops": "1e3"},
        {"iops": "٣"},
        {"throughput": "99999999999"},
        {"iops": "1", "iopsPerGB": "1"},
    ],
)
def test_what_is_unknown_or_no_number_is_refused(given_keys) -> None:
    assert code_of(lambda: volume_parameters(given_keys, {})) is Code.INVALID_ARGUMENT


def test_an_attributes_classs_keys_count_as_they_are_written() -> None:
    assert code_of(lambda: volume_parameters({}, {"IOPS": "3"})) is Code.INVALID_ARGUMENT
    assert code_of(lambda: change({"Type": "gp3"})) is Code.INVALID_ARGUMENT


def test_a_change_is_read() -> None:
    found = change(
        {
            "iops": "4000",
            "throughput": "200",
            "type": "gp3",
            "tagSpecification_1": "a=b",
            "tagDeletion_1": "c",
        }
    )
    assert found == Change("gp3", 4000, 0, None, 200, {"a": "b"}, ("c",))
    assert (
        code_of(lambda: change({"tagSpecification_1": "a=b", "tagDeletion_1": "a"})) is Code.INVALID_ARGUMENT
    )


def test_a_change_has_iops_or_iops_per_gib() -> None:
    assert change({"iopspergb": "50"}).iops_per_gb == 50
    assert code_of(lambda: change({"iops": "4000", "iopspergb": "50"})) is Code.INVALID_ARGUMENT


def test_snapshot_parameters_that_this_driver_lacks_are_refused() -> None:
    assert snapshot_tags({"tagSpecification_1": "a=b", "csi.storage.k8s.io/volumesnapshot/name": "s"}) == {
        "a": "b"
    }
    assert (
        code_of(lambda: snapshot_tags({"fastSnapshotRestoreAvailabilityZones": "a"})) is Code.INVALID_ARGUMENT
    )


def capacity(required: int, limit: int = 0) -> csi.CapacityRange:
    return csi.CapacityRange(required_bytes=required, limit_bytes=limit)


@pytest.mark.parametrize(
    ("required", "limit", "type", "least", "gib"),
    [
        (0, 0, "gp3", 0, 100),
        (0, 0, "gp3", 7, 7),
        (0, 5 * GIB, "gp3", 0, 1),
        (1, 0, "gp3", 0, 1),
        (GIB + 1, 0, "gp3", 0, 2),
        (GIB, GIB, "gp3", 0, 1),
        (GIB, 0, "st1", 0, 125),
        (GIB, 0, "of the future", 0, 1),
    ],
)
def test_sizes_are_whole_gib_that_the_type_has(required, limit, type, least, gib) -> None:
    assert size_for(capacity(required, limit), type, least) == gib


@given(st.integers(0, 2**47), st.integers(0, 2**47), st.sampled_from(sorted(TYPES)))
def test_a_size_satisfies_the_request_or_is_out_of_range(required, limit, type) -> None:
    try:
        size = size_for(capacity(required, limit), type)
    except CsiError as error:
        assert error.code is Code.OUT_OF_RANGE
    else:
        assert size * GIB >= required
        assert not limit or size * GIB <= limit
        assert TYPES[type].smallest <= size <= TYPES[type].largest


@pytest.mark.parametrize(
    ("type", "size", "per_gb", "iops"),
    [
        ("io1", 10, 100, 500),
        ("io2", 1000, 500, 256000),
        ("io1", 1, 10, 100),
        ("gp2", 10, 10, 0),
        ("gp3", 10, 0, 0),
    ],
)
def test_iops_go_with_the_size_within_the_types_limits(type, size, per_gb, iops) -> None:
    assert iops_for(type, size, per_gb, raise_to_least=True) == iops


def test_too_few_iops_are_raised_only_if_that_is_allowed() -> None:
    assert code_of(lambda: iops_for("io1", 1, 10, raise_to_least=False)) is Code.INVALID_ARGUMENT
    assert iops_for("io1", 10, 10, raise_to_least=False) == 100
