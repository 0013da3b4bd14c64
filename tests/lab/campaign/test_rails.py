"""Of two rails one becomes black, or both, under messages over both. A rank computes meanwhile."""

import re
import time

import pytest

from lab.campaign.fabric import ULFM_NODES, on
from lab.campaign.job import (BESIDE, IN_DOUBT, LARGE, LATEST, LOST, MEDIUM, ONE_SIDED, OSC_OVER_WEIR,
                              PATIENCE, PATIENCE_S, SLACK_S)

RAILS = "wire with rails"
SECOND_LOST = r"over rxe1[ab]?:1 is lost"
SECOND_AGAIN = r"over rxe1[ab]?:1 carries messages again, after \d+ ms"
FIRST_BROKE = r"a connection of rxe0[ab]?:1 broke"
FIRST_GIVEN_UP = r"over rxe0[ab]?:1 is given up"


@pytest.fixture
def over_rails(fabric, stream):
    def over_rails(args=LARGE, mca=(), **options):
        named = [] if fabric.rails_of_wire else [("btl_weir_device", "rxe0,rxe1")]
        job = stream(args, mca=[*named, *mca], **options)
        time.sleep(1)
        return job
    return over_rails


def end_over_rails(job):
    job.end_beside_computation()
    assert job.counter("rail_parts").most > 0, "no message used the second rail"


def black_in_turn(fabric, *turns):
    """(rail, length_s) each, with a pause behind it."""
    for rail, length_s in turns:
        fabric.black_for(length_s, rail)
        time.sleep(2)


def what_came_of(job):
    return (f"a longest pause of {job.pause_s():.1f} s, {job.counter('rail_frames').sum} frames went over the "
            "other one")


@on(long=(RAILS, ULFM_NODES))
def test_the_first_carries_all_while_the_second_is_black_and_later_both(fabric, over_rails, measured):
    job = over_rails()
    with fabric.blackout("1") as dark:
        lost = job.wait_said_by_any(SECOND_LOST)
        time.sleep(3)
    again = job.wait_said_by_any(SECOND_AGAIN)
    end_over_rails(job)
    assert job.counter("rail_losses").most > 0, "no rail was lost"
    assert job.counter("rail_parts_again").most > 0, "nothing had to go over the other rail"
    measured(f"second rail black: noticed after {lost - dark.begin:.1f} s, "
             f"{job.counter('rail_parts_again').sum} parts went over the first, a longest pause of "
             f"{job.pause_s():.1f} s; used again {again - dark.end:.1f} s after its end")


@on(long=(RAILS,))
def test_the_second_is_used_again_after_longer_than_peer_timeout(fabric, over_rails, measured):
    job = over_rails(mca=[PATIENCE])
    with fabric.blackout("1") as dark:
        job.wait_said_by_any(SECOND_LOST)
        # Until both ends give it up.
        time.sleep(max(0, dark.begin + 2 * LATEST * PATIENCE_S - time.monotonic()))
    again = job.wait_said_by_any(SECOND_AGAIN)
    end_over_rails(job)
    measured(f"second rail black for {dark.end - dark.begin:.0f} s: used again {again - dark.end:.1f} s after "
             "its end")


@on(long=(RAILS,))
def test_all_goes_over_the_second_while_the_first_is_black_for_longer_than_peer_timeout(
        fabric, over_rails, measured):
    job = over_rails(BESIDE, mca=[PATIENCE])  # many small ones: some are always under way
    with fabric.blackout("0") as dark:
        given_up = job.wait_said_by_any(FIRST_GIVEN_UP)
        time.sleep(LATEST * PATIENCE_S)  # until the other end gives it up, too: then somebody has to ask
    again = job.wait_said_by_any(r"over rxe0[ab]?:1 works again")
    job.end_beside_computation()  # none of them is large enough for parts
    # A pair waits for a frame, or only for what it reads.
    frames, parts = job.counter("rail_frames").sum, job.counter("rail_parts_again").sum
    assert frames + parts > 0, "nothing had to go over the second rail"
    measured(f"first rail black: a longest pause of {job.pause_s():.1f} s, {frames} frames and {parts} parts "
             f"were given to the second; given up after {given_up - dark.begin:.1f} s, used again "
             f"{again - dark.end:.1f} s after its end")


@on(long=(RAILS,))
def test_both_black_for_20_s_less_than_peer_timeout(fabric, over_rails, measured):
    job = over_rails(MEDIUM)
    fabric.black_for(20)
    end_over_rails(job)
    assert job.pause_s() > 19, "one of them was there"
    measured(f"both rails black for 20 s: a longest pause of {job.pause_s():.1f} s")


@on(long=(RAILS,))
def test_the_second_with_a_tenth_of_the_rate_and_each_black_for_8_s_in_turn(fabric, over_rails, measured):
    fabric.wire("rate", "100mbit", "0")
    fabric.wire("rate", "10mbit", "1")
    job = over_rails(MEDIUM)
    black_in_turn(fabric, ("0", 8), ("1", 8))
    end_over_rails(job)
    measured(f"unequal rails, black in turn: {what_came_of(job)}")


@on(long=(RAILS,))
def test_frames_over_both_in_turn_of_which_each_is_black_for_8_s_and_flaps(fabric, over_rails, measured):
    job = over_rails(MEDIUM, mca=[("btl_weir_frames", "spread")])
    black_in_turn(fabric, ("0", 8), ("1", 8), ("0", 1), ("1", 1), ("0", 1))
    end_over_rails(job)
    assert job.counter("rail_frames").sum > 0, "no frame had to go over another rail"
    measured(f"frames over both rails, black in turn: {what_came_of(job)}")


@on(long=(RAILS,))
def test_one_rank_has_one_rail_and_the_second_of_the_others_is_black_for_3_s(fabric, over_rails):
    # The pair that lacks a rail, one in traffic over both, one of which a rank computes.
    job = over_rails(["--roles", "traffic,traffic,beside", "--largest", "3M", "--counters"], np=6,
                     ranks="if test $OMPI_COMM_WORLD_RANK = 1; then export "
                           "OMPI_MCA_btl_weir_device=${OMPI_MCA_btl_weir_device%%,*}; fi;")
    fabric.black_for(3, "1")
    end_over_rails(job)


@on(long=(RAILS,))
def test_both_lose_5_percent_and_become_black_in_turn(fabric, over_rails, measured):
    for rail in "01":
        fabric.wire("loss", "5%", rail)
    job = over_rails(MEDIUM)
    for rail in "01":
        with fabric.blackout(rail):
            job.wait_said_by_any(rf"over rxe{rail}[ab]?:1 is lost|of rxe{rail}[ab]?:1 broke")
        time.sleep(2)
    end_over_rails(job)
    measured(f"lossy rails, black in turn: {what_came_of(job)}")


@on(long=(RAILS,))
def test_the_first_becomes_black_while_ranks_finish_and_leave(fabric, over_rails):
    job = over_rails(BESIDE)
    with fabric.blackout("0"):
        job.tell_to_end(0, 1, 2)
        job.wait_said_by_any(FIRST_BROKE)
        time.sleep(1)
    job.end_beside_computation()


# ---- the first one, under one-sided traffic ----------------------------------------------------------

@on(long=(RAILS,))
def test_puts_and_gets_go_over_the_second_when_the_first_is_black_for_ever(fabric, over_rails, measured):
    job = over_rails([*ONE_SIDED, "--no-atomics"], mca=[*OSC_OVER_WEIR, PATIENCE])
    with fabric.blackout("0") as dark:
        # If the one that computes notices first, it says so later, and the other one then only gives up.
        noticed = max(job.wait_said((0, 1), FIRST_BROKE), job.wait_said((2, 3), f"{FIRST_BROKE}|{FIRST_GIVEN_UP}"))
        job.wait_said_by_any(FIRST_GIVEN_UP)
        time.sleep(2)
        job.end_beside_computation()
    job.check_carried("gets", "puts", "rail_parts", "rail_parts_again")
    assert job.pause_s() < noticed - dark.begin + 1 + SLACK_S, "something waited"
    measured(f"first rail black for ever, one-sided: noticed after {noticed - dark.begin:.1f} s, the longest round "
             f"of puts and gets took {job.pause_s():.1f} s, {job.counter('rail_parts_again').sum} of them went "
             "over the second rail instead")


@on(long=(RAILS,))
def test_atomics_wait_for_the_first_that_is_black_for_ever_and_say_why(fabric, stream):
    job = stream(ONE_SIDED, mca=[*OSC_OVER_WEIR, PATIENCE])
    with fabric.blackout("0"):
        job.wait_said_by_any(LOST, LATEST * PATIENCE_S + SLACK_S)
    job.check_lost()
    assert re.search(f"{IN_DOUBT}|atomic operations use only the adapter of the target's first rail", job.output()), \
        "nobody named the rule"


@on(long=(RAILS,))
def test_atomics_wait_for_the_first_that_is_black_for_3_s(fabric, stream, measured):
    """Where adapters repeat for less, as on a busy machine, an atomic operation in doubt ends the job."""
    job = stream(ONE_SIDED, mca=OSC_OVER_WEIR)
    fabric.black_for(3, "0")
    time.sleep(SLACK_S)
    if job.is_over():
        job.check_lost()
        assert re.search(FIRST_BROKE, job.output()), "lost, and nothing had broken"
        assert IN_DOUBT in job.output(), "nobody named the reason"
        return
    job.end_beside_computation()
    job.check_carried("gets", "puts", "atomics")
    measured(f"first rail black for 3 s, one-sided: a longest pause of {job.pause_s():.1f} s")
