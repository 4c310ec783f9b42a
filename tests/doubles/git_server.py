"""Repositories as their owners want them, hostile ones too, made of objects; and a web server that serves
them with git's own backend (smart), or as files (dumb), or as a test says."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

BACKEND = Path("/usr/lib/git-core/git-http-backend")
FILE, PROGRAM, LINK, TREE, MODULE = "100644", "100755", "120000", "040000", "160000"
Entries = list[tuple[str, str, str]]
"""Mode, name and object of each entry."""


class Repository:
    """A bare one; nothing in it is checked."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.mkdir(parents=True)
        self.git("init", "--quiet", "--bare", "--initial-branch=main", ".")
        self.git("config", "http.receivepack", "false")

    def git(self, *words: str, given: bytes = b"") -> str:
        names = {f"GIT_{role}_{what}": "x" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
        environ = {"PATH": os.environ["PATH"], "HOME": str(self.path), "GIT_CONFIG_NOSYSTEM": "1", **names}
        done = subprocess.run(
            ["git", *words], cwd=self.path, input=given, env=environ, capture_output=True, check=True
        )
        return done.stdout.decode().strip()

    def blob(self, content: bytes | str) -> str:
        given = content.encode() if isinstance(content, str) else content
        return self.git("hash-object", "-w", "--stdin", given=given)

    def tree(self, entries: Entries) -> str:
        """Any names, also those that git itself would not take."""
        raw = b"".join(
            f"{mode.lstrip('0')} {name}".encode() + b"\0" + bytes.fromhex(found)
            for mode, name, found in sorted(entries, key=lambda entry: entry[1] + "/" * (entry[0] == TREE))
        )
        return self.git("hash-object", "-t", "tree", "-w", "--stdin", "--literally", given=raw)

    def commit(self, entries: Entries, branch: str = "main") -> str:
        found = self.git("commit-tree", "-m", "x", self.tree(entries))
        self.git("update-ref", f"refs/heads/{branch}", found)
        self.git("update-server-info")
        return found


class Handler(BaseHTTPRequestHandler):
    """One request. `answer` comes first; then the backend, or files below /dumb."""

    root: Path
    answer: Callable[[Handler], bool]

    def do_POST(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        if type(self).answer(self):
            return
        if self.path.startswith("/dumb/"):
            path = self.root / self.path.removeprefix("/dumb/").partition("?")[0]
            if path.is_file():
                self.reply(200, {}, path.read_bytes())
            else:
                self.reply(404, {}, b"")
            return
        self._backend()

    def reply(self, status: int, headers: dict[str, str], body: bytes) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def _backend(self) -> None:
        path, _, query = self.path.partition("?")
        environ = {
            "PATH": os.environ["PATH"], "GIT_PROJECT_ROOT": str(self.root), "GIT_HTTP_EXPORT_ALL": "1",
            "PATH_INFO": path, "QUERY_STRING": query, "REQUEST_METHOD": self.command,
            "CONTENT_TYPE": self.headers.get("Content-Type", ""),
            "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""), "REMOTE_ADDR": "127.0.0.1",
            "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""), "GIT_CONFIG_COUNT": "1",
            "GIT_CONFIG_KEY_0": "safe.directory", "GIT_CONFIG_VALUE_0": "*",
        }  # fmt: skip
        given = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        out = subprocess.run([BACKEND], input=given, env=environ, capture_output=True, check=False).stdout
        head, _, body = out.partition(b"\r\n\r\n")
        headers = dict(line.split(": ", 1) for line in head.decode().splitlines() if ": " in line)
        self.reply(int(headers.pop("Status", "200").split()[0]), headers, body)

    def log_message(self, format: str, *args: object) -> None:
        """Says nothing."""


@contextmanager
def serving(root: Path, answer: Callable[[Handler], bool] = lambda _: False) -> Iterator[str]:
    """Serves what is below `root`; its URL. `answer` answers a request itself, and says so."""
    handler = type("TestHandler", (Handler,), {"root": root, "answer": staticmethod(answer)})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
