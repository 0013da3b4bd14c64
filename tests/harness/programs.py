"""A program that a test runs: how it ends, what it says to which stream; and nothing of it is left."""

import contextlib
import os
import re
import signal
import subprocess

import pytest

from harness.mpirun import end
from harness.stacks import stacks

LIMIT_S = 240  # ompi_info takes its time on a busy machine
REST_S = 2     # for what it had said when it was ended


def run(*command, status=0, limit_s=LIMIT_S, env=None, cwd=None, one_stream=False):
    """Fails the test unless it ends with this status (None: any), and in time. What it said to each stream, or
    to both of them, is in the result."""
    process = subprocess.Popen(command, cwd=cwd, env={**os.environ, **(env or {})}, stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, text=True, errors="replace", start_new_session=True,
                               stderr=subprocess.STDOUT if one_stream else subprocess.PIPE)
    called = " ".join(map(str, command))
    try:
        said, complained = process.communicate(timeout=limit_s)
    except subprocess.TimeoutExpired:
        where = stacks(process.pid)
        end(process)  # it may be a shell around mpirun
        rest = ()
        with contextlib.suppress(subprocess.TimeoutExpired):
            rest = process.communicate(timeout=REST_S)
        pytest.fail(f"no end after {limit_s} s: {called}\n{''.join(filter(None, rest))}\n{where}", pytrace=False)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    if status not in (None, process.returncode):
        pytest.fail(f"exit status {process.returncode}, not {status}: {called}\n{said}{complained or ''}",
                    pytrace=False)
    return subprocess.CompletedProcess(command, process.returncode, said, complained)


def unit_program(build, name):
    """Of the unit tests: where the sanitizers watch them, the build without has none of its own (run.py)."""
    folders = (os.path.join(folder, "bin") for folder in (build + "-asan", build))
    return next((path for folder in folders if os.path.exists(path := os.path.join(folder, name))), name)


def sh(command, build, cwd, limit_s, status=None):
    """In a shell, with the programs of the build in its PATH."""
    path = os.pathsep.join([os.path.join(build, "mpi"), os.path.join(build, "bin"), os.environ["PATH"]])
    return run("sh", "-c", command, status=status, limit_s=limit_s, cwd=cwd, env={"PATH": path}, one_stream=True)


def says(text, *patterns):
    """Each pattern is found; ^ and $ are those of a line."""
    missing = [pattern for pattern in patterns if not re.search(pattern, text, re.M)]
    if missing:
        pytest.fail("".join(f"does not say /{pattern}/\n" for pattern in missing) + text, pytrace=False)


def judge(done, succeeds, patterns, never=()):
    """Fails unless it has succeeded, or failed, as it has to, and said all of the one and none of the other,
    each as in `says`."""
    problems = [f"exit code {done.returncode}"] if (done.returncode == 0) != succeeds else []
    problems += [f"says /{pattern}/" for pattern in never if re.search(pattern, done.stdout, re.M)]
    if problems:
        pytest.fail("; ".join(problems) + "\n" + done.stdout, pytrace=False)
    says(done.stdout, *patterns)


@pytest.fixture
def no_settings(monkeypatch, tmp_path):
    """What the user of this machine has set for weir does not count. Returns where a user's files would be."""
    for name in [name for name in os.environ if name.startswith(("WEIR_", "OMPI_MCA_btl_weir_"))]:
        monkeypatch.delenv(name)
    home = tmp_path / "settings"
    home.mkdir()
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home))
    return home
