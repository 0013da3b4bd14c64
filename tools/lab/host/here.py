"""--host: run CMD on this very host, if it has a usable RDMA device."""

import glob
import os
import signal
import subprocess

from . import job
from .errors import EXIT_TIMEOUT, LabError


def usable_devices():
    found = []
    for path in glob.glob("/sys/class/infiniband/*/ports/*/state"):
        with open(path) as f:
            if "ACTIVE" in f.read():
                found.append(path.split("/")[4])
    return found


def run(opt, cmd):
    if not usable_devices():
        raise LabError("this host has no RDMA device with an active port (leave --host out to use a VM)")
    text = job.plugin_exports(opt) + "".join(
        f"export {job.quote(e)}\n" for e in opt.env if "=" in e) + 'exec "$@"\n'
    tie = ["setpriv", "--pdeathsig", "KILL", "--"]      # it shall not outlive us
    if opt.shell:
        return code_of(subprocess.call([*tie, "sh", "-c", text, "sh", *cmd]))
    child = subprocess.Popen([*tie, "sh", "-c", text, "sh", *cmd], stdin=subprocess.DEVNULL,
                             start_new_session=True)
    try:
        return code_of(child.wait(opt.timeout or None))
    except subprocess.TimeoutExpired:
        raise LabError(f"time limit of {opt.timeout:g} s reached", EXIT_TIMEOUT) from None
    finally:
        try:
            os.killpg(child.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass


def code_of(status):
    return status if status >= 0 else 128 - status
