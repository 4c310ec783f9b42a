"""The processes that serve GlusterFS mounts: found by what they were started with, and ended."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from mooring.volumes.errors import VolumeError
from mooring.volumes.plugins.glusterfs import clients


@contextmanager
def client(
    directory: str, name: str = "/usr/sbin/glusterfs", lives_s: float = 60, then: str = ""
) -> Iterator[int]:
    """A process of that name. It starts no other, which would be a second one of that name for a moment."""
    script = f"import signal, time; {then or 'pass'}; time.sleep({lives_s}) # --process-name fuse"
    process = subprocess.Popen(
        [name, "-Sc", script, directory], executable=sys.executable, start_new_session=True
    )
    while clients.of(directory) == [] and name.endswith("glusterfs"):
        time.sleep(0.01)  # until it is no copy of this process any more
    try:
        yield process.pid
    finally:
        process.kill()
        process.wait()


def test_the_client_of_a_directory_is_found_by_its_last_word():
    with client("/m/a") as one, client("/m/ab"), client("/m/a", name="/usr/bin/editor"):
        assert clients.of("/m/a") == [one]
    assert clients.of("/m/a") == []


def test_a_client_that_does_not_end_of_its_own_is_killed_and_others_are_not():
    with client("/m/a", then="signal.signal(signal.SIGTERM, signal.SIG_IGN)") as one, client("/m/b") as other:
        assert clients.end("/m/a", patience_s=0.1) == [one]
        assert clients.of("/m/b") == [other]


def test_a_client_that_ends_of_its_own_is_not_killed():
    with client("/m/a", lives_s=0.5):
        assert clients.end("/m/a", patience_s=20) == []
    assert clients.end("/m/a") == []


def test_a_client_that_the_kernel_holds_is_named(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("signal.pidfd_send_signal", lambda *_: None)
    monkeypatch.setattr(clients, "KILLED_S", 0.1)
    with client("/m/a") as one, pytest.raises(VolumeError, match=f"process {one} serves GlusterFS at /m/a"):
        clients.end("/m/a", patience_s=0)
