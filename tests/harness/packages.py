"""The Debian packages, made once in a run of pytest."""

import functools
import os
import subprocess

import pytest

from harness import open_mpi_5
from harness.open_mpi_5 import ROOT, needed

MAKE = os.path.join("packaging", "make-deb")
# What is installed, and how, is said there.
rotates = pytest.mark.long(but_after_changes_in=["packaging/", "tests/packaging/", "tests/harness/packages.py"])


@functools.cache
def make(build):
    """In BUILD/packages, of what is built there."""
    needed("making the packages", subprocess.run(
        [MAKE, "--build", build], cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True, errors="replace", check=False))


@functools.cache
def make_for_debian_13():
    """In its root file system. Returns that."""
    root = open_mpi_5.build()
    # There is no git, which knows the version.
    version = subprocess.run(["packaging/version"], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout
    needed("making the packages of Debian 13", open_mpi_5.inside(
        MAKE, "--build", open_mpi_5.BUILD, env=dict(os.environ, WEIR_VERSION=version.strip())))
    return root


# ---- what a kind of lab wants before it boots: its further options -----------------------------------

def ready(config):
    make(config.option.build)
    return []


def ready_for_debian_13(_):
    return ["--root", make_for_debian_13(), "--build", open_mpi_5.BUILD]
