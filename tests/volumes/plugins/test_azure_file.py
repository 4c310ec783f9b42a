"""azureFile volumes without a CSI driver: whose they are, and what `mount` and nobody else gets."""

from __future__ import annotations

import asyncio
import base64
import os
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.doubles.network_mounts import PlayedKernel

from mooring.kube.objects import (
    AzureFileVolumeSource,
    ObjectMeta,
    PersistentVolume,
    PersistentVolumeSpec,
    Pod,
    Secret,
    Volume,
)
from mooring.volumes.errors import ContentMissing, InvalidSpec, OutcomeUnknown, PluginError, VolumeError
from mooring.volumes.host import NodeVolumeHost
from mooring.volumes.plugins.azure_file import PLUGIN_NAME, AzureFilePlugin, options, share
from mooring.volumes.plugins.programs import Ended
from mooring.volumes.spec import VolumeSpec

POD = Pod(metadata=ObjectMeta(name="web-0", namespace="shop", uid="pod-uid"))
DEFAULTS = "file_mode=0777,dir_mode=0777,vers=3.0,actimeo=30,mfsymlinks"
KEY = "c2VjcmV0,x/y+z=="


class Keeper(PlayedKernel):
    """Looks at the credentials while `mount` runs."""

    def __init__(self) -> None:
        super().__init__()
        self.read: list[tuple[int, str]] = []

    async def run(self, *words: str, deadline_s: float) -> Ended:
        if words[0] == "mount":
            file = Path(words[words.index("-o") + 1].split(",")[0].removeprefix("credentials="))
            self.read.append((stat.S_IMODE(os.stat(file).st_mode), file.read_text()))
        return await super().run(*words, deadline_s=deadline_s)


class Node:
    def __init__(self, root: Path, server: str = "files.example.com") -> None:
        self.kernel, self.root = Keeper(), root
        self.secrets: dict[tuple[str, str], Secret] = {}
        self.keep(azurestorageaccountname="team", azurestorageaccountkey=KEY)
        self.plugin = AzureFilePlugin(self.kernel.run)
        refuse: Any = None
        settings = {PLUGIN_NAME: {"server": server}} if server else {}
        host = NodeVolumeHost("node-1", root, self.kernel, refuse, refuse, self._secret, settings)  # type: ignore[arg-type]
        self.plugin.init(host)

    async def _secret(self, namespace: str, name: str) -> Secret | None:
        return self.secrets.get((namespace, name))

    def keep(self, namespace: str = "shop", **data: str) -> None:
        encoded = {key: base64.b64encode(value.encode()).decode() for key, value in data.items()}
        self.secrets[namespace, "account"] = Secret(data=encoded)

    def set_up(self, spec: VolumeSpec, fs_group: int | None = None) -> str:
        mounter = self.plugin.new_mounter(spec, POD)
        asyncio.run(mounter.set_up(fs_group))
        return mounter.get_path()

    def tear_down(self, name: str = "data") -> None:
        asyncio.run(self.plugin.new_unmounter(name, POD.uid).tear_down())

    def files(self) -> list[str]:
        return [str(path) for path in self.root.rglob("*") if path.is_file()]


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def volume(name: str = "data", read_only: bool = False) -> VolumeSpec:
    source = AzureFileVolumeSource(secret_name="account", share_name=name, read_only=read_only)
    return VolumeSpec.of_volume(Volume(name="data", azure_file=source))


def persistent(given: Sequence[str] = (), namespace: str | None = None) -> VolumeSpec:
    source = AzureFileVolumeSource(secret_name="account", share_name="data", secret_namespace=namespace)
    spec = PersistentVolumeSpec(azure_file=source, mount_options=tuple(given))
    pv = PersistentVolume(metadata=ObjectMeta(name="data"), spec=spec)
    return VolumeSpec.of_persistent_volume(pv)


def test_without_a_server_no_volume_is_this_plugins(tmp_path: Path):
    assert not Node(tmp_path, server="").plugin.can_support(volume())
    assert Node(tmp_path).plugin.can_support(volume())
    assert not Node(tmp_path).plugin.can_support(VolumeSpec.of_volume(Volume(name="x")))


@pytest.mark.parametrize(
    "server", ["-o", "a b", "a/b", "a,b", "{x}.b", "{account", "a}", "fd00::1", "a\nb", "ä"]
)
def test_a_server_that_cannot_be_one_is_refused_at_the_start(tmp_path: Path, server: str):
    with pytest.raises(PluginError, match="setting server"):
        Node(tmp_path, server=server)


def test_the_share_is_mounted_with_upstreams_defaults_and_the_key_is_in_a_file_of_roots(node: Node):
    path = node.set_up(volume())
    (words,) = node.kernel.calls
    secret_file, _, rest = words[4].partition(",")
    assert (words[:4], words[5:]) == (("mount", "-t", "cifs", "-o"), ("--", "//files.example.com/data", path))
    assert secret_file.startswith(f"credentials={node.root}/pods/pod-uid/plugins/") and rest == DEFAULTS
    assert node.kernel.read == [(0o600, f"username=team\npassword={KEY}\n")]
    assert KEY not in " ".join(words) and node.files() == []


def test_the_server_may_have_the_accounts_name(tmp_path: Path):
    node = Node(tmp_path, server="{account}.file.core.windows.net")
    node.set_up(volume())
    assert node.kernel.calls[0][-2] == "//team.file.core.windows.net/data"


def test_files_belong_to_the_fsgroup(node: Node):
    node.set_up(volume(), fs_group=4000)
    assert node.kernel.calls[0][4].endswith(f"{DEFAULTS},gid=4000")


def test_what_a_volumes_options_name_is_no_default_and_read_only_comes_last(node: Node):
    given = ["vers=3.1.1,uid=7", "gid=8", "rw"]
    assert options(persistent(given), read_only=True, fs_group=4000) == [
        *given,
        "file_mode=0777",
        "dir_mode=0777",
        "actimeo=30",
        "mfsymlinks",
        "ro",
    ]


@pytest.mark.parametrize(
    "option", ["password=x", "ro,pass=x", "credentials=/etc/shadow", "username=a", "a b", 'x="']
)
def test_an_option_that_says_who_mounts_or_cannot_be_one_is_refused(option: str):
    with pytest.raises(InvalidSpec, match="mountOptions"):
        options(persistent([option]), read_only=False, fs_group=None)


@pytest.mark.parametrize("name", ["", "-o", "a/b", "a,b", "..", "a b", "a\nb", "a\\b", "ä", "a" * 81])
def test_a_share_that_cannot_be_one_is_refused_before_any_program_runs(node: Node, name: str):
    with pytest.raises(InvalidSpec, match="shareName"):
        node.set_up(volume(name))
    assert node.kernel.calls == []


def test_the_secret_is_the_pods_namespaces_unless_the_persistent_volume_says_another(node: Node):
    assert share(persistent(), "shop").namespace == "shop"
    assert share(persistent(namespace="vault"), "shop").namespace == "vault"


def test_a_secret_that_does_not_exist_is_named(node: Node):
    node.secrets.clear()
    with pytest.raises(ContentMissing, match="Secret shop/account of volume data does not exist"):
        node.set_up(volume())
    assert node.kernel.calls == []


@pytest.mark.parametrize(
    ("account", "key"),
    [
        ("", KEY),
        ("team", ""),
        ("team", "k\npassword=x"),
        ("te\nam", KEY),
        ("-o", KEY),
        ("team", "k k"),
        ("team", "k" * 513),
    ],
)
def test_a_secret_that_would_be_other_lines_is_refused_and_not_quoted(node: Node, account: str, key: str):
    node.keep(azurestorageaccountname=account, azurestorageaccountkey=key)
    with pytest.raises(InvalidSpec, match="azurestorageaccountkey, of one line") as refused:
        node.set_up(volume())
    assert node.kernel.calls == [] and "k k" not in str(refused.value) and "kkk" not in str(refused.value)


def test_a_secret_file_ends_with_a_line_as_editors_write_it(node: Node):
    node.keep(azurestorageaccountname="team\n", azurestorageaccountkey=f"{KEY}\n")
    node.set_up(volume())
    assert node.kernel.read[0][1] == f"username=team\npassword={KEY}\n"


def test_a_server_that_refuses_is_named_and_no_key_is_left(node: Node):
    node.kernel.refusal = "mount error(13): Permission denied"
    with pytest.raises(VolumeError, match=r"//files\.example\.com/data of volume data: .*account and key"):
        node.set_up(volume())
    assert node.files() == []


def test_no_key_is_left_by_a_mount_of_unknown_outcome(node: Node):
    node.kernel.gone = True
    with pytest.raises(OutcomeUnknown):
        node.set_up(volume())
    assert node.files() == []


def test_a_key_that_a_killed_agent_left_goes_with_the_next_try_and_with_the_volume(node: Node):
    path = node.set_up(volume())
    left = Path(node.kernel.calls[0][4].split(",")[0].removeprefix("credentials="))
    left.write_text("x")
    node.set_up(volume())
    assert node.files() == []
    left.write_text("x")
    node.tear_down()
    assert node.files() == [] and node.kernel.mounts == {} and not Path(path).exists()


def test_a_directory_with_a_comma_would_be_other_options(tmp_path: Path):
    node = Node(tmp_path / "a,ro")
    with pytest.raises(VolumeError, match="give the agent another directory"):
        node.set_up(volume())
    assert node.kernel.calls == []


def test_what_is_mounted_is_not_mounted_again(node: Node):
    node.set_up(volume())
    node.set_up(volume())
    assert len(node.kernel.calls) == 1


@given(st.text(max_size=40), st.text(max_size=40), st.lists(st.text(max_size=20), max_size=3))
def test_no_text_becomes_another_option_or_another_line(name: str, key: str, given: list[str]):
    try:
        of = share(volume(name), "shop")
        found = ",".join(options(persistent(given), read_only=True, fs_group=1))
    except InvalidSpec:
        return
    assert "/" not in of.name and of.name.isprintable() and not of.name.startswith("-")
    assert found.endswith(",ro") and not {"password", "credentials"} & {
        e.partition("=")[0] for e in found.split(",")
    }


def test_it_has_upstreams_name_and_modes_and_the_fsgroup_is_its(node: Node):
    assert node.plugin.get_plugin_name() == "kubernetes.io/azure-file"
    assert node.plugin.get_volume_name(volume()) == "data"
    attributes = [node.plugin.new_mounter(volume(read_only=ro), POD).get_attributes() for ro in (False, True)]
    assert [(each.managed, each.read_only) for each in attributes] == [(True, False), (False, True)]
