"""What asks a container to end: the word of its pod, of its image, or SIGTERM."""

from __future__ import annotations

import asyncio
import shutil
import signal
from typing import Any

import msgspec
import pytest
from oci_layout import Layout, layer

from mooring.kube.objects import Container, ObjectMeta, Pod, PodSpec
from mooring.kube.objects.pods import Lifecycle
from mooring.node.pods.containers import Image, container_spec
from mooring.node.pods.environment import ContainerConfigProblem, Surroundings
from mooring.node.pods.stop_signal import signal_number
from mooring.node.process_runtime import _State

Play = Any


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("SIGQUIT", 3),
        ("QUIT", 3),
        ("sigquit", 3),
        ("3", 3),
        ("SIGKILL", 9),
        ("SIGIOT", 6),
        ("SIGRTMIN", 34),
        ("RTMIN+3", 37),
        ("SIGRTMIN+30", 64),
        ("SIGRTMAX-1", 63),
        ("SIGRTMAX", 64),
        ("64", 64),
    ],
)
def test_a_signal_is_named_with_or_without_sig_or_by_its_number(text: str, number: int) -> None:
    assert signal_number(text) == number


@pytest.mark.parametrize(
    "text",
    [
        *(
            "",
            "SIG",
            "SIGSIGTERM",
            "SIGNOPE",
            "SIG_DFL",
            "__class__",
            " SIGTERM",
            "SIGTERM\n",
            "+15",
            "-15",
            "1.5",
        ),
        *(
            "0",
            "65",
            "9" * 16,
            "9" * 5000,
            "\u0661\u0665",
            "SIGRTMIN+",
            "RTMIN+31",
            "RTMIN-1",
            "RTMAX-31",
            "RTMAX+1",
        ),
        *("RTMIN++1", "RTMIN+-1", "\u0131nt", "SIGRTMIN+\u00b2", "CTRL_C_EVENT"),
    ],
)
def test_what_names_no_signal_is_refused_and_said_shortly(text: str) -> None:
    with pytest.raises(ValueError, match="names no signal: use a name as SIGQUIT") as caught:
        signal_number(text)
    assert len(str(caught.value)) < 200


def made(image: str, own: str = "") -> int:
    container = Container("main", "app", ("run",), lifecycle=Lifecycle(stop_signal=own) if own else None)
    pod = Pod(metadata=ObjectMeta(name="web-0", uid="u1"), spec=PodSpec(containers=(container,)))
    around = Surroundings("10.0.0.1", "10.88.1.2", lambda kind, name: None, {})
    found = Image("/images/app", stop_signal=image)
    return container_spec(pod, container, 0, around=around, find_image=lambda name: found).stop_signal


def test_the_containers_word_comes_before_the_images() -> None:
    assert made("") == signal.SIGTERM
    assert made("SIGQUIT") == signal.SIGQUIT
    assert made("SIGQUIT", "SIGUSR1") == signal.SIGUSR1
    assert made("nonsense", "SIGUSR1") == signal.SIGUSR1


def test_a_container_whose_image_names_no_signal_is_not_made() -> None:
    with pytest.raises(
        ContainerConfigProblem, match="container main: StopSignal of image 'app': 'BYE' names"
    ):
        made("BYE")
    with pytest.raises(ContainerConfigProblem, match=r"container main: lifecycle.stopSignal: 'BYE' names"):
        made("SIGINT", "BYE")


def test_a_record_of_an_earlier_supervisor_means_sigterm() -> None:
    record = {"attempt": 0, "startedAt": 1.0}
    state = msgspec.convert({"number": 0, "rootfs": "bind", "containers": {"main": record}}, _State)
    assert state.containers["main"].stop_signal == signal.SIGTERM


def image_config(stage: Any, stop_signal: str) -> None:
    """An image `app` whose config has this StopSignal."""
    shutil.rmtree(stage.root / "images", ignore_errors=True)
    Layout(stage.root / "images" / "app").image(layer({"bin/run": b""}), StopSignal=stop_signal)


def test_a_deleted_pods_container_gets_the_signal_of_its_image_also_after_a_restart(play: Play) -> None:
    async def story(stage: Any) -> None:
        image_config(stage, "SIGQUIT")
        await stage.start()
        await stage.create_pod()
        await stage.until(lambda: "start main 0" in stage.machine.journal)
        await stage.kill()
        image_config(stage, "SIGINT")  # the running container was made from the image as it was
        await stage.start()
        await stage.api.delete(Pod, "web-0", "default")
        await stage.until(lambda: "kill" in stage.machine.journal)
        assert [entry for entry in stage.machine.journal if entry.startswith("signal")] == ["signal main 3"]

    play(story)


def test_a_pod_that_was_removed_by_force_gets_it_too(play: Play) -> None:
    async def story(stage: Any) -> None:
        image_config(stage, "SIGUSR1")
        await stage.start()
        await stage.create_pod()
        await stage.until(lambda: "start main 0" in stage.machine.journal)
        await stage.api.delete(Pod, "web-0", "default", grace_period_seconds=0)
        await stage.until(lambda: "kill" in stage.machine.journal)
        assert f"signal main {int(signal.SIGUSR1)}" in stage.machine.journal

    play(story)


def test_it_comes_after_the_pre_stop_hook_and_also_when_the_hook_is_given_up(play: Play) -> None:
    async def story(stage: Any) -> None:
        image_config(stage, "SIGQUIT")
        stage.machine.commands["hook"] = (0, 500.0)
        await stage.start()
        await stage.create_pod(container={"lifecycle": {"preStop": {"exec": {"command": ["hook"]}}}})
        await stage.until(lambda: "start main 0" in stage.machine.journal)
        await stage.api.delete(Pod, "web-0", "default", grace_period_seconds=400)
        await stage.until(lambda: "run main hook" in stage.machine.journal)
        await asyncio.sleep(1)
        await stage.api.delete(Pod, "web-0", "default", grace_period_seconds=5)
        await stage.until(lambda: "kill" in stage.machine.journal)
        assert [entry for entry in stage.machine.journal if entry.startswith("signal")] == ["signal main 3"]

    play(story)


def test_an_image_that_names_no_signal_leaves_the_container_waiting_with_the_reason(play: Play) -> None:
    async def story(stage: Any) -> None:
        image_config(stage, "SIGBYE")
        await stage.start()
        await stage.create_pod()
        await stage.until(lambda: _waits(stage))
        assert "start main 0" not in stage.machine.journal
        assert any("StopSignal of image 'app': 'SIGBYE'" in message for _, message in await stage.events())

    async def _waits(stage: Any) -> bool:
        statuses = (await stage.pod()).status.container_statuses
        waiting = statuses[0].state.waiting if statuses else None
        return waiting is not None and waiting.reason == "CreateContainerConfigError"

    play(story)
