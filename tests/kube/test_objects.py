"""Each kind is served where its RESOURCE says, and reads back what was written."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

import msgspec
import pytest

from mooring.kube.objects import CSINode, Event, EventV1, PriorityClass, ReplicaSet, VolumeAttributesClass

Play = Callable[[Callable[[Any], Coroutine[Any, Any, Any]]], Any]


def test_a_priority_class(play: Play):
    async def story(api: Any):
        await api.client.create(PriorityClass, {"metadata": {"name": "high"}, "value": 7})
        found = await api.client.get(PriorityClass, "high")
        assert (found.value, found.global_default, found.preemption_policy) == (
            7,
            False,
            "PreemptLowerPriority",
        )

    play(story)


def test_a_volume_attributes_class(play: Play):
    async def story(api: Any):
        body = {"metadata": {"name": "fast"}, "driverName": "ebs.csi.aws.com", "parameters": {"iops": "9"}}
        await api.client.create(VolumeAttributesClass, body)
        found = await api.client.get(VolumeAttributesClass, "fast")
        assert (found.driver_name, found.parameters) == ("ebs.csi.aws.com", {"iops": "9"})

    play(story)


@pytest.mark.parametrize(
    "spec", [b'{"drivers":null}', b'{"drivers":[{"name":"d","nodeID":"i","topologyKeys":null}]}']
)
def test_a_csinode_as_kubelets_write_it_without_drivers_or_topology(spec: bytes):
    found = msgspec.json.decode(b'{"metadata":{"name":"n"},"spec":' + spec + b"}", type=CSINode)
    assert [each.topology_keys for each in found.spec.drivers] in ([], [()])


def test_a_replica_set(play: Play):
    async def story(api: Any):
        template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
        spec = {"replicas": 2, "selector": {"matchLabels": {"a": "b"}}, "template": template}
        await api.client.create(ReplicaSet, {"metadata": {"name": "r"}, "spec": spec}, "default")
        found = await api.client.get(ReplicaSet, "r", "default")
        assert (found.spec.replicas, found.spec.selector.match_labels) == (2, {"a": "b"})
        assert found.spec.template["spec"]["containers"][0]["name"] == "c"

    play(story)


def test_an_event_is_one_object_in_both_groups(play: Play):
    async def story(api: Any):
        about = {"kind": "Pod", "namespace": "default", "name": "p"}
        body = {
            "metadata": {"name": "e"},
            "involvedObject": about,
            "reason": "R",
            "message": "m",
            "type": "Normal",
        }
        await api.client.create(Event, body, "default")
        found = await api.client.get(EventV1, "e", "default")
        assert (found.regarding.name, found.reason, found.note, found.type) == ("p", "R", "m", "Normal")

    play(story)
