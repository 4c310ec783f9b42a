"""The downward API as files."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.kube.objects import (
    Container,
    DownwardAPIVolumeFile,
    ObjectFieldSelector,
    ObjectMeta,
    Pod,
    PodSpec,
    ResourceFieldSelector,
)
from mooring.volumes.downward_api import downward_files, field_text, resource_text
from mooring.volumes.errors import InvalidSpec
from mooring.volumes.payload import PayloadFile

RESOURCES: dict[str, Any] = {"requests": {"cpu": "250m"}, "limits": {"memory": "64Mi"}}
POD = Pod(
    metadata=ObjectMeta(
        name="web-0",
        namespace="shop",
        uid="u",
        labels={"b": 'say "hi"', "a": "1"},
        annotations={"x/y": "two\nlines"},
    ),
    spec=PodSpec(containers=(Container(name="main", resources=RESOURCES),)),
)
NODE = {"cpu": "2", "memory": "1Gi"}


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("metadata.name", "web-0"),
        ("metadata.namespace", "shop"),
        ("metadata.uid", "u"),
        ("metadata.labels", 'a="1"\nb="say \\"hi\\""'),
        ("metadata.annotations", 'x/y="two\\nlines"'),
        ("metadata.labels['b']", 'say "hi"'),
        ("metadata.annotations['none']", ""),
    ],
)
def test_a_field_of_the_pod(path: str, text: str):
    assert field_text(POD, path) == text


def test_a_field_that_volumes_do_not_show_is_refused():
    with pytest.raises(InvalidSpec, match=r"status\.podIP"):
        field_text(POD, "status.podIP")


@pytest.mark.parametrize(
    ("resource", "divisor", "text"),
    [
        ("requests.cpu", None, "1"),
        ("requests.cpu", "1m", "250"),
        ("limits.memory", "1Mi", "64"),
        ("requests.memory", "1Mi", "64"),
        ("limits.cpu", None, "2"),
        ("requests.ephemeral-storage", None, "0"),
    ],
)
def test_a_resource_of_a_container(resource: str, divisor: str | None, text: str):
    reference = ResourceFieldSelector(container_name="main", resource=resource, divisor=divisor)
    assert resource_text(POD, reference, NODE) == text


@pytest.mark.parametrize(
    ("container", "resource"), [("other", "limits.cpu"), ("main", "cpu"), ("main", "limits")]
)
def test_a_resource_that_is_not_there_is_refused(container: str, resource: str):
    with pytest.raises(InvalidSpec, match="no resource"):
        resource_text(POD, ResourceFieldSelector(container_name=container, resource=resource), NODE)


def test_files_have_their_own_mode_or_the_default():
    name = ObjectFieldSelector(field_path="metadata.name")
    items = (
        DownwardAPIVolumeFile(path="a", field_ref=name, mode=0),
        DownwardAPIVolumeFile(path="b", field_ref=name),
    )
    assert downward_files(items, 0o400, POD, NODE) == {
        "a": PayloadFile(b"web-0", 0),
        "b": PayloadFile(b"web-0", 0o400),
    }


def test_a_file_without_a_source_is_refused():
    with pytest.raises(InvalidSpec, match="neither"):
        downward_files((DownwardAPIVolumeFile(path="a"),), None, POD, NODE)
