"""A flood of 8 to 1 takes the wire from another job, until it is throttled from outside."""

import glob
import os
import re
import signal
import time

import pytest

from harness.mpirun import LEAK, Heard, mpirun
from harness.programs import run, says
from harness.top import Top

pytestmark = [pytest.mark.lab("wire"), pytest.mark.timeout(600), pytest.mark.long(seconds=110)]

PATIENCE_S = 240  # for what hangs, on a slow machine
WIRE = "50mbit"   # slow, so that it limits the jobs, and not the processors
WINDOW_S = 6      # of a measurement
# Their receivers are at one end, all senders at the other. Who sleeps long leaves the processors to others; a busy
# machine is no lost packet.
OWN_END = ("export OMPI_MCA_btl_weir_device=rxe0$(test $OMPI_COMM_WORLD_RANK = 0 && echo a || echo b); "
           'exec "$0" "$@"')
KEYS = {"mpi_yield_when_idle": 1, "btl_weir_ack_timeout": "4s"}
ARGUMENTS = ["--seconds", "900", "--timeout", "1000", "--nap", "4000", "--size", "256K"]


class Incast(Heard):
    def __init__(self, build, np, **keys):
        mca = {**KEYS, **{f"btl_weir_{key}": value for key, value in keys.items()}}
        super().__init__([*mpirun(mca.items()), "-n", str(np), "sh", "-c", OWN_END, os.path.join(build, "mpi", "incast"),
                          *ARGUMENTS])

    def came(self, begin, end):
        """MB/s between two moments."""
        rates = [(float(at), float(rate)) for at, rate in re.findall(r"incast: at ([\d.]+) s ([\d.]+) MB/s", self.text())]
        spans = [(now - max(then, begin)) * rate for (then, _), (now, rate) in zip(rates, rates[1:]) if begin < now <= end]
        return sum(spans) / (end - begin)

    def rate(self):
        begin = time.monotonic()
        time.sleep(WINDOW_S)
        return self.came(begin, begin + WINDOW_S)

    def wait_for_traffic(self):
        deadline = time.monotonic() + PATIENCE_S
        while not re.search(r" [1-9][\d.]* MB/s", self.text()):
            assert time.monotonic() < deadline and not self.is_over(), self.text()[-2000:]
            time.sleep(0.2)

    def end(self):
        for _, pid, name in self.processes():
            if pid != self.process.pid and name == "incast":
                os.kill(pid, signal.SIGUSR2)
        assert self.process.wait(PATIENCE_S) == 0, self.text()[-2000:]
        says(self.text(), "^incast: ok")  # every byte was right
        assert not LEAK.search(self.text()), self.text()[-2000:]


@pytest.fixture
def incast(build):
    jobs = []

    def incast(np, **keys):
        jobs.append(Incast(build, np, **keys))
        jobs[-1].wait_for_traffic()
        return jobs[-1]
    run("lab-wire", "rate", WIRE)
    yield incast
    for job in jobs:
        job.clear_away()
    run("lab-wire", "rate", "none")


class Shown(Top):
    """What `weir` shows and changes from outside."""

    def job(self, np):
        """The number of the one with so many processes."""
        jobs = [process["job"] for process in self.processes()]
        return next(str(job) for job in jobs if jobs.count(job) == np)

    def most_reads(self, np):
        """That rank 0 of that job had under way in ten looks; none if nothing came meanwhile."""
        job = self.job(np)
        looks = [p["counters"] for _ in range(10) for p in self.processes() if (str(p["job"]), p["rank"]) == (job, 0)]
        came = looks[-1]["get_bytes"] - looks[0]["get_bytes"]
        return max(look["reads_out"] for look in looks) if came > 0 else 0

    def throttle(self, np, *changes):
        """The job with so many processes."""
        job = self.job(np)
        said = run(self.weir, "set", "--job", job, *changes, limit_s=60).stdout
        says(said, f"job {job}: {np} processes", f"^{np} answered after")
        return said


@pytest.fixture
def shown(build):
    return Shown(build)


def test_a_flood_that_is_throttled_gives_the_wire_back(incast, shown, record_property):
    """What it may still send is a tenth of the wire. Nothing of either job is lost."""
    neighbour = incast(2)
    alone = neighbour.rate()
    flood = incast(9, reads_max="32")
    time.sleep(WINDOW_S)
    beside = neighbour.rate()
    assert shown.most_reads(9) > 4
    says(shown.throttle(9, "reads_max=1"), "reads_max from 32 to 1")
    time.sleep(2)
    few_reads = neighbour.rate()
    assert shown.most_reads(9) == 1
    says(shown.text(), r"by weir set: .* reads_max 1 .* for ranks 1 2 3 4 5 6 7 8$",
         r"by weir set: .* reads_max 1 .* for ranks 0$")  # a port each
    assert {process["caps"]["reads_max"] for process in shown.processes()} == {1, None}
    shown.throttle(9, "rate_max=512KiB")
    begin = time.monotonic()
    time.sleep(2)
    throttled, left = neighbour.rate(), flood.came(begin + 2, begin + 2 + WINDOW_S)
    first = neighbour.came(begin, begin + 1)
    text = (f"MB/s of the neighbour: {alone:.1f} alone, {beside:.1f} beside the flood, {few_reads:.1f} with reads_max=1, "
            f"{throttled:.1f} with rate_max=512KiB ({first:.1f} in the first second); of the flood then {left:.1f}")
    record_property("measured", text)
    print(f"measured: {text}")
    assert beside < alone / 2, "the flood hurts nobody"
    assert throttled > 0.7 * alone and throttled > 1.4 * beside, text
    assert left < 0.3 * alone, "it is not throttled"
    assert left > 0, "it stands still"
    shown.throttle(9, "rate_max=auto", "reads_max=32")
    time.sleep(WINDOW_S)
    assert neighbour.rate() < 0.7 * throttled, "the flood is not back"
    assert shown.most_reads(9) > 4
    neighbour.end()
    flood.end()
    assert flood.text().count("'weir set' changed caps") == 3, "a line for each change"
    assert not glob.glob("/dev/shm/weir-*"), "segments are left behind"
