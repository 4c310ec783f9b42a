"""One run: a cluster, a StatefulSet, its clients, the faults, and what the clients' history says in the
end."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import yaml
from tests.machines.stateful import names
from tests.machines.stateful.etcd import Etcd
from tests.machines.stateful.nemesis import Nemesis
from tests.machines.stateful.plan import FAULTS, Fault, draw
from tests.machines.stateful.postgres import Postgres
from tests.machines.stateful.software import Software, Unanswered

from mooring.cluster.stage import Disappointed, Stage
from mooring.kube.objects import StatefulSet

SOFTWARE: dict[str, Callable[..., Software]] = {"etcd": Etcd, "postgres": Postgres}
NODES = 3
BEGINNING_S = 90.0
RECOVERY_S = 180.0


@dataclass(frozen=True)
class Options:
    """`seconds` of faults; none longer than `longest`. `flags`: of the software, in addition. `faults`:
    those that may be drawn."""

    software: str
    seed: int
    seconds: float
    machines: str = ""
    longest: float = 20
    faults: tuple[Fault, ...] = FAULTS
    flags: str = ""
    recovery: float = RECOVERY_S
    """So many seconds after the last fault all pods have to be ready, writes to be acknowledged, and
    everything to be readable."""


@dataclass
class Report:
    """What a run has seen."""

    software: str
    seed: int
    machines: str
    seconds: float = 0
    acknowledged: int = 0
    unknown: int = 0
    reads: int = 0
    longest_silence: float = 0
    silence_began: float = 0
    played: dict[str, int] = field(default_factory=dict[str, int])
    left_out: dict[str, str] = field(default_factory=dict[str, str])
    checked: str = ""
    violations: list[str] = field(default_factory=list[str])
    doubts: list[str] = field(default_factory=list[str])
    events: list[str] = field(default_factory=list[str])
    kept_in: str = ""
    """Where logs and history are, unless the verdict is `kept`."""

    @property
    def verdict(self) -> str:
        """A violation is one; what could not be judged is said."""
        if self.violations:
            return "VIOLATED"
        return "could not be judged whole" if self.doubts else "kept"

    def as_json(self) -> dict[str, Any]:
        """All of it, and the verdict."""
        return asdict(self) | {"verdict": self.verdict}


def missing(software: str) -> str | None:
    """What is not installed here, as a sentence for the user."""
    kind: Any = SOFTWARE[software]
    absent = [program for program in kind.programs if not Path(program).exists()]
    return f"{', '.join(absent)} is missing: apt-get install {kind.packages}" if absent else None


async def run(options: Options, say: Callable[[str], None]) -> Report:
    """Plays it on a cluster of its own, which is taken down afterwards."""
    start = time.monotonic()
    report = Report(options.software, options.seed, options.machines or "namespace")

    def note(line: str) -> None:
        report.events.append(f"{time.monotonic() - start:7.1f} s  {line}")
        say(report.events[-1])

    addresses: dict[str, str] = {}
    software = SOFTWARE[options.software](addresses, lambda: time.monotonic() - start)
    data_dir = Path(tempfile.mkdtemp(prefix="stateful-"))
    try:
        async with _cluster(data_dir, options, report) as stage:
            await _play(stage, software, addresses, options, report, note)
    except Disappointed as error:
        report.violations.append(f"it does not go on: {error}")
    except BaseException:
        note(f"logs are kept in {data_dir}")
        raise
    finally:
        await software.close()
    history = await _judge(software, report)
    if report.verdict == "kept":
        shutil.rmtree(data_dir)
    else:
        report.kept_in = str(data_dir)
        (data_dir / "history").write_text("".join(f"{each}\n" for each in history))
        note(f"logs and history are kept in {data_dir}")
    return report


async def _judge(software: Software, report: Report) -> Iterable[object]:
    """Completes the report; what was judged."""
    findings = await asyncio.to_thread(software.judge)
    report.checked = findings.checked
    report.violations += findings.violations
    report.doubts += findings.doubts
    tally = software.tally
    report.acknowledged, report.unknown, report.reads = tally.acknowledged, tally.unknown, tally.reads
    report.longest_silence, report.silence_began = tally.longest_silence, tally.silence_began
    return findings.history


@asynccontextmanager
async def _cluster(data_dir: Path, options: Options, report: Report) -> AsyncGenerator[Stage]:
    """Whatever is left of it afterwards is a violation."""
    stage = Stage(data_dir)
    kind = ("--machines", options.machines) if options.machines else ()
    try:
        await stage.up("--nodes", str(NODES), "--port", "0", "--node-monitor-grace-period", "8", *kind)
        await stage.until("all nodes are Ready", lambda: stage.ready_nodes(NODES))
        yield stage
    finally:
        status, said = await stage.down()
        left = [said] if status else stage.leftovers()
        report.violations += [f"left behind: {each}" for each in left]


async def _play(
    stage: Stage,
    software: Software,
    addresses: dict[str, str],
    options: Options,
    report: Report,
    note: Callable[[str], None],
) -> None:
    random = Random(options.seed)
    await _apply(stage, software, options.flags)
    following = asyncio.create_task(names.follow(stage, software.name, addresses, note))
    clients: list[asyncio.Task[Any]] = []
    try:
        await _answered(stage, "the software answers", software.set_up, BEGINNING_S)
        note(f"{software.name} answers; its clients begin")
        clients = [asyncio.create_task(each()) for each in software.clients(random)]
        await _faults(stage, software, random, options, report, note)
        try:
            await _recovered(stage, software, options.recovery)
        except Disappointed as error:  # all the same: what is still there?
            report.violations.append(f"it does not go on: {error}")
        for client in clients:
            client.cancel()
        await _gathered(clients)
        await _answered(stage, "everything can be read", software.last_look, options.recovery)
        note("everything was read")
    finally:
        for task in (following, *clients):
            task.cancel()
        await asyncio.gather(following, *clients, return_exceptions=True)


async def _faults(
    stage: Stage,
    software: Software,
    random: Random,
    options: Options,
    report: Report,
    note: Callable[[str], None],
) -> None:
    loop = asyncio.get_running_loop()
    nemesis = Nemesis(stage, software.name, note)
    possible = await nemesis.look_around(options.faults)
    report.left_out = nemesis.left_out
    for name, why in nemesis.left_out.items():
        note(f"left out on these machines: {name}: {why}")
    begin = loop.time()
    try:
        for step in draw(random, possible, longest=options.longest):
            if loop.time() - begin > options.seconds:
                break
            await nemesis.play(step)
            report.violations += _attached_twice(stage)
    finally:
        report.played = dict(nemesis.played)
        report.seconds = loop.time() - begin


def _attached_twice(stage: Stage) -> list[str]:
    return [
        f"disk {disk} is attached to {', '.join(sorted(nodes))} at once"
        for disk, nodes in stage.array.attachments().items()
        if len(nodes) > 1
    ]


async def _apply(stage: Stage, software: Software, flags: str) -> None:
    documents: list[Any] = list(yaml.safe_load_all(software.manifest.read_text()))
    for document in documents:
        if document["kind"] == "StatefulSet" and flags:
            document["spec"]["template"]["spec"]["containers"][0]["env"][0]["value"] = flags
    manifest = stage.layout.root / "manifest.yaml"
    manifest.write_text(yaml.safe_dump_all(documents))
    await stage.apply(manifest)


async def _recovered(stage: Stage, software: Software, patience: float) -> None:
    await stage.until("all pods are ready", lambda: _ready(stage, software), patience=patience)
    had = software.tally.acknowledged
    await stage.until(
        "writes are acknowledged", lambda: software.tally.acknowledged > had + 20, patience=patience
    )


async def _ready(stage: Stage, software: Software) -> bool:
    found = await stage.client.get(StatefulSet, software.name, "default")
    return found.status.ready_replicas == software.replicas


async def _answered(stage: Stage, what: str, ask: Callable[[], Any], patience: float) -> None:
    problem = ""

    async def answers() -> bool:
        nonlocal problem
        try:
            await ask()
        except Unanswered as error:
            problem = str(error)
            await asyncio.sleep(0.3)
            return False
        return True

    try:
        await stage.until(what, answers, patience=patience)
    except Disappointed as error:
        raise Disappointed(f"{error} ({problem})") from None


async def _gathered(clients: list[asyncio.Task[Any]]) -> None:
    """Raises what a client has died of."""
    for client in clients:
        with suppress(asyncio.CancelledError):
            await client


def table(report: Report) -> str:
    """The report, for a terminal."""
    about = {fault.name: fault for fault in FAULTS}
    families = Counter({about[name].family: 0 for name in about})
    for name, count in report.played.items():
        families[about[name].family] += count
    rows = [
        ("seconds of faults", f"{report.seconds:.0f}"),
        ("writes acknowledged", str(report.acknowledged)),
        ("writes of unknown outcome", str(report.unknown)),
        ("reads", str(report.reads)),
        (
            "longest time without a write",
            f"{report.longest_silence:.1f} s, from {report.silence_began:.1f} s on",
        ),
        *((f"faults: {family}", str(count)) for family, count in families.items()),
        *((f"  {name}", str(count)) for name, count in sorted(report.played.items())),
        *((f"  left out: {name}", why) for name, why in report.left_out.items()),
        ("checked", report.checked),
        *(("violated", each) for each in report.violations[:10]),
        *(("doubt", each) for each in report.doubts[:10]),
        ("verdict", report.verdict),
    ]
    width = max(len(name) for name, _ in rows)
    return "\n".join(f"{name:{width}}  {value}" for name, value in rows)
