"""A foreign server: a process that writes down whoever connects to it, and with what."""

import http.server
import pathlib
import subprocess
import sys
import time


class Recorder:
    """`with Recorder(folder) as recorder: ... recorder.url ... recorder.seen()`"""

    def __init__(self, folder):
        self.log = pathlib.Path(folder) / "recorded.txt"

    def __enter__(self):
        self.log.write_text("")
        self.process = subprocess.Popen([sys.executable, __file__, str(self.log)], stdout=subprocess.PIPE, text=True)
        self.port = int(self.process.stdout.readline())
        self.host = f"127.0.0.1:{self.port}"
        self.url = f"http://{self.host}"
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(10)
        self.process.stdout.close()

    def seen(self):
        """What arrived so far, as text. A connection without a request counts."""
        time.sleep(0.1)
        return self.log.read_text()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def setup(self):
        super().setup()
        self._write("connection\n")

    def _write(self, text):
        with open(self.server.path, "a") as log:
            log.write(text)

    def log_message(self, *_):
        pass

    def do_GET(self):
        self._write(f"{self.command} {self.path}\n{self.headers}\n")
        self.send_response(404)
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_HEAD = do_PUT = do_POST = do_DELETE = do_GET


if __name__ == "__main__":
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.path = sys.argv[1]
    print(server.server_port, flush=True)
    server.serve_forever()
