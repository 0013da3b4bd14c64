"""A program that a test runs: how it ends, what it says to which stream; and nothing of it is left."""

import contextlib
import os
import re
import signal
import subprocess

import pytest

LIMIT_S = 240  # ompi_info takes its time on a busy machine


def run(*command, status=0, limit_s=LIMIT_S, env=None, cwd=None):
    """Fails the test unless it ends with this status (None: any), and in time. Both streams are in the result."""
    process = subprocess.Popen(command, cwd=cwd, env={**os.environ, **(env or {})}, stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace",
                               start_new_session=True)
    called = " ".join(map(str, command))
    try:
        said, complained = process.communicate(timeout=limit_s)
    except subprocess.TimeoutExpired:
        pytest.fail(f"no end after {limit_s} s: {called}", pytrace=False)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    if status not in (None, process.returncode):
        pytest.fail(f"exit status {process.returncode}, not {status}: {called}\n{said}{complained}", pytrace=False)
    return subprocess.CompletedProcess(command, process.returncode, said, complained)


def says(text, *patterns):
    """Each pattern is found; ^ and $ are those of a line."""
    missing = [pattern for pattern in patterns if not re.search(pattern, text, re.M)]
    if missing:
        pytest.fail("".join(f"does not say /{pattern}/\n" for pattern in missing) + text, pytrace=False)


@pytest.fixture
def no_settings(monkeypatch, tmp_path):
    """What the user of this machine has set for weir does not count. Returns where a user's files would be."""
    for name in [name for name in os.environ if name.startswith(("WEIR_", "OMPI_MCA_btl_weir_"))]:
        monkeypatch.delenv(name)
    home = tmp_path / "settings"
    home.mkdir()
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home))
    return home
