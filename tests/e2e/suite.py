"""Upstream's end-to-end suite: which of its specs are played, how, and what came out.

`suites.toml` is the only place that says which specs are played, and why one is not.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import tempfile
import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
DRIVERS = HERE / "drivers"
PROGRAMS = ("e2e.test", "ginkgo", "agnhost", "nnp", "kubectl")
CAP_SYS_RESOURCE = 24
SERIAL = r"\[Serial\]"
PASSED, SKIPPED = "passed", "skipped"


@dataclass(frozen=True)
class Suite:
    """Specs that are played in one run, `procs` at once: those that match `focus`, without those that need
    the cluster for themselves, or (`serial`) of all suites those alone."""

    name: str
    about: str
    focus: str = ""
    serial: bool = False
    procs: int = 4
    reduced: str = ""
    """What is played of it in CI: those of its specs that match this too; "" for none."""


@dataclass(frozen=True)
class NotOffered:
    """Specs that are not played, since what they are about is not offered."""

    pattern: str
    reason: str


@dataclass(frozen=True)
class Outcome:
    """How a spec came out; `message` says what failed, or why the suite itself passed it over."""

    name: str
    state: str
    seconds: float
    message: str
    where: str

    @property
    def passed(self) -> bool:
        return self.state in (PASSED, SKIPPED)


def load() -> tuple[list[Suite], list[NotOffered]]:
    """What `suites.toml` says."""
    facts = tomllib.loads((HERE / "suites.toml").read_text())
    suites = [Suite(**each) for each in facts["suite"]]
    together = "|".join(suite.focus for suite in suites if not suite.serial)
    suites = [
        replace(suite, focus=f"(?:{together}).*{SERIAL}") if suite.serial else suite for suite in suites
    ]
    return suites, [NotOffered(**each) for each in facts["not_offered"]]


def chosen(suite: Suite, names: Sequence[str]) -> list[str]:
    """Those of the names that the suite is about."""
    return [n for n in names if re.search(suite.focus, n) and bool(re.search(SERIAL, n)) is suite.serial]


def programs() -> Path | None:
    """The folder with the suite's programs (`scripts/assets e2e`); None if they are not built."""
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "mooring/assets"
    folders = [Path(given)] if (given := os.environ.get("KUBEBUILDER_ASSETS")) else sorted(cache.glob("*"))
    return next((each for each in folders[::-1] if all((each / name).exists() for name in PROGRAMS)), None)


def specs(folder: Path) -> list[str]:
    """The names of all specs of the suite, without running any."""
    with tempfile.TemporaryDirectory() as scratch:
        report = Path(scratch) / "specs.json"
        flags = ["--ginkgo.dry-run", f"--ginkgo.json-report={report}", "--kubeconfig=/dev/null"]
        command = [folder / "e2e.test", *flags, *_drivers(Path(scratch))]
        subprocess.run(command, check=True, capture_output=True, cwd=scratch)
        return [name for name, _ in _entries(report)]


async def play(
    suite: Suite,
    skips: Sequence[NotOffered],
    folder: Path,
    work: Path,
    kubeconfig: Path,
) -> list[Outcome]:
    """Plays a suite and returns how each of its specs came out. Its log is `work`/NAME.log."""
    report = work / f"{suite.name}.json"
    report.unlink(missing_ok=True)
    passed_over = [each.pattern for each in skips] + ([] if suite.serial else [SERIAL])
    command = [
        str(folder / "ginkgo"), f"--procs={suite.procs}", "--no-color", "--timeout=60m", "--grace-period=20s",
        f"--focus={suite.focus}", *(f"--skip={pattern}" for pattern in passed_over),
        f"--json-report={report.name}", f"--output-dir={work}",
        str(folder / "e2e.test"), "--",
        f"--kubeconfig={kubeconfig}", "--provider=skeleton", "--e2e-verify-service-account=false",
        "--dump-logs-on-failure=false", f"--kubectl-path={folder / 'kubectl'}", "--allowed-not-ready-nodes=-1",
        *_drivers(work),
    ]  # fmt: skip
    environ = {**os.environ, "KUBECONFIG": str(kubeconfig), "PATH": f"{folder}:{os.environ['PATH']}"}
    with (work / f"{suite.name}.log").open("wb") as log:
        runner = await asyncio.create_subprocess_exec(
            *command, cwd=work, env=environ, stdout=log, stderr=log, start_new_session=True
        )
        try:
            status = await runner.wait()
        finally:
            await _end(runner)
    if not report.exists():
        raise RuntimeError(f"the runner ended with status {status}: see {work}/{suite.name}.log")
    return [_outcome(name, entry) for name, entry in _entries(report) if _was_played(entry)]


async def _end(runner: asyncio.subprocess.Process) -> None:
    """Interrupted, its processes take down what their specs have made."""
    if runner.returncode is None:
        os.killpg(runner.pid, signal.SIGTERM)
        await runner.wait()


def may_grow_mounted() -> bool:
    """Whether this machine lets a mounted ext4 grow, which takes CAP_SYS_RESOURCE."""
    status = Path("/proc/self/status").read_text()
    return bool(int(status.partition("CapEff:")[2].split()[0], 16) >> CAP_SYS_RESOURCE & 1)


def _drivers(work: Path) -> list[str]:
    """The drivers' definitions, with whole paths: the suite looks for relative ones in its own source."""
    flags: list[str] = []
    for definition in sorted(DRIVERS.glob("*.yaml")):
        whole = work / f"driver-{definition.name}"
        text = definition.read_text().replace("classes/", f"{DRIVERS}/classes/")
        if not may_grow_mounted():
            text = text.replace("onlineExpansion: true", "onlineExpansion: false")
        whole.write_text(text)
        flags.append(f"--storage.testdriver={whole}")
    return flags


def _entries(report: Path) -> list[tuple[str, Mapping[str, Any]]]:
    reports: list[dict[str, Any]] = json.loads(report.read_text())
    entries: list[dict[str, Any]] = [each for one in reports for each in one["SpecReports"] or ()]
    return [(_name(entry), entry) for entry in entries if entry["LeafNodeType"] == "It"]


def _name(entry: Mapping[str, Any]) -> str:
    """As the suite's patterns see it: containers, text, labels."""
    texts: list[str] = [*(entry["ContainerHierarchyTexts"] or ()), entry["LeafNodeText"]]
    return " ".join(texts)


def _was_played(entry: Mapping[str, Any]) -> bool:
    """A spec that no pattern chose is also in the report: skipped, without a word."""
    return entry["State"] != SKIPPED or bool((entry.get("Failure") or {}).get("Message"))


def _outcome(name: str, entry: Mapping[str, Any]) -> Outcome:
    failure: Mapping[str, Any] = entry.get("Failure") or {}
    place: Mapping[str, Any] = failure.get("Location") or {}
    where = re.sub(r".*@v[\d.]+/", "", f"{place.get('FileName', '')}:{place.get('LineNumber', '')}")
    return Outcome(name, entry["State"], entry["RunTime"] / 1e9, failure.get("Message", ""), where)


def summary(outcomes: Sequence[Outcome]) -> str:
    """How many came out how, in one line."""
    states = Counter(each.state for each in outcomes)
    return ", ".join(f"{count} {state}" for state, count in sorted(states.items())) or "no spec was chosen"
