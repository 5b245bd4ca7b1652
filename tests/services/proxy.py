"""A proxy between the command under test and a server: adds latency, drops connections in mid-body, refuses by rule, and counts.

It speaks HTTP/1.1 over plain TCP, as far as object stores need it: requests with a length or chunked, answers with a length, chunked or
until the connection closes. It runs in a thread of the test.
"""

import asyncio
import collections
import re
import threading
import time
import xml.sax.saxutils
from dataclasses import dataclass, field
from urllib.parse import parse_qs, unquote, urlsplit

REASONS = {403: "Forbidden", 404: "Not Found", 429: "Too Many Requests", 500: "Internal Server Error", 503: "Slow Down"}
CODES = {403: "AccessDenied", 404: "NoSuchKey", 429: "TooManyRequests", 500: "InternalError", 503: "SlowDown"}


@dataclass
class Rule:
    """What happens to the requests that match, `times` times (None: always)."""

    method: str = ".*"
    path: str = ".*"
    status: int | None = None
    drop_after: int | None = None
    """Bytes of the answer's body after which the connection is cut."""
    hang: bool = False
    """The request is never answered."""
    hold: bool = False
    """The request waits until `times` is 0, and is passed on then."""
    times: int | None = None
    hits: int = 0

    def matches(self, method, path):
        if self.times is not None and self.hits >= self.times:
            return False
        return bool(re.fullmatch(self.method, method) and re.search(self.path, path))


@dataclass
class Seen:
    method: str
    path: str
    query: dict
    status: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    headers: dict = field(default_factory=dict)
    start: float = field(default_factory=time.monotonic)

    @property
    def kind(self):
        """GET, PUT, HEAD, LIST, POST or DELETE."""
        return "LIST" if self.method == "GET" and ("list-type" in self.query or "delimiter" in self.query) else self.method


class FaultProxy:
    """`with FaultProxy(server_url) as proxy: ... proxy.url ...`"""

    def __init__(self, upstream, latency=0.0, bandwidth=None):
        parts = urlsplit(upstream)
        self.upstream = (parts.hostname, parts.port)
        self.latency, self.bandwidth = latency, bandwidth
        self.rules, self.seen = [], []
        self.active = self.most_active = 0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def __enter__(self):
        self._thread.start()
        start = asyncio.start_server(self._serve, "127.0.0.1", 0, limit=1 << 20)
        self._server = asyncio.run_coroutine_threadsafe(start, self._loop).result(10)
        self.port = self._server.sockets[0].getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        return self

    def __exit__(self, *_):
        async def stop():
            self._server.close()
            for task in asyncio.all_tasks():
                if task is not asyncio.current_task():
                    task.cancel()

        asyncio.run_coroutine_threadsafe(stop(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)

    def rule(self, **options):
        self.rules.append(Rule(**options))
        return self.rules[-1]

    def reset(self):
        self.rules.clear()
        self.seen.clear()
        self.most_active = 0

    def counts(self, path=""):
        """Requests by kind whose path contains `path`; refused ones are left out, as are those whose answer was cut."""
        return collections.Counter(s.kind for s in list(self.seen) if path in s.path and s.status < 400)

    async def _serve(self, reader, writer):
        try:
            while await self._one(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    async def _head(self, reader):
        lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        headers = {}
        for line in lines[1:]:
            if ":" in line:
                key, value = line.split(":", 1)
                headers[key.strip().lower()] = value.strip()
        return lines[0], headers

    async def _body(self, reader, headers, sink):
        """Pass a body on piece by piece; `sink` gets its bytes as they are on the wire."""
        if "chunked" in headers.get("transfer-encoding", "").lower():
            while True:
                line = await reader.readline()
                size = int(line.split(b";")[0], 16)
                await sink(line + await reader.readexactly(size + 2), size)
                if size == 0:
                    return
        left = int(headers.get("content-length", 0))
        while left:
            piece = await reader.read(min(left, 1 << 16))
            if not piece:
                raise ConnectionError
            left -= len(piece)
            await sink(piece, len(piece))

    async def _one(self, reader, writer):
        try:
            line, headers = await self._head(reader)
        except asyncio.IncompleteReadError:
            return False
        method, target, _ = line.split(" ", 2)
        parts = urlsplit(target)
        seen = Seen(method, unquote(parts.path), parse_qs(parts.query, keep_blank_values=True), headers=headers)
        self.seen.append(seen)
        body = []

        async def keep(data, n):
            body.append(data)
            seen.bytes_in += n

        if headers.get("expect", "").lower() == "100-continue":
            writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        await self._body(reader, headers, keep)
        self.active += 1
        self.most_active = max(self.most_active, self.active)
        try:
            if self.latency:
                await asyncio.sleep(self.latency)
            rule = next((r for r in self.rules if r.matches(method, seen.path)), None)
            if rule:
                rule.hits += 1
            if rule and rule.hang:
                await asyncio.sleep(3600)
            while rule and rule.hold and rule.times != 0:
                await asyncio.sleep(0.02)
            if rule and rule.status:
                return await self._refuse(writer, seen, rule.status)
            return await self._pass_on(line, headers, body, writer, seen, rule.drop_after if rule else None)
        finally:
            self.active -= 1

    async def _refuse(self, writer, seen, status):
        seen.status = status
        code, path = CODES.get(status, "Error"), xml.sax.saxutils.escape(seen.path)
        text = f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>refused by rule</Message><Resource>{path}</Resource></Error>"
        data = b"" if seen.method == "HEAD" else text.encode()
        head = f"HTTP/1.1 {status} {REASONS.get(status, 'Error')}\r\nContent-Type: application/xml\r\nContent-Length: {len(data)}\r\n\r\n"
        writer.write(head.encode() + data)
        await writer.drain()
        return True

    async def _pass_on(self, line, headers, body, writer, seen, drop_after):
        up_reader, up_writer = await asyncio.open_connection(*self.upstream, limit=1 << 20)
        try:
            # The host stays as the client wrote it: it is part of the signature.
            lines = [line] + [f"{k}: {v}" for k, v in headers.items() if k not in ("connection", "expect")] + ["connection: close"]
            up_writer.write(("\r\n".join(lines) + "\r\n\r\n").encode("latin-1") + b"".join(body))
            await up_writer.drain()
            status, answer = await self._head(up_reader)
            seen.status = int(status.split(" ")[1])
            bare = seen.method == "HEAD" or seen.status in (204, 304)
            until_close = not bare and "content-length" not in answer and "chunked" not in answer.get("transfer-encoding", "")
            kept = [f"{k}: {v}" for k, v in answer.items() if k != "connection"]
            if until_close:
                kept.append("connection: close")
            writer.write(("\r\n".join([status, *kept]) + "\r\n\r\n").encode("latin-1"))

            async def send(data, n):
                if drop_after is not None and seen.bytes_out + n > drop_after:
                    seen.status = 599
                    writer.write(data[: max(0, drop_after - seen.bytes_out)])
                    await writer.drain()
                    writer.transport.abort()
                    raise ConnectionError
                seen.bytes_out += n
                if self.bandwidth:
                    await asyncio.sleep(n / self.bandwidth)
                writer.write(data)
                await writer.drain()

            if until_close:
                while piece := await up_reader.read(1 << 16):
                    await send(piece, len(piece))
            elif not bare:
                await self._body(up_reader, answer, send)
            await writer.drain()
            return not until_close
        finally:
            up_writer.close()
