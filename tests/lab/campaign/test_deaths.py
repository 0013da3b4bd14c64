"""A process is stopped, ends badly or is killed, in every phase; or the runtime dies."""

import os
import re
import signal
import time

import pytest

from harness.nodes import on_node
from lab.campaign.fabric import ULFM, ULFM_NODES, on
from lab.campaign.job import LARGE, ONE_SIDED, OSC_OVER_WEIR

DAEMONS = "orted|prted"  # mpirun's on other nodes, under Open MPI 4 and 5
TOLD_S = 25  # less than peer_timeout and the program's own limit: somebody is told


@on(long=("loopback", ULFM))
def test_a_rank_is_stopped_for_longer_than_every_limit_and_goes_on(start):
    patience_s = 2
    job = start("stream", 4, ["--seconds", patience_s * 3 + 1],
                mca=[("btl_weir_peer_timeout", f"{patience_s}s"), ("btl_weir_ack_timeout", "100ms")])
    job.wait_ready()
    time.sleep(1)
    os.kill(job.pid_of(1), signal.SIGSTOP)
    time.sleep(patience_s * 2.5)
    os.kill(job.pid_of(1), signal.SIGCONT)
    job.check_survived()
    assert job.pause_s() > patience_s * 2, "it was never stopped"


# ---- the runtime dies: nothing survives it -----------------------------------------------------------

@pytest.fixture
def runtime_dies(stream, measured):
    def runtime_dies(kill):
        job = stream([])
        before = job.processes()
        assert len(before) >= 5, f"too few processes: {before}"
        kill(job)
        begin = time.monotonic()
        job.wait_end()
        job.check_nothing_left()
        measured(f"all gone after {time.monotonic() - begin:.1f} s")
    return runtime_dies


@on("loopback", long=(ULFM,))
def test_nothing_survives_mpirun(runtime_dies):
    runtime_dies(lambda job: os.kill(job.process.pid, signal.SIGKILL))


@on(long=("nodes", ULFM_NODES))
def test_nothing_survives_the_daemon_on_the_other_node(runtime_dies):
    def kill(_):
        assert on_node(2, f"pkill -9 -x '{DAEMONS}'").returncode == 0, f"no {DAEMONS} on node2"
    runtime_dies(kill)


# ---- a rank ends in the middle of traffic ------------------------------------------------------------

@pytest.fixture
def ends_badly(start, measured):
    def ends_badly(how, args=(), mca=()):
        job = start("stream", 4, ["--seconds", 1, "--end", how, "--victim", 1, *args], mca=mca)
        job.wait_ready()
        begin = job.wait_said(1, "ends by")
        job.check_lost(TOLD_S, victim=1)
        measured(f"{how} of one rank: the job ended after {time.monotonic() - begin:.1f} s")
    return ends_badly


@on("loopback")
@pytest.mark.parametrize("how", ["kill", *(pytest.param(how, marks=pytest.mark.long)
                                           for how in ("exit", "abort"))])
def test_a_rank_ends_in_the_middle_of_traffic_by(how, ends_badly):
    ends_badly(how)


@on(long=("nodes",))
def test_a_rank_is_killed_in_the_middle_of_gets(ends_badly):
    ends_badly("kill", LARGE[:2])


@on("loopback")
def test_a_rank_is_killed_in_the_middle_of_puts_and_gets_of_its_own_and_others(ends_badly):
    ends_badly("kill", ONE_SIDED[:-1], OSC_OVER_WEIR)


# ---- a rank is killed at any moment ------------------------------------------------------------------

PHASES = {"MPI_Init": "starts", "connecting and traffic": "connects", "MPI_Finalize": "leaves"}
QUICKLY_S = 0.002  # between two looks, for who kills it then


@pytest.fixture
def kill_in(start, measured):
    """kill_in(when): rank 2 dies when it says this, or so many s after its start. What it was at then; None
    if it was through. `took`: it, and how long all took to go."""
    def kill_in(when):
        job = start("alltoall_mem", 4, ["--rounds", 20, "--tell"], timeout=60, ranks='echo "starts, pid $$" >&2;')
        job.wait_said(2, r"starts, pid \d", every_s=QUICKLY_S)
        if isinstance(when, str):
            job.wait_said(2, when, every_s=QUICKLY_S)
        else:
            time.sleep(when)
        at = [phase for phase, text in PHASES.items() if text in job.said_by(2)][-1]
        if is_running(job.pid_of(2)):
            os.kill(job.pid_of(2), signal.SIGKILL)
        else:
            at = None
        begin = time.monotonic()
        code = job.wait_end(TOLD_S)
        if code == 0 or at is None:
            job.check_survived()  # it had left when the signal came
            return None
        job.check_lost(victim=2)
        assert re.search(r"exited on\s+signal 9|lost rank 2", job.output()), "nobody names the one that was killed"
        measured(f"rank 2 killed in {at}: all is gone after {time.monotonic() - begin:.1f} s")
        return at
    return kill_in


def is_running(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False


@on("loopback")
@pytest.mark.parametrize("phase, when", [("MPI_Init", 0.2), ("connecting and traffic", "connects"),
                                         ("MPI_Finalize", "leaves")], ids=list(PHASES))
def test_a_rank_is_killed_in(phase, when, kill_in):
    # On a slow machine it may be further already; on a quick one, through.
    for _ in range(4):
        if (at := kill_in(when)) == phase:
            return
        when = when / 2 if isinstance(when, float) else when
    pytest.fail(f"it was never hit there, last in {at}")


@on(long=("loopback",), seconds=120)
@pytest.mark.timeout(900)
def test_a_rank_is_killed_at_forty_moments(start, kill_in, measured):
    job = start("alltoall_mem", 4, ["--rounds", 20])
    job.check_survived()
    whole_s = time.monotonic() - job.begin
    hits = [kill_in(whole_s * n / 40) for n in range(40)]
    for phase in PHASES:
        assert phase in hits, f"nobody was hit in {phase}: {hits}"
    measured(f"a run of {whole_s:.1f} s: " + ", ".join(f"{hits.count(at)} in {at}" for at in PHASES)
             + f", {hits.count(None)} when it was through")
