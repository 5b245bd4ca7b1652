"""What the fake APIs share: HTTP in a thread of the test, a list of what was asked, and faults by rule."""

import http.server
import json
import re
import threading
import time
import urllib.parse
from dataclasses import dataclass


@dataclass
class Fault:
    """What happens to the requests that match, `times` times (None: always)."""

    match: str
    """A pattern of `METHOD /path`."""
    status: int | None = None
    lost: bool = False
    """The request is carried out, and the connection closed instead of an answer."""
    times: int | None = None
    hits: int = 0

    def applies(self, what):
        return (self.times is None or self.hits < self.times) and re.search(self.match, what) is not None


class Refused(Exception):
    """An error that the API answers with."""

    def __init__(self, status, reason, message):
        super().__init__(message)
        self.status, self.reason, self.message = status, reason, message


class Api:
    """`with Api() as api: api.url`. Subclasses answer requests (`handle`), and do what the engine does by itself (`tick`)."""

    def __init__(self):
        self.lock = threading.RLock()
        self.faults, self.seen = [], []
        api = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def answer(self):
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                split = urllib.parse.urlsplit(self.path)
                what = f"{self.command} {split.path}"
                with api.lock:
                    api.seen.append(what)
                    fault = next((f for f in api.faults if f.applies(what)), None)
                    if fault:
                        fault.hits += 1
                    try:
                        if fault and fault.status:
                            raise Refused(fault.status, "Fault", "a fault of the test")
                        query = {k: v[-1] for k, v in urllib.parse.parse_qs(split.query).items()}
                        status, document, headers = api.handle(self.command, split.path, query, self.headers, body)
                    except Refused as error:
                        status, document, headers = api.refusal(error)
                if fault and fault.lost:
                    self.close_connection = True
                    return
                data = json.dumps(document).encode()
                self.send_response(status)
                for name, value in {"Content-Type": "application/json", "Content-Length": str(len(data)), **headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(data)

            do_GET = do_POST = do_DELETE = do_PATCH = do_PUT = answer

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def fault(self, match, **how):
        self.faults.append(Fault(match, **how))
        return self.faults[-1]

    def _ticks(self):
        while not self.over.wait(0.02):
            with self.lock:
                self.tick()

    def __enter__(self):
        self.over = threading.Event()
        self.threads = [threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True), threading.Thread(target=self._ticks, daemon=True)]
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.server.shutdown()
        self.server.server_close()
        for thread in self.threads:
            thread.join(10)
        self.close()

    def until(self, there, seconds=30):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            with self.lock:
                if value := there():
                    return value
            time.sleep(0.02)
        raise AssertionError("it did not come to that")
