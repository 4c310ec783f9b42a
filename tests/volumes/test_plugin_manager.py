"""Plugins are found, initialised once, and looked up; one that cannot be used does not harm the others."""

from __future__ import annotations

from datetime import UTC, datetime
from importlib.metadata import EntryPoint

import pytest

from mooring.kube.objects import EmptyDirVolumeSource, Pod, Volume
from mooring.volumes import plugin_manager
from mooring.volumes.errors import InvalidPlugin, MultiplePluginsMatched, NoPluginMatched, PluginError
from mooring.volumes.host import ControllerVolumeHost, VolumeHost
from mooring.volumes.interfaces import (
    AttachableVolumePlugin,
    AttachCapabilities,
    Attacher,
    Detacher,
    Mounter,
    Unmounter,
    VolumePlugin,
)
from mooring.volumes.plugin_manager import PluginManager, load_plugins, qualified_name_problem
from mooring.volumes.spec import VolumeSpec

HOST = ControllerVolumeHost(now=lambda: datetime(2030, 1, 1, tzinfo=UTC))
SPEC = VolumeSpec.of_volume(Volume(name="v", empty_dir=EmptyDirVolumeSource()))


class ExamplePlugin(VolumePlugin):
    def __init__(
        self, name: str = "example.com/one", supports: bool = True, problem: Exception | None = None
    ) -> None:
        self.name = name
        self.supports = supports
        self.problem = problem
        self.inits = 0

    def init(self, host: VolumeHost) -> None:
        self.inits += 1
        if self.problem:
            raise self.problem

    def get_plugin_name(self) -> str:
        return self.name

    def get_volume_name(self, spec: VolumeSpec) -> str:
        return "vol"

    def can_support(self, spec: VolumeSpec) -> bool:
        return self.supports

    def new_mounter(self, spec: VolumeSpec, pod: Pod) -> Mounter:
        raise NotImplementedError

    def new_unmounter(self, spec_name: str, pod_uid: str) -> Unmounter:
        raise NotImplementedError

    async def construct_volume_spec(self, volume_name: str, mount_path: str) -> VolumeSpec:
        raise NotImplementedError


class ExampleAttachablePlugin(ExamplePlugin, AttachableVolumePlugin):
    attaches = True

    def can_attach(self, spec: VolumeSpec) -> bool:
        return self.attaches

    def can_device_mount(self, spec: VolumeSpec) -> bool:
        return self.attaches

    def capabilities(self, spec: VolumeSpec) -> AttachCapabilities:
        return AttachCapabilities(refuses=True, revokes=True, multi_attach=False)

    def new_attacher(self) -> Attacher:
        raise NotImplementedError

    def new_detacher(self) -> Detacher:
        raise NotImplementedError

    async def get_device_mount_refs(self, device_mount_path: str) -> list[str]:
        return []


@pytest.mark.parametrize("name", ["example.com/disk", "kubernetes.io/empty-dir", "a/B_c.1"])
def test_a_qualified_name_is_accepted(name: str):
    assert qualified_name_problem(name) is None


@pytest.mark.parametrize(
    "name",
    [
        "",
        "disk",
        "/disk",
        "a/",
        "a/b/c",
        "Example.com/disk",
        "a/-b",
        "a/b.",
        "-a/b",
        "a..b/c",
        "a/" + "b" * 64,
    ],
)
def test_any_other_name_is_refused_with_the_reason(name: str):
    assert qualified_name_problem(name)


def test_init_is_called_exactly_once():
    plugin = ExamplePlugin()
    manager = PluginManager([plugin], HOST)
    manager.find_plugin_by_spec(SPEC)
    manager.find_plugin_by_name("example.com/one")
    assert plugin.inits == 1


def test_what_cannot_be_used_is_left_out_with_its_reason_and_the_rest_works():
    good = ExamplePlugin()
    again, badly_named = ExamplePlugin(), ExamplePlugin("noslash")
    broken = ExamplePlugin("example.com/broken", problem=PluginError("no array"))
    manager = PluginManager([good, badly_named, broken, again], HOST)
    assert manager.plugins == (good,)
    assert [error.problem.partition(":")[0] for error in manager.errors] == [
        "a plugin's name has exactly one slash, as in example.com/volume",
        "its init failed",
        "it was registered more than once",
    ]
    assert (badly_named.inits, again.inits) == (0, 0)


@pytest.mark.parametrize("namespace", ["kubernetes.io", "mooring.dev"])
def test_the_namespaces_of_bundled_plugins_are_reserved(namespace: str):
    manager = PluginManager([ExamplePlugin(f"{namespace}/mine")], HOST)
    assert manager.plugins == ()
    assert "reserved" in manager.errors[0].problem


def test_the_cause_of_a_failed_init_is_kept():
    cause = PluginError("no array")
    manager = PluginManager([ExamplePlugin(problem=cause)], HOST)
    assert manager.errors[0].__cause__ is cause


def test_a_spec_that_nobody_supports_names_the_volume_and_what_was_left_out():
    manager = PluginManager([ExamplePlugin(problem=PluginError("no array"))], HOST)
    with pytest.raises(NoPluginMatched, match=r"no volume plugin matched volume v .*no array"):
        manager.find_plugin_by_spec(SPEC)


def test_a_spec_that_several_support_names_them():
    manager = PluginManager([ExamplePlugin("example.com/b"), ExamplePlugin("example.com/a")], HOST)
    with pytest.raises(MultiplePluginsMatched, match=r"example\.com/a, example\.com/b"):
        manager.find_plugin_by_spec(SPEC)


def test_an_unknown_name_is_refused():
    with pytest.raises(NoPluginMatched, match=r"no volume plugin matched name 'example\.com/two'"):
        PluginManager([ExamplePlugin()], HOST).find_plugin_by_name("example.com/two")


def test_a_plugin_without_the_ability_is_none_where_it_may_be_absent():
    manager = PluginManager([ExamplePlugin()], HOST)
    assert manager.find_attachable_plugin_by_spec(SPEC) is None
    assert manager.find_attachable_plugin_by_name("example.com/one") is None
    assert manager.find_device_mountable_plugin_by_spec(SPEC) is None
    assert manager.find_block_plugin_by_spec(SPEC) is None
    assert manager.find_expandable_plugin_by_spec(SPEC) is None


def test_a_plugin_without_the_ability_is_an_error_where_it_is_needed():
    manager = PluginManager([ExamplePlugin()], HOST)
    for find in (
        manager.find_persistent_plugin_by_spec,
        manager.find_recyclable_plugin_by_spec,
        manager.find_deletable_plugin_by_spec,
    ):
        with pytest.raises(NoPluginMatched, match=r"example\.com/one is not"):
            find(SPEC)
    with pytest.raises(NoPluginMatched, match="is not provisionable"):
        manager.find_provisionable_plugin_by_name("example.com/one")


def test_an_attachable_plugin_is_found_unless_this_volume_needs_no_attaching():
    plugin = ExampleAttachablePlugin()
    manager = PluginManager([plugin], HOST)
    assert manager.find_attachable_plugin_by_spec(SPEC) is plugin
    plugin.attaches = False
    assert manager.find_attachable_plugin_by_spec(SPEC) is None
    assert manager.find_attachable_plugin_by_name("example.com/one") is plugin


def test_the_unique_name_of_an_attached_volume_is_the_same_for_all_pods():
    manager = PluginManager([ExampleAttachablePlugin()], HOST)
    assert manager.unique_volume_name(SPEC, "uid-1") == "example.com/one/vol"


def test_the_unique_name_of_any_other_volume_is_the_pods_own():
    assert (
        PluginManager([ExamplePlugin()], HOST).unique_volume_name(SPEC, "uid-1") == "example.com/one/uid-1-v"
    )


INSTANCE = ExamplePlugin("example.com/instance")


def make() -> VolumePlugin:
    return ExamplePlugin("example.com/made", supports=False)


def install(monkeypatch: pytest.MonkeyPatch, **plugins: str) -> None:
    entries = [EntryPoint(name, value, plugin_manager.ENTRY_POINTS) for name, value in plugins.items()]
    monkeypatch.setattr(
        plugin_manager, "entry_points", lambda group: entries if group == plugin_manager.ENTRY_POINTS else []
    )


def test_entry_points_may_name_a_factory_or_a_plugin(monkeypatch: pytest.MonkeyPatch):
    loaded = {"made": make, "instance": INSTANCE}
    install(monkeypatch, made="x:made", instance="x:instance")
    monkeypatch.setattr(EntryPoint, "load", lambda entry: loaded[entry.name])
    assert {plugin.get_plugin_name() for plugin in load_plugins(HOST).plugins} == {
        "example.com/made",
        "example.com/instance",
    }


def test_an_entry_point_that_cannot_be_loaded_is_left_out_and_named(monkeypatch: pytest.MonkeyPatch):
    install(monkeypatch, missing="no_such_module:plugin", wrong="datetime:UTC.utcoffset")
    manager = load_plugins(HOST)
    assert [error.plugin for error in manager.errors] == ["missing", "wrong"]
    assert all(isinstance(error, InvalidPlugin) for error in manager.errors)


def test_the_plugins_that_come_with_mooring_are_installed():
    assert {"kubernetes.io/empty-dir", "kubernetes.io/configmap"} <= {
        plugin.get_plugin_name() for plugin in load_plugins(HOST).plugins
    }


def test_the_host_of_a_controller_has_nothing_of_a_node():
    for ask in (lambda: HOST.mounts, lambda: HOST.pod_dir("uid"), lambda: HOST.get_plugin_dir("a/b")):
        with pytest.raises(PluginError, match="not a controller"):
            ask()
