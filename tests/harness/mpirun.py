"""How the tests call mpirun, and what becomes of its processes."""

import contextlib
import os
import re
import signal
import subprocess
import tempfile
import time

from harness import strict
from harness.nodes import kill, marked, nodes

MARKER = "WEIR_TEST_JOB"  # in the environment of all that a job starts
END_S = 5  # for mpirun to take its ranks along
LEAK = re.compile(r"^.*\bweir: .*\b(?:leaked|has a bug)\b.*$", re.M)


def mpirun(mca=(), behind=(), watched=True):
    """The beginning of a command: jobs over weir alone, which says what leaked; on all nodes of a lab. `watched`:
    the rules of all adapters hold (harness/strict.py), with `behind` preloaded, too."""
    command = ["mpirun", "--oversubscribe", "--bind-to", "none", "--mca", "pml", "ob1", "--mca", "btl", "weir,self",
               "--mca", "btl_weir_check_leaks", "on"]
    if len(nodes()) > 1:
        command += ["--hostfile", os.environ["LAB_HOSTFILE"], "--map-by", "node", "-x", MARKER]
    for name, value in strict.environment(*behind).items() if watched else ():
        command += ["-x", f"{name}={value}"]
    for key, value in mca:
        command += ["--mca", key, str(value)]
    return command


def end(process):
    """First politely, so that it can stop remote ranks. It leads a group of its own, and may be stopped."""
    for number in signal.SIGTERM, signal.SIGKILL:
        with contextlib.suppress(OSError):
            os.killpg(process.pid, signal.SIGCONT)
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(END_S)
            return


class Mpirun:
    """One under way. `output`: a file, not a pipe, so that what is left of it does not keep us reading."""

    def __init__(self, command, output, cwd=None, env=()):
        self.mark = f"{os.getpid()}-{time.monotonic_ns()}"
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
                                        cwd=cwd, start_new_session=True,
                                        env={**os.environ, **dict(env), MARKER: self.mark})

    def is_over(self):
        return self.process.poll() is not None

    def processes(self):
        """[(node, pid, name)], wherever they were re-parented."""
        return marked(f"{MARKER}={self.mark}")

    def left_after(self, limit_s):
        """Its processes that do not go away by themselves."""
        deadline = time.monotonic() + limit_s
        while (left := self.processes()) and time.monotonic() < deadline:
            time.sleep(0.2)
        return left

    def kill(self):
        """All of it at once: nobody says goodbye."""
        found = self.processes()
        for node in nodes():
            kill(node, "-9", [pid for where, pid, _ in found if where == node])

    def clear_away(self):
        if not self.is_over():
            end(self.process)
        self.kill()


class Heard(Mpirun):
    """One whose output is read while it runs."""

    def __init__(self, command):
        self.output = tempfile.TemporaryFile()
        super().__init__(command, self.output)

    def text(self):
        """The job goes on writing where the file's position is, so reading must not move it: a seek
        to the start would let the next line overwrite the first one."""
        number = self.output.fileno()
        return os.pread(number, os.fstat(number).st_size, 0).decode(errors="replace")
