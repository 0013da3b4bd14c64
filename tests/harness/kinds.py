"""The kinds of labs that tests run in: `@pytest.mark.lab("wire")`.

A test without this mark runs on the machine itself. Kinds whose boots are alike share one (boots.py).
"""

import dataclasses

import pytest

from harness import arm, open_mpi_5, other_open_mpi, packages

ROOT = open_mpi_5.ROOT
MEMORY = "3G"  # of one node: what the most demanding test wants


@dataclasses.dataclass(frozen=True)
class Kind:
    """What a boot is like (options of tools/lab/lab), and as whom its tests run."""
    name: str
    options: tuple = ()
    user: bool = False         # an ordinary one
    memlock: int | None = None  # the limit of locked memory in bytes, which binds users alone
    any_device: bool = False   # the host's RDMA device will do
    # Called on the host before the boot, with pytest's config. Returns further options.
    prepare: object = None
    # The mark `long` of its tests.
    rotates: object = None

    def boot(self):
        """What those that share a boot have in common: options, and what is prepared for it."""
        options = list(self.options)
        if "--nodes" not in options and "--memory" not in options:
            options += ["--memory", MEMORY]
        return tuple(options), self.prepare


KINDS = {}


def add(*args, **options):
    kind = Kind(*args, **options)
    assert kind.name not in KINDS, kind.name
    KINDS[kind.name] = kind


add("loopback", any_device=True)
add("a kernel of our own")  # tests change its network interfaces and RDMA devices
add("loopback as a user", user=True)
add("1200 KiB of locked memory", user=True, memlock=1200 << 10)
add("3 MiB of locked memory", user=True, memlock=3 << 20)
add("16 MiB of locked memory", user=True, memlock=16 << 20)
add("64 KiB of locked memory", user=True, memlock=64 << 10)
add("no device", ("--no-device",))
add("rails", ("--rails", "2"))  # rxe0 in one network, rxe1 in another, and no route between
add("wire", ("--wire",))
add("wire with rails", ("--wire", "--rails", "2"))
add("wire with paths", ("--wire", "--paths", "2", "--rate", "100mbit"))
add("nodes", ("--nodes", "2"))
add("nodes with rails", ("--nodes", "2", "--rails", "2"))
add("Slurm", ("--nodes", "2", "--rails", "2", "--slurm"))
linux_6_12 = dict(rotates=pytest.mark.long(together="Linux 6.12", seconds=15))
add("Linux 6.12", ("--kernel", "trixie"), **linux_6_12)
add("wire of Linux 6.12", ("--kernel", "trixie", "--wire"), **linux_6_12)
of_open_mpi_5 = dict(prepare=open_mpi_5.make_ready, rotates=open_mpi_5.rotates)
add("Open MPI 5.0", **of_open_mpi_5)  # where this machine has an older one
add("nodes of Open MPI 5.0", ("--nodes", "2", "--rails", "2"), **of_open_mpi_5)
add("ARM", prepare=arm.make_ready, rotates=arm.with_long)  # emulated
# What is installed there is not for other tests: what is prepared makes it a boot of their own.
add("packages", prepare=packages.ready, rotates=packages.rotates)
add("packages beside another Open MPI", prepare=other_open_mpi.ready)
add("packages of Debian 13", prepare=packages.ready_for_debian_13)
add("packages for ARM", prepare=packages.ready_for_arm, rotates=arm.with_long)
