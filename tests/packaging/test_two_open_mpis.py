"""Debian's Open MPI with weir's package, and another one with weir built for it, on one machine: each finds its own
plugin, and none is broken."""

import glob
import os
import re
import shutil

import pytest

from harness import other_open_mpi, packages
from harness.programs import run, says

MODULE = ". /usr/share/modules/init/sh && module use /usr/share/weir/modulefiles && module load weir && "
# The loader says which files it takes, in a file for each process.
PING_PONG = ("mpirun -np 2 --oversubscribe --mca pml ob1 --mca btl weir,self -x LD_DEBUG=files "
             "-x LD_DEBUG_OUTPUT=/tmp/loaded /tmp/pingpong --max 4096 --counters")


def loaded():
    """Of all processes since the last call."""
    said = ""
    for name in glob.glob("/tmp/loaded.*"):
        with open(name) as file:
            said += file.read()
        os.unlink(name)
    return {os.path.realpath(path) for path in re.findall(r"calling init: (/\S+)$", said, re.M)}


@pytest.mark.lab("packages beside another Open MPI")
@pytest.mark.long(in_shares=False)
@pytest.mark.timeout(900)
def test_each_finds_its_own_plugin(build):
    other = other_open_mpi.of_the_build()
    files = packages.files_of(build)
    packages.install(file for name, file in files.items() if name != "weir-lab")
    run("cmake", "--install", other_open_mpi.BUILD, "--component", "openmpi")
    shutil.copy(os.path.join(build, "mpi", "mpi_tests"), "/tmp/pingpong")
    os.chmod("/tmp/pingpong", 0o755)

    of_other = f"export PATH={other}/bin:$PATH LD_LIBRARY_PATH={other}/lib; "
    for module in "", MODULE:
        for before, folder in ("", "/usr/lib/"), (of_other, f"{other}/lib/"):
            # Nobody else may look into root's cache.
            said = run("su", "--login", "--shell", "/bin/sh", "root", "-c",
                       "export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1; "
                       f"{module}{before}exec {PING_PONG}", one_stream=True).stdout
            says(said, "btl_weir_messages_sent min [1-9]")
            taken = loaded()
            for library in "mca_btl_weir.so", "libopen-pal.so", "libmpi.so":
                found = [path for path in taken if f"/{library}" in path]
                assert len(found) == 1 and found[0].startswith(folder), (library, found)
