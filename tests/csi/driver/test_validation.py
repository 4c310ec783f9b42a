"""What the specification allows in a request."""

from __future__ import annotations

import pytest
from google.protobuf.message import Message

from mooring.csi.driver.validation import validate
from mooring.csi.errors import Code, CsiError
from mooring.csi.proto import csi_pb2 as csi

MODES = tuple(csi.VolumeCapability.AccessMode.Mode.values())


def refused(request: Message, modes: tuple[int, ...] = MODES) -> str:
    with pytest.raises(CsiError) as caught:
        validate(request, modes)
    assert caught.value.code is Code.INVALID_ARGUMENT
    return caught.value.message


def passes(request: Message, modes: tuple[int, ...] = MODES) -> bool:
    try:
        validate(request, modes)
    except CsiError:
        return False
    return True


def test_a_good_request_passes(create: csi.CreateVolumeRequest) -> None:
    assert passes(create)


def test_all_that_is_missing_is_named() -> None:
    assert refused(csi.CreateVolumeRequest()) == "name is missing; volume_capabilities is missing"


def test_what_is_missing_deeper_is_named_with_its_place(create: csi.CreateVolumeRequest) -> None:
    create.volume_capabilities.append(csi.VolumeCapability())
    create.volume_content_source.SetInParent()
    message = refused(create)
    assert "volume_capabilities[1].access_type is missing" in message
    assert "volume_capabilities[1].access_mode is missing" in message
    assert "volume_content_source.type is missing" in message


def test_an_access_mode_that_nobody_knows(create: csi.CreateVolumeRequest) -> None:
    create.volume_capabilities[0].access_mode.mode = 99  # type: ignore[assignment]
    assert "mode 99 is not known" in refused(create)


def test_an_access_mode_that_the_driver_does_not_have(create: csi.CreateVolumeRequest) -> None:
    assert "SINGLE_NODE_WRITER is not one that this driver has" in refused(create, modes=(5,))


def test_to_ask_whether_a_mode_is_supported_is_no_error(capability: csi.VolumeCapability) -> None:
    request = csi.ValidateVolumeCapabilitiesRequest(volume_id="v", volume_capabilities=[capability])
    assert passes(request, (5,))


@pytest.mark.parametrize(("size", "fine"), [(128, True), (129, False)])
def test_a_name_has_at_most_128_bytes(create: csi.CreateVolumeRequest, size: int, fine: bool) -> None:
    create.name = "é" * (size // 2) + "x" * (size % 2)
    if fine:
        validate(create, MODES)
    else:
        assert "name has 129 bytes, more than 128" in refused(create)


def test_a_map_has_at_most_4_KiB_but_secrets_may_be_long(create: csi.CreateVolumeRequest) -> None:
    create.secrets["certificate"] = "x" * 100_000
    validate(create, MODES)
    create.parameters["kind"] = "x" * 4096
    assert "parameters has 4100 bytes, more than 4096" in refused(create)


def test_mount_flags_together_have_at_most_4_KiB(create: csi.CreateVolumeRequest) -> None:
    flags = create.volume_capabilities[0].mount.mount_flags
    flags.append("x" * 4096)
    validate(create, MODES)
    flags.append("y")
    assert "mount_flags has 4097 bytes" in refused(create)


def test_a_path_may_be_as_long_as_the_system_lets_it() -> None:
    assert passes(csi.NodeUnpublishVolumeRequest(volume_id="v", target_path="/" + "a" * 4000))


@pytest.mark.parametrize(
    ("required", "limit", "problem"),
    [
        (-1, 0, "required_bytes -1 is negative"),
        (0, -1, "limit_bytes -1 is negative"),
        (2, 1, "limit_bytes 1 is below required_bytes 2"),
    ],
)
def test_sizes_that_cannot_be(
    create: csi.CreateVolumeRequest, required: int, limit: int, problem: str
) -> None:
    create.capacity_range.required_bytes, create.capacity_range.limit_bytes = required, limit
    assert problem in refused(create)


def test_a_nul_byte_nowhere(create: csi.CreateVolumeRequest) -> None:
    create.parameters["kind"] = "a\0b"
    assert "parameters holds a NUL byte" in refused(create)
    assert "volume_id holds a NUL byte" in refused(csi.DeleteVolumeRequest(volume_id="a\0b"))


def test_a_message_never_shows_a_secret() -> None:
    request = csi.DeleteVolumeRequest(secrets={"password\0": "hunter2" * 1000})
    assert refused(request) == "volume_id is missing"
