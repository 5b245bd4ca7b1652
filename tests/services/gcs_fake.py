"""A fake, not a server of Google: the few requests of the XML API of Cloud Storage that reading and writing chunks takes.

No server of that API can be had for tests. What is here follows its public reference ("Cloud Storage XML API"), answers in memory, and
checks no signatures; so it shows that URLs, options, ranges and listings work, and nothing about Google's own behaviour.
"""

import hashlib
import http.server
import re
import threading
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

STAMP = "2026-01-01T00:00:00.000Z"


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
            self.wfile.write(data)

    def _refuse(self, status, code):
        self._answer(status, f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>{code}</Message></Error>".encode())

    def _serve(self):
        parts = urlsplit(self.path)
        bucket, _, key = unquote(parts.path).lstrip("/").partition("/")
        query = {k: v[0] for k, v in parse_qs(parts.query, keep_blank_values=True).items()}
        data = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        objects = self.server.buckets.get(bucket)
        if objects is None:
            return self._refuse(404, "NoSuchBucket")
        with self.server.lock:
            if not key:
                return self._list(objects, query)
            if self.command == "PUT":
                objects[key] = data
                return self._answer(200, b"", self._stamp(data))
            if key not in objects:
                return self._refuse(404, "NoSuchKey")
            if self.command == "DELETE":
                del objects[key]
                return self._answer(204)
            data = objects[key]
        wanted = re.fullmatch(r"bytes=(\d*)-(\d*)", self.headers.get("Range") or "")
        if not wanted:
            return self._answer(200, data, self._stamp(data))
        first, last = wanted.groups()
        start = int(first) if first else max(0, len(data) - int(last))
        end = min(int(last) + 1, len(data)) if first and last else len(data)
        return self._answer(206, data[start:end], [*self._stamp(data), ("Content-Range", f"bytes {start}-{end - 1}/{len(data)}")])

    def _stamp(self, data):
        return [("ETag", f'"{hashlib.md5(data).hexdigest()}"'), ("Last-Modified", self.date_time_string(0)), ("x-goog-generation", "1")]

    def _list(self, objects, query):
        """Pages of at most 100 entries, so that paging is used."""
        prefix, delimiter, after = query.get("prefix", ""), query.get("delimiter", ""), query.get("continuation-token", "")
        entries = {}
        for key in sorted(k for k in objects if k.startswith(prefix)):
            rest = key[len(prefix) :]
            folder = prefix + rest.split(delimiter)[0] + delimiter if delimiter and delimiter in rest else None
            entries[folder or key] = None if folder else objects[key]
        names = [n for n in entries if n > after]
        page, more = names[:100], len(names) > 100
        text = "".join(
            f"<CommonPrefixes><Prefix>{escape(n)}</Prefix></CommonPrefixes>"
            if entries[n] is None
            else f"<Contents><Key>{escape(n)}</Key><LastModified>{STAMP}</LastModified><ETag>\"e\"</ETag><Size>{len(entries[n])}</Size></Contents>"
            for n in page
        )
        token = f"<NextContinuationToken>{escape(page[-1])}</NextContinuationToken>" if more else ""
        head = f"<IsTruncated>{str(more).lower()}</IsTruncated>{token}"
        self._answer(200, f"<?xml version='1.0'?><ListBucketResult>{head}{text}</ListBucketResult>".encode())

    do_GET = do_PUT = do_HEAD = do_DELETE = _serve


class GcsFake:
    """`with GcsFake("bucket") as fake: ... fake.url, fake.env ...`"""

    def __init__(self, *buckets):
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.server.lock = threading.Lock()
        self.server.buckets = self.buckets = {name: {} for name in buckets}
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    @property
    def env(self):
        return {"GOOGLE_BASE_URL": self.url, "GOOGLE_BEARER_TOKEN": "fake", "GOOGLE_ALLOW_HTTP": "true"}

    def __enter__(self):
        self._thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()
        self._thread.join(10)
