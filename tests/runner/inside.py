#!/usr/bin/env python3
"""In the lab's guest: runs commands one after the other in one boot, each on its own.

    inside.py STEPS

STEPS is JSON, a list of objects: `command`, a list of words; `limit_s`; perhaps `user`, whose id to
take on, and `memlock`, the limit of locked memory in bytes. Standard output is theirs, with lines
between that begin with MARK: "begin I", and "end I CODE SECONDS" once the step is over. After a step
nothing of it is left: no process, no segment in /dev/shm. A step that does not end in time is the last
one, for nobody knows what it did to the guest.
"""

import contextlib
import glob
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import time

MARK = "\x1einside "
NO_END = 124  # in place of an exit code; what the lab and timeout(1) say


def tell(text):
    sys.stdout.write(f"{MARK}{text}\n")
    sys.stdout.flush()


def processes():
    """Those that run programs: the kernel's have none."""
    found = set()
    for entry in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            os.readlink(f"/proc/{entry}/exe")
            found.add(int(entry))
    return found


def take_on(step):
    """In the child: the limit first, for root alone may raise it."""
    def prepare():
        if step.get("memlock") is not None:
            resource.setrlimit(resource.RLIMIT_MEMLOCK, (step["memlock"],) * 2)
        if step.get("user") is not None:
            os.setgroups([])
            os.setresgid(step["group"], step["group"], step["group"])
            os.setresuid(step["user"], step["user"], step["user"])
    return prepare


def environment_of(step):
    if step.get("user") is None:
        return None
    home = "/tmp/home"
    os.makedirs(home, exist_ok=True)
    os.chown(home, step["user"], step["group"])
    return dict(os.environ, HOME=home, USER="user")


def run(step):
    """The exit code as a shell gives it, or NO_END."""
    child = subprocess.Popen(step["command"], stdin=subprocess.DEVNULL, stderr=subprocess.STDOUT,
                             start_new_session=True, preexec_fn=take_on(step),
                             env=environment_of(step))
    try:
        code = child.wait(step["limit_s"])
        return code if code >= 0 else 128 - code
    except subprocess.TimeoutExpired:
        for number, patience in ((signal.SIGTERM, 10), (signal.SIGKILL, 10)):
            with contextlib.suppress(OSError):
                os.killpg(child.pid, number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(patience)
                break
        return NO_END


def sweep(before):
    """Ends what a step left behind, after a moment in which it may go by itself."""
    deadline = time.monotonic() + 1
    while (left := processes() - before - {os.getpid()}) and time.monotonic() < deadline:
        time.sleep(0.02)
    for pid in left:
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)
    while processes() & left and time.monotonic() < deadline + 10:
        time.sleep(0.02)
    for path in glob.glob("/dev/shm/*"):
        with contextlib.suppress(OSError):
            shutil.rmtree(path) if os.path.isdir(path) else os.unlink(path)


def main():
    steps = json.loads(sys.argv[1])
    before = processes()
    for number, step in enumerate(steps):
        tell(f"begin {number}")
        start = time.monotonic()
        try:
            code = run(step)
        except (OSError, ValueError, subprocess.SubprocessError) as problem:
            print(f"cannot run {step['command'][0]}: {problem}", flush=True)
            code = 127
        took_s = time.monotonic() - start
        sweep(before)
        tell(f"end {number} {code} {took_s:.2f}")
        if code == NO_END:
            break
    return 0


if __name__ == "__main__":
    sys.exit(main())
