"""Ranks of a job with other settings than each other: they come to the right data, or the job ends with an error
that says what differs."""

import os
import shlex

import pytest

from harness.mpirun import mpirun
from harness.programs import judge, sh
from mpi.jobs import write_plan

pytestmark = pytest.mark.long

LIMIT_S = 150
ALL = ("pt2pt_modes --largest 70000", "bigmix --rounds 1 --largest 2M")

BUFFERS = ("buffer_size=8704B", "buffer_size=4KiB")
MAY_DIFFER = ("eager_max=8KiB chunk_size=16KiB reads_max=2 window_initial=4 window_max=64 paths=4",
              "eager_max=64KiB chunk_size=1MiB connections_max=2",
              "bundle_size=1KiB window_initial=16 inline_limit=0 send_memory_max=1MiB")
SERVERS = ("proxy_servers=1 admission=always tokens=3", "admission=always tokens=5", "node_sharing=off")


def differ(name, lab, *ranks, programs=ALL, error=None):
    return pytest.param(ranks, programs, error, id=name, marks=pytest.mark.lab(lab))


@pytest.mark.parametrize("ranks, programs, error", [
    differ("buffers", "loopback", *BUFFERS, programs=["ring --laps 20"],
           error="btl_weir_buffer_size differs from ours"),
    differ("what may differ", "loopback", *MAY_DIFFER),
    differ("servers and tokens", "loopback", *SERVERS),
    differ("overlap", "loopback", "overlap=all", "overlap=off"),
    differ("frames", "rails", "device=rxe0,rxe1 frames=spread", "device=rxe0,rxe1"),
    differ("rails", "rails", "device=rxe0,rxe1", "device=rxe0"),
])
def test_ranks_disagree(ranks, programs, error, build, tmp_path):
    """Rank N has the Nth settings."""
    branches = "".join(
        f"{rank}) export {' '.join('OMPI_MCA_btl_weir_' + setting for setting in settings.split())};; "
        for rank, settings in enumerate(ranks))
    plan = write_plan(tmp_path, [(len(ranks), program) for program in programs])
    command = [*mpirun(), "-n", str(len(ranks)), "sh", "-c",
               f'case $OMPI_COMM_WORLD_RANK in {branches}esac; exec "$0" "$@"',
               os.path.join(build, "mpi", "mpi_tests"), "--plan", plan]
    done = sh(shlex.join(command), build, tmp_path, LIMIT_S)
    if error:
        judge(done, False, [error], ["FAILED", "WATCHDOG", "Signal:"])
    else:
        judge(done, True, [rf"^{program.split()[0]}: ok" for program in programs], ["lost rank"])
