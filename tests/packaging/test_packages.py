"""The Debian packages: made, and installed, used and removed as an administrator and a user would."""

import glob
import os
import pathlib
import re
import shutil

import pytest

from harness import packages
from harness.programs import run, says

PING_PONG = "mpirun -np 2 --oversubscribe --mca pml ob1 --mca btl weir,self /tmp/pingpong --max 4096 --counters"
LEFTOVERS = ["/etc/weir", "/etc/profile.d/weir*", "/usr/share/weir", "/usr/libexec/weir"]
MAN_PAGE = "/usr/share/man/man1/weir-doctor.1.gz"


def files_of(build):
    """{package: file}"""
    return {os.path.basename(path).split("_")[0]: path
            for path in glob.glob(os.path.join(build, "packages", "*.deb"))}


def as_user(command):
    """As one who has just logged in, with nothing in the environment but what /etc/profile puts there."""
    return run("su", "--login", "--shell", "/bin/sh", "nobody", "-c",
               f"export HOME=/tmp && cd /tmp && exec {command}").stdout


def plugin_is_found():
    return "mca:btl:weir:" in as_user("ompi_info --param btl weir --level 9 --parsable")


def has_man_page():
    """What this machine unpacks none of is in the package's list all the same."""
    excluded = run("grep", "-qsr", "path-exclude=/usr/share/man", "/etc/dpkg/dpkg.cfg.d", status=None).returncode == 0
    return MAN_PAGE in run("dpkg", "-L", "weir").stdout.split() and (excluded or os.path.getsize(MAN_PAGE) > 0)


@pytest.mark.timeout(1200)
def test_are_made(build):
    packages.make(build)
    made = {re.sub(r"\d$", "", name) for name in files_of(build)}
    assert made == {"weir", "weir-openmpi", "weir-lab"}


@pytest.mark.timeout(600)
@pytest.mark.parametrize("others", [
    pytest.param(["weir-lab"], id="here", marks=pytest.mark.lab("packages")),
    # weir-lab is the same everywhere, and needs QEMU.
    pytest.param([], id="Debian 13", marks=[pytest.mark.lab("packages of Debian 13"), pytest.mark.long]),
    pytest.param([], id="ARM", marks=pytest.mark.lab("packages for ARM"))])
def test_installed_used_and_removed(others, build):
    # dpkg would have it read all manual pages of this machine.
    pathlib.Path("/var/lib/man-db/auto-update").unlink(missing_ok=True)
    files = {name: path for name, path in files_of(build).items() if name != "weir-lab" or name in others}
    run("dpkg", "-i", *files.values())
    assert plugin_is_found(), "Open MPI does not find the plugin"

    shutil.copy(os.path.join(build, "mpi", "mpi_tests"), "/tmp/pingpong")
    os.chmod("/tmp/pingpong", 0o755)
    says(as_user(PING_PONG), "btl_weir_messages_sent min [1-9]")
    for command in "weir info", "weir config show", "weir sim list", "weir tune --help", *(f"{n} --help" for n in others):
        as_user(command)
    assert has_man_page()

    run("dpkg", "--purge", *files)
    assert not plugin_is_found(), "Open MPI still finds the plugin"
    assert run("dpkg", "-L", *files, status=None).stdout.split() == []
    assert not [path for pattern in LEFTOVERS for path in glob.glob(pattern)]
