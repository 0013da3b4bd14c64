"""--host: run CMD on this very host, if it has a usable RDMA device."""

import glob
import os
import resource
import signal
import subprocess
import time

from . import job
from .errors import EXIT_TIMEOUT, LabError

# Of the lab's settings for mpirun those that hold anywhere.
OMPI = ("OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "OMPI_MCA_rmaps_base_oversubscribe",
        "PRTE_MCA_rmaps_default_mapping_policy")
STOP_SECONDS = 15


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
    given = {name: job.OMPI_DEFAULTS[name] for name in OMPI if name not in os.environ}
    tie = ["setpriv", "--pdeathsig", "KILL"]           # it shall not outlive us
    if opt.user and os.getuid() == 0:
        tie += ["--reuid", str(job.NOBODY), "--regid", str(job.NOBODY), "--clear-groups"]
        given.update(HOME="/nonexistent", USER="nobody")
    if opt.memlock:
        limit_memlock(opt.memlock)
    exports = [*(f"{name}={value}" for name, value in given.items()), *(e for e in opt.env if "=" in e)]
    text = job.plugin_exports(opt) + "".join(f"export {job.quote(e)}\n" for e in exports) + 'exec "$@"\n'
    command = [*tie, "--", "sh", "-c", text, "sh", *cmd]
    if opt.shell:
        return code_of(subprocess.call(command))
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True)
    try:
        return code_of(child.wait(opt.timeout or None))
    except subprocess.TimeoutExpired:
        raise LabError(f"time limit of {opt.timeout:g} s reached", EXIT_TIMEOUT) from None
    finally:
        stop(child)


def limit_memlock(text):
    """Of this process, for CMD inherits it."""
    limit = resource.RLIM_INFINITY if text == "unlimited" else int(text)
    try:
        resource.setrlimit(resource.RLIMIT_MEMLOCK, (limit, limit))
    except (OSError, OverflowError, ValueError) as e:
        raise LabError(f"cannot make {text} the limit of locked memory: {e}") from e


def stop(child):
    """mpirun's ranks are in groups of their own: only it can end them, and wants a moment for that.
    What CMD leaves behind when it ends by itself gets none."""
    if child.poll() is None:
        deadline = time.monotonic() + STOP_SECONDS
        signal_group(child, signal.SIGTERM)
        while signal_group(child, 0) and time.monotonic() < deadline:
            child.poll()                # a dead one that nobody waits for is still there
            time.sleep(0.05)
    signal_group(child, signal.SIGKILL)


def signal_group(child, number):
    """Whether anybody was there."""
    try:
        os.killpg(child.pid, number)
        return True
    except ProcessLookupError:
        return False


def code_of(status):
    return status if status >= 0 else 128 - status
