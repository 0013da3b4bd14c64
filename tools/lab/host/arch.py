"""What differs between machines: names of Debian, of QEMU and of the kernel."""

import dataclasses
import os
import platform
import subprocess

from .errors import SETUP, LabError


@dataclasses.dataclass(frozen=True)
class Arch:
    name: str           # Debian's
    triplet: str        # of its directories and compilers
    machine: str        # QEMU's -machine
    tcg_cpu: str
    console: str
    cmdline: str = ""   # further words of the kernel's

    @property
    def qemu(self):
        return f"qemu-system-{self.cpu}"

    @property
    def cpu(self):
        return self.triplet.split("-")[0]

    @property
    def is_foreign(self):
        return self != HERE


ARCHES = {arch.name: arch for arch in (
    # 5-level paging only makes TCG's page walks longer.
    Arch("amd64", "x86_64-linux-gnu", "pc,hpet=off", "max,la57=off,erms=off,fsrm=off", "ttyS0",
         "tsc=reliable clocksource=tsc"),
    # No pointer authentication, which TCG would compute; its atomics are single instructions.
    Arch("arm64", "aarch64-linux-gnu", "virt", "neoverse-n1", "ttyAMA0"),
)}
HERE = next((arch for arch in ARCHES.values() if arch.cpu == platform.machine()), ARCHES["amd64"])


def emulate_programs(arch):
    """The kernel hands programs of `arch` to QEMU, in any root file system. As root, once after a boot."""
    known = f"/proc/sys/fs/binfmt_misc/qemu-{arch.cpu}"
    if not arch.is_foreign or os.path.exists(known):
        return
    try:
        subprocess.run(["update-binfmts", "--enable", os.path.basename(known)], stdout=subprocess.DEVNULL, check=False)
    except OSError:
        pass
    if not os.path.exists(known):
        raise LabError(f"this machine does not run programs of {arch.name}: it wants qemu-user-static and "
                       f"binfmt-support ({SETUP} --only arm), root, and a kernel with binfmt_misc")
