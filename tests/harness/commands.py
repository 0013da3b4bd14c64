"""A command of a test: it ends in time, and what it said is known."""

import collections
import contextlib
import os
import re
import signal
import subprocess

import pytest

END_S = 7  # for mpirun to take its ranks along
TAIL_LINES = 25

Done = collections.namedtuple("Done", "code said")


def run(command, build, cwd, limit_s):
    """In a shell, with the programs of the build in its PATH. Fails the test if it does not end."""
    path = os.pathsep.join([os.path.join(build, "mpi"), os.path.join(build, "bin"), os.environ["PATH"]])
    process = subprocess.Popen(["sh", "-c", command], cwd=cwd, env=dict(os.environ, PATH=path),
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                               text=True, errors="replace", start_new_session=True)
    try:
        return Done(said=process.communicate(timeout=limit_s)[0], code=process.returncode)
    except subprocess.TimeoutExpired:
        pytest.fail(f"no end within {limit_s} s\n{tail(end(process))}", pytrace=False)
    except BaseException:  # of pytest-timeout, or a key
        end(process)
        raise


def end(process):
    """All of its group, politely first: the shell may end before its mpirun. What it has said."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            return process.communicate(timeout=END_S)[0]
    return ""


def tail(said):
    return "\n".join(said.splitlines()[-TAIL_LINES:])


def judge(done, succeeds, says, never=()):
    """Fails unless it has succeeded, or failed, as it has to, and said all of the one and none of the other."""
    problems = [f"exit code {done.code}"] if (done.code == 0) != succeeds else []
    problems += [f"does not say /{text}/" for text in says if not re.search(text, done.said)]
    problems += [f"says /{text}/" for text in never if re.search(text, done.said)]
    if problems:
        pytest.fail("; ".join(problems) + "\n" + tail(done.said), pytrace=False)
