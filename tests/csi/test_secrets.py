"""Messages as they may be shown."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.csi.proto import csi_pb2 as csi
from mooring.csi.secrets import ACCOUNT_TOKENS, STRIPPED, stripped


@settings(deadline=None)
@given(st.dictionaries(st.text(min_size=8), st.text(min_size=8), min_size=1))
def test_nothing_of_a_secret_is_shown(secrets: dict[str, str]) -> None:
    shown = stripped(csi.DeleteVolumeRequest(volume_id="v", secrets=secrets))
    assert shown == {"volume_id": "v", "secrets": STRIPPED}


def test_tokens_of_service_accounts_are_secret_wherever_they_are_given() -> None:
    given = {ACCOUNT_TOKENS: '{"": {"token": "eyJ"}}', "size": "1"}
    shown = stripped(csi.NodePublishVolumeRequest(volume_context=given))
    assert shown == {"volume_context": {ACCOUNT_TOKENS: STRIPPED, "size": "1"}}


def test_the_rest_is_shown_as_plain_values(create: csi.CreateVolumeRequest) -> None:
    assert stripped(create) == {
        "name": "v1",
        "volume_capabilities": [
            {"access_mode": {"mode": "SINGLE_NODE_WRITER"}, "mount": {"fs_type": "ext4"}}
        ],
        "parameters": {"kind": "fast"},
        "secrets": STRIPPED,
    }


def test_an_enum_that_is_not_known_is_shown_as_its_number() -> None:
    assert stripped(csi.VolumeCapability.AccessMode(mode=77)) == {"mode": 77}  # type: ignore[arg-type]
