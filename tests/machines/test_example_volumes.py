"""The examples of network storage do on real servers what the comments at their heads say.

Those whose servers other tests have are played beside these: `test_glusterfs_volumes`,
`test_azure_file_volumes`, `test_ceph_volumes`, `test_fc_volumes`. `nfs-claims` is played by none: no kernel
that the controllers of these clusters have knows NFS, which is why `test_nfs_volumes` runs their work on a
machine.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from git_server import BACKEND, FILE, Repository, serving
from standing_cluster import standing
from tests.machines.example_files import applied, says, written_and_read
from tests.machines.iscsi import need_iscsi, server_of

from mooring.cluster import control
from mooring.cluster.layout import ClusterError
from mooring.cluster.stage import Stage
from mooring.cluster.storage import programs
from mooring.cluster.storage.record import Kind

pytestmark = [pytest.mark.root, pytest.mark.timeout(400), pytest.mark.soak]


async def test_an_export_for_many_pods(stage: Stage, data_dir: Path, tmp_path: Path) -> None:
    try:
        programs.check(Kind.NFS)
    except ClusterError as error:
        pytest.skip(str(error))
    status, answer = await stage.command("storage", "nfs", "files", "--size", "64Mi")
    assert status == 0, answer
    (server,) = json.loads(await control.say(stage.layout.control, "storage-list", ""))
    await applied(stage, "nfs.yaml", tmp_path, {"SERVER": server["address"].partition(":")[0]})
    await written_and_read(stage)


async def test_a_lun_for_one_node(stage: Stage, data_dir: Path, tmp_path: Path) -> None:
    need_iscsi()
    server = await server_of(stage)
    changes = {
        "10.88.0.2:3260": server["address"],
        "iqn.2026-01.dev.mooring:storage.disks": server["target"],
    }
    await applied(stage, "iscsi.yaml", tmp_path, changes)
    await says(stage, "iscsi-writer", "written")


@pytest.mark.skipif(
    shutil.which("git") is None or not BACKEND.exists(), reason="needs git: apt-get install git"
)
async def test_a_clone_by_a_volume(data_dir: Path, tmp_path: Path) -> None:
    """The pod beside it, whose init container clones, does not reach this server."""
    site = Repository(tmp_path / "served/site")
    site.commit([(FILE, "index", site.blob("hello\n"))])
    on = ("--plugin-setting", "kubernetes.io/git-repo:enabled=true")
    with serving(tmp_path / "served") as url:
        async with standing(data_dir, "--nodes", "1", "--port", "0", *on, nodes=1) as stage:
            repository = "https://github.com/git/git.github.io.git"
            await applied(stage, "git-repo.yaml", tmp_path, {repository: f"{url}/site"})
            await says(stage, "site-by-volume", "index")
