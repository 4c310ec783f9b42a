"""Kubeconfig files: what is understood, and how what is wrong is named."""

from __future__ import annotations

import asyncio
import ssl
from base64 import b64encode
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import pytest
import yaml

from mooring.apiserver.transport.tls import ensure
from mooring.kube.access import in_cluster
from mooring.kube.config import connect, find, load, read
from mooring.kube.credentials import REREAD_S, TokenFile
from mooring.kube.errors import ConfigError
from mooring.kube.execplugin import EXEC_VERSIONS
from mooring.kube.times import wall_clock


def kubeconfig(
    folder: Path, *, cluster: dict[str, Any] | None = None, user: dict[str, Any] | None = None
) -> Path:
    document = {
        "current-context": "here",
        "contexts": [
            {"name": "here", "context": {"cluster": "c", "user": "u"}},
            {"name": "anonymous", "context": {"cluster": "c"}},
        ],
        "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1", **(cluster or {})}}],
        "users": [{"name": "u", "user": {"token": "t0ken", **(user or {})}}],
    }
    return write(folder, yaml.safe_dump(document))


def put(path: Path, text: str) -> None:
    path.write_text(text)


def write(folder: Path, text: str) -> Path:
    (folder / "config").write_text(text)
    return folder / "config"


async def test_server_and_token_of_the_current_context(tmp_path: Path):
    access = read(kubeconfig(tmp_path))
    assert access.server == "http://127.0.0.1:1"
    assert await access.credentials.current() == ("t0ken", b"", b"")
    assert access.namespace == "default"


async def test_a_named_context_goes_before_the_current_one_and_may_have_no_user(tmp_path: Path):
    assert (await read(kubeconfig(tmp_path), "anonymous").credentials.current()).token == ""


def test_load_gives_a_client(tmp_path: Path):
    assert load(kubeconfig(tmp_path)).transport is not None


async def test_a_token_file_is_found_beside_the_kubeconfig_and_goes_before_a_token(tmp_path: Path):
    (tmp_path / "token").write_text("from-file\n")
    access = read(kubeconfig(tmp_path, user={"tokenFile": "token"}))
    assert (await access.credentials.current()).token == "from-file"


def test_https_is_verified_unless_the_file_says_otherwise(tmp_path: Path):
    strict = read(kubeconfig(tmp_path, cluster={"server": "https://127.0.0.1:1"})).trust.context()
    lax = read(
        kubeconfig(tmp_path, cluster={"server": "https://127.0.0.1:1", "insecure-skip-tls-verify": True})
    ).trust
    assert strict.verify_mode is ssl.CERT_REQUIRED
    assert strict.check_hostname
    assert lax.context().verify_mode is ssl.CERT_NONE


def test_server_name_proxy_and_namespace_are_understood(tmp_path: Path):
    access = read(
        kubeconfig(tmp_path, cluster={"tls-server-name": "kubernetes", "proxy-url": "http://127.0.0.1:9"})
    )
    assert (access.trust.server_name, access.proxy) == ("kubernetes", "http://127.0.0.1:9")


def test_the_file_given_goes_before_the_environment(tmp_path: Path):
    path = kubeconfig(tmp_path)
    assert find({"KUBECONFIG": "/nowhere"}, str(path)) == (path,)
    assert find({"KUBECONFIG": f"/nowhere:{path}"}) == (path,)


class TestSeveralFiles:
    """KUBECONFIG lists are merged as kubectl merges them."""

    def files(self, tmp_path: Path, *documents: dict[str, Any]) -> tuple[Path, ...]:
        paths: list[Path] = []
        for number, document in enumerate(documents):
            folder = tmp_path / str(number)
            folder.mkdir()
            paths.append(write(folder, yaml.safe_dump(document)))
        return find({"KUBECONFIG": ":".join(str(path) for path in paths)})

    async def test_context_cluster_and_user_may_stand_in_three_files(self, tmp_path: Path):
        files = self.files(
            tmp_path,
            {"current-context": "x"},
            {"contexts": [{"name": "x", "context": {"cluster": "c", "user": "u", "namespace": "n"}}]},
            {"clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:7"}}]},
            {"users": [{"name": "u", "user": {"tokenFile": "secret/token"}}]},
        )
        (tmp_path / "3" / "secret").mkdir()
        (tmp_path / "3" / "secret" / "token").write_text("relative to its own file")
        access = read(files)
        assert (access.server, access.namespace) == ("http://127.0.0.1:7", "n")
        assert (await access.credentials.current()).token == "relative to its own file"

    async def test_the_first_file_to_name_something_wins_and_entries_are_not_mixed(self, tmp_path: Path):
        def document(port: int, context: str, user: dict[str, str]) -> dict[str, Any]:
            return {
                "current-context": context,
                "contexts": [{"name": context, "context": {"cluster": "c", "user": "u"}}],
                "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{port}"}}],
                "users": [{"name": "u", "user": user}],
            }

        files = self.files(tmp_path, document(1, "a", {}), document(2, "b", {"token": "second"}))
        access = read(files)
        assert access.server == "http://127.0.0.1:1"
        assert (await access.credentials.current()).token == ""
        assert read(files, "b").server == "http://127.0.0.1:1"

    def test_an_error_names_the_file_that_it_is_in(self, tmp_path: Path):
        files = self.files(
            tmp_path,
            {"current-context": "x", "contexts": [{"name": "x", "context": {"cluster": "c"}}]},
            {"clusters": [{"name": "c", "cluster": {"server": "ftp://x"}}]},
        )
        with pytest.raises(
            ConfigError, match=rf"^kubeconfig {files[1]}: cluster 'c' has no usable server URL"
        ):
            read(files)


class TestInCluster:
    """The service account of the pod we run in."""

    ENVIRON: ClassVar = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}

    def folder(self, tmp_path: Path) -> Path:
        ensure(tmp_path, wall_clock, put)
        (tmp_path / "token").write_text("first")
        (tmp_path / "namespace").write_text("mine")
        return tmp_path

    async def test_server_authority_token_and_namespace(self, tmp_path: Path):
        access = in_cluster(self.ENVIRON, self.folder(tmp_path))
        assert (access.server, access.namespace) == ("https://10.0.0.1:443", "mine")
        assert (await access.credentials.current()).token == "first"
        assert access.trust.context().verify_mode is ssl.CERT_REQUIRED
        six = in_cluster(self.ENVIRON | {"KUBERNETES_SERVICE_HOST": "fd00::1"}, tmp_path)
        assert six.server == "https://[fd00::1]:443"

    def test_it_is_used_only_if_there_is_no_kubeconfig(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setenv("HOME", str(tmp_path))
        folder = self.folder(tmp_path)
        assert connect(self.ENVIRON, service_account=folder).transport is not None
        with pytest.raises(ConfigError, match="no kubeconfig at /nowhere"):
            connect(self.ENVIRON, "/nowhere", service_account=folder)
        with pytest.raises(ConfigError, match="no kubeconfig at"):
            connect({}, service_account=folder)

    def test_a_service_account_that_is_not_mounted_is_named(self, tmp_path: Path):
        with pytest.raises(ConfigError, match=f"service account at {tmp_path}/nothing: "):
            in_cluster(self.ENVIRON, tmp_path / "nothing")
        with pytest.raises(ConfigError, match="KUBERNETES_SERVICE_HOST"):
            in_cluster({}, tmp_path)


class TestTokenFile:
    """Tokens that are rotated, in virtual time."""

    def test_a_rotated_token_is_used_after_a_minute(self, tmp_path: Path, run: Callable[[Any], Any]):
        async def story():
            path = tmp_path / "token"
            path.write_text("first")
            file = TokenFile(path)
            assert (await file.current()).token == "first"
            path.write_text("second")
            await asyncio.sleep(REREAD_S - 1)
            assert (await file.current()).token == "first"
            await asyncio.sleep(2)
            assert (await file.current()).token == "second"

        run(story())

    def test_a_token_that_was_refused_is_read_anew_at_once(self, tmp_path: Path, run: Callable[[Any], Any]):
        async def story():
            path = tmp_path / "token"
            path.write_text("first")
            file = TokenFile(path)
            shown = await file.current()
            path.write_text("second")
            file.refused(shown)
            assert (await file.current()).token == "second"

        run(story())

    @pytest.mark.parametrize("content", [None, "", " \n"])
    def test_a_file_that_is_gone_or_empty_for_a_moment_keeps_the_token(
        self, tmp_path: Path, content: str | None, run: Callable[[Any], Any]
    ):
        async def story():
            path = tmp_path / "token"
            path.write_text("first")
            file = TokenFile(path)
            path.unlink()
            if content is not None:
                path.write_text(content)
            assert (await file.current()).token == "first"

        run(story())


def test_when_there_is_no_file_the_places_are_named():
    with pytest.raises(
        ConfigError, match="no kubeconfig at /nowhere/a, /nowhere/b: give one with --kubeconfig"
    ):
        find({"KUBECONFIG": "/nowhere/a:/nowhere/b"})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the file is not a mapping"),
        ("- a", "the file is not a mapping"),
        ("{", "expected the node content"),
        ("{}", "no context is named"),
        ("current-context: x", "contexts has no entry named 'x'"),
        ("{current-context: x, contexts: {x: {}}}", "contexts has no entry named 'x'"),
        ("{current-context: x, contexts: [x]}", "an entry of contexts is not a mapping"),
        ("{current-context: x, contexts: [{name: x}]}", "context 'x' is not a mapping"),
        ("{current-context: x, contexts: [{name: x, context: {}}]}", "no cluster is named"),
        (
            "{current-context: x, contexts: [{name: x, context: {cluster: c}}], clusters: [{name: c, cluster: {}}]}",
            "cluster 'c' has no usable server URL: ''",
        ),
    ],
)
def test_what_is_wrong_with_the_file_is_named(tmp_path: Path, text: str, message: str):
    path = write(tmp_path, text)
    with pytest.raises(ConfigError) as caught:
        read(path)
    assert str(caught.value).startswith(f"kubeconfig {path}: ")
    assert message in str(caught.value)


HTTPS = {"server": "https://127.0.0.1:1"}


@pytest.mark.parametrize(
    ("cluster", "user", "message"),
    [
        ({}, {"tokenFile": "absent"}, "No such file"),
        ({}, {"exec": {"command": "aws"}}, "exec of user 'u' has apiVersion None"),
        ({}, {"exec": {"apiVersion": EXEC_VERSIONS[0]}}, "exec of user 'u' names no command"),
        ({}, {"exec": {"apiVersion": EXEC_VERSIONS[0], "interactiveMode": "X"}}, "interactiveMode 'X'"),
        ({}, {"exec": "aws"}, "exec of user 'u' is not a mapping"),
        ({}, {"as": "root"}, "user 'u' has 'as', which is not understood"),
        ({}, {"username": "me", "password": "secret"}, "which is not understood"),
        (HTTPS | {"certificate-authority": "absent.pem"}, {}, "No such file"),
        (HTTPS | {"certificate-authority-data": "***"}, {}, "base64"),
        (HTTPS | {"certificate-authority-data": b64encode(b"no pem").decode()}, {}, ""),
        (HTTPS, {"client-certificate-data": b64encode(b"x").decode()}, "client certificate without its key"),
        (HTTPS, {f"client-{part}-data": b64encode(b"x").decode() for part in ("certificate", "key")}, ""),
    ],
)
def test_credentials_that_cannot_be_used_are_an_error_that_names_the_file_and_no_secret(
    tmp_path: Path, cluster: dict[str, Any], user: dict[str, Any], message: str
):
    path = kubeconfig(tmp_path, cluster=cluster, user=user)
    with pytest.raises(ConfigError) as caught:
        read(path)
    assert str(path) in str(caught.value)
    assert message.lower() in str(caught.value).lower()
    assert "secret" not in str(caught.value)
    assert "t0ken" not in str(caught.value)


def test_a_file_that_is_no_text_is_an_error(tmp_path: Path):
    (tmp_path / "config").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match="kubeconfig"):
        read(tmp_path / "config")
