"""What `mooring up` leaves on disk: nothing secret can be read by anyone but its owner."""

from __future__ import annotations

import base64
import json
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from mooring.apiserver.access.tokens import Tokens
from mooring.cluster.stage import Stage
from mooring.kube.objects import Secret

pytestmark = [pytest.mark.root, pytest.mark.cluster, pytest.mark.timeout(300)]
OTHERS = stat.S_IRWXG | stat.S_IRWXO
PRECIOUS = "precious-0f9d2c"


def readable_by_others(path: Path, root: Path) -> bool:
    """Whether the modes of a file and of every directory above it, up to and with `root`, let others in."""
    above = [each for each in path.parents if each == root or root in each.parents]
    enter = stat.S_IXGRP | stat.S_IXOTH
    return bool(path.stat().st_mode & OTHERS) and all(each.stat().st_mode & enter for each in above)


def files(root: Path) -> Iterator[Path]:
    for path in sorted(root.rglob("*")):
        if path.is_file() and not path.is_symlink():
            yield path


async def test_nothing_secret_is_readable_by_others(stage: Stage) -> None:
    body = {"metadata": {"name": "s"}, "data": {"k": base64.b64encode(PRECIOUS.encode()).decode()}}
    await stage.client.create(Secret, body, "default")
    kept = json.loads((stage.layout.apiserver / "tokens.json").read_text())
    tokens = Tokens(bytes.fromhex(kept["secret"]))
    words = [
        kept["secret"],
        tokens.admin(),
        *(tokens.node(f"node-{n}") for n in range(4)),
        "PRIVATE KEY-----",
    ]
    secrets = [word.encode() for word in (*words, PRECIOUS, base64.b64encode(PRECIOUS.encode()).decode())]
    holders = [
        path for path in files(stage.layout.root) if any(word in path.read_bytes() for word in secrets)
    ]
    names = {path.name for path in holders}
    assert {"tokens.json", "kubeconfig", "server.key"} <= names, names
    assert names & {"store.db", "store.db-wal"}, names
    wrong = {str(path): oct(path.stat().st_mode) for path in holders if path.stat().st_mode & OTHERS}
    assert wrong == {}
    assert not any(readable_by_others(path, stage.layout.root) for path in holders)
    assert not (stage.layout.root.stat().st_mode & OTHERS) or not any(
        readable_by_others(path, stage.layout.root) for path in files(stage.layout.apiserver)
    )
