"""The directory of one run: sockets, the job, the console log."""

import fcntl
import os
import shutil
import tempfile

_run_lock = None


def make():
    """Its lock is held while we live, so that a later
    run can tell, and remove, what a killed one left."""
    global _run_lock
    top = tempfile.gettempdir()
    prefix = f"weir-lab-{os.getuid()}."
    for name in os.listdir(top):
        path = os.path.join(top, name)
        try:
            if name.startswith(prefix) and os.stat(path).st_uid == os.getuid():
                with open(os.path.join(path, "lock")) as f:
                    fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(path, ignore_errors=True)
        except OSError:
            pass
    path = tempfile.mkdtemp(prefix="weir-lab-new-")
    _run_lock = open(os.path.join(path, "lock"), "w")
    fcntl.flock(_run_lock, fcntl.LOCK_EX)
    locked = os.path.join(top, prefix + path[-8:])      # only now may others look at it
    os.rename(path, locked)
    return locked
