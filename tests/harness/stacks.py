"""Where the threads of what does not end are: a hang may come once in a hundred runs."""

import glob
import subprocess

LIMIT_S = 20  # of one process, on a slow machine
FRAMES = 24


def stacks(leader):
    """Of all processes of its session, which its leader began: each thread's functions, and the kernel's where it
    waits there."""
    found = subprocess.run(["ps", "-o", "pid=", "-s", str(leader)], capture_output=True, text=True, check=False)
    return "".join(map(of_process, found.stdout.split()))


def of_process(pid):
    try:
        told = subprocess.run(["eu-stack", "-n", str(FRAMES), "-p", pid], capture_output=True, text=True, check=False,
                              timeout=LIMIT_S).stdout
        told += subprocess.run(["ps", "-L", "-o", "tid,stat,comm,wchan:24", "-p", pid], capture_output=True, text=True,
                               check=False, timeout=LIMIT_S).stdout
    except (OSError, subprocess.TimeoutExpired) as problem:
        return f"{problem}\n"
    for path in glob.glob(f"/proc/{pid}/task/*/stack"):
        try:
            with open(path) as file:
                told += f"{path}\n{file.read()}"
        except OSError:
            pass  # it has ended, or only root may read that
    return told
