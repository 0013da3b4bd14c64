"""What others build weir by: Spack's recipe, as far as it can be read without Spack, and CMake's presets."""

import json
import os
import re
import sys
import types

import pytest

from harness.programs import run

# What a CMakePackage calls, in its class and as a module.
DIRECTIVES = ("license", "version", "variant", "depends_on", "conflicts", "generator")


class CMakePackage:
    """Spack's, as far as the recipe uses it."""
    prefix = types.SimpleNamespace(lib="/prefix/lib")
    spec = {"openmpi": types.SimpleNamespace(prefix="/opt/openmpi")}

    @staticmethod
    def define(name, value):
        return f"-D{name}={'ON' if value is True else 'OFF' if value is False else value}"


@pytest.fixture
def recipe(root, monkeypatch):
    """Its class, and what it told Spack: [(directive, words, options)]."""
    told = []
    package = types.ModuleType("spack.package")
    package.CMakePackage, package.join_path = CMakePackage, os.path.join
    for name in DIRECTIVES:
        setattr(package, name, lambda *words, name=name, **options: told.append((name, words, options)))
    monkeypatch.setitem(sys.modules, "spack", types.ModuleType("spack"))
    monkeypatch.setitem(sys.modules, "spack.package", package)
    names = {}
    with open(os.path.join(root, "packaging/spack/package.py")) as file:
        exec(compile(file.read(), file.name, "exec"), names)
    return names["Weir"], told


def test_recipe_of_spack(recipe, root, tmp_path):
    weir, told = recipe
    assert weir.__doc__ and issubclass(weir, CMakePackage)
    needs = {words[0].split("@")[0] for name, words, _ in told if name == "depends_on"}
    assert {"openmpi", "rdma-core", "ucx", "hwloc", "yaml-cpp", "fmt", "cli11", "nlohmann-json", "cxx"} <= needs
    assert ("license", ("BSD-3-Clause",), {}) in told
    with open(os.path.join(root, "CMakeLists.txt")) as file:
        oldest, = re.findall(r"^cmake_minimum_required\(VERSION (\S+)\)", file.read(), re.M)
    assert ("depends_on", (f"cmake@{oldest}:",), {"type": "build"}) in told

    arguments = weir().cmake_args()
    known = run("git", "grep", "-hoE", r"(option|set)\(\w+ .*", "--", "CMakeLists.txt", "*.cmake", "*/CMakeLists.txt",
                cwd=root).stdout
    for argument in arguments:
        name = re.match(r"-D(\w+)=", argument)[1]
        assert re.search(rf"^(option\({name} |set\({name} .* CACHE )", known, re.M), f"no build has {name}"

    changes = {}
    weir().setup_run_environment(types.SimpleNamespace(set=changes.__setitem__))
    assert changes == {"OMPI_MCA_mca_base_component_path": "SYS_DEFAULT:/prefix/lib/openmpi:USER_DEFAULT"}


def test_presets(root):
    """Each one is listed; the package's is what make-deb and the spec configure by."""
    said = run("cmake", "--list-presets=all", cwd=root).stdout
    with open(os.path.join(root, "CMakePresets.json")) as file:
        presets = json.load(file)
    for kind in "configurePresets", "buildPresets":
        for preset in presets[kind]:
            assert f'"{preset["name"]}"' in said
