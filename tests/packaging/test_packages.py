"""The Debian packages: made, and installed, used and removed as an administrator and a user would."""

import glob
import gzip
import os
import re
import shutil
import sys

import pytest

from harness import fresh, packages
from harness.programs import run, says

PING_PONG = "mpirun {} -np 2 --oversubscribe --mca pml ob1 --mca btl weir,self /tmp/pingpong --max 4096 --counters"
# Debian 13's mpirun names PMIx's folder to programs as if it were Open MPI's.
OWN_FOLDERS = ("--mca mca_base_component_path SYS_DEFAULT "
               "--pmixmca mca_base_component_path /usr/lib/x86_64-linux-gnu/pmix2/lib/pmix")
OF_A_CHECKOUT = rb"(?<![\w./-])(tools/(lab|setup|quickstart|tune)|conf/\w+|packaging/)[^\n\0]*"
LEFTOVERS = ["/etc/weir", "/etc/profile.d/weir*", "/usr/share/weir", "/usr/libexec/weir"]
MAN_PAGE = "/usr/share/man/man1/weir-doctor.1.gz"


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
    made = {re.sub(r"\d$", "", name) for name in packages.files_of(build)}
    assert made == {"weir", "weir-openmpi", "weir-lab"}


@pytest.mark.long(in_shares=False)
@pytest.mark.timeout(7200)
def test_are_made_on_a_fresh_debian_12(root, tmp_path, monkeypatch):
    """By itself: there is neither cmake nor a compiler."""
    monkeypatch.syspath_prepend(os.path.join(root, "tools/lab"))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    from host import apt
    tree, source = tmp_path / "fresh", tmp_path / "weir"
    run(*fresh.making(tree, apt.mirror(), apt.proxies()), limit_s=1200, one_stream=True)
    (tree / "etc/apt/apt.conf.d/99example").write_text(apt.settings())
    run("git", "clone", "-q", root, str(source))
    version = run("packaging/version", cwd=root).stdout.strip()  # there is no git
    run(*fresh.inside(tree, source, f"WEIR_VERSION={version}", "packaging/make-deb"), limit_s=6000, one_stream=True)
    assert {"weir", "weir-openmpi4", "weir-lab"} == set(packages.files_of(source / "build-deb"))
    shutil.rmtree(tree)


@packages.rotates
@pytest.mark.timeout(1200)
def test_no_hint_is_of_a_checkout(build, root, tmp_path):
    """In manuals and programs. What a build says of its own checkout begins with tools/env."""
    packages.make(build)
    for package in packages.files_of(build).values():
        run("dpkg-deb", "-x", package, str(tmp_path))
    looked_at = 0
    for path in (path for path in tmp_path.rglob("*") if path.is_file() and not path.is_symlink()):
        text = path.read_bytes()
        if path.parent.name == "man1":
            text = gzip.decompress(text)
        elif not text.startswith(b"\x7fELF"):
            continue
        looked_at += 1
        assert os.fsencode(root) not in text, path
        assert not (found := re.search(OF_A_CHECKOUT, text)), (path, found)
    assert looked_at > 10
    # Its own plugin is where no Open MPI looks.
    said = run(str(tmp_path / "usr/bin/weir"), "doctor", status=None).stdout
    says(said, "fix: install weir's plugin for this Open MPI: the package weir-openmpi4")
    assert "tools/" not in said and "conf/" not in said, said


@pytest.mark.timeout(600)
@pytest.mark.parametrize("others, options", [
    pytest.param(["weir-lab"], "", id="here", marks=pytest.mark.lab("packages")),
    # No QEMU is in these roots.
    pytest.param([], OWN_FOLDERS, id="Debian 13", marks=[pytest.mark.lab("packages of Debian 13"),
                                                             pytest.mark.long(seconds=100)]),
    pytest.param([], "", id="ARM", marks=pytest.mark.lab("packages for ARM"))])
def test_installed_used_and_removed(others, options, build):
    files = {name: path for name, path in packages.files_of(build).items() if name != "weir-lab" or name in others}
    packages.install(files.values())
    assert plugin_is_found(), "Open MPI does not find the plugin"

    shutil.copy(os.path.join(build, "mpi", "mpi_tests"), "/tmp/pingpong")
    os.chmod("/tmp/pingpong", 0o755)
    says(as_user(PING_PONG.format(options)), "btl_weir_messages_sent min [1-9]")
    for command in "weir info", "weir config show", "weir sim list", "weir tune --help", *(f"{n} --help" for n in others):
        as_user(command)
    assert has_man_page()

    run("dpkg", "--purge", *files)
    assert not plugin_is_found(), "Open MPI still finds the plugin"
    assert run("dpkg", "-L", *files, status=None).stdout.split() == []
    assert not [path for pattern in LEFTOVERS for path in glob.glob(pattern)]
