"""weir built in a root file system of tools/lab/root, for tests that run there."""

import functools
import hashlib
import os
import re
import shutil
import subprocess

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def needed(what, done):
    if done.returncode != 0:
        raise RuntimeError(f"{what} failed:\n" + "\n".join(done.stdout.splitlines()[-40:]))
    return done.stdout


class RootedBuild:
    """`words`: of tools/lab/root. `build`: the directory. `open_mpi`: how the version begins that is expected there."""

    def __init__(self, words, build, targets, open_mpi, options=()):
        self.command = [os.path.join(ROOT, "tools", "lab", "root"), *words]
        self.build, self.targets, self.options = os.path.join(ROOT, build), targets, options
        self.name, self.open_mpi = " ".join(words), open_mpi

    def inside(self, *command, **options):
        """Runs it in that root, without a VM."""
        return subprocess.run([*self.command, "--", *command], cwd=ROOT, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, **options)

    @functools.cache
    def make(self):
        """Makes the root where there is none, and builds there without a warning. Returns the root's path."""
        root = needed(f"making the root of {self.name}",
                      subprocess.run(self.command, stdout=subprocess.PIPE, text=True, check=False)).strip()
        # Headers of other packages may be older than what was compiled with those before.
        with open(os.path.join(root, "var", "lib", "dpkg", "status"), "rb") as file:
            packages = hashlib.sha256(file.read()).hexdigest()
        stamp = os.path.join(self.build, "packages.sha256")
        if not os.path.exists(stamp) or open(stamp).read() != packages:
            shutil.rmtree(self.build, ignore_errors=True)
            os.makedirs(self.build)
            with open(stamp, "w") as file:
                file.write(packages)
        said = needed(f"configuring in {self.name}", self.inside(
            "cmake", "-S", ".", "-B", self.build, "-G", "Ninja", "-DCMAKE_COMPILE_WARNING_AS_ERROR=ON", *self.options))
        found = re.search(r"^-- Open MPI ([0-9.]*):", said, re.M)
        if not found or not found[1].startswith(self.open_mpi):
            raise RuntimeError(f"configured for Open MPI {found and found[1]}, not {self.open_mpi}")
        needed(f"building in {self.name}", self.inside("cmake", "--build", self.build, "--target", *self.targets))
        return root

    def lab(self):
        """Options of the lab that boots it."""
        return ["--root", self.make(), "--build", self.build]
