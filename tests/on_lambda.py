"""Runs of the plan of `prepare` whose tasks are done by a function."""

from faults import Run, prepare
from services.servers import stored, upload

BUCKET = "functions"


class Case:
    """A run of the plan of `prepare` with everything in the bucket, in a folder of its own."""

    def __init__(self, aws, store, folder, name, single=False, retries=None, side=None):
        self.store, self.prefix = store, name
        self.url = f"s3://{BUCKET}/{name}"
        source = f"s3://{BUCKET}/in.zarr"
        if side:
            (folder / "own").mkdir()
            prepare(folder / "own", count=4, side=side)
            upload(store, folder / "own/in.zarr", f"{name}/in.zarr")
            source = f"{self.url}/in.zarr"
        spec = {"work_dir": f"{self.url}/work"}
        if retries is not None:
            spec["storage"] = {f"s3://{BUCKET}": {"retries": retries}}
        options = {"spec": spec, "source": source, "target": f"{self.url}/out.zarr"}
        self.plan = prepare(folder, **options, env=aws.env, single=single)

    def run(self, function, *args, env=None, options=(), resume=False, report=False):
        given = [w for o in ["concurrency=4", *options] for w in ("--executor-option", o)]
        # With a report nothing else is said.
        more = [*(["--resume"] if resume else []), *(["--json"] if report else []), *args]
        command = ["run", self.plan, "--executor", "lambda", "--function", function.name, *given, *more]
        return Run(*command, env={**function.env, **(env or {})})

    def same(self, reference):
        """The outputs are those of the reference, and no intermediate is left."""
        out = stored(self.store, f"{self.prefix}/out.zarr")
        assert out == reference, sorted(set(out) ^ set(reference))
        left = [p for p in stored(self.store, f"{self.prefix}/work") if "/c/" in p or p.endswith(".lock")]
        assert not left, f"left in the work directory: {left}"

    def nothing_published(self):
        published = [p for p in stored(self.store, f"{self.prefix}/out.zarr") if p.endswith("zarr.json") and p != "zarr.json"]
        assert not published, f"half of the outputs are published: {published}"
