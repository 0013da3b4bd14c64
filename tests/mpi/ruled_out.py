"""What is not possible under an Open MPI, whatever the transport: README.md has the differences."""

import fnmatch

from harness.open_mpi_5 import own_version

OF_A_TABLE_WITHOUT_LOCK = ("rma_list *", "osc/rdma says MPI_ERR_RMA_RANGE before it asks a BTL")
OF_OVERLAP = ("overlap* demanded *", "weir refuses overlap there, for ob1 lacks a lock (transport/btl/compat.h)")
OF_NODES = ("spawn by the first node *",
            "PRRTE loses what children published, over tcp, too (open-mpi/ompi#12601, #13521)")
NOT_UNDER = {5: (OF_A_TABLE_WITHOUT_LOCK, OF_NODES), 6: (OF_A_TABLE_WITHOUT_LOCK, OF_OVERLAP)}


def ruled_out(name):
    """Why a case of this name is not possible under this Open MPI, or None."""
    version = own_version()
    return next((f"not under Open MPI {version}: {why}" for glob, why in NOT_UNDER.get(version, ())
                 if fnmatch.fnmatch(name, glob)), None)
