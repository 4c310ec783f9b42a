"""What the supervisor is allowed to be, and its log format."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

import mooring
from mooring.node.supervisor.logs import LOG_ENTRY_LIMIT, Log, LogStream, timestamp

SOURCES = str(Path(mooring.__file__).parents[1])


def test_the_supervisor_imports_the_standard_library_and_itself_only() -> None:
    """It outlives the agent, so it must stay small, and it starts without site-packages."""
    code = (
        f"import sys; sys.path.append({SOURCES!r}); import mooring.node.supervisor.main;"
        "print(*{name.split('.')[0] for name in sys.modules} - set(sys.stdlib_module_names));"
        "print(*sorted(name for name in sys.modules if name.startswith('mooring')))"
    )
    result = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=True
    )
    foreign, ours = result.stdout.splitlines()
    assert set(foreign.split()) <= {"mooring", "__main__"}
    assert all(name in ("mooring", "mooring.node") or "supervisor" in name for name in ours.split())


def logged(tmp: Path, chunks: list[bytes]) -> list[bytes]:
    """The entries that a program leaves that writes these chunks."""
    log = Log(str(tmp), "main", 0)
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    stream = LogStream(reader, "stdout", log)
    for chunk in chunks:
        os.write(writer, chunk)
        while stream.read():
            pass
    os.close(writer)
    stream.close()
    log.close()
    return (tmp / "main.0.log").read_bytes().splitlines()


def joined(entries: list[bytes]) -> bytes:
    parts = [entry.split(b" ", 3) for entry in entries]
    return b"".join(text + (b"\n" if tag == b"F" else b"") for _, _, tag, text in parts)


@given(
    st.lists(
        st.binary(max_size=100).map(
            lambda b: b.replace(b"\r", b"").replace(b"\x0b", b"").replace(b"\x0c", b"")
        )
    )
)
def test_no_byte_of_output_is_lost_however_it_is_cut(tmp_path_factory: object, chunks: list[bytes]) -> None:
    tmp = Path(tmp_path_factory.mktemp("log"))  # type: ignore[attr-defined]
    written = b"".join(chunks)
    expected = written if not written or written.endswith(b"\n") else written + b"\n"
    assert joined(logged(tmp, chunks)) == expected


def test_a_long_line_is_cut_into_marked_parts(tmp_path: Path) -> None:
    line = b"x" * (LOG_ENTRY_LIMIT * 2 + 5)
    entries = logged(tmp_path, [line[:60000], line[60000:] + b"\n"])
    assert all(len(entry) <= LOG_ENTRY_LIMIT + 50 for entry in entries)
    assert joined(entries) == line + b"\n"


def test_times_have_nanoseconds() -> None:
    assert timestamp(1_893_456_000_000_000_001) == b"2030-01-01T00:00:00.000000001Z"


def test_a_log_that_grows_is_cut_and_one_older_part_is_kept(tmp_path: Path) -> None:
    log = Log(str(tmp_path), "main", 0, limit=100)
    for number in range(10):
        log.write(b"%d" % number * 39 + b"\n")
    log.close()
    kept = [path.read_bytes() for path in sorted(tmp_path.iterdir())]
    assert [set(text) - {10} for text in kept] == [{56, 57}, {54, 55}]


def test_the_logs_of_the_last_two_attempts_are_kept(tmp_path: Path) -> None:
    for attempt in range(4):
        Log(str(tmp_path), "main", attempt).close()
    Log(str(tmp_path), "main-2", 0).close()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["main-2.0.log", "main.2.log", "main.3.log"]
