"""weir built for Open MPI 5.0, in a root file system of Debian 13. By hand, for the newer one of a later release, too."""

import functools
import re
import subprocess

import pytest

from harness.rooted import ROOT, RootedBuild  # noqa: F401


@functools.cache
def of_release(suite, open_mpi=""):
    """`open_mpi`: how its version begins."""
    return RootedBuild([suite], f"build-{suite}", [
        "mca_btl_weir", "load_test", "btl_test", "btl_overlap", "memory_hooks_test", "registration_module",
        "unload_test", "mpi_tests", "pvars_at_finalize", "btl_calls", "adapter", "strict",
        "weir", "weir_tune_load"], open_mpi)


DEBIAN_13 = of_release("trixie", "5.0.")
# It is built for that only then. The tests are in one share, for the build is most of it.
rotates = pytest.mark.long(together="Open MPI 5.0", seconds=24, but_after_changes_in=[
    "transport/btl/compat.h", "transport/btl/overlap", "transport/btl/CMakeLists.txt", "tests/plugin/",
    "tests/harness/open_mpi_5.py"])
BUILD, build, inside = DEBIAN_13.build, DEBIAN_13.make, DEBIAN_13.inside


@functools.cache
def own_version():
    """The first number of this machine's Open MPI, or 0."""
    try:
        said = subprocess.run(["mpirun", "--version"], stdout=subprocess.PIPE, text=True, check=False).stdout
    except OSError:
        return 0
    found = re.search(r"Open MPI\) (\d+)", said)
    return int(found[1]) if found else 0


def make_ready(config):
    """Options of the lab that boots it. Where this machine's own Open MPI is as new, none."""
    if own_version() >= 5:
        return []
    suite = config.option.release
    return (of_release(suite) if suite else DEBIAN_13).lab()
