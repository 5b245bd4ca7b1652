"""A Slurm of one node: real munged, slurmctld and slurmd, on free ports and in a folder of their own."""

import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time

from .servers import MissingService, free_port

HOW = "as root: apt-get install -y --no-install-recommends slurm-wlm munge"
PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "scontrol", "scancel")

CONF = """
ClusterName=chunkwise
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ctld}
SlurmdPort={slurmd}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
ProctrackType=proctrack/cgroup
TaskPlugin=task/cgroup
JobAcctGatherType=jobacct_gather/cgroup
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
MpiDefault=none
ReturnToService=2
SwitchType=switch/none
KillWait=5
MaxArraySize=21
SlurmdParameters=config_overrides
SchedulerParameters=sched_min_interval=0,sched_interval=1,batch_sched_delay=0
NodeName={host} NodeAddr=127.0.0.1 CPUs=8 RealMemory=8000 State=UNKNOWN
PartitionName=main Nodes={host} Default=YES MaxTime=INFINITE State=UP
"""
CGROUP = """
CgroupPlugin=cgroup/v1
CgroupMountpoint=/sys/fs/cgroup
CgroupAutomount=no
ConstrainRAMSpace=yes
MinRAMSpace=4
"""


MEMORY = pathlib.Path("/sys/fs/cgroup/memory")


class Slurm:
    """`with Slurm() as slurm: ... slurm.env ...`"""

    def __init__(self):
        self.processes = []

    def __enter__(self):
        if missing := [p for p in PROGRAMS if not self._find(p)]:
            self._install(missing)
        if not os.access(MEMORY, os.W_OK):
            raise MissingService(f"{MEMORY} is not there or not writable: this Slurm holds jobs to their memory by cgroups of version 1, as root")
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="slurm-", dir="/tmp"))
        self.folder.chmod(0o755)
        for name in ("state", "spool"):
            (self.folder / name).mkdir()
        host = os.uname().nodename.split(".")[0]
        text = CONF.format(host=host, folder=self.folder, ctld=free_port(), slurmd=free_port())
        (self.folder / "slurm.conf").write_text(text)
        (self.folder / "cgroup.conf").write_text(CGROUP)
        (self.folder / "munge.key").write_bytes(os.urandom(128))
        (self.folder / "munge.key").chmod(0o600)
        self.env = {"SLURM_CONF": str(self.folder / "slurm.conf"), "PATH": os.environ["PATH"] + ":/usr/sbin"}
        try:
            self._start()
        except BaseException:
            self.__exit__()
            raise
        return self

    @staticmethod
    def _find(program):
        return shutil.which(program, path=os.environ["PATH"] + ":/usr/sbin:/sbin")

    @staticmethod
    def _install(missing):
        quiet = {"stdin": subprocess.DEVNULL, "capture_output": True, "text": True, "env": {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}}
        try:
            subprocess.run(["apt-get", "update", "-qq"], **quiet)
            done = subprocess.run(["apt-get", "install", "-y", "-qq", "--no-install-recommends", "slurm-wlm", "munge"], **quiet)
            problem = done.stderr.strip()[-300:] if done.returncode else ""
        except OSError as error:
            problem = str(error)
        if problem:
            raise MissingService(f"Slurm ({', '.join(missing)}) is not installed and cannot be ({problem}): {HOW}")

    def _run(self, name, *args):
        log = open(self.folder / f"{name}.out", "wb")
        command = [self._find(name), *args]
        self.processes.append(
            subprocess.Popen(command, env={**os.environ, **self.env}, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, start_new_session=True)
        )
        log.close()

    def _start(self):
        f, conf = self.folder, self.env["SLURM_CONF"]
        # munged refuses folders that others may write, as /tmp is, unless forced.
        self._run(
            "munged", "--force", "--foreground", f"--socket={f}/munge.socket", f"--key-file={f}/munge.key", f"--pid-file={f}/munged.pid",
            f"--log-file={f}/munged.log", f"--seed-file={f}/munge.seed", "--num-threads=2",
        )  # fmt: skip
        self._until(lambda: (f / "munge.socket").exists(), "munged")
        self._run("slurmctld", "-D", "-f", conf)
        self._run("slurmd", "-D", "-f", conf)
        self._until(lambda: "idle" in self.command("sinfo", "-h", "-o", "%T", check=False), "slurmctld and slurmd")

    def _until(self, there, what, seconds=60):
        end = time.monotonic() + seconds
        while time.monotonic() < end and all(p.poll() is None for p in self.processes):
            if there():
                return
            time.sleep(0.1)
        logs = "\n".join(f"{p.name}: {p.read_text(errors='replace')[-1500:]}" for p in sorted(self.folder.glob("*.log")) + sorted(self.folder.glob("*.out")))
        raise RuntimeError(f"{what} did not start ({HOW})\n{logs}")

    def command(self, *args, check=True):
        done = subprocess.run(args, env={**os.environ, **self.env}, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=20)
        if check:
            assert done.returncode == 0, done.stderr
        return done.stdout

    def jobs(self):
        """The states of all jobs that are waiting or running."""
        return self.command("squeue", "-h", "-r", "-o", "%F_%K %T").split("\n")[:-1]

    def __exit__(self, *_):
        if len(self.processes) > 1:
            try:
                self.command("scancel", "--full", "-u", "root", check=False)
            except subprocess.TimeoutExpired:
                pass
        for process in reversed(self.processes):
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
                try:
                    process.wait(10)
                except subprocess.TimeoutExpired:
                    os.killpg(process.pid, signal.SIGKILL)
                    process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)
