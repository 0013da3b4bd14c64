"""What a test left behind in the guest: processes, and segments in /dev/shm."""

import contextlib
import glob
import os
import shutil
import signal
import time


kept = None  # whoever needs what is there for the next test, too


def keep(whose):
    global kept
    kept = whose


def processes():
    """Those that run programs: the kernel's have none."""
    found = set()
    for entry in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            os.readlink(f"/proc/{entry}/exe")
            found.add(int(entry))
    return found


def sweep(before):
    """Ends what was not there before, after a moment in which it may go by itself."""
    if kept is not None:
        return
    deadline = time.monotonic() + 1
    while (left := processes() - before) and time.monotonic() < deadline:
        time.sleep(0.02)
    for pid in left:
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)
    while processes() & left and time.monotonic() < deadline + 10:
        time.sleep(0.02)
    for path in glob.glob("/dev/shm/*"):
        with contextlib.suppress(OSError):
            shutil.rmtree(path) if os.path.isdir(path) else os.unlink(path)
