"""What is not possible under an Open MPI, whatever the transport: README.md has the differences."""

import fnmatch

from harness.open_mpi_5 import own_version

OVERLAP = "weir refuses overlap where ob1 locks for MPI_THREAD_MULTIPLE alone"
NOT_UNDER = {
    5: (("overlap* demanded*", OVERLAP),  # of test_programs.py
        ("rma_list *", "osc/rdma says MPI_ERR_RMA_RANGE before it asks a BTL"),
        ("* while ranks compute, with overlap", OVERLAP)),  # of tests/lab/campaign
}


def ruled_out(name):
    """Why a case of this name is not possible under this Open MPI, or None."""
    version = own_version()
    return next((f"not under Open MPI {version}: {why}" for glob, why in NOT_UNDER.get(version, ())
                 if fnmatch.fnmatch(name, glob)), None)
