"""csi-sanity against `ebs.csi.aws.com` on `mooring cloud`, with real devices and mounts."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Generator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path

import pytest
import yaml

from .test_sanity import answers, process, run, sanity

__all__ = ["sanity"]
pytestmark = [pytest.mark.root, pytest.mark.timeout(600)]

BY_REASON = yaml.safe_load(Path(__file__).with_name("sanity-skipped-ebs.yaml").read_text())
SKIPPED = sorted(name for names in BY_REASON.values() for name in names)
TIMES = ("creating", "deleting", "attaching", "detaching", "snapshot", "modifying", "optimizing")
QUICK = [f"--set={name}_s=0,0.2" for name in TIMES]
TYPE = "d3.8xlarge"
"""It may have three volumes, its root among them: one of the specs attaches as many as it may, and one
more."""
MOORING = ("-m", "mooring.cli.main")
LONG = pytest.mark.skipif("MOORING_SOAK" not in os.environ, reason="takes minutes: `make soak` plays it")


@contextmanager
def cloud(directory: Path) -> Generator[dict[str, str]]:
    """A cloud with one instance; the environment of its users, from `mooring cloud env`."""
    data = f"--data-dir={directory}/cloud"
    flags = (data, "--port=0", "--instances=1", f"--instance-type={TYPE}", "--devices=on", *QUICK)
    with process("cloud", directory, *MOORING, "cloud", *flags):
        for _ in range(200):
            if "for a client" in (directory / "cloud.log").read_text():
                break
            subprocess.run(["sleep", "0.05"], check=True)
        command = [sys.executable, *MOORING, "cloud", "env", data, "1"]
        printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        yield dict(line.removeprefix("export ").split("=", 1) for line in printed.splitlines())


def driver(directory: Path, mode: str, environment: Mapping[str, str]) -> AbstractContextManager[str]:
    """The node service is given no credentials."""
    devices = environment["MOORING_CLOUD_DEVICES"]
    of_mode = {
        "node": [f"--device-dir={devices}", f"--allow-path={directory}"],
        "controller": ["--settle-time=300ms"],
    }
    flags = [flag for each, given in of_mode.items() if mode in (each, "all") for flag in given]
    chosen = {name: value for name, value in environment.items() if mode != "node" or "KEY" not in name}
    command = (*MOORING, "ebs-driver", mode, "--endpoint", "ENDPOINT", *flags)
    return process(mode, directory, *command, environment=chosen)


def parameters(directory: Path) -> list[str]:
    """What the specs ask for: a class, and what is changed of it."""
    asked = {"volumeparameters": {"type": "gp3"}, "volumemutableparameters": {"iops": "4000"}}
    flags: list[str] = []
    for name, values in asked.items():
        path = directory / f"{name}.yaml"
        path.write_text(yaml.safe_dump(values))
        flags.append(f"--csi.test{name}={path}")
    return flags


@pytest.mark.parametrize("access_type", ["mount", pytest.param("block", marks=(LONG, pytest.mark.soak))])
async def test_one_process(sanity: Path, tmp_path: Path, access_type: str) -> None:
    """Every spec that the driver's capabilities make applicable passes; the others are the ones that are
    committed."""
    with cloud(tmp_path) as environment, driver(tmp_path, "all", environment) as endpoint:
        await answers(endpoint)
        flags = (
            f"--csi.endpoint={endpoint}",
            f"--csi.testvolumeaccesstype={access_type}",
            *parameters(tmp_path),
        )
        found = await asyncio.to_thread(run, sanity, tmp_path, *flags)
    assert sorted([*found["skipped"], *found["pending"]]) == SKIPPED
    assert len(found["passed"]) >= 79


@LONG
@pytest.mark.soak
async def test_controller_and_node_as_two_processes(sanity: Path, tmp_path: Path) -> None:
    with ExitStack() as stack:
        environment = stack.enter_context(cloud(tmp_path))
        node, controller = [
            stack.enter_context(driver(tmp_path, mode, environment)) for mode in ("node", "controller")
        ]
        await answers(node)
        await answers(controller)
        flags = (f"--csi.endpoint={node}", f"--csi.controllerendpoint={controller}", *parameters(tmp_path))
        found = await asyncio.to_thread(run, sanity, tmp_path, *flags)
    assert sorted([*found["skipped"], *found["pending"]]) == SKIPPED
