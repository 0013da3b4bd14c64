"""A job for minutes, whose connections end and come back: what it has does not grow."""

import os
import re
import statistics
import subprocess
import time

import pytest

from harness.mpirun import Mpirun, mpirun

SECONDS = 120
EVERY_S = 1
# What the allocator and the registration cache may still take up, as a part of what there is.
MEMORY_MAY_GROW = 0.03
MAY_BE_MORE = {"queue pairs": 8, "memory regions": 8}  # at the moment; connections end by the hundred


def look(pids):
    """Of all of them together: resident memory, descriptors, threads; and queue pairs of the machine."""
    memory = descriptors = threads = 0
    for pid in pids:
        with open(f"/proc/{pid}/status") as file:
            status = file.read()
        memory += int(re.search(r"^VmRSS:\s+(\d+)", status, re.M)[1])
        threads += int(re.search(r"^Threads:\s+(\d+)", status, re.M)[1])
        descriptors += len(os.listdir(f"/proc/{pid}/fd"))
    said = subprocess.run(["rdma", "resource", "show"], capture_output=True, text=True, check=True).stdout
    pairs = sum(map(int, re.findall(r"\bqp (\d+)", said)))
    regions = sum(map(int, re.findall(r"\bmr (\d+)", said)))
    return {"memory": memory, "descriptors": descriptors, "threads": threads, "queue pairs": pairs,
            "memory regions": regions}


@pytest.mark.lab("loopback")
@pytest.mark.long(seconds=SECONDS)
@pytest.mark.timeout(SECONDS + 180)
@pytest.mark.parametrize("program, mca", [
    pytest.param("alltoall_mem --rounds 10000000 --depth 4", [("btl_weir_connections_max", "2")],
                 id="connections come and go"),
    pytest.param("random_soak --messages 100000000", [("btl_weir_overlap", "on")], id="messages of all kinds"),
])
def test_nothing_grows(program, mca, build, tmp_path):
    """The medians of the third and of the last quarter are alike."""
    name = program.split()[0]
    command = [*mpirun(mca), "-n", "4", os.path.join(build, "mpi", "mpi_tests"), *program.split(),
               "--timeout", str(SECONDS + 120)]
    samples = []
    with open(tmp_path / "output", "wb") as file:
        job = Mpirun(command, file)
    try:
        begin = time.monotonic()
        while time.monotonic() < begin + SECONDS:
            time.sleep(EVERY_S)
            assert not job.is_over(), f"{name} ended:\n{(tmp_path / 'output').read_text()[-2000:]}"
            ranks = [pid for _, pid, called in job.processes() if "mpi_tests" in called]
            if len(ranks) == 4:
                samples.append(look(ranks))
    finally:
        job.clear_away()
    assert len(samples) >= 12, f"only {len(samples)} looks"  # each takes seconds beside busy ranks
    quarter = len(samples) // 4
    problems = []
    for what in samples[0]:
        third = statistics.median(sample[what] for sample in samples[2 * quarter:3 * quarter])
        last = statistics.median(sample[what] for sample in samples[3 * quarter:])
        allowed = third * MEMORY_MAY_GROW if what == "memory" else MAY_BE_MORE.get(what, 0)
        if last > third + allowed:
            problems.append(f"{what} grew from {third:.0f} to {last:.0f}")
    assert not problems, "; ".join(problems)
