"""Under which conditions figures hold: machine, kernel, versions."""

import datetime
import os
import platform
import re
import shutil
import subprocess


def _first(words, pattern):
    """What the pattern's group finds in a command's output, or None."""
    if shutil.which(words[0]) is None:
        return None
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=30,
                              stdin=subprocess.DEVNULL, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(pattern, done.stdout + done.stderr)
    return found.group(1) if found else None


def _cpu_model():
    try:
        with open("/proc/cpuinfo") as lines:
            return re.search(r"^model name\s*: (.*)$", lines.read(), re.M).group(1)
    except (OSError, AttributeError):
        return platform.machine()


def of_guest():
    return {
        "kernel": platform.release(),
        "cpu": _cpu_model(),
        "cpus": os.cpu_count(),
        "openmpi": _first(["mpirun", "--version"], r"\(Open MPI\) (\S+)"),
        "ucx": _first(["dpkg-query", "-W", "-f", "${Version}", "libucx0"], r"([^-+]+)"),
        "mpich": _first(["dpkg-query", "-W", "-f", "${Version}", "mpich"], r"([^-+]+)"),
        "libfabric": _first(["dpkg-query", "-W", "-f", "${Version}", "libfabric1"], r"([^-]+)"),
        "perftest": _first(["ib_send_lat", "--version"], r"Version: (\S+)"),
        "libibverbs": _first(["dpkg-query", "-W", "-f", "${Version}", "libibverbs1"], r"(\S+)"),
    }


def of_host(root, build):
    def git(*words):
        return _first(["git", "-C", root, *words], r"(\S+)")

    build_type = None
    try:
        with open(os.path.join(build, "CMakeCache.txt")) as cache:
            build_type = re.search(r"^CMAKE_BUILD_TYPE:\w+=(.*)$", cache.read(), re.M).group(1)
            build_type = build_type or "default build type"
    except (OSError, AttributeError):
        pass
    return {
        "date": datetime.datetime.now().astimezone().isoformat(timespec="seconds"),
        "cpu": _cpu_model(),
        "cpus": os.cpu_count(),
        "kernel": platform.release(),
        "load": os.getloadavg()[0],
        "qemu": _first(["qemu-system-x86_64", "--version"], r"version (\S+)"),
        "weir": git("rev-parse", "--short", "HEAD"),
        "weir_changed": git("status", "--porcelain", "-uno", "transport", "srq", "flowctl",
                            "rendezvous") is not None,
        "build_type": build_type,
    }
