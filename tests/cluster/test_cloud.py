"""`mooring cloud` as a process: what it keeps over a kill, what it leaves, and what its commands say."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest
from botocore.session import get_session
from waiting import until_in_thread

from mooring.cluster.processes import mooring
from mooring.mounts import loop

QUICK = ["--set", "creating_s=0", "--set", "attaching_s=0", "--set", "detaching_s=0", "--set", "deleting_s=0"]


class CloudProcess:
    """A cloud that a test starts and ends."""

    def __init__(self, folder: Path) -> None:
        self.data = folder / "cloud"
        self.log = folder / "cloud.log"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, *flags: str) -> None:
        self.log.write_text("")
        command = mooring("cloud", "--data-dir", str(self.data), "--instances", "2", *QUICK, *flags)
        with self.log.open("ab") as output:
            self._process = subprocess.Popen(command, stdout=output, stderr=output)
        until(lambda: "for a client" in self.log.read_text(), self.log)

    def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        if self._process is None:
            return 0
        self._process.send_signal(number)
        status, self._process = self._process.wait(30), None
        return status

    def say(self, *words: str) -> str:
        done = self.ask(*words)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def ask(self, *words: str) -> subprocess.CompletedProcess[str]:
        command = mooring("cloud", words[0], "--data-dir", str(self.data), *words[1:])
        return subprocess.run(command, capture_output=True, text=True, check=False)

    def environment(self, *instance: str) -> dict[str, str]:
        lines = self.say("env", *instance).splitlines()
        return dict(line.removeprefix("export ").split("=", 1) for line in lines)

    def client(self) -> Any:
        environment = self.environment()
        return get_session().create_client(
            "ec2",
            region_name=environment["AWS_REGION"],
            endpoint_url=environment["AWS_ENDPOINT_URL_EC2"],
            aws_access_key_id=environment["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=environment["AWS_SECRET_ACCESS_KEY"],
        )

    def remove_devices(self) -> None:
        """As a reboot does."""
        for medium in (self.data / "volumes").glob("*.img"):
            for device in loop.devices_of(str(medium)):
                loop.remove(device, str(medium))

    def devices(self) -> list[str]:
        return [
            device
            for medium in (self.data / "volumes").glob("*.img")
            for device in loop.devices_of(str(medium))
        ]


def until(holds: Callable[[], Any], log: Path) -> None:
    until_in_thread(holds, state=log.read_text)


@pytest.fixture
def cloud(tmp_path: Path) -> Generator[CloudProcess]:
    made = CloudProcess(tmp_path)
    try:
        yield made
    finally:
        made.end(signal.SIGKILL)
        made.remove_devices()


def attached(cloud: CloudProcess) -> tuple[str, str]:
    """A volume that is attached, and its device."""
    ec2 = cloud.client()
    volume = ec2.create_volume(AvailabilityZone="us-east-1a", Size=1)["VolumeId"]
    until(lambda: state_of(ec2, volume) == "available", cloud.log)
    environment = cloud.environment("1")
    ec2.attach_volume(VolumeId=volume, InstanceId=environment["MOORING_CLOUD_INSTANCE"], Device="/dev/xvdba")
    link = Path(environment["MOORING_CLOUD_DEVICES"]) / "xvdba"
    until(link.exists, cloud.log)
    return volume, str(link)


def state_of(ec2: Any, volume: str) -> str:
    return ec2.describe_volumes(VolumeIds=[volume])["Volumes"][0]["State"]


@pytest.mark.root
def test_what_was_attached_is_attached_after_a_kill_with_the_bytes_that_were_written(
    cloud: CloudProcess,
) -> None:
    cloud.start("--port", "0")
    volume, device = attached(cloud)
    Path(device).write_bytes(b"kept")
    before = cloud.environment()
    cloud.end(signal.SIGKILL)
    os.sync()
    cloud.remove_devices()
    cloud.start()
    assert cloud.environment() == before
    assert state_of(cloud.client(), volume) == "in-use"
    assert Path(device).read_bytes()[:4] == b"kept"


@pytest.mark.root
def test_at_its_end_no_device_is_left_that_nobody_uses_and_one_in_use_stays(cloud: CloudProcess) -> None:
    cloud.start("--port", "0")
    _, device = attached(cloud)
    with open(device, "rb"):
        cloud.end()
        assert len(cloud.devices()) == 1
    cloud.start()
    cloud.end()
    assert cloud.devices() == []


def test_one_data_directory_has_one_cloud(cloud: CloudProcess) -> None:
    cloud.start("--port", "0", "--devices", "off")
    command = mooring("cloud", "--data-dir", str(cloud.data), "--port", "0", "--devices", "off")
    second = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert second.returncode == 1
    assert "another `mooring cloud` serves" in second.stderr


def test_a_port_in_use_is_said_and_how_to_choose_another(cloud: CloudProcess, tmp_path: Path) -> None:
    cloud.start("--port", "0", "--devices", "off")
    port = cloud.environment()["AWS_ENDPOINT_URL_EC2"].rpartition(":")[2]
    command = mooring("cloud", "--data-dir", str(tmp_path / "other"), "--port", port, "--devices", "off")
    second = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert (second.returncode, f"port {port} is in use" in second.stderr) == (1, True)


def test_the_same_seed_and_requests_give_the_same_ids(cloud: CloudProcess, tmp_path: Path) -> None:
    other = CloudProcess(tmp_path / "again")
    other.data.parent.mkdir()
    ids: list[str] = []
    for each in (cloud, other):
        each.start("--port", "0", "--devices", "off", "--seed", "7")
        try:
            ids.append(each.client().create_volume(AvailabilityZone="us-east-1a", Size=1)["VolumeId"])
        finally:
            each.end()
    assert ids[0] == ids[1]


def test_settings_counters_and_status_are_shown_and_changed(cloud: CloudProcess) -> None:
    cloud.start("--port", "0", "--devices", "off", "--set", "hidden_devices=/dev/xvdba,/dev/xvdbb")
    cloud.client().create_volume(
        AvailabilityZone="us-east-1a",
        Size=1,
        TagSpecifications=[{"ResourceType": "volume", "Tags": [{"Key": "Name", "Value": "mine"}]}],
    )
    shown = json.loads(cloud.say("settings"))
    assert (shown["hidden_devices"], shown["creating_s"]) == (["/dev/xvdba", "/dev/xvdbb"], [0, 0])
    assert json.loads(cloud.say("settings", "--set", "attaching_s=2,3"))["attaching_s"] == [2, 3]
    assert json.loads(cloud.say("counters", "-o", "json"))["CreateVolume"]["calls"] == 1
    assert "CreateVolume" in cloud.say("counters", "--reset")
    assert "CreateVolume" not in cloud.say("counters")
    assert "mine" in cloud.say("status")
    assert len(json.loads(cloud.say("status", "-o", "json"))["instances"]) == 2


def test_what_cannot_be_is_refused_by_name(cloud: CloudProcess) -> None:
    cloud.start("--port", "0", "--devices", "off")
    for words in (
        ["settings", "--set", "ataching_s=1"],
        ["settings", "--set", "attaching_s=-1"],
        ["env", "i-banana"],
    ):
        refused = cloud.ask(*words)
        assert refused.returncode != 0
        assert words[-1].partition("=")[0] in refused.stderr
        assert "Traceback" not in refused.stderr


def test_whoever_asks_a_cloud_that_does_not_run_is_told_how_to_start_it(cloud: CloudProcess) -> None:
    never = cloud.ask("env")
    assert (never.returncode, "mooring cloud --data-dir" in never.stderr) == (1, True)
    cloud.start("--port", "0", "--devices", "off")
    cloud.end()
    assert "start `mooring cloud" in cloud.ask("status").stderr
