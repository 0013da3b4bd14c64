"""Processes die, or are cut off, and the job goes on: mpirun --with-ft ulfm of Open MPI 5."""

import contextlib
import re
import subprocess
import time

import pytest

from harness.nodes import kill, node_of, on_node
from lab.campaign.fabric import ULFM, ULFM_NODES, on
from lab.campaign.job import END_S, LATEST, LOST, PATIENCE, PATIENCE_S, SLACK_S

PROXY = [("btl_weir_proxy_servers", "1"), ("mpi_yield_when_idle", "1")]
OVERLAP = [("btl_weir_overlap", "on")]
FLOOD = ["--phase", "flood"]
RECOVERABLE = ["--prtemca", "state_base_recoverable", "1"]  # else PRRTE ends a spawned job when a process of it dies
# Else MPI_Finalize may wait for ever for a node without processes, or for replaced ones (transport/DEATHS.md).
WITHOUT_FENCE = ("async_mpi_finalize", 1)
GETS = [*FLOOD, "--largest", "1M"]

# (arguments of `ulfm`, processes, MCA parameters), by what the victim is at or is.
DEATHS = {
    "in gets, twice": ([*GETS, "--deaths", 2], 6, []),
    "idle": (["--phase", "idle"], 5, []),
    "among small messages": (FLOOD, 5, []),
    "connecting": (["--phase", "connect"], 5, []),
    "in MPI_Finalize": (["--phase", "finalize"], 5, []),
    "the proxy's server": ([*FLOOD, "--victims", "first"], 5, PROXY),
    "rank 0": ([*FLOOD, "--victims", "first"], 5, []),
    "in a shared lock": (["--phase", "share"], 5, []),
    "holding the lock of another's window": (["--phase", "hold"], 5, []),
    "of several threads under overlap": ([*GETS, "--threads"], 5, OVERLAP),
    "eight in a row": ([*FLOOD, "--deaths", 8], 10, []),
}


def check_went_on(job, measured, without=()):
    job.check_survived(5 * END_S, without)  # the program has a limit for each death
    for said in re.findall(r"^ulfm: (?:death|replaced) .*", job.output(), re.M):
        measured(said)


@on(ULFM)
@pytest.mark.parametrize("args, np, mca", [
    pytest.param(*case, id=name, marks=[] if name == "in gets, twice" else [pytest.mark.long])
    for name, case in DEATHS.items()])
def test_the_others_go_on_without_one(args, np, mca, start, measured):
    job = start("ulfm", np, args, mca=mca)
    check_went_on(job, measured)
    assert not re.search(LOST, job.output()), "the program hears it, and the user need not"


@on(long=(ULFM_NODES,))
@pytest.mark.parametrize("phase", ["put", "lock", "share"])
def test_the_others_go_on_without_one_of_another_node(phase, start, measured):
    check_went_on(start("ulfm", 4, ["--phase", phase, "--victims", 1]), measured)


@on(ULFM)
def test_the_summary_of_rank_0_is_of_those_that_go_on_without(start, measured):
    job = start("ulfm", 6, [*FLOOD, "--at-once", 3], mca=[("btl_weir_summary", "on")])
    check_went_on(job, measured)
    assert re.findall(r"weir: summary of (\d+) of (\d+) ranks", job.output()) == [("3", "6")]


def queue_pairs():
    """Of connections, of all processes."""
    done = subprocess.run(["rdma", "resource", "show", "qp"], capture_output=True, text=True, check=True)
    return done.stdout.count(" RC ")


@on(long=(ULFM,), seconds=200)
@pytest.mark.timeout(3600)
def test_forty_die_four_at_a_time_and_are_replaced(start, measured):
    np, at_most = 6, 0
    job = start("ulfm", np, [*FLOOD, "--at-once", 4, "--deaths", 10, "--replace"], mca=[WITHOUT_FENCE],
                launch=RECOVERABLE)
    while not job.is_over():
        at_most = max(at_most, queue_pairs())
        time.sleep(0.5)
    check_went_on(job, measured, without=range(np))  # of so many some are seen to break before the runtime tells
    lanes = 3  # two, and one that is dropped where both ends connect at once
    assert at_most <= lanes * np * (np - 1), "the queue pairs of the dead are left"
    measured(f"at most {at_most} queue pairs at a time")


# ---- what is cut off, and lives ----------------------------------------------------------------------

@contextlib.contextmanager
def cut_off_from(job):
    """The ranks of the second node are cut off meanwhile, and the others go on."""
    job.wait_said_by_all("is ready, pid")
    time.sleep(1)
    yield
    kill(node_of(1), "-9", [job.pid_of(rank) for rank in (1, 3)])
    job.check_survived(without=(1, 3))


@pytest.fixture
def cut(start):
    return lambda: start("ulfm", 4, ["--phase", "cut", "--victims", "odd"], mca=[PATIENCE, WITHOUT_FENCE],
                         launch=RECOVERABLE)


@on(long=(ULFM_NODES,))
def test_a_node_that_is_black_for_ever_is_given_up(cut, fabric, measured):
    job = cut()
    with cut_off_from(job), fabric.blackout() as dark:
        limit_s = LATEST * PATIENCE_S + SLACK_S
        times = [job.wait_said(rank, "has an error", limit_s) - dark.begin for rank in (0, 2)]
        shrunk_s = max(job.wait_said(rank, "has shrunk", END_S) for rank in (0, 2)) - dark.begin
    assert re.search(LOST, job.output()), "nobody named who is lost"
    measured(f"peer_timeout {PATIENCE_S} s: errors after {min(times):.1f} to {max(times):.1f} s, shrunk after "
             f"{shrunk_s:.1f} s")


def until_cut_off(job, cut_off, limit_s):
    """In words, how long after this command on the second node the ranks of the first see an error."""
    with cut_off_from(job):
        assert on_node(2, cut_off).returncode == 0
        begin = time.monotonic()
        times = [job.wait_said(rank, "has an error", limit_s) - begin for rank in (0, 2)]
    return f"errors after {min(times):.1f} to {max(times):.1f} s"


@on(long=(ULFM_NODES,))
@pytest.mark.breaks_boot
def test_a_node_whose_adapter_is_removed_is_given_up(cut, measured):
    measured("adapter removed: " + until_cut_off(cut(), "rdma link delete rxe0", END_S))


@on(long=(ULFM_NODES,))
@pytest.mark.breaks_boot
@pytest.mark.kernel_may_break
def test_a_node_whose_links_are_down_for_ever_is_given_up(cut, measured):
    limit_s = LATEST * PATIENCE_S + SLACK_S
    measured("both links down: " + until_cut_off(cut(), "lab-wire --local down", limit_s))
