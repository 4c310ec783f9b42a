"""Kubeconfig files: what is understood, and how what is wrong is named."""

from __future__ import annotations

import ssl
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest
import yaml

from mooring.kube.config import find, load, read
from mooring.kube.errors import ConfigError


def kubeconfig(folder: Path, *, cluster: dict[str, Any] | None = None, user: dict[str, Any] | None = None) -> Path:
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


def write(folder: Path, text: str) -> Path:
    (folder / "config").write_text(text)
    return folder / "config"


def test_server_and_token_of_the_current_context(tmp_path: Path):
    assert read(kubeconfig(tmp_path)) == ("http://127.0.0.1:1", "t0ken", None)


def test_a_named_context_goes_before_the_current_one_and_may_have_no_user(tmp_path: Path):
    assert read(kubeconfig(tmp_path), "anonymous").token == ""


def test_load_gives_a_client(tmp_path: Path):
    assert load(kubeconfig(tmp_path)).transport is not None


def test_a_token_file_is_found_beside_the_kubeconfig(tmp_path: Path):
    (tmp_path / "token").write_text("from-file\n")
    assert read(kubeconfig(tmp_path, user={"tokenFile": "token"})).token == "from-file"


def test_https_is_verified_unless_the_file_says_otherwise(tmp_path: Path):
    strict = read(kubeconfig(tmp_path, cluster={"server": "https://127.0.0.1:1"})).tls
    lax = read(kubeconfig(tmp_path, cluster={"server": "https://127.0.0.1:1", "insecure-skip-tls-verify": True})).tls
    assert strict is not None
    assert strict.verify_mode is ssl.CERT_REQUIRED
    assert lax is not None
    assert lax.verify_mode is ssl.CERT_NONE


def test_the_file_given_goes_before_the_environment(tmp_path: Path):
    path = kubeconfig(tmp_path)
    assert find({"KUBECONFIG": "/nowhere"}, str(path)) == path
    assert find({"KUBECONFIG": f"/nowhere:{path}"}) == path


def test_when_there_is_no_file_the_places_are_named():
    with pytest.raises(ConfigError, match="no kubeconfig at /nowhere/a, /nowhere/b: give one with --kubeconfig"):
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
        ({}, {"exec": {"command": "aws"}}, "user 'u' has 'exec', which is not understood"),
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
