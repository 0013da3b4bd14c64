"""The package weir-lab as a project uses it that has nothing else of weir.

It is unpacked into a directory of its own, and the example in it copied to another one. What the example's
workflow files tell a service to run is run there: its tests, in the packaged lab. As that needs no root,
apt-get only says what it would install.
"""

import ast
import os
import re
import shutil
import subprocess
import types

import pytest
import yaml

from harness import fresh, packages
from harness.programs import run

LIMIT_S = 900   # more than the lab's own limits together
OWN = ("WEIR_", "OMPI_", "UCX_")  # variables that could help
TESTS = ["verbs_rc", "mpi_ring"]

pytestmark = pytest.mark.timeout(2 * LIMIT_S)

APT_GET = """\
#!/bin/sh
# The lab downloads its kernel with the real one.
case $1 in
update) ;;
install) exec /usr/bin/apt-get --simulate "$@" ;;
*) exec /usr/bin/apt-get "$@" ;;
esac
"""

# Of the lab in $1; the rest is Python.
OF_HOST = "import sys, types; sys.path.insert(0, sys.argv[1]); from host import apt, job; print(repr({}))"


class Project:
    """The example, and the lab of the package."""

    def __init__(self, deb, scratch):
        self.deb, self.root, self.directory = deb, scratch / "root", scratch / "project"
        self.lab = self.root / "usr/share/weir-lab/lab"
        run("dpkg-deb", "-x", deb, str(self.root))
        self.doc = self.root / "usr/share/doc/weir-lab"
        shutil.copytree(self.doc / "examples", self.directory)
        instead = scratch / "instead"
        instead.mkdir()
        (instead / "apt-get").write_text(APT_GET)
        (instead / "apt-get").chmod(0o755)
        self.environment = {name: value for name, value in os.environ.items() if not name.startswith(OWN)}
        self.environment.update(
            PATH=f"{instead}:{self.root}/usr/bin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            WEIR_LAB_DEB=f"file://{deb}")
        self.script = self.of_gitlab()

    def call(self, *command):
        """Exit code and what it said, without what this machine has set for weir."""
        done = subprocess.run(command, cwd=self.directory, env=self.environment, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
                              timeout=LIMIT_S, check=False)
        return types.SimpleNamespace(code=done.returncode, said=done.stdout)

    def run(self, *lines):
        """As both services run it."""
        return self.call("bash", "-exo", "pipefail", "-c", "\n".join(lines))

    def of_host(self, expression):
        """What the lab's own modules say."""
        done = self.call("/usr/bin/python3", "-B", "-c", OF_HOST.format(expression), str(self.lab))
        assert done.code == 0, done.said
        return ast.literal_eval(done.said)

    # ---- what the files say ----

    def workflow(self, name):
        with open(self.directory / name, encoding="utf-8") as file:
            return yaml.safe_load(file)

    def of_github(self):
        job, = self.workflow("github-actions.yml")["jobs"].values()
        assert job["container"].startswith("debian:12")
        assert "WEIR_LAB_DEB" in job["env"]
        return [line for step in job["steps"] for line in step.get("run", "").splitlines()]

    def of_gitlab(self):
        job, = self.workflow("gitlab-ci.yml").values()
        assert job["image"].startswith("debian:12")
        return job["script"]

    def of_page(self):
        return re.search(r"^```\w*\n(.*?)^```", (self.doc / "CI.md").read_text(), re.S | re.M)[1].splitlines()


@pytest.fixture(scope="module")
def project(build, tmp_path_factory):
    packages.make(build)
    deb, = (os.path.join(build, "packages", name) for name in os.listdir(os.path.join(build, "packages"))
            if name.startswith("weir-lab_"))
    return Project(deb, tmp_path_factory.mktemp("lab-alone"))


@pytest.fixture(scope="module")
def built(project):
    """By all that the workflows run before the tests."""
    done = project.run(*project.script[:-1])
    assert done.code == 0, done.said
    return project


def came(done, verdict):
    for name in TESTS:
        assert re.search(rf"Test +#\d+: {name} \.*{verdict}", done.said), done.said


def test_package_knows_nothing_of_its_source(project, root):
    for directory, _, names in os.walk(project.root):
        for path in (os.path.join(directory, name) for name in names):
            if not os.path.islink(path):
                with open(path, "rb") as file:
                    assert os.fsencode(root) not in file.read(), path


def test_page_and_workflows_say_the_same(project):
    assert project.of_github() == project.of_gitlab()
    assert project.of_page() == project.of_gitlab()[-5:]


def test_what_the_workflows_say(built):
    done = built.run(built.script[-1])
    assert done.code == 0, done.said
    came(done, " +Passed")


@packages.rotates
def test_without_a_fabric_the_tests_fail(built):
    line = built.script[-1].replace("weir-lab -- ", "weir-lab --no-device -- ")
    assert "--no-device" in line
    done = built.run(line)
    assert done.code not in (0, 124, 125), done.said
    came(done, r"\*\*\*Failed")


@packages.rotates
def test_mpi_over_something_else_is_noticed(built):
    done = built.run("weir-lab -- ./over-rdma mpirun -np 3 --mca pml ob1 --mca btl tcp,self build/mpi_ring")
    assert "3 ranks, 0 bytes wrong" in done.said, "the ring itself failed"
    assert done.code == 1 and "over-rdma: 0 packets" in done.said, done.said


def test_another_root_keeps_its_usr_share(project):
    """Only the working directory is laid over it."""
    shares = project.of_host("job.shares(types.SimpleNamespace(root='/another', rw=[], build=None))")
    assert shares == [(os.path.realpath(project.directory), True)]


@pytest.mark.long(seconds=200)
def test_what_the_workflows_say_on_a_fresh_debian_12(project, tmp_path):
    """Apt-get and all, in one of the smallest kind; this wants root and a network."""
    tree = tmp_path / "fresh"
    mirror, proxies, settings = project.of_host("(apt.mirror(), apt.proxies(), apt.settings())")
    done = project.call(*fresh.making(tree, mirror, proxies))
    assert done.code == 0, done.said
    (tree / "etc/apt/apt.conf.d/99example").write_text(settings)
    shutil.copy(project.deb, project.directory / "weir-lab_0_amd64.deb")
    shutil.rmtree(project.directory / "build", ignore_errors=True)
    done = project.call(*fresh.inside(tree, project.directory, "WEIR_LAB_DEB=file:///mnt/weir-lab_0_amd64.deb",
                                      "bash", "-exo", "pipefail", "-c", "\n".join(project.script)))
    shutil.rmtree(tree, ignore_errors=True)
    assert done.code == 0, done.said
    came(done, " +Passed")
