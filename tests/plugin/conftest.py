"""The plugin, and Open MPI's own view of it."""

import os
import shutil

import pytest

from harness.programs import no_settings, run  # noqa: F401


@pytest.fixture(scope="session")
def plugin(build):
    return os.path.join(build, "lib", "openmpi", "mca_btl_weir.so")


@pytest.fixture(scope="session")
def ompi_info_program():
    return shutil.which("ompi_info.openmpi") or shutil.which("ompi_info")


@pytest.fixture(scope="session")
def component_path(ompi_info_program, plugin):
    """Open MPI's own plugins, and this one."""
    shown = run(ompi_info_program, "--path", "pkglibdir", "--parsable").stdout
    return f"{shown.strip().removeprefix('path:pkglibdir:')}:{os.path.dirname(plugin)}"


@pytest.fixture
def ompi_info(ompi_info_program, component_path, no_settings):  # noqa: F811
    """ompi_info(ARGUMENT..., VARIABLE=VALUE...): what it says of weir, or of what it is asked for."""
    def say(*arguments, **environment):
        asked = arguments or ("--param", "btl", "weir", "--level", "9")
        return run(ompi_info_program, *asked,
                   env={"OMPI_MCA_mca_base_component_path": component_path, **environment}).stdout
    return say
