"""csi-sanity, the Kubernetes project's test of CSI drivers, against `disk.mooring.dev` with real devices and
mounts."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Generator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from xml.etree import ElementTree

import pytest
import yaml

from mooring.csi.client import Client
from mooring.csi.errors import NotConnected
from mooring.csi.proto import csi_pb2 as csi

pytestmark = pytest.mark.root

BY_REASON = yaml.safe_load(Path(__file__).with_name("sanity-skipped.yaml").read_text())
SKIPPED = sorted(name for names in BY_REASON.values() for name in names)
LIMIT = 4
"""Disks that a node may have: one of the specs attaches as many, and one more."""


@pytest.fixture
def sanity(programs: Path) -> Path:
    program = programs / "csi-sanity"
    if not program.exists():
        pytest.skip("needs csi-sanity: run `make assets`")
    return program


@contextmanager
def process(
    name: str, directory: Path, *command: str | Path, environment: Mapping[str, str] | None = None
) -> Generator[str]:
    """A driver's process, with ENDPOINT in its arguments filled in; its endpoint."""
    log, endpoint = directory / f"{name}.log", f"unix://{directory}/{name}.sock"
    command = tuple(endpoint if argument == "ENDPOINT" else argument for argument in command)
    with (
        open(log, "w") as output,
        subprocess.Popen(
            [sys.executable, *command],
            stdout=output,
            stderr=output,
            env={**os.environ, **(environment or {})},
        ) as running,
    ):
        try:
            yield endpoint
        finally:
            running.terminate()
            running.wait(30)
    assert "Traceback" not in log.read_text(), log.read_text()


def disk_driver(directory: Path, mode: str) -> AbstractContextManager[str]:
    flags = [
        "--node-id=n1",
        f"--max-volumes={LIMIT}",
        f"--array={directory}/array",
        f"--allow-path={directory}",
    ]
    command = (
        "-m",
        "mooring.cli.main",
        "csi",
        "disk-driver",
        *flags,
        f"--mode={mode}",
        "--endpoint",
        "ENDPOINT",
    )
    return process(mode, directory, *command)


async def answers(endpoint: str) -> None:
    async with Client(endpoint) as client:
        for _ in range(200):
            try:
                await client.identity.probe(csi.ProbeRequest(), timeout_s=10)
                return
            except NotConnected:
                await asyncio.sleep(0.05)
    raise AssertionError(f"no driver at {endpoint}")


def outcomes(report: Path) -> dict[str, list[str]]:
    """Names of the specs by how they ended."""
    found: dict[str, list[str]] = {}
    for case in ElementTree.parse(report).iter("testcase"):
        found.setdefault(case.attrib["status"], []).append(case.attrib["name"].removeprefix("[It] "))
    return found


def run(sanity: Path, directory: Path, *flags: str) -> dict[str, list[str]]:
    report = directory / "report.xml"
    places = [f"--csi.mountdir={directory}/mount", f"--csi.stagingdir={directory}/staging"]
    ended = subprocess.run(
        [
            sanity,
            *places,
            "--csi.testnodevolumeattachlimit",
            f"--ginkgo.junit-report={report}",
            "--ginkgo.no-color",
            *flags,
        ],
        check=False,
        capture_output=True,
        text=True,
        timeout=400,
    )
    found = outcomes(report)
    assert found.get("failed") is None, ended.stdout
    assert ended.returncode == 0, ended.stdout
    return found


@pytest.mark.parametrize("access_type", ["mount", "block"])
async def test_one_process(sanity: Path, tmp_path: Path, access_type: str) -> None:
    """Every spec that the driver's capabilities make applicable passes; the others are the ones that are
    committed."""
    with disk_driver(tmp_path, "all") as endpoint:
        await answers(endpoint)
        found = await asyncio.to_thread(
            run, sanity, tmp_path, f"--csi.endpoint={endpoint}", f"--csi.testvolumeaccesstype={access_type}"
        )
    assert sorted([*found["skipped"], *found["pending"]]) == SKIPPED
    assert len(found["passed"]) == 80


async def test_controller_and_node_as_two_processes(sanity: Path, tmp_path: Path) -> None:
    with ExitStack() as stack:
        node, controller = [
            stack.enter_context(disk_driver(tmp_path, mode)) for mode in ("node", "controller")
        ]
        await answers(node)
        await answers(controller)
        found = await asyncio.to_thread(
            run, sanity, tmp_path, f"--csi.endpoint={node}", f"--csi.controllerendpoint={controller}"
        )
    assert sorted([*found["skipped"], *found["pending"]]) == SKIPPED


async def test_the_driver_of_the_tutorial(sanity: Path, tmp_path: Path) -> None:
    page = (Path(__file__).parents[3] / "docs" / "csi-driver-tutorial.md").read_text()
    program = tmp_path / "folder_driver.py"
    program.write_text(page.partition("```python\n")[2].partition("```")[0])
    with process("folder", tmp_path, program, "ENDPOINT", "n1", tmp_path / "folders", tmp_path) as endpoint:
        await answers(endpoint)
        found = await asyncio.to_thread(run, sanity, tmp_path, f"--csi.endpoint={endpoint}")
    assert len(found["passed"]) == 28
