"""Where a VolumeAttachment's volume is looked up: what is stored on it, the cache, or the API server."""

from __future__ import annotations

import asyncio
from typing import Any
from unittest.mock import create_autospec

import pytest

from mooring.controllers.attacher.definitions import Definitions
from mooring.kube.objects import ObjectMeta, PersistentVolume, VolumeAttachment
from mooring.kube.objects.persistentvolumes import PersistentVolumeSpec
from mooring.kube.objects.storage import VolumeAttachmentSource, VolumeAttachmentSpec, VolumeAttachmentStatus
from mooring.kube.objects.volumes import CSIPersistentVolumeSource
from mooring.volumes.attachment_lock import ATTACHED_TO
from mooring.volumes.errors import InvalidSpec, VolumeError
from mooring.volumes.interfaces import AttachableVolumePlugin, AttachCapabilities
from mooring.volumes.names import (
    ATTACH_EPOCH,
    ATTACH_REQUESTED_AT,
    ATTACHER,
    CSI_PLUGIN,
    DETACH_REQUESTED_AT,
    INLINE_VOLUME,
    PLUGIN,
    VOLUME_NAME,
    csi_volume_name,
    volume_attachment_name,
)

DRIVER = "played.example.com"
NAME = csi_volume_name(DRIVER, "v")
TEN_MINUTES_S = 600.0


class Live:
    """The API server, of which is counted how often it was asked."""

    def __init__(self, pv: PersistentVolume | None) -> None:
        self._pv, self.asked = pv, 0

    async def find(self, kind: Any, name: str) -> PersistentVolume | None:
        assert isinstance(name, str)
        self.asked += 1
        return self._pv


def volume(handle: str = "v", **annotations: str) -> PersistentVolume:
    spec = PersistentVolumeSpec(csi=CSIPersistentVolumeSource(driver=DRIVER, volume_handle=handle))
    return PersistentVolume(metadata=ObjectMeta(name="pv", annotations=annotations), spec=spec)


def attachment(*, name: str = "", **annotations: str) -> VolumeAttachment:
    meta = ObjectMeta(name=name or volume_attachment_name(CSI_PLUGIN, NAME, "n"), annotations=annotations)
    source = VolumeAttachmentSource(persistent_volume_name="pv")
    return VolumeAttachment(metadata=meta, spec=VolumeAttachmentSpec(DRIVER, "n", source))


def definitions(live: Live, cached: PersistentVolume | None = None) -> tuple[Definitions, Any]:
    plugin = create_autospec(AttachableVolumePlugin, instance=True)
    plugin.get_plugin_name.return_value = DRIVER
    plugin.get_volume_name.side_effect = lambda spec: spec.persistent_volume.spec.csi.volume_handle
    plugins: Any = create_autospec(object)
    plugins.find_attachable_plugin_by_name = lambda name: plugin
    client: Any = live
    cache: Any = {"pv": cached} if cached else {}
    return Definitions(client, plugins, cache), plugin


@pytest.mark.parametrize(
    ("record", "cached", "asked"),
    [
        (attachment(), volume(), 0),
        (attachment(**{ATTACH_EPOCH: "1"}), volume(), 1),
        (attachment(), volume(**{ATTACHED_TO: "n"}), 1),
        (attachment(), volume("another"), 1),
        (attachment(name="upstreams"), volume(), 1),
        (attachment(), PersistentVolume(metadata=ObjectMeta(name="pv")), 1),
        (attachment(), None, 1),
    ],
    ids=[
        *("without a lock", "under a lock", "locked", "another volume", "of another name"),
        *("not CSI's", "not known"),
    ],
)
def test_only_a_volume_without_a_lock_is_taken_from_the_cache(
    record: VolumeAttachment, cached: PersistentVolume | None, asked: int
):
    live = Live(volume())
    found, _ = definitions(live, cached)
    spec = asyncio.run(found.spec(record))
    assert spec.persistent_volume == volume()
    assert live.asked == asked


@pytest.mark.parametrize("live", [False, True])
@pytest.mark.parametrize(
    "record",
    [attachment(), attachment(name="upstreams", **{VOLUME_NAME: NAME})],
    ids=["by its name", "by what is stored on it"],
)
def test_a_volume_that_was_made_anew_for_another_disk_is_not_what_the_attachment_is_about(
    record: VolumeAttachment, live: bool
):
    found, _ = definitions(Live(volume("another")), volume("another"))
    with pytest.raises(VolumeError, match="was made anew for another disk"):
        asyncio.run(found.spec(record, live=live))


def test_what_was_stored_before_the_attach_is_enough_for_the_detach():
    live = Live(volume())
    found, plugin = definitions(live)
    record = attachment(**{ATTACH_REQUESTED_AT: "2030-01-01T00:00:00.000000Z", VOLUME_NAME: NAME})
    name, _ = asyncio.run(found.detacher(record))
    assert (name, live.asked) == (NAME, 0)
    plugin.detacher_of.assert_called_once_with(record.metadata.annotations, None)


def test_what_another_attacher_attached_is_detached_as_its_definition_says():
    live = Live(volume())
    found, plugin = definitions(live)
    record = attachment(**{VOLUME_NAME: NAME})
    name, _ = asyncio.run(found.detacher(record))
    assert (name, live.asked) == (NAME, 1)
    (_, spec), _ = plugin.detacher_of.call_args
    assert spec.persistent_volume == volume()


def test_without_a_definition_the_stored_name_has_to_do():
    found, plugin = definitions(Live(None))
    record = attachment(**{VOLUME_NAME: NAME})
    assert asyncio.run(found.detacher(record))[0] == NAME
    plugin.detacher_of.assert_called_once_with(record.metadata.annotations, None)


def test_what_nothing_defines_cannot_be_detached():
    found, _ = definitions(Live(None))
    with pytest.raises(VolumeError, match="does not exist"):
        asyncio.run(found.detacher(attachment(**{ATTACH_REQUESTED_AT: "2030-01-01T00:00:00.000000Z"})))


def test_requests_to_a_csi_driver_are_outstanding_for_as_long_as_ever_when_nothing_defines_the_volume():
    found, plugin = definitions(Live(None))
    plugin.capabilities.return_value = AttachCapabilities(True, False, True, request_validity_s=60.0)
    twice = {ATTACH_REQUESTED_AT: "2030-01-01T00:00:00.000000Z,2030-01-01T00:00:01.000000Z"}
    assert asyncio.run(found.validity_s(attachment(**twice))) == 60.0
    source = VolumeAttachmentSource(persistent_volume_name="pv")
    of_plugin = VolumeAttachment(
        metadata=ObjectMeta(name="a", annotations={**twice, PLUGIN: "example.com/disk"}),
        spec=VolumeAttachmentSpec(ATTACHER, "n", source),
    )
    assert asyncio.run(found.validity_s(of_plugin)) == TEN_MINUTES_S


@pytest.mark.parametrize("annotation", [ATTACH_REQUESTED_AT, DETACH_REQUESTED_AT, "none was sent"])
@pytest.mark.parametrize("attached", [False, True])
def test_a_request_is_outstanding_for_as_long_as_any_when_nothing_defines_the_volume(
    annotation: str, attached: bool
):
    """Found by the simulation: a volume lost its definition while its first attach was under way; the
    VolumeAttachment was let go, and the volume attached after it. So with the detach that is sent next."""
    found, _ = definitions(Live(None))
    notes = {annotation: "2030-01-01T00:00:00.000000Z", PLUGIN: "example.com/disk"}
    record = VolumeAttachment(
        metadata=ObjectMeta(name="a", annotations=notes),
        spec=VolumeAttachmentSpec(ATTACHER, "n", VolumeAttachmentSource(persistent_volume_name="pv")),
        status=VolumeAttachmentStatus(attached=attached),
    )
    assert asyncio.run(found.validity_s(record)) == TEN_MINUTES_S


def test_a_record_that_names_no_volume_has_no_definition():
    found, _ = definitions(Live(None))
    record = VolumeAttachment(metadata=ObjectMeta(name="a"), spec=VolumeAttachmentSpec(DRIVER, "n"))
    with pytest.raises(VolumeError, match="does not exist"):
        asyncio.run(found.spec(record))


def test_a_plugin_that_cannot_attach_is_named_in_the_error():
    found, _ = definitions(Live(None))
    found._plugins.find_attachable_plugin_by_name = lambda name: None
    with pytest.raises(VolumeError, match=f"plugin {DRIVER} cannot attach volumes"):
        found.plugin(attachment())


@pytest.mark.parametrize(
    ("annotation", "upstreams"),
    [("{", None), ('{"name": 7}', None), ("[]", None), ("", {"csi": 7}), ("", {"capacity": []})],
)
def test_a_definition_of_its_own_that_cannot_be_read_is_an_error_of_that_volume_alone(
    annotation: str, upstreams: dict[str, Any] | None
):
    """A verification goes on to the others."""
    found, _ = definitions(Live(None))
    source = VolumeAttachmentSource(inline_volume_spec=upstreams)
    record = VolumeAttachment(
        metadata=ObjectMeta(name="a", annotations={INLINE_VOLUME: annotation}),
        spec=VolumeAttachmentSpec(ATTACHER, "n", source),
    )
    with pytest.raises(InvalidSpec, match="VolumeAttachment a defines itself cannot be read"):
        asyncio.run(found.spec(record))
