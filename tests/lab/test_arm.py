"""weir on ARM, emulated: what needs no device, and that Open MPI loads the plugin. Its jobs: mpi/test_programs.py,
test_on_arm; on a device: contract/test_on_device.py."""

import os
import platform

import pytest

from harness import arm, google_test
from harness.programs import run

pytestmark = [pytest.mark.lab("ARM"), pytest.mark.timeout(900)]


@pytest.mark.parametrize("program", arm.UNITS)
def test_units(program, build, tmp_path):
    assert platform.machine() == "aarch64"
    google_test.check(os.path.join(build, "bin", program), tmp_path, 880)


@pytest.mark.parametrize("test", [["load_test", "lib/openmpi/mca_btl_weir.so"], *(
    ["memory_hooks_test", mode] for mode in ("own", "forwarded", "late")),
    ["unload_test", "tests/plugin/registration_module.so"]], ids=" ".join)
def test_plugin(test, build):
    """As ctest calls them; memory hooks patch the machine code of libc."""
    run(os.path.join(build, "bin", test[0]), *test[1:], cwd=build,
        env={"OMPI_MCA_pml": "ob1", "OMPI_MCA_btl": "self"}, limit_s=600)
