"""`kubernetes.io/azure-file`: a share of an SMB server, mounted for each pod by the node's kernel, without a
CSI driver. Only where this process is told which server that is: the setting `server`, a host name or IPv4
address, in which `{account}` stands for the Secret's storage account. Otherwise such volumes are the CSI
driver's (`migration`), and this plugin supports none.

Guarantees: what reaches a program is checked before; the key is in a file of root's alone while `mount` runs,
never in an argument list, a log or an error; and those of `network_mount`, which does the mounting.

Names, keys of the Secret and default options are those of upstream's plugin.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import structlog

from mooring.kube.objects import AzureFileVolumeSource, Pod, Volume
from mooring.mounts.blocking import blocking
from mooring.mounts.commands import find_tool
from mooring.volumes.errors import ContentMissing, InvalidSpec, PluginError, VolumeError
from mooring.volumes.host import VolumeHost
from mooring.volumes.interfaces import Attributes, Metrics, PersistentVolumePlugin
from mooring.volumes.key_files import Contents, secret_contents
from mooring.volumes.plugins.network_mount import (
    SecretUnmounter,
    advice,
    checked_options,
    mount_in_time,
    secret_file,
    use_of,
)
from mooring.volumes.plugins.private_files import remove, write
from mooring.volumes.plugins.programs import Run, run
from mooring.volumes.pod_directory import PodDirectoryMounter
from mooring.volumes.spec import VolumeSpec

PLUGIN_NAME = "kubernetes.io/azure-file"
SERVER = "server"
ACCOUNT_NAME, ACCOUNT_KEY = "azurestorageaccountname", "azurestorageaccountkey"
DEFAULTS = ("file_mode=0777", "dir_mode=0777", "vers=3.0", "actimeo=30", "mfsymlinks")
SECRET_OPTIONS = ("credentials", "cred", "user", "username", "pass", "password", "password2")
LONGEST_KEY = 512

_SERVER = re.compile(r"[A-Za-z0-9{]([-A-Za-z0-9.{}]{0,251}[A-Za-z0-9])?", re.ASCII)
_SHARE = re.compile(r"[A-Za-z0-9_][-\w.$]{0,79}", re.ASCII)
_ACCOUNT = re.compile(r"[A-Za-z0-9][-\w.]{0,62}", re.ASCII)
_KEY = re.compile(r"[!-~]+", re.ASCII)
_ADVICE = (
    ("error(13)", "the server refuses: look at the Secret's account and key, and who may use the share"),
    ("error(2)", "the server has no such share: correct azureFile.shareName"),
    ("error(95)", "the server does not speak that version of SMB: set mountOptions, as vers=3.1.1"),
    ("error(111)", "no SMB server answers there: start it, or correct the agent's setting"),
    ("error(113)", "this node does not reach the server: look at the network"),
    ("error(115)", "the server does not answer this node: look at it, and at the network"),
    ("resolve", "this node cannot resolve the name of the server: correct the agent's setting"),
)

log = structlog.get_logger("node-agent")


@dataclass(frozen=True)
class Share:
    """What a spec names, checked."""

    name: str
    secret: str
    namespace: str
    read_only: bool


def written(spec: VolumeSpec) -> AzureFileVolumeSource | None:
    """The `azureFile` source of the spec, unchecked."""
    return spec.definition.azure_file if spec.definition is not None else None


def share(spec: VolumeSpec, pod_namespace: str) -> Share:
    """Its Secret is the pod's namespace's, unless its PersistentVolume says another. Raises InvalidSpec."""
    source = written(spec)
    if source is None or not source.secret_name or not _SHARE.fullmatch(source.share_name):
        found = source.share_name[:100] if source is not None else ""
        raise InvalidSpec(
            f"volume {spec.name} needs azureFile.secretName, and a shareName of letters, digits and -_.$, not {found!a}"
        )
    elsewhere = source.secret_namespace if spec.persistent_volume is not None else None
    read_only = source.read_only or spec.read_only
    return Share(source.share_name, source.secret_name, elsewhere or pod_namespace, read_only)


def options(spec: VolumeSpec, read_only: bool, fs_group: int | None) -> list[str]:
    """The volume's mountOptions, and upstream's defaults for what they do not name. Raises InvalidSpec for
    one that says who mounts: that is in the Secret."""
    given = checked_options(spec, refused=SECRET_OPTIONS)
    named = {each.partition("=")[0] for each in ",".join(given).split(",")}
    group = [] if fs_group is None else [f"gid={fs_group}"]
    defaults = [each for each in (*DEFAULTS, *group) if each.partition("=")[0] not in named]
    return [*given, *defaults, *(("ro",) if read_only else ())]


def credentials(found: Contents, where: str) -> tuple[str, str]:
    """The account, and the file that mount.cifs reads. Raises InvalidSpec, without them."""
    account, key = (
        found.get(name, b"").decode(errors="replace").strip() for name in (ACCOUNT_NAME, ACCOUNT_KEY)
    )
    if not _ACCOUNT.fullmatch(account) or not _KEY.fullmatch(key) or len(key) > LONGEST_KEY:
        raise InvalidSpec(f"{where} needs {ACCOUNT_NAME} and {ACCOUNT_KEY}, of one line without blanks each")
    return account, f"username={account}\npassword={key}\n"


class AzureFileMounter(PodDirectoryMounter):
    """Mounts the share for the pod. All its files belong to the fsGroup."""

    def __init__(self, host: VolumeHost, spec: VolumeSpec, pod: Pod, call: Run, server: str) -> None:
        super().__init__(host, PLUGIN_NAME, spec, pod)
        self._spec, self._run, self._server = spec, call, server
        self._share = share(spec, pod.namespace)
        self._options = options(spec, self._share.read_only, None)
        self._credentials = secret_file(host, PLUGIN_NAME, spec.name, pod.uid)

    def get_attributes(self) -> Attributes:
        read_only = self._share.read_only
        return Attributes(read_only=read_only, managed=not read_only)

    async def can_mount(self) -> None:
        await blocking(find_tool, "mount.cifs")

    async def get_metrics(self) -> Metrics:
        return await use_of(self._run, self._path)

    async def set_up_at(self, directory: str, fs_group: int | None = None) -> None:
        await blocking(remove, self._credentials)  # of an agent that was killed
        if await self._host.mounts.is_mount_point(directory):
            return
        if "," in self._credentials:
            raise VolumeError(
                f"{self._credentials!a} cannot be an option of mount: give the agent another directory"
            )
        account, text = await self._secret()
        source = f"//{self._server.replace('{account}', account)}/{self._share.name}"
        given = [f"credentials={self._credentials}", *options(self._spec, self._share.read_only, fs_group)]
        words = ("-t", "cifs", "-o", ",".join(given), "--", source)
        what = f"{source} of volume {self._name}"
        try:
            await blocking(write, self._credentials, text)
            failed = await mount_in_time(self._host, self._run, words, directory, what)
        finally:
            await blocking(remove, self._credentials)
        if failed is not None:
            raise VolumeError(f"cannot mount {what}: {advice(failed, _ADVICE)}")
        log.info("azureFile mounted", volume=self._name, source=source, path=directory)

    async def _secret(self) -> tuple[str, str]:
        where = f"Secret {self._share.namespace}/{self._share.secret} of volume {self._name}"
        found = await self._host.get_secret(self._share.namespace, self._share.secret)
        if found is None:
            raise ContentMissing(f"{where} does not exist: create it")
        return credentials(secret_contents(found, where), where)


class AzureFilePlugin(PersistentVolumePlugin):
    """The plugin."""

    _host: VolumeHost
    _server = ""

    def __init__(self, call: Run = run) -> None:
        self._run = call

    def init(self, host: VolumeHost) -> None:
        self._host = host
        server = host.settings(PLUGIN_NAME).get(SERVER, "")
        if server and (not _SERVER.fullmatch(server) or set("{}") & set(server.replace("{account}", ""))):
            raise PluginError(
                f"the setting {SERVER} {server[:100]!a} is no host name or IPv4 address: correct it"
            )
        self._server = server

    def get_plugin_name(self) -> str:
        return PLUGIN_NAME

    def get_volume_name(self, spec: VolumeSpec) -> str:
        return share(spec, "").name

    def can_support(self, spec: VolumeSpec) -> bool:
        return bool(self._server) and written(spec) is not None

    def get_access_modes(self) -> Sequence[str]:
        return ("ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany")

    def supports_mount_option(self) -> bool:
        return True

    def new_mounter(self, spec: VolumeSpec, pod: Pod) -> AzureFileMounter:
        return AzureFileMounter(self._host, spec, pod, self._run, self._server)

    def new_unmounter(self, spec_name: str, pod_uid: str) -> SecretUnmounter:
        return SecretUnmounter(self._host, PLUGIN_NAME, spec_name, pod_uid, self._run)

    async def construct_volume_spec(self, volume_name: str, mount_path: str) -> VolumeSpec:
        return VolumeSpec.of_volume(Volume(name=volume_name, azure_file=AzureFileVolumeSource()))


def plugin() -> AzureFilePlugin:
    """The factory that the entry point names."""
    return AzureFilePlugin()
