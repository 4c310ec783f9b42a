"""An embedded API server over TLS with the controllers that a client's work needs, in a thread of its own."""

from __future__ import annotations

import asyncio
import gc
import os
import threading
import warnings
from collections.abc import Callable, Coroutine, Generator
from concurrent.futures import Future
from pathlib import Path
from random import Random
from typing import Any

import pytest
from waiting import until_in_thread

from mooring.apiserver.process import Running, serve
from mooring.cli.controllers import Settings, run_controllers
from mooring.kube.config import load
from mooring.kube.times import wall_clock

CONTROLLERS = ("statefulset", "cleanup")


class ClusterInThread:
    """`kubeconfig` is the administrator's; `call` runs a coroutine beside the server."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, name="cluster")
        self.thread.start()
        self.running: Running = self.call(serve(data_dir=folder / "data"))
        self.kubeconfig = self.running.kubeconfig
        self.client = load(self.kubeconfig)
        settings = Settings(now=wall_clock, random=Random(1))
        work = run_controllers(CONTROLLERS, self.client, settings, leader_elect=False)
        self.controllers: Future[None] = asyncio.run_coroutine_threadsafe(work, self.loop)

    def call(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(30)

    def forget_history(self) -> None:
        """From now on only the last two changes can be watched from."""
        self.running.server.store.window = 2

    def close(self) -> None:
        self.call(self._end())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()
        self.loop.close()
        del self.running, self.client, self.controllers, self.loop
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)
            gc.collect()  # connections that a client has not closed

    async def _end(self) -> None:
        self.controllers.cancel()
        await asyncio.sleep(0.1)
        await self.client.close()
        await self.running.close()
        await asyncio.sleep(0.1)


@pytest.fixture
def cluster(tmp_path: Path) -> Generator[ClusterInThread]:
    running = ClusterInThread(tmp_path)
    yield running
    running.close()


def asset(name: str) -> Path:
    """A program that `make assets` builds; skips the test if it was not built."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "mooring" / "assets"
    folders = [Path(given)] if (given := os.environ.get("KUBEBUILDER_ASSETS")) else sorted(cache.glob("*"))
    found = next((folder / name for folder in reversed(folders) if (folder / name).is_file()), None)
    if found is None:
        pytest.skip(f"needs {name}: run `make assets`")
    return found


@pytest.fixture
def until() -> Callable[[Callable[[], bool], str], None]:
    """`waiting.until_in_thread`."""
    return until_in_thread


@pytest.fixture
def helm() -> Path:
    return asset("helm")
