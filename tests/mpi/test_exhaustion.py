"""Descriptors, mappings and address space that run out in a rank after MPI_Init: the data is right, or the job
ends in time and says what it lacks."""

import os
import shlex

import pytest

from harness.mpirun import mpirun
from harness.programs import judge, sh

pytestmark = pytest.mark.long

LIMIT_S = 90

# What the C library, weir and Open MPI call it.
LACKS = r"(?i)too many open files|cannot allocate memory|out of (memory|resource)|bad_alloc|no memory"
# UCX ends the process itself where the table of its registration cache cannot grow (ucs_pgtable_insert).
UCX_ENDS_IT = "Fatal: Failed to allocate page table directory"


@pytest.mark.lab("loopback")
@pytest.mark.parametrize("what, left", [
    *(("descriptors", left) for left in (0, 1, 2, 4)), *(("mappings", left) for left in (5, 20, 80)),
    *(("address-space", left) for left in (1, 2, 8, 32)),
])
def test_exhausted(what, left, build, tmp_path):
    """Nothing of weir's crashes, nothing hangs, and no byte is wrong."""
    command = [*mpirun(), "-n", "2", os.path.join(build, "mpi", "exhausted"), "--what", what, "--left", str(left),
               "--timeout", str(LIMIT_S - 20)]
    done = sh(shlex.join(command), build, tmp_path, LIMIT_S)
    judge(done, done.returncode == 0, [r"^exhausted: ok" if done.returncode == 0 else LACKS],
          ["FAILED", "WATCHDOG", r"Signal: (Seg|Bus|Float)", "terminate called"])
    aborted = done.stdout.count("Signal: Abort")
    assert aborted <= done.stdout.count(UCX_ENDS_IT), done.stdout
