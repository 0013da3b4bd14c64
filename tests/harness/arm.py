"""weir built for Debian 12 on ARM, by this machine's cross compiler."""

import os
import subprocess

import pytest

from harness.rooted import ROOT, RootedBuild, needed

UNITS = ["unit_base", "unit_wire", "unit_lane", "unit_rail", "unit_srq", "unit_core", "unit_flowctl_processes",
         "unit_flowctl_threads", "unit_verbs", "unit_registration", "btl_test"]
CONTRACTS = ["rxe_contract_test", "rxe_rdma_test", "registration_contract_test"]
ARM = RootedBuild(["--arch", "arm64", "bookworm"], "build-arm64", [
    *UNITS, *CONTRACTS, "mca_btl_weir", "weir", "load_test", "memory_hooks_test", "unload_test",
    "registration_module", "mpi_tests", "pvars_at_finalize", "strict"], "4.1.", ["-DCMAKE_UNITY_BUILD=ON"])

# Its root and its build may take half an hour where nothing is cached.
with_long = pytest.mark.long(in_shares=False)


def make_ready(_):
    """Options of the lab that boots it."""
    needed("installing the emulator and the cross compiler", subprocess.run(
        [os.path.join("tools", "setup"), "--only", "arm"], cwd=ROOT, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False))
    return ["--arch", "arm64", *ARM.lab()]
