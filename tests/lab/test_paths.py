"""Large messages over a wire with two paths, every byte checked: four queue pairs to each peer use both."""

import os
import re

import pytest

from harness.mpirun import mpirun
from harness.programs import run

pytestmark = [pytest.mark.lab("wire with paths"), pytest.mark.timeout(500),
              pytest.mark.long(together="paths", seconds=40)]  # for the boot is theirs alone

OWN_END = ("OMPI_MCA_btl_weir_device=rxe0$(test $OMPI_COMM_WORLD_RANK = 0 && echo a || echo b); "
           'export OMPI_MCA_btl_weir_device; exec "$0" "$@"')


@pytest.fixture
def over_paths(build, tmp_path):
    """A program on both ends of the wire. What each path has carried and lost: [(bytes, packets), ...]."""
    def over_paths(program, *args):
        before = counted()
        run(*mpirun([("btl_weir_paths", 4)]), "-n", "2", "sh", "-c", OWN_END, os.path.join(build, "mpi", program),
            *args, cwd=tmp_path, limit_s=450)
        return [(now - then, lost - earlier) for (now, lost), (then, earlier) in zip(counted(), before)]
    yield over_paths
    run("lab-wire", "loss", "none")


def counted():
    said = run("tc", "-s", "qdisc", "show", "dev", "w0a").stdout
    found = re.findall(r"netem .* parent 1:\d .*\n Sent (\d+) bytes \d+ pkt \(dropped (\d+)", said)
    assert len(found) == 2, said
    return [(int(sent), int(lost)) for sent, lost in found]


def test_two_good_paths(over_paths):
    (first, _), (second, _) = over_paths("large_traffic", "--rounds", "2", "--bytes", "1M", "--ring-bytes", "3M")
    assert min(first, second) > max(first, second) / 10, "nearly all went one way"


def test_one_path_that_loses_packets(over_paths):
    """What is slow is left."""
    run("lab-wire", "loss", "0.2%", "0/1")
    (_, at_the_good), (_, at_the_bad) = over_paths("stream", "--seconds", "8", "--largest", "1048576")
    assert at_the_good == 0 and at_the_bad > 0, "not the one path has lost packets"
