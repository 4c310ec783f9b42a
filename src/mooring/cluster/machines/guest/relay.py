"""A port of this machine's loopback network that leads to one of the host's: what a service on the host that
is for loopback clients alone takes.

`python … main(ADDRESS, PORT, HOST, HOST_PORT)`. Standard library only.
"""

from __future__ import annotations

import contextlib
import socket
import socketserver
import threading

CHUNK = 1 << 16


def main(address: str, port: int, host: str, host_port: int) -> None:
    """Serves until it is killed."""

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            with contextlib.suppress(OSError), socket.create_connection((host, host_port), 10) as there:
                back = threading.Thread(target=_carry, args=(there, self.request), daemon=True)
                back.start()
                _carry(self.request, there)
                back.join()

    socketserver.ThreadingTCPServer.allow_reuse_address = True
    socketserver.ThreadingTCPServer.daemon_threads = True
    with socketserver.ThreadingTCPServer((address, port), Handler) as server:
        server.serve_forever()


def _carry(source: socket.socket, target: socket.socket) -> None:
    """All that comes from one, to the other; its end, too."""
    with contextlib.suppress(OSError):
        while data := source.recv(CHUNK):
            target.sendall(data)
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_WR)
