"""Exec plugins: real commands, their environment and input, and when they are run again."""

from __future__ import annotations

import asyncio
import json
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from mooring.kube.access import Access
from mooring.kube.config import read
from mooring.kube.errors import CredentialError
from mooring.kube.execplugin import EXEC_VERSIONS

V1, V1BETA1 = EXEC_VERSIONS
BEGIN = datetime(2030, 1, 1, tzinfo=UTC)


class ExecPluginScript:
    """A kubeconfig with a plugin: a script that notes what it was told and prints what the test has put
    down."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.time = BEGIN
        (folder / "bin").mkdir()
        script = folder / "bin" / "plugin"
        script.write_text(
            '#!/bin/sh\ncd "$(dirname "$0")/.."\necho "$KUBERNETES_EXEC_INFO $EXTRA $*" >> calls\ncat answer\n'
            "test ! -e status || exit $(cat status)\n"
        )
        script.chmod(script.stat().st_mode | stat.S_IXUSR)

    def answers(self, version: str = V1, **status: Any) -> None:
        document = {"apiVersion": version, "kind": "ExecCredential", "status": status}
        self.prints(json.dumps(document))

    def prints(self, text: str) -> None:
        (self.folder / "answer").write_text(text)

    def access(self, version: str = V1, **exec_: Any) -> Access:
        exec_ = {"apiVersion": version, "command": "./bin/plugin", "interactiveMode": "Never", **exec_}
        extension = {"name": "client.authentication.k8s.io/exec", "extension": {"audience": "a"}}
        cluster = {"server": "https://127.0.0.1:1", "tls-server-name": "k", "extensions": [extension]}
        document = {
            "current-context": "x",
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            "clusters": [{"name": "c", "cluster": cluster}],
            "users": [{"name": "u", "user": {"exec": exec_}}],
        }
        path = self.folder / "config"
        path.write_text(yaml.safe_dump(document))
        return read(path, now=lambda: self.time)

    @property
    def calls(self) -> list[str]:
        path = self.folder / "calls"
        return path.read_text().splitlines() if path.exists() else []


@pytest.fixture
def plugin(tmp_path: Path) -> ExecPluginScript:
    return ExecPluginScript(tmp_path)


@pytest.mark.parametrize("version", EXEC_VERSIONS)
async def test_the_token_that_the_plugin_prints_is_used(plugin: ExecPluginScript, version: str):
    plugin.answers(version, token="t")
    assert (await plugin.access(version).credentials.current()).token == "t"


async def test_it_gets_its_arguments_its_environment_and_what_is_to_be_known(plugin: ExecPluginScript):
    plugin.answers(token="t")
    env = [{"name": "EXTRA", "value": "more"}]
    await plugin.access(args=["a", "b"], env=env, provideClusterInfo=True).credentials.current()
    info, _, rest = plugin.calls[0].rpartition("}")
    assert rest == " more a b"
    assert json.loads(info + "}") == {
        "apiVersion": V1,
        "kind": "ExecCredential",
        "spec": {
            "interactive": False,
            "cluster": {"server": "https://127.0.0.1:1", "tls-server-name": "k", "config": {"audience": "a"}},
        },
    }


async def test_without_provide_cluster_info_it_is_told_nothing_of_the_cluster(plugin: ExecPluginScript):
    plugin.answers(token="t")
    await plugin.access().credentials.current()
    assert json.loads(plugin.calls[0])["spec"] == {"interactive": False}


async def test_it_runs_again_when_the_credential_has_expired_and_not_before(plugin: ExecPluginScript):
    plugin.answers(token="t1", expirationTimestamp="2030-01-01T00:10:00Z")
    credentials = plugin.access().credentials
    for minutes in (0, 5, 9):
        plugin.time = BEGIN + timedelta(minutes=minutes)
        assert (await credentials.current()).token == "t1"
    plugin.answers(token="t2", expirationTimestamp="2030-01-01T00:20:00Z")
    plugin.time = BEGIN + timedelta(minutes=10)
    assert (await credentials.current()).token == "t2"
    assert len(plugin.calls) == 2


async def test_a_credential_without_an_expiry_is_kept_until_it_is_refused(plugin: ExecPluginScript):
    plugin.answers(token="t1")
    credentials = plugin.access().credentials
    shown = await credentials.current()
    plugin.time += timedelta(days=1000)
    assert await credentials.current() == shown
    plugin.answers(token="t2")
    credentials.refused(shown)
    assert (await credentials.current()).token == "t2"
    credentials.refused(shown)
    assert (await credentials.current()).token == "t2"
    assert len(plugin.calls) == 2, "the refusal of an older credential runs nothing"


async def test_requests_that_wait_share_one_run(plugin: ExecPluginScript):
    plugin.answers(token="t")
    credentials = plugin.access().credentials
    found = await asyncio.gather(*(credentials.current() for _ in range(10)))
    assert {each.token for each in found} == {"t"}
    assert len(plugin.calls) == 1


async def test_a_certificate_with_its_key_is_a_credential_too(plugin: ExecPluginScript):
    plugin.answers(clientCertificateData="CERT", clientKeyData="KEY")
    assert await plugin.access().credentials.current() == ("", b"CERT", b"KEY")


def printed(version: str = V1, kind: str = "ExecCredential", **status: str) -> str:
    return json.dumps({"apiVersion": version, "kind": kind, "status": status or None})


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ("s3cret no json", "printed no ExecCredential in JSON"),
        (printed("v1", "Pod", token="s3cret"), f"printed v1 Pod, not {V1}"),
        (printed(V1BETA1, token="s3cret"), f"printed {V1BETA1} ExecCredential, not {V1}"),
        (printed(), "printed neither a token nor a certificate"),
        (printed(clientKeyData="s3cret"), "a key without its certificate"),
        (printed(token="s3cret", expirationTimestamp="x"), "printed no ExecCredential"),
    ],
)
async def test_an_answer_that_cannot_be_used_is_named_without_its_secrets(
    plugin: ExecPluginScript, answer: str, words: str
):
    plugin.prints(answer)
    with pytest.raises(CredentialError) as caught:
        await plugin.access().credentials.current()
    assert words in str(caught.value)
    assert "plugin" in str(caught.value)
    assert "s3cret" not in str(caught.value)


async def test_a_plugin_that_fails_is_run_again_by_the_next_request(plugin: ExecPluginScript):
    plugin.answers(token="t")
    (plugin.folder / "status").write_text("3")
    credentials = plugin.access().credentials
    with pytest.raises(CredentialError, match="failed with status 3"):
        await credentials.current()
    (plugin.folder / "status").unlink()
    assert (await credentials.current()).token == "t"


async def test_a_plugin_that_takes_too_long_is_killed_with_what_it_has_started(
    plugin: ExecPluginScript, monkeypatch: pytest.MonkeyPatch
):
    """A wrapper in shell waits for the command that speaks to the cloud, and both hold the output."""
    (plugin.folder / "bin" / "plugin").write_text(
        f"#!/bin/sh\nsleep 300 &\necho $! > {plugin.folder}/pid\nwait\n"
    )
    monkeypatch.setattr("mooring.kube.execplugin.PLUGIN_TIMEOUT_S", 1)
    with pytest.raises(CredentialError, match="did not end within 1 s"):
        await asyncio.wait_for(plugin.access().credentials.current(), 60)
    helper = Path("/proc", (plugin.folder / "pid").read_text().strip(), "cmdline")
    async with asyncio.timeout(20):
        while helper.exists() and helper.read_bytes():  # noqa: ASYNC110 - nothing tells it
            await asyncio.sleep(0.01)


async def test_a_plugin_that_is_not_there_is_named_with_its_install_hint(plugin: ExecPluginScript):
    credentials = plugin.access(command="./absent", installHint="apt-get install it").credentials
    with pytest.raises(CredentialError, match=r"(?s)absent.*could not be started.*apt-get install it"):
        await credentials.current()


async def test_a_plugin_that_needs_a_terminal_is_not_started_without_one(plugin: ExecPluginScript):
    plugin.answers(token="t")
    with pytest.raises(CredentialError, match="wants a terminal"):
        await plugin.access(interactiveMode="Always").credentials.current()
    assert plugin.calls == []
