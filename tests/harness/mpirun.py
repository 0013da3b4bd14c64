"""How the tests call mpirun, and end it."""

import contextlib
import os
import signal
import subprocess

END_S = 5  # for mpirun to take its ranks along


def mpirun(mca=()):
    """The beginning of a command: jobs over weir alone, which says what leaked; on all nodes of a lab."""
    command = ["mpirun", "--oversubscribe", "--bind-to", "none", "--mca", "pml", "ob1", "--mca", "btl", "weir,self",
               "--mca", "btl_weir_check_leaks", "on"]
    if "LAB_HOSTFILE" in os.environ:
        command += ["--hostfile", os.environ["LAB_HOSTFILE"], "--map-by", "node"]
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
