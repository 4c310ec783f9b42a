"""A small iSCSI initiator (RFC 7143): logs in from an address of its own, and gives SCSI commands, one at a
time. A block has 512 bytes."""

from __future__ import annotations

import asyncio
import struct

LOGIN, COMMAND = 0x03, 0x01
LOGGED_IN, RESPONSE, DATA_IN = 0x23, 0x21, 0x25


class Refused(Exception):
    """The target does not let it in, or has closed its connection."""


class Initiator:
    """A session with one target."""

    def __init__(self, name: str, address: str) -> None:
        self.name = name
        self._address = address
        self._tag = 0
        self._serial = 1
        self._reader: asyncio.StreamReader
        self._writer: asyncio.StreamWriter | None = None

    async def login(self, target: str, portal: str, port: int) -> None:
        """Raises Refused."""
        try:
            self._reader, self._writer = await asyncio.open_connection(
                portal, port, local_addr=(self._address, 0)
            )
            keys = {
                "InitiatorName": self.name,
                "TargetName": target,
                "SessionType": "Normal",
                "AuthMethod": "None",
                "HeaderDigest": "None",
                "DataDigest": "None",
                "ImmediateData": "Yes",
                "InitialR2T": "Yes",
            }
            text = b"".join(f"{key}={value}\0".encode() for key, value in keys.items())
            # From the operational stage at once into the full feature phase.
            head = struct.pack(
                ">BBBB4s6sHIHHII16x",
                0x40 | LOGIN,
                0x87,
                0,
                0,
                _length(text),
                b"\x80" + bytes(4) + b"\1",
                0,
                1,
                0,
                0,
                1,
                0,
            )
            await self._send(head, text)
            answer, _ = await self._receive()
        except (OSError, asyncio.IncompleteReadError) as error:
            raise Refused(str(error)) from error
        if answer[0] & 0x3F != LOGGED_IN or answer[36] != 0:
            raise Refused(f"login status {answer[36]}.{answer[37]}")

    async def write(self, block: int, data: bytes) -> int:
        """Its SCSI status. Raises Refused."""
        return (await self.command(struct.pack(">BBIBHB", 0x2A, 0, block, 0, 1, 0), data=data))[0]

    async def command(self, cdb: bytes, data: bytes = b"", expected: int = 0) -> tuple[int, bytes]:
        """SCSI status, and what was read. Raises Refused."""
        self._tag += 1
        flags = 0x81 | (0x20 if data else 0) | (0x40 if expected else 0)
        head = struct.pack(
            ">BBHB3sQIIII16s",
            *(COMMAND, flags, 0, 0, _length(data)[1:], 1 << 48, self._tag, len(data) or expected),
            *(self._serial, 1, cdb.ljust(16, b"\0")),
        )
        self._serial += 1
        try:
            await self._send(head, data)
            read = b""
            while True:
                answer, part = await self._receive()
                kind = answer[0] & 0x3F
                read += part if kind == DATA_IN else b""
                if kind == RESPONSE or (kind == DATA_IN and answer[1] & 1):
                    return answer[3], read
        except (OSError, asyncio.IncompleteReadError) as error:
            raise Refused(str(error)) from error

    async def _send(self, head: bytes, data: bytes) -> None:
        assert self._writer is not None and len(head) == 48, len(head)
        self._writer.write(head + data + bytes(-len(data) % 4))
        await self._writer.drain()

    async def _receive(self) -> tuple[bytes, bytes]:
        head = await self._reader.readexactly(48)
        length = int.from_bytes(head[5:8], "big")
        data = await self._reader.readexactly(head[4] * 4 + length + -length % 4)
        return head, data[head[4] * 4 :][:length]

    def close(self) -> None:
        """Ends its connection."""
        if self._writer is not None:
            self._writer.transport.abort()


def _length(data: bytes) -> bytes:
    """No additional header, and the length of what follows."""
    return len(data).to_bytes(4, "big")
