"""The source tarball, and the RPMs that rpmbuild makes of it: here by Debian's rpm, of Debian's Open MPI."""

import os
import re

import pytest

from harness import packages
from harness.programs import run, says

LIMIT_S = 3600  # it compiles what ships
OPEN_MPI = "/usr"

# Names of what the build needs, which rpm has to make of the spec on each distribution. Those of pkg-config are the
# same on both: rpm itself provides them for each .pc file.
ON_BOTH = ["cmake >= 3.25", "gcc-c++ >= 11", "help2man", "python3", *(f"pkgconfig({name})" for name in (
    "CLI11", "fmt", "hwloc", "libibverbs", "librdmacm", "nlohmann_json", "ucx-ucs", "yaml-cpp"))]
DISTRIBUTIONS = {"Rocky": ("rhel 9", "ninja-build"), "openSUSE": ("suse_version 1600", "ninja")}

pytestmark = pytest.mark.timeout(2 * LIMIT_S)


def defined(*macros):
    return [word for macro in macros for word in ("--define", macro)]


@pytest.fixture(scope="module")
def tarball(root, tmp_path_factory):
    directory = tmp_path_factory.mktemp("tarball")
    return run(os.path.join(root, "packaging/make-tarball"), str(directory), cwd="/").stdout.strip()


@pytest.fixture(scope="module")
def unpacked(tarball):
    directory = os.path.dirname(tarball)
    run("tar", "-xzf", tarball, "-C", directory)
    return tarball.removesuffix(".tar.gz")


@pytest.fixture(scope="module")
def rpms(tarball):
    """{package: file}. Debian's rpm knows of no packages, and what is compiled as elsewhere is in ccache."""
    top = os.path.join(os.path.dirname(tarball), "top")
    run("rpmbuild", "-tb", "--nodeps", *defined(
        f"_topdir {top}", f"openmpi {OPEN_MPI}", "optflags %{nil}", "cmake_options -DCMAKE_UNITY_BUILD=ON"),
        tarball, limit_s=LIMIT_S, one_stream=True)
    files = [os.path.join(folder, name) for folder, _, names in os.walk(os.path.join(top, "RPMS")) for name in names]
    made = {query("--queryformat=%{name}", file)[0]: file for file in files if "debuginfo" not in file}
    assert sorted(made) == ["weir", "weir-openmpi"]
    return made


def query(what, *files):
    return run("rpm", "-qp", what, *files).stdout.splitlines()


def test_tarball_knows_its_version(unpacked):
    """Without git."""
    said = run("packaging/version", cwd=unpacked, env={"GIT_DIR": "/nowhere"}).stdout.strip()
    assert unpacked.endswith(f"/weir-{said}")
    with open(os.path.join(unpacked, "weir.spec")) as file:
        says(file.read(), rf"^Version: +{re.escape(said)}$", rf"^[*] .* - {re.escape(said)}-1$")


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_names_of_what_the_build_needs(distribution, unpacked):
    macro, ninja = DISTRIBUTIONS[distribution]
    said = run("rpmspec", "-q", "--buildrequires", *defined(macro, "openmpi /opt/openmpi"), "weir.spec",
               cwd=unpacked).stdout.splitlines()
    assert sorted(said) == sorted([*ON_BOTH, ninja])


def test_an_open_mpi_has_to_be_named(unpacked):
    says(run("rpmspec", "-q", "weir.spec", cwd=unpacked, status=1).stderr, "--define 'openmpi PREFIX'")


@packages.rotates
def test_files(rpms):
    plugin = run("ompi_info", "--parsable", "--path", "pkglibdir").stdout.strip().removeprefix("path:pkglibdir:")
    assert f"{plugin}/mca_btl_weir.so" in query("-l", rpms["weir-openmpi"])
    files = query("-l", rpms["weir"])
    for name in "/usr/bin/weir", "/usr/share/man/man1/weir-doctor.1.gz", "/usr/share/weir/tune/tune", "/etc/weir":
        assert name in files
    assert query("--configfiles", rpms["weir"]) == ["/etc/weir/weir.yaml"]
    assert not [name for name in files if "lab" in name], "the lab needs Debian"


@packages.rotates
def test_requires(rpms, build):
    command, plugin = (query("--requires", rpms[name]) for name in ("weir", "weir-openmpi"))
    version, = query("--queryformat=%{version}-%{release}\n", rpms["weir"])
    says("\n".join(command), rf"^weir-openmpi\(x86-64\) = {re.escape(version)}$", r"^libibverbs\.so\.1\(\)")
    says("\n".join(plugin), r"^libibverbs\.so\.1\(IBVERBS_1\.1\)", "^rdma-core$")
    assert not [name for name in plugin if name.startswith(("libmpi", "libopen-"))], "no package may provide these"
    assert "libopen-pal" not in run("readelf", "-d", f"{build}/bin/weir").stdout, "the command runs without Open MPI"


@packages.rotates
def test_rpmlint_finds_no_error(rpms):
    """But who packs and signs it is the builder's; groups of packages are no more."""
    said = run("rpmlint", *rpms.values(), status=None, one_stream=True).stdout
    says(said, "2 packages and 0 specfiles checked")
    assert set(re.findall(r": E: (\S+)", said)) <= {"no-signature", "no-packager-tag", "no-group-tag"}, said
