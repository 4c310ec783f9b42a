"""Pods as real processes: namespaces, logs, exits, and what survives the agent."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest
from waiting import until

import mooring
from mooring.node import launchers
from mooring.node.process_runtime import ProcessRuntime
from mooring.node.runtime import (
    ContainerMount,
    ContainerSpec,
    ExecFailure,
    Sandbox,
    SandboxSpec,
    SandboxStartFailure,
)

pytestmark = pytest.mark.root

UID = "0b9c7cf0-6a3e-4b59-9d59-5b5f8a3f2a11"


class Pods:
    """A runtime whose changes can be waited for."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.changed = asyncio.Event()
        self.runtime = ProcessRuntime(root, "boot-1")

    async def recover(self) -> None:
        await self.runtime.recover(lambda uid: self.changed.set())

    async def restart_agent(self, boot_id: str = "boot-1") -> None:
        await self.runtime.close()
        self.runtime = ProcessRuntime(self.root, boot_id)
        await self.recover()

    async def until(self, condition: Callable[[Sandbox], bool], uid: str = UID) -> Sandbox:
        while True:
            self.changed.clear()
            sandbox = self.runtime.sandboxes().get(uid)
            if sandbox is not None and condition(sandbox):
                return sandbox
            await self.changed.wait()

    async def start(self, script: str = "", *, attempt: int = 0, **spec: object) -> None:
        fields: dict[str, object] = {"argv": ("/bin/sh", "-c", script), "env": {"PATH": os.defpath}, **spec}
        await self.runtime.start_container(UID, ContainerSpec(name="main", attempt=attempt, **fields))  # type: ignore[arg-type]

    async def finished(self, attempt: int = 0) -> Sandbox:
        return await self.until(lambda s: exited(s) is not None and s.containers["main"].attempt == attempt)

    async def run(self, script: str, **spec: object) -> tuple[int | None, list[str]]:
        await self.start(script, **spec)
        sandbox = await self.finished()
        return exited(sandbox), self.output()

    def log(self) -> str:
        files = sorted((self.root / "pods" / UID / "logs").glob("main.*"))
        return "".join(path.read_text() for path in files)

    def output(self) -> list[str]:
        lines = self.log().splitlines()
        return [line.split(" ", 3)[3] for line in lines]


def exited(sandbox: Sandbox) -> int | None:
    return sandbox.containers["main"].exit_code if "main" in sandbox.containers else None


@pytest.fixture
async def pods(tmp_path: Path) -> AsyncIterator[Pods]:
    pods = Pods(tmp_path)
    await pods.recover()
    yield pods
    for uid in pods.runtime.sandboxes():
        await pods.runtime.kill_sandbox(uid)
        await pods.until(lambda sandbox: not sandbox.running, uid)
    await pods.runtime.close()


async def sandbox(pods: Pods, **spec: object) -> None:
    spec = {"masks": (str(pods.root),), **spec}
    await pods.runtime.start_sandbox(SandboxSpec(uid=UID, hostname="web-0", **spec))  # type: ignore[arg-type]


async def test_output_is_logged_with_its_stream_and_time_and_the_exit_code_is_kept(pods: Pods) -> None:
    await sandbox(pods)
    code, _ = await pods.run("echo out; sleep 0.05; echo err >&2; printf unfinished; exit 7")
    assert code == 7
    lines = [line.split(" ") for line in pods.log().splitlines()]
    assert lines[0][1:] == ["stdout", "F", "out"]
    assert ["stderr", "F", "err"] in [line[1:] for line in lines]
    assert ["stdout", "F", "unfinished"] in [line[1:] for line in lines]
    assert all(line[0].endswith("Z") for line in lines)


async def test_the_pod_has_its_own_hostname_processes_and_root(pods: Pods, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("of the control plane")
    await sandbox(pods)
    code, output = await pods.run(
        f"cat /proc/sys/kernel/hostname; ls {tmp_path} | wc -l; echo x > /etc/mooring-was-here;"
        "cat /etc/mooring-was-here; ls /proc | grep -c '^[0-9]';"
        "test -d /pod || test -d /volumes || echo nothing of the sandbox"
    )
    assert code == 0
    assert output[0] == "web-0"
    assert output[1] == "0", "Mooring's own data must be masked"
    assert output[2] == "x"
    assert int(output[3]) < 8
    assert output[4] == "nothing of the sandbox"
    assert not Path("/etc/mooring-was-here").exists()
    assert socket.gethostname() != "web-0"


async def test_shared_memory_of_a_pod_is_its_own_and_ends_with_it(pods: Pods) -> None:
    await sandbox(pods)
    before = Path("/proc/sysvipc/shm").read_text()
    code, output = await pods.run("ipcmk --shmem 4096 > /dev/null; tail -n +2 /proc/sysvipc/shm | wc -l")
    assert code == 0
    assert output == ["1"]
    assert Path("/proc/sysvipc/shm").read_text() == before


@pytest.mark.parametrize("outer", ["", ".."])
async def test_no_process_of_the_pod_shows_what_is_masked(pods: Pods, tmp_path: Path, outer: str) -> None:
    """Each process's root is a link below /proc; that of the pod's first one is not the container's."""
    secret = (tmp_path / outer).resolve() / "secret-of-the-control-plane"
    secret.write_text("")
    await sandbox(pods, masks=(str(pods.root), str(secret.parent)))
    places = " ".join(f"/proc/[0-9]*/{link}{secret}" for link in ("root", "root/*", "cwd"))
    code, output = await pods.run(f"ls /proc/1/root/ > /dev/null && ls -d {places} 2> /dev/null; echo looked")
    assert code == 0
    assert output == ["looked"]


# This process is on the machine; the first one's capabilities may be more than those of a container here.
NSENTER = f"nsenter --mount=/rootfs/proc/{os.getpid()}/ns/mnt --"


async def test_a_container_that_may_see_the_machine_enters_its_mount_namespace(pods: Pods) -> None:
    await sandbox(pods, volumes={"root": "/"}, machine_proc=True)
    mounts = (ContainerMount("root", "/rootfs", read_only=True, machine_proc=True),)
    code, output = await pods.run(f"ls {pods.root} | wc -l; {NSENTER} ls {pods.root}", mounts=mounts)
    assert code == 0
    assert output[0] == "0"
    assert "pods" in output[1:]


async def test_the_machines_root_alone_shows_no_process_of_the_machine(pods: Pods) -> None:
    await sandbox(pods, volumes={"root": "/"})
    code, output = await pods.run(
        f"ls /rootfs/proc | wc -l; {NSENTER} true", mounts=(ContainerMount("root", "/rootfs"),)
    )
    assert code != 0
    assert output[0] == "0"


async def test_environment_and_working_directory_are_what_the_spec_says(pods: Pods) -> None:
    await sandbox(pods)
    code, output = await pods.run(
        "env; pwd", env={"PATH": os.defpath, "GREETING": "hello"}, working_dir="/made/for/it"
    )
    assert code == 0
    assert "GREETING=hello" in output
    assert output[-1] == "/made/for/it"
    assert not any(line.startswith("VIRTUAL_ENV=") for line in output)


@pytest.fixture
def deaf() -> Iterator[None]:
    """As a shell starts an agent in its background, with SIGUSR1 blocked besides."""
    former = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGINT, signal.SIGQUIT)}
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
    yield
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGUSR1})
    for number, handler in former.items():
        signal.signal(number, handler)


async def test_no_signal_is_ignored_or_blocked_in_a_container_because_it_is_in_the_agent(
    deaf: None, pods: Pods
) -> None:
    await sandbox(pods)
    _, output = await pods.run("exec grep -E '^Sig(Ign|Blk)' /proc/self/status")
    told = {line.split()[0]: int(line.split()[1], 16) for line in output}
    # Two signals libc keeps for itself: no program can ask for them.
    known = sum(1 << number - 1 for number in signal.valid_signals())
    assert {name: mask & known for name, mask in told.items()} == {"SigBlk:": 0, "SigIgn:": 0}


async def test_volumes_are_mounted_at_their_paths_and_read_only_is_honoured(
    pods: Pods, tmp_path: Path
) -> None:
    volume = tmp_path / "volume"
    (volume / "part").mkdir(parents=True)
    await sandbox(pods, volumes={"data": str(volume)})
    mounts = (
        ContainerMount(volume="data", path="/data"),
        ContainerMount(volume="data", path="/var/run/fixed", read_only=True),
        ContainerMount(volume="data", path="/part", sub_path="part"),
    )
    code, output = await pods.run(
        "echo record > /data/file; cat /var/run/fixed/file; echo no > /var/run/fixed/file || echo refused;"
        "echo p > /part/q",
        mounts=mounts,
    )
    assert code == 0
    assert "record" in output
    assert "refused" in output
    assert (volume / "file").read_text() == "record\n"
    assert (volume / "part" / "q").read_text() == "p\n"


async def test_a_sub_path_that_is_a_symbolic_link_is_refused(pods: Pods, tmp_path: Path) -> None:
    volume = tmp_path / "volume"
    volume.mkdir()
    (volume / "escape").symlink_to("/etc")
    await sandbox(pods, volumes={"data": str(volume)})
    code, _ = await pods.run("ls /in", mounts=(ContainerMount(volume="data", path="/in", sub_path="escape"),))
    assert code == 128
    assert "symbolic link" in pods.runtime.sandboxes()[UID].containers["main"].error


def make_image(directory: Path) -> Path:
    """A root file system with nothing but a shell and its libraries."""
    listed = subprocess.run(["ldd", "/bin/sh"], capture_output=True, text=True, check=True).stdout
    for source in ["/bin/sh", *(word for word in listed.split() if word.startswith("/"))]:
        target = directory / source.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, target)
    return directory


async def test_an_image_folder_is_the_root_and_is_not_written_to(pods: Pods, tmp_path: Path) -> None:
    image = make_image(tmp_path / "image")
    before = sorted(image.rglob("*"))
    await sandbox(pods, images={"0": str(image)})
    code, output = await pods.run("echo x > /new && echo /*", image="0")
    assert code == 0
    assert set(output[0].split()) == {"/bin", "/lib", "/lib64", "/new", "/dev", "/proc"} - (
        set() if (image / "lib64").exists() else {"/lib64"}
    )
    assert sorted(image.rglob("*")) == before


async def test_a_bare_command_is_found_in_an_image_without_python(pods: Pods, tmp_path: Path) -> None:
    """For the container's program, and for a command beside it: in PATH, or where programs are if there is
    none."""
    image = make_image(tmp_path / "image")
    await sandbox(pods, images={"0": str(image)})
    for attempt, env in enumerate(({"PATH": "/nowhere:/bin"}, {})):
        script = f"echo started {attempt}; kill -STOP $$"
        await pods.start(argv=("sh", "-c", script), image="0", env=env, attempt=attempt)
        await until(lambda attempt=attempt: f"started {attempt}" in pods.log(), state=pods.log)
        with (tmp_path / "out").open("w") as out:
            streams = (out.fileno(), out.fileno(), out.fileno())
            assert await pods.runtime.exec(UID, "main", ("sh", "-c", "echo beside"), streams) == 0
        assert (tmp_path / "out").read_text() == "beside\n"
        await pods.runtime.signal_container(UID, "main", signal.SIGKILL)
        await pods.finished(attempt)


async def test_a_command_that_does_not_exist_is_a_start_error_that_names_it(pods: Pods) -> None:
    await sandbox(pods)
    code, _ = await pods.run("", argv=("no-such-program", "x"))
    record = pods.runtime.sandboxes()[UID].containers["main"]
    assert code == 128
    assert "'no-such-program'" in record.error


async def test_death_by_signal_is_told_as_such(pods: Pods) -> None:
    await sandbox(pods)
    await pods.start("echo ready; exec sleep 1000")
    await pods.until(lambda s: "main" in s.containers)
    await pods.runtime.signal_container(UID, "main", signal.SIGTERM)
    record = (await pods.finished()).containers["main"]
    assert (record.exit_code, record.signal) == (143, 15)


async def test_what_a_container_leaves_behind_ends_with_it(pods: Pods) -> None:
    await sandbox(pods)
    await pods.run("sleep 1000 & exit 3")
    count = "ls -d /proc/[0-9]* | wc -l"  # what was killed is reaped a moment later
    await pods.start(
        f"for i in $(seq 100); do [ $({count}) -le 5 ] && break; sleep 0.1; done; {count}", attempt=1
    )
    await pods.finished(attempt=1)
    assert int(pods.output()[-1]) <= 4  # supervisor, shell, ls, wc


async def test_an_attempt_is_started_once_however_often_it_is_asked_for(pods: Pods) -> None:
    await sandbox(pods)
    for _ in range(3):
        await pods.start("echo once")
    await pods.finished()
    await pods.start("echo once")
    await pods.start("echo again", attempt=1)
    await pods.finished(attempt=1)
    assert pods.output() == ["once", "again"]


async def test_killing_the_sandbox_ends_every_process_and_is_told(pods: Pods) -> None:
    await sandbox(pods)
    await pods.start("trap '' TERM; (setsid sleep 1000 &) ; while :; do sleep 1; done")
    await pods.until(lambda s: "main" in s.containers)
    await pods.runtime.kill_sandbox(UID)
    ended = await pods.until(lambda s: not s.running)
    assert ended.containers["main"].exit_code == 137
    assert mounts_below(pods.root) == []


async def test_a_pod_outlives_its_agent_and_a_new_one_finds_it(pods: Pods) -> None:
    await sandbox(pods)
    await pods.start("echo one; read line < /dev/zero; sleep 0.2; echo two; sleep 1000")
    await pods.until(lambda s: "main" in s.containers)
    await pods.restart_agent()
    found = pods.runtime.sandboxes()[UID]
    assert found.running
    assert found.containers["main"].exit_code is None
    await pods.runtime.signal_container(UID, "main", signal.SIGKILL)
    assert (await pods.finished()).containers["main"].exit_code == 137


async def test_an_exit_while_no_agent_was_there_is_found_later(pods: Pods) -> None:
    await sandbox(pods)
    await pods.start("exit 5")
    await pods.finished()
    await pods.restart_agent()
    assert exited(pods.runtime.sandboxes()[UID]) == 5


async def test_a_new_sandbox_goes_on_counting_where_the_last_one_ended(pods: Pods) -> None:
    await sandbox(pods)
    await pods.start("sleep 1000")
    await pods.until(lambda s: "main" in s.containers)
    await pods.runtime.kill_sandbox(UID)
    await pods.until(lambda s: not s.running)
    await sandbox(pods)
    await pods.start("exit 4", attempt=1)
    found = await pods.finished(attempt=1)
    record = found.containers["main"]
    assert (found.number, record.sandbox, record.exit_code) == (1, 1, 4)
    assert record.last is not None
    assert (record.last.attempt, record.last.sandbox, record.last.exit_code) == (0, 0, 137)


async def test_after_another_boot_a_recorded_pid_means_nothing(pods: Pods) -> None:
    await sandbox(pods)
    await pods.start("sleep 1000")
    await pods.until(lambda s: "main" in s.containers)
    await pods.restart_agent(boot_id="boot-2")
    assert not pods.runtime.sandboxes()[UID].running
    await pods.runtime.kill_sandbox(UID)  # must not kill the process that has that pid now
    await pods.restart_agent()
    assert pods.runtime.sandboxes()[UID].running


async def test_a_pid_taken_over_by_another_process_is_not_the_supervisor(pods: Pods) -> None:
    await sandbox(pods)
    await pods.runtime.kill_sandbox(UID)
    await pods.until(lambda s: not s.running)
    path = pods.root / "pods" / UID / "supervisor.json"
    path.write_text(json.dumps({"pid": os.getpid(), "startTime": 1, "bootID": "boot-1"}))
    await pods.restart_agent()
    assert not pods.runtime.sandboxes()[UID].running


async def test_there_is_never_a_second_supervisor_of_a_pod(pods: Pods) -> None:
    await sandbox(pods)
    identity = (pods.root / "pods" / UID / "supervisor.json").read_text()
    blind = ProcessRuntime(pods.root, "boot-1")  # has not looked
    await blind.start_sandbox(SandboxSpec(uid=UID, hostname="web-0"))
    assert blind.sandboxes()[UID].running
    assert (pods.root / "pods" / UID / "supervisor.json").read_text() == identity
    await blind.close()
    assert (await pods.run("echo still there"))[1] == ["still there"]


async def test_a_volume_that_is_not_there_is_a_clear_failure(pods: Pods, tmp_path: Path) -> None:
    with pytest.raises(SandboxStartFailure, match="nowhere"):
        await sandbox(pods, volumes={"data": str(tmp_path / "nowhere")})


async def test_removal_leaves_no_file(pods: Pods) -> None:
    await sandbox(pods)
    await pods.run("exit 0")
    await pods.runtime.kill_sandbox(UID)
    await pods.until(lambda s: not s.running)
    await pods.runtime.remove_sandbox(UID)
    assert list((pods.root / "pods" / UID).iterdir()) == []
    assert UID not in pods.runtime.sandboxes()


IN_A_USER_NAMESPACE = """
import asyncio, os, sys
from pathlib import Path
from mooring.node.process_runtime import ProcessRuntime
from mooring.node.runtime import ContainerMount, ContainerSpec, SandboxSpec

async def main():
    root, ended = Path(sys.argv[1]), asyncio.Event()
    runtime = ProcessRuntime(root, "boot-1")
    def changed(uid):
        record = runtime.sandboxes()[uid].containers.get("main")
        if record is not None and record.exit_code is not None:
            ended.set()
    await runtime.recover(changed)
    await runtime.start_sandbox(SandboxSpec("u", "web-0", {"v": str(root / "volume")}, {}, (str(root),)))
    script = "hostname; echo x > /data/file; echo y > /tmp/file; touch /etc/here 2>/dev/null || echo refused"
    mounts = (ContainerMount("v", "/data"),)
    spec = ContainerSpec("main", 0, ("/bin/sh", "-c", script), {"PATH": os.defpath}, mounts=mounts)
    await runtime.start_container("u", spec)
    await ended.wait()
    ended.clear()
    await runtime.start_container("u", ContainerSpec("main", 1, ("sleep", "1000"), {"PATH": os.defpath}, groups=(5,)))
    while not (record := runtime.sandboxes()["u"].containers["main"]).attempt or record.error:
        await asyncio.sleep(0.01)
    print(await runtime.run("u", "main", ("echo", "said inside")))
    print(runtime.sandboxes()["u"].rootfs, runtime.log_files("u", "main", 0)[1].read_text())
    await runtime.kill_sandbox("u")
    await runtime.close()

asyncio.run(main())
"""


def test_in_a_user_namespace_the_root_is_given_read_only(tmp_path: Path) -> None:
    """There is no overlay of the machine's root there, and a pod must not write to it."""
    (tmp_path / "volume").mkdir()
    namespaces = ["unshare", "--user", "--map-root-user", "--mount", "--pid", "--fork", "--mount-proc"]
    command = [*namespaces, sys.executable, "-c", IN_A_USER_NAMESPACE, str(tmp_path)]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "\nbind " in output
    assert "said inside" in output
    assert "web-0" in output
    assert "refused" in output
    assert (tmp_path / "volume" / "file").read_text() == "x\n"


def mounts_below(root: Path) -> list[str]:
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    return [line for line in lines if str(root) in line]


async def test_a_command_runs_in_the_container_with_its_variables_and_volumes(
    pods: Pods, tmp_path: Path
) -> None:
    (tmp_path / "volume").mkdir()
    await sandbox(pods, volumes={"data": str(tmp_path / "volume")})
    mounts = (ContainerMount(volume="data", path="/data"),)
    await pods.start(
        "exec sleep 1000", env={"PATH": os.defpath, "A": "b"}, working_dir="/data", mounts=mounts
    )
    await pods.until(lambda s: "main" in s.containers)
    script = "echo $A in $(pwd); touch here; echo error >&2; exit 9"
    code, output = await pods.runtime.run(UID, "main", ("/bin/sh", "-c", script))
    assert (code, sorted(output.splitlines())) == (9, ["b in /data", "error"])
    assert (tmp_path / "volume" / "here").exists()


async def test_a_command_that_nobody_waits_for_any_more_is_killed(pods: Pods) -> None:
    await sandbox(pods)
    until_it_is_gone = "while kill -0 $(cat /pid) 2>/dev/null; do sleep 0.02; done; exit 4"
    await pods.start(f"until [ -s /pid ]; do sleep 0.02; done; echo began; {until_it_is_gone}")
    await pods.until(lambda s: "main" in s.containers)
    command = ("/bin/sh", "-c", "echo $$ > /pid; exec sleep 1000")
    waiting = asyncio.create_task(pods.runtime.run(UID, "main", command))
    while "began" not in pods.log():  # noqa: ASYNC110 - nothing tells of a line
        await asyncio.sleep(0.02)
    waiting.cancel()
    assert exited(await pods.finished()) == 4


async def test_a_command_that_cannot_run_says_why(pods: Pods) -> None:
    await sandbox(pods)
    with pytest.raises(ExecFailure, match="main is not running"):
        await pods.runtime.run(UID, "main", ("true",))
    await pods.start("exec sleep 1000")
    await pods.until(lambda s: "main" in s.containers)
    with pytest.raises(ExecFailure, match="'no-such-program'"):
        await pods.runtime.run(UID, "main", ("no-such-program",))


async def test_a_program_runs_as_its_user_and_groups_with_a_home(pods: Pods) -> None:
    await sandbox(pods)
    script = "id -u; id -g; id -G; echo $HOME; echo out > /dev/stdout; touch /x 2>/dev/null || echo no"
    _, output = await pods.run(script, user="daemon:7", groups=(20, 30))
    assert output[:2] == ["1", "7"]
    assert {"7", "20", "30"} <= set(output[2].split())
    assert output[3:] == ["/usr/sbin", "out", "no"]


@pytest.fixture
def unreadable_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Supervisors are started by a Python that no user but root can read, nor its library, nor Mooring."""
    home, version = tmp_path / "python", f"python{sys.version_info.major}.{sys.version_info.minor}"
    library = Path(os.__file__).parent
    leave_out = shutil.ignore_patterns("site-packages", "dist-packages", "test", "__pycache__", "config-*")
    shutil.copytree(library, home / "lib" / version, ignore=leave_out, symlinks=True)
    (home / "bin").mkdir()
    shutil.copy(os.path.realpath(sys.executable), home / "bin" / version)
    shutil.copytree(Path(mooring.__file__).parent, home / "sources" / "mooring")
    home.chmod(0o700)
    monkeypatch.setattr(launchers.sys, "executable", str(home / "bin" / version))
    launch = launchers._LAUNCH.replace(launchers._SOURCES, str(home / "sources"))
    assert launch != launchers._LAUNCH
    monkeypatch.setattr(launchers, "_LAUNCH", launch)
    return home


async def test_a_user_who_cannot_read_the_installation_of_python_runs_programs_and_commands(
    pods: Pods, unreadable_python: Path
) -> None:
    await sandbox(pods)
    supervisor = json.loads((pods.root / "pods" / UID / "supervisor.json").read_text())["pid"]
    assert Path(f"/proc/{supervisor}/exe").resolve().is_relative_to(unreadable_python)
    running = "id -u; cd / && ls -d $HOME; exec sleep 1000"
    await pods.start("", argv=("sh", "-c", running), user="1234:5678", groups=(20,), no_new_privileges=True)
    await until(lambda: pods.output() == ["1234", "/"])
    assert await pods.runtime.run(UID, "main", ("id", "-g")) == (0, "5678\n")
    with pytest.raises(ExecFailure, match=r"command 'no-such-program' .* does not exist"):
        await pods.runtime.run(UID, "main", ("no-such-program",))
    with pytest.raises(ExecFailure, match="Permission denied"):
        await pods.runtime.run(UID, "main", ("/etc/passwd",))


async def test_what_such_a_user_cannot_start_is_said(pods: Pods, unreadable_python: Path) -> None:
    await sandbox(pods)
    await pods.start("", argv=("no-such-program",), user="1234")
    record = (await pods.finished()).containers["main"]
    assert "command 'no-such-program' (or its interpreter) does not exist" in record.error
    await pods.start("", attempt=1, argv=(str(unreadable_python / "bin" / "x"),), user="1234")
    record = (await pods.finished(attempt=1)).containers["main"]
    assert "Permission denied" in record.error or "does not exist" in record.error
    await pods.start("", attempt=2, argv=("sh",), user="nobody-of-this-name")
    record = (await pods.finished(attempt=2)).containers["main"]
    assert "has no 'nobody-of-this-name'" in record.error


async def test_a_read_only_root_leaves_the_volumes_writable(pods: Pods, tmp_path: Path) -> None:
    (tmp_path / "volume").mkdir()
    await sandbox(pods, volumes={"data": str(tmp_path / "volume")})
    mounts = (ContainerMount(volume="data", path="/data"),)
    script = "touch /x 2>/dev/null || echo refused; touch /data/x && echo written"
    _, output = await pods.run(script, mounts=mounts, read_only_root=True, no_new_privileges=True)
    assert output == ["refused", "written"]


async def test_last_words_are_kept_and_the_log_stands_for_those_of_a_failure(pods: Pods) -> None:
    await sandbox(pods)
    await pods.run(
        "echo done > /dev/termination-log", message_path="/dev/termination-log", message_from_logs=True
    )
    assert pods.runtime.sandboxes()[UID].containers["main"].message == "done\n"
    await pods.start(
        "echo why; exit 1", attempt=1, message_path="/dev/termination-log", message_from_logs=True
    )
    assert (await pods.finished(attempt=1)).containers["main"].message == "why"


async def test_a_sub_path_follows_links_inside_the_volume_and_is_made_if_missing(
    pods: Pods, tmp_path: Path
) -> None:
    volume = tmp_path / "volume"
    (volume / "..data").mkdir(parents=True)
    (volume / "..data" / "key").write_text("value\n")
    (volume / "key").symlink_to("..data/key")
    await sandbox(pods, volumes={"data": str(volume)})
    mounts = (
        ContainerMount(volume="data", path="/etc/conf/key", sub_path="key"),
        ContainerMount(volume="data", path="/new", sub_path="a/b"),
    )
    volume.chmod(0o2770)
    _, output = await pods.run("cat /etc/conf/key; echo x > /new/file", mounts=mounts)
    assert output == ["value"]
    assert (volume / "a" / "b" / "file").exists()
    for made in ("a", "a/b"):
        assert (volume / made).stat().st_mode & 0o7777 == 0o2770, "as the volume's own directory"
