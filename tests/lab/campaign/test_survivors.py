"""Processes die, and the job goes on: mpirun --with-ft ulfm of Open MPI 5."""

import re

import pytest

from lab.campaign.fabric import on
from lab.campaign.job import LOST

TOKENS = [("btl_weir_admission", "always"), ("btl_weir_tokens", "3")]
PROXY = [("btl_weir_proxy_servers", "1"), ("mpi_yield_when_idle", "1")]
FLOOD = ["--phase", "flood"]
GETS = [*FLOOD, "--largest", "1M"]

# (arguments of `ulfm`, processes, MCA parameters), by what the victim is at or is.
DEATHS = {
    "in gets, twice": ([*GETS, "--deaths", 2], 6, []),
    "idle": (["--phase", "idle"], 5, []),
    "among small messages": (FLOOD, 5, []),
    "connecting": (["--phase", "connect"], 5, []),
    "in MPI_Finalize": (["--phase", "finalize"], 5, []),
    "with tokens": (FLOOD, 5, TOKENS),
    "the proxy's server": ([*FLOOD, "--victims", "first"], 5, PROXY),
    "one of the proxy's tasks": (FLOOD, 5, PROXY),
    "rank 0": ([*FLOOD, "--victims", "first"], 5, []),
    "two at once": ([*GETS, "--at-once", 2], 5, []),
}


@on("Open MPI 5.0")
@pytest.mark.parametrize("args, np, mca", [
    pytest.param(*case, id=name, marks=[] if name == "in gets, twice" else [pytest.mark.long])
    for name, case in DEATHS.items()])
def test_the_others_go_on_without_one(args, np, mca, start, measured):
    job = start("ulfm", np, args, mca=mca, launch=["--with-ft", "ulfm"])
    job.check_survived()
    assert not re.search(LOST, job.output()), "the program hears it, and the user need not"
    for said in re.findall(r"^ulfm: death .*", job.output(), re.M):
        measured(said)
