"""Nothing arrives for a while, or for ever. What is under way survives it, with the data intact and nobody
given up, while a rank computes through it; or every rank names who is lost, in time, with what to do.

Every job checks all data that it receives (tests/mpi/stream.cc). An outage that hits nobody fails its
test. The same holds for the other files of this folder.
"""

import os
import signal
import subprocess
import time

import pytest

from lab.campaign.fabric import ULFM_NODES, Dark, on
from lab.campaign.job import (BESIDE, END_S, LARGE, LATEST, LOST, MEDIUM, ONE_SIDED, OSC_OVER_WEIR,
                              READY_S, SLACK_S)


# ---- survived ----------------------------------------------------------------------------------------

@pytest.fixture
def outage(fabric, stream, measured):
    """outage(length_s) has a job survive it, which is returned."""
    def outage(length_s, times=1, args=BESIDE, mca=()):
        job = stream(args, mca=mca)
        longest_s = max(Dark(fabric, length_s).end() for _ in range(times) if not time.sleep(1))
        job.end_beside_computation()
        assert job.pause_s() > length_s - 1, "the fabric was never gone"
        measured(f"blackout of {length_s} s (at most {longest_s:.1f}): the longest pause of the traffic is "
                 f"{job.pause_s():.1f} s, so it flows again {job.pause_s() - length_s:.1f} s after its end")
        return job
    return outage


@on(long=("wire", ULFM_NODES))
def test_15_s_longer_than_adapters_repeat_are_survived(outage):
    outage(15, args=MEDIUM).check_carried("connections_resumed", "gets")


@on(long=("nodes",))
def test_10_s_in_the_middle_of_large_messages_are_survived(outage):
    """Longer than adapters repeat."""
    outage(10, args=LARGE).check_carried("connections_resumed", "gets")


@on(long=("nodes",))
def test_3_s_in_the_middle_of_one_sided_traffic_are_survived(outage):
    outage(3, args=ONE_SIDED, mca=OSC_OVER_WEIR).check_carried("gets", "puts", "atomics")


@on(long=("wire",))
def test_three_of_4_s_are_survived(outage):
    outage(4, times=3)


@on("wire")
def test_nothing_comes_twice_when_no_acknowledgement_arrives(fabric, stream, measured):
    """Data does, until connections break."""
    job = stream(LARGE)
    with fabric.blackout("0b") as dark:  # of ranks 1 and 3, to which 0 and 2 send
        for rank in 0, 2:
            job.wait_said(rank, r"a connection of rxe0a:1 broke")
    for rank in 0, 2:
        job.wait_said(rank, r"were made again, the last to rank \d+, after \d+ ms")
    job.end_beside_computation()
    job.check_carried("connections_resumed")
    measured(f"one direction gone for {dark.end - dark.begin:.1f} s: a longest pause of {job.pause_s():.1f} s, "
             f"{job.counter('frames_resent').sum} frames sent again")


@on(long=("wire",))
def test_4_s_while_ranks_finish_and_leave_are_survived(fabric, stream):
    job = stream(BESIDE)
    dark = Dark(fabric, 4)
    job.tell_to_end(0, 1, 2)
    dark.end()
    assert not job.is_over(), "nobody waited for the one that computes"
    job.end_beside_computation()


@on(long=("wire",))
def test_3_s_while_ranks_compute_with_overlap_are_survived(fabric, stream, measured):
    """Every 2 s a large message is announced to the one that computes, and has to move meanwhile: not in the
    dark, and then both that one and the next."""
    job = stream(["--roles", "beside", "--posted", 400, "--largest", "128K", "--counters"], np=2,
                 mca=[("btl_weir_overlap", "on")])

    def moved():
        return job.said_by(0).count("has moved")

    job.wait_said(0, "has moved")
    dark = Dark(fabric, 3)
    time.sleep(0.5)  # for what had just moved
    before = moved()
    time.sleep(2.2)
    assert moved() == before, "a message moved in the dark"
    dark_s = dark.end()
    back = time.monotonic()
    while moved() < before + 2:
        assert time.monotonic() < back + READY_S, "nothing moves any more"
        time.sleep(0.05)
    moved_s = time.monotonic() - back
    job.end_beside_computation()
    job.check_carried("overlap_upcalls", "gets")
    measured(f"blackout of {dark_s:.1f} s under overlap: two messages have moved {moved_s:.1f} s after its end, "
             f"{job.counter('overlap_upcalls').sum} upcalls")


# ---- every rank names who is lost, whatever it does --------------------------------------------------

@on("wire")
def test_every_rank_names_a_lasting_one_in_time(every_rank_says_so):
    every_rank_says_so("blackout")


@on(long=("wire",))
def test_every_rank_names_one_of_one_direction_in_time(every_rank_says_so):
    # Who still hears the others knows that it is cut off when they have given up, and counts from there.
    every_rank_says_so("blackout", "0a", latest=LATEST + 1)


@on(long=("wire",))
def test_every_rank_names_a_lasting_one_at_the_default_peer_timeout(every_rank_says_so):
    parameters = subprocess.run(["ompi_info", "--param", "btl", "weir", "--level", "9", "--parsable"],
                                capture_output=True, text=True, check=False).stdout
    assert "mca:btl:weir:param:btl_weir_peer_timeout:value:30s" in parameters
    every_rank_says_so("blackout", patience_s=30, mca=())


# ---- while ranks connect -----------------------------------------------------------------------------

@pytest.fixture
def connecting_in_the_dark(fabric, start):
    """All are through MPI_Init, and nobody has sent anything, when the fabric becomes black."""
    def connecting_in_the_dark(length_s, patience_s):
        job = start("stream", 4, ["--seconds", 1, "--connect-on-signal"],
                    mca=[("btl_weir_connect_timeout", f"{patience_s}s")])
        job.wait_said_by_all("connects on a signal, pid")
        dark = Dark(fabric, length_s)
        for rank in range(4):
            os.kill(job.pid_of(rank), signal.SIGUSR1)
        return job, dark
    return connecting_in_the_dark


@on(long=("wire",))
def test_4_s_while_ranks_connect_are_survived(connecting_in_the_dark, measured):
    job, dark = connecting_in_the_dark(4, 30)
    time.sleep(3)
    assert "ready" not in job.output(), "they connected in the dark"
    length_s = dark.end()
    back = time.monotonic()
    job.wait_ready()
    measured(f"connecting, blackout of {length_s:.1f} s: under way {time.monotonic() - back:.1f} s after its end")
    job.check_survived()


@on(long=("wire",))
def test_every_rank_that_connects_names_a_lasting_one_in_time(connecting_in_the_dark, measured):
    patience_s = 4
    job, dark = connecting_in_the_dark(END_S, patience_s)
    os.kill(job.process.pid, signal.SIGSTOP)  # the runtime must not tell anybody
    times = [job.wait_said(rank, LOST, dark.begin + patience_s + SLACK_S - time.monotonic())
             for rank in range(4)]
    measured(f"connecting in a blackout, connect_timeout {patience_s} s: named after "
             f"{min(times) - dark.begin:.1f} to {max(times) - dark.begin:.1f} s")
    os.kill(job.process.pid, signal.SIGCONT)
    dark.lift()
    assert job.wait_end() != 0, "exit code 0"
    job.check_nothing_left()


@on(long=("wire",))
def test_ranks_connect_over_a_round_trip_of_2400_ms(fabric, start, measured):
    """Longer than a first attempt takes."""
    fabric.wire("delay", "1200ms")
    job = start("ring", 2, ["--laps", 2])
    job.check_survived(90)
    measured(f"ring, a round trip of 2.4 s: {time.monotonic() - job.begin:.1f} s")
