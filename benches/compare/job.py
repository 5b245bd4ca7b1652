"""What the harness and the peers' programs share: a job, which is one workload over one set of files.

Imports nothing heavy, because peers pay for what they import.
"""

import dataclasses
import importlib
import importlib.util
import json
import pathlib
import shutil

HERE = pathlib.Path(__file__).resolve().parent
EXAMPLES = HERE.parent.parent / "examples" / "workloads"
LZ4 = {"cname": "lz4", "clevel": 5, "shuffle": "shuffle"}


@dataclasses.dataclass
class Job:
    """One workload: where its files are, and what every peer has to keep to."""

    workload: str
    compressed: bool  # inputs and outputs in blosc-lz4 chunks; otherwise both uncompressed
    gigabytes: float  # size of the inputs, decoded
    threads: int
    allowed_mem: int  # what Chunkwise may use altogether, and Cubed in each worker
    folder: pathlib.Path
    variant: str = ""  # of a peer, such as the executor
    tools: str = ""  # folder of commands that were built for the comparison

    @property
    def name(self):
        return self.workload + (" lz4" if self.compressed else "")

    @property
    def module(self):
        return importlib.import_module(f"workloads.{self.workload}")

    @property
    def data(self):
        return self.folder / "data" / f"{self.workload}.zarr"

    @property
    def out(self):
        return self.folder / "out"

    @property
    def work(self):
        return self.folder / "work"

    def save(self):
        path = self.folder / "job.json"
        text = json.dumps(dataclasses.asdict(self), default=str)
        path.write_text(text)
        return path

    @classmethod
    def load(cls, path):
        fields = json.loads(pathlib.Path(path).read_text())
        return cls(**{**fields, "folder": pathlib.Path(fields["folder"])})

    # Reading, for peers that use zarr-python.

    def source(self, name):
        import zarr

        return zarr.open_array(str(self.data / name), mode="r")

    # Writing. The outputs' shapes, chunks and dtypes are those of the workload, for every peer.

    def outputs(self):
        return self.module.outputs(self)

    def target(self, name):
        """A new zarr-python array for output `name`."""
        import zarr
        from zarr.codecs import BloscCodec

        shape, chunks, dtype = self.outputs()[name]
        compressors = BloscCodec(**LZ4) if self.compressed else None
        path = str(self.out / name)
        return zarr.create_array(path, shape=shape, chunks=chunks, dtype=dtype, compressors=compressors)

    def targets(self, names=None):
        return [self.target(name) for name in names or self.outputs()]

    # Making inputs.

    def store(self):
        """A writer of random arrays, the one that makes the inputs of the examples."""
        shutil.rmtree(self.data, ignore_errors=True)
        self.data.parent.mkdir(parents=True, exist_ok=True)
        return generator().Store(self.data, 0, self.compressed)

    def steps(self, step_bytes, least=1):
        return max(least, round(self.gigabytes * getattr(self.module, "SIZE", 1.0) * 1e9 / step_bytes))

    @property
    def shrink(self):
        """For workloads of a fixed size: 1, or less if fewer gigabytes than 1 were asked for."""
        return min(1.0, self.gigabytes)


def generator():
    """The module `examples/workloads/generate.py`."""
    spec = importlib.util.spec_from_file_location("generate", EXAMPLES / "generate.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def example(name):
    """Inputs and arrays of `examples/workloads/NAME.yaml`: {array: expression}, {output: expression}."""
    import yaml

    file = yaml.safe_load((EXAMPLES / f"{name}.yaml").read_text())
    outputs = {url.rsplit("/", 1)[1]: o["array"] if isinstance(o, dict) else o for url, o in file["outputs"].items()}
    return {"inputs": list(file["inputs"]), "arrays": file.get("arrays", {}), "outputs": outputs}


def pipeline(job):
    """The text of the workload's pipeline file, as JSON, over the job's files."""
    parts = job.module.pipeline(job)
    codec = "lz4" if job.compressed else "none"
    outputs = {}
    for name, (_, chunks, _) in job.outputs().items():
        outputs[str(job.out / name)] = {"array": parts["outputs"][name], "codec": codec}
        if chunks:
            outputs[str(job.out / name)]["chunks"] = {str(axis): length for axis, length in enumerate(chunks)}
    inputs = {name: str(job.data / name) for name in parts["inputs"]}
    document = {"inputs": inputs, "arrays": parts["arrays"], "outputs": outputs}
    return json.dumps({key: value for key, value in document.items() if value}, indent=1)
