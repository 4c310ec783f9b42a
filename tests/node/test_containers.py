"""From a pod's spec to what is run: commands, variables, images, mounts."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.kube.objects import (
    Container,
    EnvVar,
    HostPathVolumeSource,
    ObjectMeta,
    Pod,
    PodSpec,
    Volume,
    VolumeDevice,
    VolumeMount,
)
from mooring.kube.objects.pods import EnvFromSource, PodSecurityContext, SecurityContext
from mooring.node.pods.containers import Image, container_spec, environment, images_on_host_root, sandbox_spec
from mooring.node.pods.environment import ContainerConfigProblem, Surroundings, expand, hostname
from mooring.node.pods.unsupported import not_honoured
from mooring.node.runtime import ContainerMount, ContainerSpec


def nothing(kind: str, name: str) -> None:
    return None


def pod_of(*containers: Container, **metadata: Any) -> Pod:
    fields = {"name": "web-0", "namespace": "default", "uid": "u1", **metadata}
    return Pod(metadata=ObjectMeta(**fields), spec=PodSpec(node_name="node-1", containers=containers))


def no_image(name: str) -> None:
    return None


def around(lookup: Any = nothing) -> Surroundings:
    allocatable = {"cpu": "4", "memory": "1000Ki"}
    return Surroundings("10.0.0.1", "10.88.1.2", lookup, allocatable)


def variables_of(container: Container, lookup: Any = nothing, **metadata: Any) -> dict[str, str]:
    return environment(pod_of(container, **metadata), container, around(lookup), None)


def made(
    container: Container, image: Image | None = None, lookup: Any = nothing, **pod: Any
) -> ContainerSpec:
    def always(name: str) -> Image | None:
        return image

    owner = pod_of(container)
    owner = msgspec.structs.replace(owner, spec=msgspec.structs.replace(owner.spec, **pod))
    return container_spec(owner, container, 0, around=around(lookup), find_image=always)


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
    variables = variables_of(container)
    assert (variables["A"], variables["C"]) == ("$(B)", "bc")


def test_a_container_has_a_path_and_its_host_name() -> None:
    container = Container(name="main")
    variables = variables_of(container)
    assert "/usr/bin" in variables["PATH"]
    assert variables["HOSTNAME"] == "web-0"


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("metadata.name", "web-0"),
        ("metadata.uid", "u1"),
        ("spec.nodeName", "node-1"),
        ("status.podIP", "10.88.1.2"),
        ("status.hostIP", "10.0.0.1"),
        ("metadata.labels['app']", "web"),
        ("metadata.labels['none']", ""),
    ],
)
def test_a_variable_may_have_a_field_of_the_pod(path: str, value: str) -> None:
    container = Container(name="main", env=(EnvVar(name="X", value_from={"fieldRef": {"fieldPath": path}}),))
    assert variables_of(container, labels={"app": "web"})["X"] == value


def test_a_variable_may_have_a_key_of_a_config_map_or_secret() -> None:
    data = {("ConfigMap", "c"): {"k": "$(not expanded)"}, ("Secret", "s"): {"k": "hidden"}}
    env = (
        EnvVar(name="C", value_from={"configMapKeyRef": {"name": "c", "key": "k"}}),
        EnvVar(name="S", value_from={"secretKeyRef": {"name": "s", "key": "k"}}),
        EnvVar(name="O", value_from={"secretKeyRef": {"name": "s", "key": "none", "optional": True}}),
    )
    spec = made(
        Container(name="main", command=("x",), env=env), lookup=lambda kind, name: data.get((kind, name))
    )
    assert (spec.env["C"], spec.env["S"]) == ("$(not expanded)", "hidden")
    assert "O" not in spec.env


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ({"configMapKeyRef": {"name": "c", "key": "k"}}, "ConfigMap 'c' does not exist"),
        ({"fieldRef": {"fieldPath": "spec.magic"}}, "'spec.magic'"),
        ({"resourceFieldRef": {"resource": "limits.cpu", "containerName": "none"}}, "'limits.cpu' of none"),
        ({"fileKeyRef": {"path": "x"}}, "fileKeyRef is not supported"),
    ],
)
def test_a_variable_that_cannot_be_had_is_named(source: dict[str, Any], words: str) -> None:
    with pytest.raises(ContainerConfigProblem, match="variable X") as problem:
        made(Container(name="main", command=("x",), env=(EnvVar(name="X", value_from=source),)))
    assert words in str(problem.value)
    assert problem.value.reason == "CreateContainerConfigError"


def test_command_and_args_are_joined_and_expanded() -> None:
    container = Container(
        name="main", command=("sh", "-c"), args=("echo $(A)",), env=(EnvVar(name="A", value="1"),)
    )
    assert made(container).argv == ("sh", "-c", "echo 1")


def test_without_a_command_and_without_an_image_folder_the_next_step_is_told() -> None:
    with pytest.raises(ContainerConfigProblem, match=r"busybox.*set `command`") as problem:
        made(Container(name="main", image="busybox"))
    assert problem.value.reason == "ErrImageNeverPull"


def test_an_image_folder_without_a_command_is_refused() -> None:
    with pytest.raises(ContainerConfigProblem) as problem:
        made(Container(name="main", image="app"), Image("/images/app"))
    assert problem.value.reason == "CreateContainerConfigError"


def test_images_are_shared_by_key_and_what_has_no_folder_runs_on_the_host_root() -> None:
    containers = (
        Container(name="a", image="app", command=("x",)),
        Container(name="b", image="app", command=("x",)),
        Container(name="c", image="busybox", command=("x",)),
    )
    pod = pod_of(*containers)

    def folder(image: str) -> Image | None:
        return Image("/images/app") if image == "app" else None

    assert list(sandbox_spec(pod, {}, folder, ()).images.values()) == ["/images/app"]
    assert images_on_host_root(pod, folder) == ["busybox"]
    keys = [container_spec(pod, c, 0, around=around(), find_image=folder).image for c in containers]
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


@pytest.mark.parametrize(
    ("privileged", "path", "sub_path", "shown"),
    [
        (True, "/", "", True),
        (True, "//", "", True),
        (False, "/", "", False),
        (None, "/", "", False),
        (True, "/srv", "", False),
        (True, "/", "etc", False),
    ],
)
def test_a_privileged_container_sees_the_processes_of_a_machine_whose_root_it_mounts(
    privileged: bool | None, path: str, sub_path: str, shown: bool
) -> None:
    container = Container(
        name="main",
        command=("x",),
        security_context=SecurityContext(privileged=privileged),
        volume_mounts=(VolumeMount(name="root", mount_path="/rootfs", sub_path=sub_path),),
    )
    volumes = (Volume(name="root", host_path=HostPathVolumeSource(path=path)),)
    (mount,) = made(container, volumes=volumes).mounts
    assert mount.machine_proc is shown


def test_only_the_sandbox_of_a_pod_that_is_started_with_such_a_container_has_the_machines_processes() -> None:
    volumes = (Volume(name="root", host_path=HostPathVolumeSource(path="/")),)
    mounts = (VolumeMount(name="root", mount_path="/host"),)
    privileged = SecurityContext(privileged=True)
    shell = Container(name="shell", command=("x",), security_context=privileged, volume_mounts=mounts)
    plain = Container(name="main", command=("x",))

    def pod(*containers: Container, later: tuple[Container, ...] = ()) -> Pod:
        spec = PodSpec(containers=containers, ephemeral_containers=later, volumes=volumes)
        return Pod(metadata=ObjectMeta(name="p", uid="u1"), spec=spec)

    assert sandbox_spec(pod(plain, shell), {}, no_image, ()).machine_proc
    without = pod(plain, later=(shell,))
    assert not sandbox_spec(without, {}, no_image, ()).machine_proc
    (mount,) = container_spec(without, shell, 0, around=around(), find_image=no_image).mounts
    assert not mount.machine_proc


def test_what_the_pod_may_only_read_is_read_only_whatever_the_mount_says() -> None:
    mounts = (VolumeMount(name="a", mount_path="/a"), VolumeMount(name="b", mount_path="/b"))
    container = Container(name="main", command=("x",), volume_mounts=mounts)
    spec = container_spec(
        pod_of(container), container, 0, around=around(), find_image=no_image, read_only={"b"}
    )
    assert [mount.read_only for mount in spec.mounts] == [False, True]


def test_a_raw_device_is_shown_at_its_path() -> None:
    device = VolumeDevice(name="raw", device_path="/dev/x")
    spec = made(Container(name="main", command=("x",), volume_devices=(device,)))
    assert spec.mounts == (ContainerMount("raw", "/dev/x"),)


@given(st.from_regex(r"[a-z0-9]([-a-z0-9.]{0,250}[a-z0-9])?", fullmatch=True))
def test_a_host_name_is_short_enough_and_well_formed(name: str) -> None:
    made_of = hostname(pod_of(name=name))
    assert 0 < len(made_of) <= 63
    assert made_of[-1] not in "-."


@pytest.mark.parametrize(
    ("reference", "value"),
    [
        ({"resource": "limits.cpu"}, "2"),
        ({"resource": "limits.cpu", "divisor": "1m"}, "1500"),
        ({"resource": "requests.cpu"}, "2"),
        ({"resource": "limits.memory", "divisor": "1Ki"}, "1000"),
        ({"resource": "requests.memory"}, "0"),
    ],
)
def test_a_variable_may_have_a_request_or_limit(reference: dict[str, Any], value: str) -> None:
    env = (EnvVar(name="X", value_from={"resourceFieldRef": reference}),)
    container = Container(name="main", env=env, resources={"limits": {"cpu": "1500m"}})
    assert variables_of(container)["X"] == value


def test_all_keys_of_a_config_map_or_secret_become_variables_with_a_prefix() -> None:
    data = {("ConfigMap", "c"): {"k": "1", "a=b": "left out"}, ("Secret", "s"): {"k": "2"}}
    sources = (
        EnvFromSource(config_map_ref={"name": "c"}),
        EnvFromSource(prefix="S_", secret_ref={"name": "s"}),
        EnvFromSource(secret_ref={"name": "none", "optional": True}),
    )
    env = (EnvVar(name="both", value="$(k)$(S_k)"),)
    variables = variables_of(Container(name="main", env_from=sources, env=env), lambda k, n: data.get((k, n)))
    assert variables["both"] == "12"
    assert not any("=" in name for name in variables)


def test_a_source_of_variables_that_does_not_exist_is_named() -> None:
    container = Container(name="main", command=("x",), env_from=(EnvFromSource(secret_ref={"name": "s"}),))
    with pytest.raises(ContainerConfigProblem, match="Secret 's' does not exist"):
        made(container)


def test_an_image_config_gives_what_the_spec_leaves_out() -> None:
    image = Image("/i", ("entry",), ("word",), {"A": "image", "PATH": "/image"}, "/work", "app")
    spec = made(Container(name="main", image="app", env=(EnvVar(name="A", value="own"),)), image)
    assert (spec.argv, spec.env["A"], spec.env["PATH"]) == (("entry", "word"), "own", "/image")
    assert (spec.working_dir, spec.user) == ("/work", "app")
    assert made(Container(name="main", args=("x",)), image).argv == ("entry", "x")
    assert made(Container(name="main", command=("y",)), image).argv == ("y",)


@pytest.mark.parametrize(
    ("own", "of_pod", "image", "user"),
    [
        ({}, {}, "", ""),
        ({}, {}, "app:grp", "app:grp"),
        ({"run_as_user": 5}, {"run_as_user": 6}, "app:grp", "5"),
        ({}, {"run_as_user": 6, "run_as_group": 7}, "", "6:7"),
        ({"run_as_group": 7}, {}, "", "0:7"),
        ({"run_as_group": 7}, {}, "app:grp", "app:7"),
        ({"run_as_user": 0}, {"run_as_user": 6}, "", "0"),
    ],
)
def test_the_containers_word_about_its_user_goes_before_the_pods_and_the_images(
    own: dict[str, Any], of_pod: dict[str, Any], image: str, user: str
) -> None:
    container = Container(name="main", command=("x",), security_context=SecurityContext(**own))
    assert (
        made(container, Image("/i", user=image), security_context=PodSecurityContext(**of_pod)).user == user
    )


def test_root_is_refused_where_it_must_not_be() -> None:
    container = Container(name="main", command=("x",), security_context=SecurityContext(run_as_non_root=True))
    with pytest.raises(ContainerConfigProblem, match="runAsNonRoot"):
        made(container)
    assert made(container, security_context=PodSecurityContext(run_as_user=9)).user == "9"


def test_supplemental_groups_and_the_volumes_group_are_the_processes_groups() -> None:
    context = PodSecurityContext(fs_group=30, supplemental_groups=(10, 20))
    assert made(Container(name="main", command=("x",)), security_context=context).groups == (10, 20, 30)


def test_a_sub_path_may_be_made_of_variables() -> None:
    env = (EnvVar(name="POD", value="web-0"), EnvVar(name="UP", value=".."))

    def sub_path(expression: str) -> str:
        mount = VolumeMount(name="v", mount_path="/v", sub_path_expr=expression)
        return (
            made(Container(name="main", command=("x",), env=env, volume_mounts=(mount,))).mounts[0].sub_path
        )

    assert sub_path("logs/$(POD)") == "logs/web-0"
    with pytest.raises(ContainerConfigProblem, match="no variable NONE"):
        sub_path("$(NONE)")
    with pytest.raises(ContainerConfigProblem, match="inside the volume"):
        sub_path("$(UP)/x")


def test_what_the_node_does_nothing_about_is_named_once() -> None:
    limited = Container(
        name="a", resources={"limits": {"cpu": "1"}}, security_context=SecurityContext(privileged=True)
    )
    pod = pod_of(limited, msgspec.structs.replace(limited, name="b"))
    assert not_honoured(pod) == ["resources.limits", "securityContext.privileged"]
    assert not_honoured(pod_of(Container(name="a"))) == []


def test_an_ephemeral_container_has_an_image_of_its_pod_or_the_nodes_root() -> None:
    pod = Pod(
        metadata=ObjectMeta(name="web-0", namespace="default", uid="u"),
        spec=PodSpec(
            containers=(Container(name="main", image="app", command=("x",)),),
            ephemeral_containers=(
                Container(name="same", image="app", command=("x",)),
                Container(name="root", image="none", command=("x",)),
                Container(name="other", image="other", command=("x",)),
            ),
        ),
    )

    def image_of(name: str) -> str | None:
        (container,) = (each for each in pod.spec.ephemeral_containers if each.name == name)
        return container_spec(pod, container, 0, around=around(), find_image=find).image

    def find(image: str) -> Image | None:
        return None if image == "none" else Image(f"/images/{image}")

    assert image_of("same") == "0"
    assert image_of("root") is None
    with pytest.raises(ContainerConfigProblem, match="use one of app"):
        image_of("other")
