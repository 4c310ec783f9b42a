"""From a pod's spec to what is run: commands, variables, images, mounts."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.kube.objects import Container, EnvVar, ObjectMeta, Pod, PodSpec, VolumeDevice, VolumeMount
from mooring.node.pods.containers import (
    ContainerConfigProblem,
    container_spec,
    environment,
    expand,
    hostname,
    images_on_host_root,
    sandbox_spec,
)
from mooring.node.runtime import ContainerSpec


def nothing(kind: str, name: str) -> None:
    return None


def pod_of(*containers: Container, **metadata: Any) -> Pod:
    fields = {"name": "web-0", "namespace": "default", "uid": "u1", **metadata}
    return Pod(metadata=ObjectMeta(**fields), spec=PodSpec(node_name="node-1", containers=containers))


def made(container: Container, folders: tuple[str, ...] = (), lookup: Any = nothing) -> ContainerSpec:
    return container_spec(
        pod_of(container),
        container,
        0,
        node_address="10.0.0.1",
        image_directory=lambda image: f"/images/{image}" if image in folders else None,
        lookup=lookup,
    )


@pytest.mark.parametrize(
    ("text", "expanded"),
    [
        ("$(NAME)", "value"),
        ("a$(NAME)b$(NAME)", "avaluebvalue"),
        ("$(OTHER)", "$(OTHER)"),
        ("$$(NAME)", "$(NAME)"),
        ("$$$(NAME)", "$value"),
        ("$NAME ${NAME} $", "$NAME ${NAME} $"),
        ("$(NAME", "$(NAME"),
    ],
)
def test_references_are_replaced_as_kubernetes_replaces_them(text: str, expanded: str) -> None:
    assert expand(text, {"NAME": "value"}) == expanded


@given(st.text(alphabet="abc(){} "))
def test_text_without_a_dollar_stays_as_it_is(text: str) -> None:
    assert expand(text, {"a": "x"}) == text


@given(st.text())
def test_doubled_dollars_keep_any_text_from_being_replaced(text: str) -> None:
    assert expand(text.replace("$", "$$"), {"a": "x"}) == text


def test_a_variable_may_refer_to_an_earlier_one_and_not_to_a_later_one() -> None:
    container = Container(
        name="main",
        env=(EnvVar(name="A", value="$(B)"), EnvVar(name="B", value="b"), EnvVar(name="C", value="$(B)c")),
    )
    variables = environment(pod_of(container), container, "", nothing)
    assert (variables["A"], variables["C"]) == ("$(B)", "bc")


def test_a_container_has_a_path_and_its_host_name() -> None:
    container = Container(name="main")
    variables = environment(pod_of(container), container, "", nothing)
    assert "/usr/bin" in variables["PATH"]
    assert variables["HOSTNAME"] == "web-0"


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("metadata.name", "web-0"),
        ("metadata.uid", "u1"),
        ("spec.nodeName", "node-1"),
        ("status.podIP", "10.0.0.1"),
        ("metadata.labels['app']", "web"),
        ("metadata.labels['none']", ""),
    ],
)
def test_a_variable_may_have_a_field_of_the_pod(path: str, value: str) -> None:
    container = Container(name="main", env=(EnvVar(name="X", value_from={"fieldRef": {"fieldPath": path}}),))
    pod = pod_of(container, labels={"app": "web"})
    assert environment(pod, container, "10.0.0.1", nothing)["X"] == value


def test_a_variable_may_have_a_key_of_a_config_map_or_secret() -> None:
    data = {("ConfigMap", "c"): {"k": "$(not expanded)"}, ("Secret", "s"): {"k": "hidden"}}
    env = (
        EnvVar(name="C", value_from={"configMapKeyRef": {"name": "c", "key": "k"}}),
        EnvVar(name="S", value_from={"secretKeyRef": {"name": "s", "key": "k"}}),
        EnvVar(name="O", value_from={"secretKeyRef": {"name": "s", "key": "none", "optional": True}}),
    )
    spec = made(Container(name="main", command=("x",), env=env), lookup=lambda kind, name: data.get((kind, name)))
    assert (spec.env["C"], spec.env["S"]) == ("$(not expanded)", "hidden")
    assert "O" not in spec.env


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ({"configMapKeyRef": {"name": "c", "key": "k"}}, "ConfigMap 'c' does not exist"),
        ({"fieldRef": {"fieldPath": "spec.magic"}}, "'spec.magic'"),
        ({"resourceFieldRef": {"resource": "limits.cpu"}}, "resourceFieldRef is not supported"),
    ],
)
def test_a_variable_that_cannot_be_had_is_named(source: dict[str, Any], told: str) -> None:
    with pytest.raises(ContainerConfigProblem, match="variable X") as problem:
        made(Container(name="main", command=("x",), env=(EnvVar(name="X", value_from=source),)))
    assert told in str(problem.value)
    assert problem.value.reason == "CreateContainerConfigError"


def test_command_and_args_are_joined_and_expanded() -> None:
    container = Container(name="main", command=("sh", "-c"), args=("echo $(A)",), env=(EnvVar(name="A", value="1"),))
    assert made(container).argv == ("sh", "-c", "echo 1")


def test_without_a_command_and_without_an_image_folder_the_next_step_is_told() -> None:
    with pytest.raises(ContainerConfigProblem, match=r"busybox.*set `command`") as problem:
        made(Container(name="main", image="busybox"))
    assert problem.value.reason == "ErrImageNeverPull"


def test_an_image_folder_without_a_command_is_refused() -> None:
    with pytest.raises(ContainerConfigProblem) as problem:
        made(Container(name="main", image="app"), folders=("app",))
    assert problem.value.reason == "CreateContainerConfigError"


def test_images_are_shared_by_key_and_what_has_no_folder_runs_on_the_host_root() -> None:
    containers = (
        Container(name="a", image="app", command=("x",)),
        Container(name="b", image="app", command=("x",)),
        Container(name="c", image="busybox", command=("x",)),
    )
    pod = pod_of(*containers)

    def folder(image: str) -> str | None:
        return "/images/app" if image == "app" else None

    assert list(sandbox_spec(pod, {}, folder, ()).images.values()) == ["/images/app"]
    assert images_on_host_root(pod, folder) == ["busybox"]
    keys = [
        container_spec(pod, c, 0, node_address="", image_directory=folder, lookup=nothing).image for c in containers
    ]
    assert keys[0] == keys[1] == next(iter(sandbox_spec(pod, {}, folder, ()).images))
    assert keys[2] is None


def test_outer_mounts_come_before_inner_ones() -> None:
    mounts = (
        VolumeMount(name="in", mount_path="/data/cache", read_only=True),
        VolumeMount(name="out", mount_path="/data", sub_path="x"),
    )
    spec = made(Container(name="main", command=("x",), volume_mounts=mounts))
    assert [(mount.volume, mount.read_only, mount.sub_path) for mount in spec.mounts] == [
        ("out", False, "x"),
        ("in", True, ""),
    ]


def test_a_raw_device_is_refused_with_a_reason() -> None:
    device = VolumeDevice(name="raw", device_path="/dev/x")
    with pytest.raises(ContainerConfigProblem, match="volumeDevices"):
        made(Container(name="main", command=("x",), volume_devices=(device,)))


@given(st.from_regex(r"[a-z0-9]([-a-z0-9.]{0,250}[a-z0-9])?", fullmatch=True))
def test_a_host_name_is_short_enough_and_well_formed(name: str) -> None:
    made_of = hostname(pod_of(name=name))
    assert 0 < len(made_of) <= 63
    assert made_of[-1] not in "-."
