"""The Debian packages, made once in a run of pytest."""

import functools
import glob
import os
import pathlib
import subprocess

import pytest

from harness import arm, open_mpi_5
from harness.programs import run
from harness.rooted import ROOT, needed

MAKE = os.path.join("packaging", "make-deb")
# What is installed, and how, is said there.
rotates = pytest.mark.long(seconds=40, but_after_changes_in=[
    "packaging/", "tests/packaging/", "tests/harness/packages.py"])


@functools.cache
def make(build):
    """In BUILD/packages, of what is built there."""
    needed("making the packages", subprocess.run(
        [MAKE, "--build", build], cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True, errors="replace", check=False))


def files_of(build):
    """{package: file}"""
    return {os.path.basename(path).split("_")[0]: path
            for path in glob.glob(os.path.join(build, "packages", "*.deb"))}


def install(files):
    """In the guest. dpkg would have man-db read all manual pages of this machine."""
    pathlib.Path("/var/lib/man-db/auto-update").unlink(missing_ok=True)
    run("dpkg", "-i", *files)


@functools.cache
def make_in(rooted):
    """In its root file system."""
    rooted.make()
    # There is no git, which knows the version.
    version = subprocess.run(["packaging/version"], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout
    needed(f"making the packages in {rooted.name}", rooted.inside(
        MAKE, "--build", rooted.build, env=dict(os.environ, WEIR_VERSION=version.strip())))


# ---- what a kind of lab wants before it boots: its further options -----------------------------------

def ready(config):
    make(config.option.build)
    return []


def ready_for_debian_13(_):
    make_in(open_mpi_5.DEBIAN_13)
    return open_mpi_5.DEBIAN_13.lab()


def ready_for_arm(config):
    options = arm.make_ready(config)
    make_in(arm.ARM)
    return options
