"""A link goes down, which adapters tell of.

rxe's queue pair for connection management breaks for good when it has to send meanwhile, and nothing
connects over that device any more. And rxe 6.1 now and then sends in a circle in the kernel for ever
(rxe_requester), and starves everything else. Not weir's doing, and nothing can be seen then: once more.
"""

import re
import subprocess
import time

import pytest

from lab.campaign.fabric import ULFM_NODES, on
from lab.campaign.job import (BESIDE, IN_DOUBT, LARGE, LATEST, LOST, ONE_SIDED, OSC_OVER_WEIR, PATIENCE,
                              PATIENCE_S, PORT_DOWN, SLACK_S)

pytestmark = [pytest.mark.breaks_boot, pytest.mark.kernel_may_break]
LENGTH_S = 3


@on(long=("wire", "wire of Linux 6.12"))
def test_3_s_are_survived_or_the_adapter_connects_nobody(link_flaps):
    link_flaps(BESIDE)


@on(long=("nodes",))
def test_3_s_in_the_middle_of_one_sided_traffic_are_survived_or_the_adapter_connects_nobody(link_flaps):
    link_flaps(ONE_SIDED, OSC_OVER_WEIR)


@pytest.fixture
def link_flaps(fabric, start, stream, measured):
    """Of nodes it is the first one's. The commands go before the ranks, see Dark. If a connection
    broke while it was down, rxe may be unable to make another one, which then is tried from outside."""
    def link_flaps(args, mca=()):
        job = stream(args, mca=[PATIENCE, *mca])
        fabric.has_changed = True
        down = time.monotonic()
        link = subprocess.Popen(["chrt", "--fifo", "50", "sh", "-c",
                                 f"lab-wire --local down && sleep {LENGTH_S} && lab-wire --local up"])
        lost_s = watch(job, down)
        assert link.wait() == 0, "lab-wire failed"
        job.wait_said(0, PORT_DOWN, SLACK_S)
        if not job.is_over():
            job.end_beside_computation()
            assert job.pause_s() > LENGTH_S - 1, "the link was never down"
            measured(f"link down for {LENGTH_S} s: survived, pause {job.pause_s():.1f} s")
            return
        job.check_lost(port_down=True)
        output = job.output()
        assert re.search(r"a connection of rxe\w+:1 broke", output) and re.search(LOST, output), \
            "it ended, and nobody named the reason"
        if IN_DOUBT not in output:
            # From where the adapter only repeats, the peer has been silent before it is noticed.
            assert lost_s > PATIENCE_S / 2, f"given up after {lost_s:.1f} s already"
            again = start("ring", 2, ["--laps", 1], mca=[("btl_weir_connect_timeout", "4s")])
            assert again.wait_end() != 0, "who is lost can be reached again"
        measured(f"link down for {LENGTH_S} s: somebody was lost {lost_s:.1f} s after it, by name")
    return link_flaps


def watch(job, down):
    """Until what broke is there again, or given up in time. When somebody was lost, in s."""
    settled, lost_s = down + LENGTH_S + 2, None
    while not job.is_over() and (time.monotonic() < settled or not job.is_whole()):
        now_s = time.monotonic() - down
        assert now_s < LATEST * PATIENCE_S + SLACK_S, "neither there again, nor lost"
        if lost_s is None and any("lost rank" in job.said_by(rank) for rank in range(job.np)):
            lost_s = now_s
        time.sleep(0.1)
    return lost_s or time.monotonic() - down


@on(long=("wire",))
def test_every_rank_names_one_that_is_down_for_good_in_time(every_rank_says_so):
    every_rank_says_so("down")


# ---- of two rails that a process alone on its node takes by itself -----------------------------------

@on(long=("nodes with rails",))
def test_the_second_of_two_is_down_for_3_s(link_of_rail_down):
    link_of_rail_down("1", LARGE)


@on(long=(ULFM_NODES,))
def test_the_second_of_two_is_down_for_ever(link_of_rail_down):
    link_of_rail_down("1", LARGE, [PATIENCE], for_ever=True)


@on(long=("nodes with rails",))
def test_the_first_of_two_is_down_for_3_s_under_puts_and_gets_of_one_that_computes(link_of_rail_down):
    link_of_rail_down("0", ["--roles", "target", "--no-atomics", "--largest", "1M", "--counters"], OSC_OVER_WEIR)


@pytest.fixture
def link_of_rail_down(fabric, stream, measured):
    """The adapter says that its port is down, so nobody waits for retries (7 s of them). rxe may not
    connect over that rail any more."""
    def link_of_rail_down(rail, args, mca=(), for_ever=False):
        length_s = 2 * LATEST * PATIENCE_S if for_ever else LENGTH_S
        job = stream(args, np=2, mca=mca)
        time.sleep(1)
        down = fabric.wire("--local", "down", rail)
        lost = job.wait_said_by_any(rf"over rxe{rail}:1 is lost|of rxe{rail}:1 broke")
        time.sleep(max(0, down + length_s - time.monotonic()))
        if not for_ever:
            fabric.wire("--local", "up", rail)
        time.sleep(2)
        assert re.search(PORT_DOWN, job.said_by(0)), "the link was never down"
        job.end_beside_computation()
        assert job.counter("rail_parts").most > 0, "no message used the second rail"
        assert lost - down < 1 + SLACK_S, f"noticed only after {lost - down:.1f} s"
        assert job.pause_s() < 1 + SLACK_S, "nothing moved meanwhile"
        measured(f"link of rail {rail} down for {length_s:.0f} s: noticed after {lost - down:.1f} s, a longest pause "
                 f"of {job.pause_s():.1f} s, {job.counter('rail_frames').sum} frames went over the other one")
    return link_of_rail_down
