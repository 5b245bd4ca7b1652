"""Somebody with keys who runs pipelines, plans and stores of others."""

import json
import os

import numpy as np
from harness import chunkwise, write_array

# As in the documentation of the clouds: they look like keys and are none.
KEYS = {
    "AWS_ACCESS_KEY_ID": "AKIAIOSFODNN7EXAMPLE",
    "AWS_SECRET_ACCESS_KEY": "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
    "AWS_SESSION_TOKEN": "IQoJb3JpZ2luX2VjEXAMPLESESSIONTOKEN",
    "AWS_REGION": "eu-west-1",
    "AZURE_STORAGE_ACCOUNT_NAME": "victim",
    "AZURE_STORAGE_TOKEN": "eyJ0eXAiOiJKV1QiLCJhbGciOiJSUzI1NiJ9.EXAMPLE.BEARER",
    "GOOGLE_BEARER_TOKEN": "ya29.EXAMPLE-OAUTH-TOKEN",
}
X = np.arange(24, dtype="float64").reshape(4, 6)


class Victim:
    """A home with keys, an input, and a folder of the victim's own beside the pipeline."""

    def __init__(self, folder):
        self.folder, self.home, self.here = folder, folder / "home", folder / "project"
        (self.home / ".aws").mkdir(parents=True)
        (self.home / ".config/gcloud").mkdir(parents=True)
        key = f"aws_access_key_id = {KEYS['AWS_ACCESS_KEY_ID']}\naws_secret_access_key = {KEYS['AWS_SECRET_ACCESS_KEY']}\n"
        (self.home / ".aws/credentials").write_text(f"[default]\n{key}\n[admin]\n{key}aws_session_token = ADMINTOKENEXAMPLE\n")
        (self.home / "thesis.txt").write_text("years of work")
        self.here.mkdir()
        write_array(self.here / "in.zarr", X, (2, 6), ["time", "x"])
        clean = {k: "" for k in os.environ if k.startswith(("AWS_", "AZURE_", "GOOGLE_", "CHUNKWISE_")) and k != "CHUNKWISE_BIN"}
        self.env = {**clean, **KEYS, "HOME": str(self.home), "TMPDIR": str(folder)}

    def pipeline(self, spec=None, inputs=None, outputs=None, name="p.json"):
        document = {
            "inputs": inputs or {"x": "in.zarr"},
            "outputs": outputs or {"out.zarr": "x * 2"},
            "spec": {"work_dir": "work", **(spec or {})},
        }
        path = self.here / name
        path.write_text(json.dumps(document))
        return path

    def run(self, *args, **more):
        return chunkwise(*args, env={**self.env, **more})

    def files(self):
        """All files but the outputs and the work directory."""
        found = {}
        for path in sorted(self.folder.rglob("*")):
            inside = path.relative_to(self.folder).parts
            if path.is_file() and inside[:2] not in {("project", "work"), ("project", "out.zarr")} and inside[0] != "recorded.txt":
                # Of large ones, what tells that they were written.
                large = path.stat().st_size > 1_000_000
                found["/".join(inside)] = path.stat().st_mtime_ns if large else path.read_bytes()
        return found
