"""The methods, as the protos have them."""

from __future__ import annotations

from google.protobuf.descriptor import FieldDescriptor

from mooring.csi.proto import csi_pb2 as csi
from mooring.csi.rpc import METHODS, SERVICES, Controller


def test_every_unary_method_of_the_protos_is_there() -> None:
    services = csi.DESCRIPTOR.services_by_name.values()
    unary = {method.name for service in services for method in service.methods if not method.server_streaming}
    assert unary | {"GetInfo", "NotifyRegistrationStatus"} == METHODS.keys()


def test_each_method_knows_its_messages_and_its_path() -> None:
    for rpc in METHODS.values():
        service = next(service for service in SERVICES if rpc in service.methods())
        assert rpc.path == f"/{rpc.service}/{rpc.name}"
        assert getattr(service, rpc.attribute) is rpc
    assert Controller.create_volume.path == "/csi.v1.Controller/CreateVolume"
    assert Controller.create_volume.reply is csi.CreateVolumeResponse


def test_numbers_on_the_wire() -> None:
    """A handful of those that upstream's drivers and sidecars use most, and the mark of secrets."""
    fields = csi.NodePublishVolumeRequest.DESCRIPTOR.fields_by_name
    assert [fields[name].number for name in ("staging_target_path", "target_path", "volume_capability")] == [
        3,
        4,
        5,
    ]
    assert csi.VolumeCapability.DESCRIPTOR.fields_by_name["access_mode"].number == 3
    assert csi.csi_secret.number == 1059
    assert csi.ControllerServiceCapability.RPC.Type.Value("GET_SNAPSHOT") == 15
    capacity = csi.GetCapacityResponse.DESCRIPTOR.fields_by_name["maximum_volume_size"]
    assert capacity.type == FieldDescriptor.TYPE_MESSAGE
    assert capacity.message_type.full_name == "google.protobuf.Int64Value"


def test_every_field_called_secrets_is_marked_as_one() -> None:
    messages = csi.DESCRIPTOR.message_types_by_name.values()
    fields = [field for message in messages for field in message.fields if field.name == "secrets"]
    assert len(fields) > 15
    assert all(field.GetOptions().Extensions[csi.csi_secret] for field in fields)
