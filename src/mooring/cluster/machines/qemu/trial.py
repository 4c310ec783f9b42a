"""Whether KVM boots a stock kernel here.

That /dev/kvm exists does not say so, as nested and paravirtual KVM often does not: only a trial boot does.
Its outcome is kept until this host boots again, or its QEMU changes. Blocking.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any, cast

from mooring.cluster.machines.qemu.boot_files import TRIAL_WORD, trial_files
from mooring.cluster.machines.qemu.command_line import PROGRAM, Computing, bare
from mooring.cluster.machines.qemu.guest_kernel import GuestKernel, cache
from mooring.this_boot import boot_id

PATIENCE_S = 15.0
KVM = Path("/dev/kvm")
MEMORY_BYTES = 256 << 20


def why_not(kernel: GuestKernel, busybox: Path) -> str:
    """Why KVM does not boot this kernel, in a line; "" if it does."""
    if not KVM.exists():
        return f"there is no {KVM}"
    record = cache() / "kvm-trial.json"
    tried = _key(kernel)
    why = _known(record, tried)
    if why is None:
        why = _try(kernel, busybox)
        _save(record, {"tried": tried, "why": why})
    return why


def _key(kernel: GuestKernel) -> list[str]:
    program = shutil.which(PROGRAM) or ""
    changed = [str(path.stat().st_mtime_ns) for path in (Path(program), kernel.image)]
    return [boot_id(), program, str(kernel.image), *changed]


def _try(kernel: GuestKernel, busybox: Path) -> str:
    with tempfile.NamedTemporaryFile(prefix="mooring-trial-") as initrd:
        initrd.write(trial_files(busybox))
        initrd.flush()
        program = shutil.which(PROGRAM) or PROGRAM
        command = bare(program, Computing.KVM, MEMORY_BYTES, kernel.image, Path(initrd.name), "")
        try:
            done = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=PATIENCE_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return f"a trial boot had not ended after {PATIENCE_S:g} s"
        except OSError as error:
            return str(error)
    return verdict(done.stdout, done.stderr)


def verdict(console: bytes, errors: bytes) -> str:
    """Of a trial that has ended: "" if its kernel came to say the word. Pure."""
    if TRIAL_WORD.encode() in console:
        return ""
    words = (errors or console).decode(errors="replace").strip().splitlines()
    return words[0][:200] if words else "a trial boot ended without a word"


def _known(record: Path, tried: list[str]) -> str | None:
    try:
        known: Any = json.loads(record.read_text())
    except (OSError, ValueError):
        return None
    if not isinstance(known, dict) or cast("dict[str, Any]", known).get("tried") != tried:
        return None
    why: Any = cast("dict[str, Any]", known).get("why")
    return why if isinstance(why, str) else None


def _save(record: Path, known: dict[str, object]) -> None:
    record.parent.mkdir(parents=True, exist_ok=True)
    draft = record.with_suffix(f".{os.getpid()}")
    draft.write_text(json.dumps(known))
    draft.rename(record)
