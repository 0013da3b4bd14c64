"""The module file, under environment-modules and under lmod: it is found beside the prefix that it is in, and
each Open MPI still looks for plugins in its own folder."""

import os
import re
import shutil

import pytest

from harness import packages
from harness.programs import run, says

BINARY = "weir_tune_load"  # a program of ours; which one does not matter

ENVIRONMENT_MODULES = ". /usr/share/modules/init/bash"
# Debian's two conflict with each other: lmod's files are laid over /usr for the shell alone.
LMOD = """\
for folder in share lib; do
  mount -t overlay -o lowerdir="$LMOD_FILES/usr/$folder:/usr/$folder" overlay /usr/$folder
done
. /usr/share/lmod/lmod/init/bash"""


@pytest.fixture(scope="module")
def prefix(root, build, tmp_path_factory):
    """As 'cmake --install' leaves it, without the programs, of a build that has its plugin in PREFIX."""
    directory = tmp_path_factory.mktemp("modules")
    run("cmake", "--preset", "package", "-B", str(directory / "build"), "-DWEIR_PLUGIN_DIR=lib/openmpi", cwd=root)
    prefix = directory / "weir"
    for place, file in {"share/weir/modulefiles/weir/0.1.0": directory / "build/packaging/modulefile",
                        "lib/openmpi/mca_btl_weir.so": f"{build}/lib/openmpi/mca_btl_weir.so",
                        f"bin/{BINARY}": f"{build}/bin/{BINARY}"}.items():
        (prefix / place).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, prefix / place)
    return prefix


@pytest.fixture(scope="module")
def lmod_files(tmp_path_factory):
    directory = tmp_path_factory.mktemp("lmod")
    run("apt-get", "-q", "download", "lmod", cwd=directory)
    archive, = directory.glob("lmod_*.deb")
    run("dpkg", "-x", str(archive), str(directory / "files"))
    return directory / "files"


def with_module(init, prefix, command, **variables):
    """What `command` says after 'module load weir', in a shell that has nothing else of weir."""
    script = f"{init}\nmodule use {prefix}/share/weir/modulefiles\nmodule load weir\n{command}"
    kept = {"HOME": "/nowhere", "PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "OMPI_ALLOW_RUN_AS_ROOT": "1",
            "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", **variables}
    words = [f"{name}={value}" for name, value in kept.items()]
    user = [] if os.getuid() == 0 else ["--map-root-user"]
    return run("unshare", "--mount", *user, "env", "-i", *words, "bash", "-c", script, one_stream=True).stdout


@packages.rotates
@pytest.mark.parametrize("tool", ["environment-modules", "lmod"])
def test_load_and_unload(tool, prefix, request):
    init, variables = ENVIRONMENT_MODULES, {}
    if tool == "lmod":
        init, variables = LMOD, {"LMOD_FILES": request.getfixturevalue("lmod_files")}
    said = with_module(init, prefix, f"env; command -v {BINARY}; "
                       "mpirun -np 1 ompi_info --param btl weir --level 9 --parsable; "
                       "module unload weir; echo unloaded; env", **variables)
    loaded, unloaded = said.split("\nunloaded\n")
    says(loaded, rf"^{prefix}/bin/{BINARY}$",
         rf"^OMPI_MCA_mca_base_component_path=SYS_DEFAULT:{prefix}/lib/openmpi:USER_DEFAULT$",
         "^OMPI_MCA_pml=ob1$", "^OMPI_MCA_btl=weir,self$", "^mca:btl:weir:")
    assert not re.search("OMPI_MCA_(pml|btl|mca)|" + re.escape(str(prefix / "bin")), unloaded), unloaded
