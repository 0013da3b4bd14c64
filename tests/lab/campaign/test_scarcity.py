"""Buffers or locked memory are few. Jobs go on with what they have."""

import re

import pytest

from lab.campaign.fabric import on

BUFFER_BYTES = 8704  # the default of buffer_size
# Enough for the first buffers and slots of a rank, not for the window to grow to its maximum.
LITTLE_MEMORY = "1200 KiB of locked memory"


@on("loopback")
def test_a_slow_receiver_at_the_cap_of_its_window(flood):
    flood(16, "window_max", 16)


@on(long=("loopback",))
def test_a_slow_receiver_at_the_cap_of_its_memory(flood):
    flood((1 << 20) // BUFFER_BYTES, "receive_memory_max", "1MiB")


@pytest.fixture
def flood(start, measured):
    """Seven senders, and a receiver that may have so many buffers."""
    def flood(buffers, key, value):
        job = start("stream", 8, ["--seconds", 3, "--roles", "gather", "--slow-ms", 5, "--largest", 3000,
                                  "--counters"], mca=[(f"btl_weir_{key}", value)])
        job.check_survived()
        assert job.counter("window_peak").most <= buffers, "the window is above its cap"
        assert job.counter("receive_bytes_peak").most <= buffers * BUFFER_BYTES, "more receive memory than the cap"
        # Most that waits: 1,024 frames for each peer.
        assert job.counter("pending_peak").most <= 1024 + 64, "a pending queue without bound"
        measured(f"{job.counter('messages_received').most} messages to one receiver with {buffers} buffers; "
                 f"{job.counter('credit_stalls').sum} waits for credits")
    return flood


@on(LITTLE_MEMORY)
def test_locked_memory_runs_out_when_the_window_grows(start, measured):
    job = start("stream", 4, ["--seconds", 3, "--roles", "gather", "--slow-ms", 1, "--largest", 6000,
                              "--counters"])
    job.check_survived()
    refusals = job.counter("slab_failures").sum
    assert refusals > 0, "the memory was enough: nothing was tried"
    warnings = len(re.findall(r"window cannot grow any further: .*ulimit -l", job.output()))
    assert 1 <= warnings <= 4, f"{warnings} warnings of 4 ranks"
    measured(f"window {job.counter('window').most}, {refusals} refusals, {warnings} warnings")


@on(long=(LITTLE_MEMORY,))
def test_locked_memory_is_little_for_large_messages_both_ways(start, measured):
    job = start("stream", 4, ["--seconds", 6, "--largest", "300K", "--counters"])
    job.check_survived()
    measured(f"{job.counter('bytes_received').sum >> 20} MiB received, {job.counter('slab_failures').sum} refusals")
