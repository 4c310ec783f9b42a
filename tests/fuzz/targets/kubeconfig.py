"""Kubeconfig files: understood, or refused by a ConfigError that names the file."""

from __future__ import annotations

import tempfile
from datetime import UTC, datetime
from pathlib import Path

from mooring.kube.errors import ConfigError
from mooring.kube.kubeconfig import resolve

SEEDS = [
    b"clusters: [{name: a, cluster: {server: 'https://x', insecure-skip-tls-verify: true}}]\n"
    b"users: [{name: a, user: {token: t}}]\ncontexts: [{name: a, context: {cluster: a, user: a}}]\ncurrent-context: a\n",
    b"clusters: [{name: a, cluster: {server: 'http://x', certificate-authority-data: AAAA}}]\n"
    b"contexts: [{name: a, context: {cluster: a, user: b}}]\ncurrent-context: a\n"
    b"users: [{name: b, user: {exec: {apiVersion: client.authentication.k8s.io/v1, command: x, env: [], args: [1]}}}]\n",
    b"[[[[[[[",
]
_FILE = Path(tempfile.gettempdir()) / f"kubeconfig-fuzz-{id(SEEDS):x}"


def check(data: bytes) -> None:
    _FILE.write_bytes(data)
    try:
        resolve([_FILE], None, lambda: datetime.now(UTC))
    except ConfigError as error:
        assert str(_FILE) in str(error)
    finally:
        _FILE.unlink()
