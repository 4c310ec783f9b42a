"""An agent begins with what a power loss left of its files: each may be empty, cut off or missing."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from mooring.node.pods.cleanup import remove_pod_directory
from mooring.node.process_runtime import ProcessRuntime
from mooring.node.run import agent_id
from mooring.node.supervisor.main import earlier_sandboxes

STATE = json.dumps({"number": 3, "rootfs": "overlay", "containers": {}})
IDENTITY = json.dumps({"pid": 1, "startTime": 5, "bootID": "before"})
LEFT = (b"", b"\0" * 40, b"{", b"[]", b'{"number": ', b'{"bootID": "\xff", "rootfs": "\xff"}')


@pytest.mark.parametrize("left", LEFT)
@pytest.mark.parametrize("damaged", ["supervisor.json", "state.json"])
def test_a_pod_whose_record_was_not_synced_has_ended(tmp_path: Path, damaged: str, left: bytes) -> None:
    pod = tmp_path / "pods" / "uid"
    pod.mkdir(parents=True)
    (pod / "state.json").write_text(STATE)
    (pod / "supervisor.json").write_text(IDENTITY)
    (pod / damaged).write_bytes(left)

    async def recovered() -> bool:
        runtime = ProcessRuntime(tmp_path, "after")
        await runtime.recover(lambda uid: None)
        try:
            return runtime.sandboxes()["uid"].running
        finally:
            await runtime.close()

    assert asyncio.run(recovered()) is False


def test_nothing_is_left_of_a_pod_whose_supervisor_was_killed_while_it_wrote(tmp_path: Path) -> None:
    pod = tmp_path / "pods" / "uid"
    pod.mkdir(parents=True)
    for name, content in (("state.json", STATE), ("supervisor.json", IDENTITY)):
        (pod / name).write_text(content)
        (pod / f"{name}.new").write_text(content[:9])

    async def removed() -> bool:
        runtime = ProcessRuntime(tmp_path, "after")
        await runtime.recover(lambda uid: None)
        await runtime.remove_sandbox("uid")
        await runtime.close()
        return remove_pod_directory(tmp_path, "uid")

    assert asyncio.run(removed())
    assert not pod.exists()


@pytest.mark.parametrize("left", LEFT)
def test_a_sandbox_begins_after_one_whose_record_was_not_synced(tmp_path: Path, left: bytes) -> None:
    (tmp_path / "state.json").write_bytes(left)
    assert earlier_sandboxes(str(tmp_path)) == (0, {})


@pytest.mark.parametrize("left", [b"", b"\0" * 37])
def test_an_agent_s_id_that_was_not_synced_is_made_anew(tmp_path: Path, left: bytes) -> None:
    (tmp_path / "agent-id").write_bytes(left)
    made = agent_id(tmp_path)
    assert len(made) == 36
    assert agent_id(tmp_path) == made
