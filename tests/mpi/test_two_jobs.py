"""Two jobs that become peers while they run, by MPI_Comm_accept and MPI_Comm_connect."""

import contextlib
import os
import shlex
import signal
import subprocess
import time

import pytest

from harness.mpirun import LEAK, mpirun
from harness.open_mpi_5 import own_version
from harness.programs import judge, sh

LIMIT_S = 120


SERVER = (["ompi-server", "--no-daemonize", "-r"] if own_version() < 5 else
          ["prte", "--allow-run-as-root", "--no-ready-msg", "--report-uri"])


@pytest.fixture
def server(tmp_path):
    """Where Open MPI's server is, which jobs find each other by."""
    uri = tmp_path / "uri"
    process = subprocess.Popen([*SERVER, str(uri)], stdin=subprocess.DEVNULL,
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    deadline = time.monotonic() + LIMIT_S
    while not uri.exists() or not uri.read_text():
        assert process.poll() is None and time.monotonic() < deadline, f"{SERVER[0]} does not start"
        time.sleep(0.05)
    yield f"file:{uri}"
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def start(server, mca):
    """The beginning of a command. In 5.0 the server starts the jobs itself, and knows no --mca."""
    command = mpirun(mca)
    if own_version() < 5:
        return [*command, "--ompi-server", server]
    words = iter(command[command.index("--mca"):])
    settings = ["OMPI_MCA_{}={}".format(next(words), next(words)) if word == "--mca" else next(words) for word in words]
    return ["prun", "--allow-run-as-root", "--dvm-uri", server, "--map-by", ":oversubscribe", "--bind-to", "none",
            *(word for setting in settings for word in ("-x", setting))]


def jobs(np, lab, mca=(), long=False):
    marks = [pytest.mark.lab(lab), *([pytest.mark.long] if long else [])]
    return pytest.param(np, mca, id=f"{'few connections' if mca else 'two ranks each'}, {lab}", marks=marks)


@pytest.mark.parametrize("np, mca", [
    jobs(2, "loopback"), jobs(2, "Open MPI 5.0"),
    jobs(3, "loopback", [("btl_weir_connections_max", "2")], long=True),
])
def test_two_jobs(np, mca, server, build, tmp_path):
    """They exchange and part, three times, and each goes on by itself."""
    port = str(tmp_path / "port")
    serve, to = (shlex.join([*start(server, mca), "-n", str(np), os.path.join(build, "mpi", "connect"),
                             "--timeout", str(LIMIT_S - 20), role, port]) for role in ("--serve", "--to"))
    done = sh(f"{serve} & {to}; code=$?; wait $! && exit $code", build, tmp_path, LIMIT_S)
    judge(done, True, [r"(?s)connect: ok.*connect: ok"], [LEAK.pattern])
