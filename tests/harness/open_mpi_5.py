"""weir built for Open MPI 5.0, in a root file system of Debian 13 (tools/lab/root), for tests that run there."""

import functools
import hashlib
import os
import re
import shutil
import subprocess

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.join(ROOT, "build-trixie")
TARGETS = ["mca_btl_weir", "load_test", "btl_test", "memory_hooks_test", "registration_module", "unload_test",
           "mpi_tests", "pvars_at_finalize", "btl_calls", "strict"]
# It is built for that only then. The tests are in one share, for the build is most of it.
rotates = pytest.mark.long(together="Open MPI 5.0", but_after_changes_in=[
    "transport/btl/compat.h", "transport/btl/CMakeLists.txt", "tests/plugin/", "tests/harness/open_mpi_5.py"])
ROOT_COMMAND = [os.path.join(ROOT, "tools", "lab", "root"), "trixie"]


def inside(*command, **options):
    """Runs it in that root, without a VM."""
    return subprocess.run([*ROOT_COMMAND, "--", *command], cwd=ROOT, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, **options)


def needed(what, done):
    if done.returncode != 0:
        raise RuntimeError(f"{what} failed:\n" + "\n".join(done.stdout.splitlines()[-40:]))
    return done.stdout


@functools.cache
def own_version():
    """The first number of this machine's Open MPI, or 0."""
    try:
        said = subprocess.run(["mpirun", "--version"], stdout=subprocess.PIPE, text=True, check=False).stdout
    except OSError:
        return 0
    found = re.search(r"Open MPI\) (\d+)", said)
    return int(found[1]) if found else 0


@functools.cache
def build():
    """Makes the root where there is none, and builds there without a warning. Returns the root's path."""
    root = needed("making the root of Debian 13",
                  subprocess.run(ROOT_COMMAND, stdout=subprocess.PIPE, text=True, check=False)).strip()
    # Headers of other packages may be older than what was compiled with those before.
    with open(os.path.join(root, "var", "lib", "dpkg", "status"), "rb") as file:
        packages = hashlib.sha256(file.read()).hexdigest()
    stamp = os.path.join(BUILD, "packages")
    if not os.path.exists(stamp) or open(stamp).read() != packages:
        shutil.rmtree(BUILD, ignore_errors=True)
        os.makedirs(BUILD)
        with open(stamp, "w") as file:
            file.write(packages)
    said = needed("configuring for Open MPI 5.0", inside(
        "cmake", "-S", ".", "-B", BUILD, "-G", "Ninja", "-DCMAKE_COMPILE_WARNING_AS_ERROR=ON"))
    found = re.search(r"^-- Open MPI ([0-9.]*):", said, re.M)
    if not found or not found[1].startswith("5.0."):
        raise RuntimeError(f"configured for Open MPI {found and found[1]}, not 5.0")
    needed(f"building for Open MPI {found[1]}", inside("cmake", "--build", BUILD, "--target", *TARGETS))
    return root


def make_ready(_):
    """Options of the lab that boots it. Where this machine's own Open MPI is as new, none."""
    return [] if own_version() >= 5 else ["--root", build(), "--build", BUILD]
