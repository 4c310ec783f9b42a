"""Makes docs/images/*.svg anew: what a terminal shows of commands, recorded on a cluster that runs here.

As root, in the environment of `make docs`: `.venv/docs/bin/python -m scripts.recordings`. Each recording is a list
of commands. They run in a terminal (so with colours); what they print, and nothing else, becomes the picture:
text of a font that the reader has, fetched from nowhere. Commands that are not shown make the situation.
"""

from __future__ import annotations

import io
import os
import pty
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

ROOT = Path(__file__).parents[1]
IMAGES = ROOT / "docs/images"
PATIENCE_S = 90
WIDTH = 110
READY = "kubectl get nodes -o jsonpath='{.items[*].status.conditions[?(@.type==\"Ready\")].status}'"
THEME = TerminalTheme(
    (22, 27, 34),
    (201, 209, 217),
    [(72, 79, 88), (255, 123, 114), (63, 185, 80), (210, 153, 34), (88, 166, 255), (188, 140, 255), (57, 197, 207), (177, 186, 196)],
    [(110, 118, 129), (255, 161, 152), (86, 211, 100), (227, 179, 65), (121, 192, 255), (210, 168, 255), (86, 212, 221), (240, 246, 252)],
)


@dataclass(frozen=True)
class Recording:
    """`before` are commands that are not shown; after them `until` must print its text."""

    title: str
    shown: Sequence[str]
    before: Sequence[str] = ()
    until: tuple[str, str] = ("true", "")


RECORDINGS: Mapping[str, Recording] = {
    "terminal-status": Recording(
        "mooring status: what is where",
        ["mooring status"],
        ["kubectl apply -f examples/statefulset.yaml"],
        ("mooring status", "Running"),
    ),
    "terminal-why": Recording(
        "mooring why: a node has lost its power",
        ["mooring why pod/recorder-0", "mooring reason NodeNotAnswering"],
        ["mooring node kill $(kubectl get pod recorder-0 -o jsonpath={.spec.nodeName})"],
        ("mooring why pod/recorder-0", "NodeNotAnswering"),
    ),
}


def main() -> None:
    """All of them, on one cluster of their own."""
    data = Path(tempfile.mkdtemp(prefix="mooring-"))
    environ = {
        **os.environ,
        "PATH": f"{ROOT / '.venv/bin'}{os.pathsep}{os.environ['PATH']}",
        "KUBECONFIG": str(data / "kubeconfig"),
        "MOORING_DATA_DIR": str(data / "d"),
        "TERM": "xterm-256color",
        "COLUMNS": str(WIDTH),
    }
    up = ["mooring", "up", "--port", "0", "--nodes", "3", "--node-monitor-grace-period", "8"]
    with (data / "log").open("wb") as log:
        cluster = subprocess.Popen(
            [shutil.which("mooring", path=environ["PATH"]) or "mooring", *up[1:], "--kubeconfig-out", environ["KUBECONFIG"]],
            env=environ, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
        )
    try:
        until(READY, "True True True", environ)
        for name, recording in RECORDINGS.items():
            for command in recording.before:
                in_terminal(command, environ)
            until(*recording.until, environ)
            (IMAGES / f"{name}.svg").write_text(picture(recording, environ))
            print(f"docs/images/{name}.svg")
    finally:
        cluster.terminate()
        cluster.wait(60)
        in_terminal("mooring down", environ)
        shutil.rmtree(data)


def until(command: str, wanted: str, environ: Mapping[str, str]) -> None:
    """Repeats the command until it prints what is wanted. Raises TimeoutError."""
    deadline = time.monotonic() + PATIENCE_S
    while wanted not in (printed := in_terminal(command, environ)):
        if time.monotonic() > deadline:
            raise TimeoutError(f"{command} prints no {wanted!r} but:\n{printed}")
        time.sleep(0.5)


def in_terminal(command: str, environ: Mapping[str, str]) -> str:
    """What a command prints on a terminal."""
    ours, its = pty.openpty()
    with subprocess.Popen(["/bin/sh", "-c", command], env=environ, cwd=ROOT, stdin=its, stdout=its, stderr=its) as process:
        os.close(its)
        said = b""
        while True:
            try:
                part = os.read(ours, 65536)
            except OSError:  # the last writer has gone
                break
            if not part:
                break
            said += part
        process.wait()
    os.close(ours)
    return said.decode(errors="replace").replace("\r\n", "\n")


def picture(recording: Recording, environ: Mapping[str, str]) -> str:
    """The SVG of its commands and of what they print now."""
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    for number, command in enumerate(recording.shown):
        console.print(Text(f"{chr(10) * bool(number)}$ {command}", style="bold"))
        console.print(Text.from_ansi(in_terminal(command, environ).rstrip()))
    return of_this_reader(console.export_svg(title=recording.title, theme=THEME, unique_id="terminal"))


def of_this_reader(svg: str) -> str:
    """Without the fonts that the template would fetch: the reader has one. And without comments."""
    without = re.sub(r"@font-face \{.*?\}\s*|<!--.*?-->\s*", "", svg, flags=re.DOTALL)
    return without.replace("Fira Code, monospace", "ui-monospace, SFMono-Regular, Menlo, Consolas, monospace")


if __name__ == "__main__":
    if os.geteuid() != 0:
        sys.exit("run this as root: nodes of a cluster mount disks")
    main()
