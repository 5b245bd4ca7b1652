"""A web server over a folder, with byte ranges and without listings: what a static host of Zarr data is."""

import http.server
import pathlib
import re
import threading
from urllib.parse import unquote, urlsplit


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def _answer(self, status, data=b"", headers=()):
        self.send_response(status)
        for key, value in headers:
            self.send_header(key, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            try:
                self.wfile.write(data)
            except ConnectionError:
                # The client had enough.
                self.close_connection = True

    def do_GET(self):
        server = self.server
        path = (server.root / unquote(urlsplit(self.path).path).lstrip("/")).resolve()
        server.requests.append((self.command, self.path, self.headers.get("Range")))
        if not path.is_relative_to(server.root) or not path.is_file():
            return self._answer(404, b"not here")
        data = path.read_bytes()
        stamp = [("Last-Modified", self.date_time_string(int(path.stat().st_mtime)))]
        if server.etags:
            stamp.append(("ETag", f'"{path.stat().st_mtime_ns:x}-{len(data):x}"'))
        wanted = re.fullmatch(r"bytes=(\d*)-(\d*)", self.headers.get("Range") or "")
        if not wanted or not server.ranges:
            return self._answer(200, data, stamp)
        first, last = wanted.groups()
        start = int(first) if first else max(0, len(data) - int(last))
        end = min(int(last) + 1, len(data)) if first and last else len(data)
        if start >= end:
            return self._answer(416, b"", [("Content-Range", f"bytes */{len(data)}")])
        return self._answer(206, data[start:end], [*stamp, ("Content-Range", f"bytes {start}-{end - 1}/{len(data)}")])

    do_HEAD = do_GET


class WebServer:
    """`with WebServer(folder) as web: ... web.url ...`"""

    def __init__(self, root, ranges=True, etags=True):
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.server.root, self.server.ranges, self.server.etags = pathlib.Path(root).resolve(), ranges, etags
        self.server.requests = self.requests = []
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def __enter__(self):
        self._thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()
        self._thread.join(10)
