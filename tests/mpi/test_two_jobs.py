"""Two jobs that become peers while they run, by MPI_Comm_accept and MPI_Comm_connect."""

import contextlib
import os
import shlex
import signal
import subprocess
import time

import pytest

from harness.mpirun import LEAK, mpirun
from harness.programs import judge, sh

LIMIT_S = 120


@pytest.fixture
def server(tmp_path):
    """Where Open MPI's server is, which jobs find each other by."""
    uri = tmp_path / "uri"
    process = subprocess.Popen(["ompi-server", "--no-daemonize", "-r", str(uri)], stdin=subprocess.DEVNULL,
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    deadline = time.monotonic() + LIMIT_S
    while not uri.exists() or not uri.read_text():
        assert process.poll() is None and time.monotonic() < deadline, "ompi-server does not start"
        time.sleep(0.05)
    yield f"file:{uri}"
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


@pytest.mark.lab("loopback")
@pytest.mark.parametrize("np, mca", [
    pytest.param(2, [], id="two ranks each"),
    pytest.param(3, [("btl_weir_connections_max", "2")], id="few connections", marks=pytest.mark.long),
])
def test_two_jobs(np, mca, server, build, tmp_path):
    """They exchange and part, three times, and each goes on by itself."""
    start = [*mpirun(mca), "--ompi-server", server, "-n", str(np), "connect", "--timeout", str(LIMIT_S - 20)]
    port = str(tmp_path / "port")
    serve, to = (shlex.join([*start, role, port]) for role in ("--serve", "--to"))
    done = sh(f"{serve} & {to}; code=$?; wait $! && exit $code", build, tmp_path, LIMIT_S)
    judge(done, True, [r"(?s)connect: ok.*connect: ok"], [LEAK.pattern])
