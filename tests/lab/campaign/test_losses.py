"""A wire that loses, delays and reorders packets, or is slow. Jobs survive it."""

import re

import pytest

from lab.campaign.fabric import on
from lab.campaign.job import END_S, LARGE, ONE_SIDED, OSC_OVER_WEIR

DISORDER = ["reorder", "90%", "50%", "loss", "1%", "duplicate", "1%"]


@pytest.fixture
def lossy(fabric, start, measured):
    """A job over a wire that loses 1%, among others, survives it, and is returned."""
    def lossy(seconds, *words, args=("--counters",), mca=()):
        devices = fabric.netdevs()
        sent_before, lost_before = fabric.packets(devices)
        fabric.netem(*words)
        job = start("stream", 4, ["--seconds", seconds, *args], mca=mca)
        job.check_survived(seconds + END_S)
        sent, lost = fabric.packets(devices)
        sent, lost = sent - sent_before, lost - lost_before
        by_rdma = sum(job.counter(name).sum for name in ("get_bytes", "put_bytes"))
        measured(f"{' '.join(words)}: {job.counter('messages_received').sum} messages, {by_rdma >> 20} MiB by RDMA "
                 f"in {seconds} s, {lost} of {sent + lost} packets lost, pause {job.pause_s():.1f} s, "
                 f"{job.counter('connections_broken').sum} connections made again")
        assert 0.005 < lost / (sent + lost) < 0.02, f"{lost} of {sent + lost} packets were lost"
        return job
    return lossy


@on(long=("wire of Linux 6.12",))
def test_one_percent_of_the_packets(lossy):
    lossy(8, "loss", "1%")


@on(long=("wire",))
def test_one_percent_of_the_packets_of_large_messages(lossy):
    """With gets behind sends on one lane, two of five such runs had a queue pair that Soft-RoCE broke
    (PROTOCOL.md 5). Gets have a lane of their own, and what breaks is made again."""
    job = lossy(5, "loss", "1%", args=LARGE)
    assert job.counter("get_bytes").sum > 4 << 20, "too few packets were theirs for one to be lost"


@on(long=("wire", "wire of Linux 6.12"))
def test_one_percent_of_the_packets_of_one_sided_traffic(lossy):
    lossy(8, "loss", "1%", args=ONE_SIDED, mca=OSC_OVER_WEIR).check_carried("gets", "puts", "atomics")


@on("wire")
def test_one_percent_lost_one_percent_doubled_delayed_out_of_order(lossy):
    lossy(5, "delay", "1ms", *DISORDER)


@on(long=("wire",), seconds=80)
def test_the_same_for_a_minute_with_corruption(lossy):
    lossy(60, "delay", "1ms", "200us", *DISORDER, "corrupt", "0.2%")


@on(long=("wire",))
def test_transfers_go_on_while_both_ends_compute(fabric, start, measured):
    fabric.wire("rate", "100mbit")
    job = start("rma_passive", 2, ["--compute-ms", 700, "--repeat", 1, "--counters"], mca=OSC_OVER_WEIR)
    job.check_survived()
    job.check_carried("puts", "gets", "atomics")
    overlap = re.findall(r"rma_passive: (.*) \d: .* overlap (\d+) %", job.output())
    assert overlap and min(int(share) for _, share in overlap) >= 50, f"it waited for the target: {overlap}"
    measured("overlap: " + ", ".join(f"{what} {share} %" for what, share in overlap))
