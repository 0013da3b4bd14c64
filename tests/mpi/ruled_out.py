"""What is not possible under an Open MPI, whatever the transport: README.md says how each was found."""

import fnmatch
import re
import subprocess

OVERLAP = "weir refuses overlap where ob1 locks for MPI_THREAD_MULTIPLE alone"
NOT_UNDER = {
    5: (("overlap* demanded*", OVERLAP),  # of the suite
        ("rma_list *", "osc/rdma says MPI_ERR_RMA_RANGE before it asks a BTL"),
        ("* while ranks compute, with overlap", OVERLAP)),  # of tests/lab/campaign
}


def possible(cases, name, mpirun="mpirun"):
    """Those that this Open MPI makes possible; tells of the others. `name(case)` is a case's name."""
    said = subprocess.run([mpirun, "--version"], stdout=subprocess.PIPE, text=True, check=False).stdout
    version = re.search(r"Open MPI\) (\d+)", said)
    kept = []
    for case in cases:
        why = next((why for glob, why in NOT_UNDER.get(int(version[1]) if version else 0, ())
                    if fnmatch.fnmatch(name(case), glob)), None)
        if why:
            print(f"# not under Open MPI {version[1]}: {name(case)}: {why}", flush=True)
        else:
            kept.append(case)
    return kept
