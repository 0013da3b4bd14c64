"""The plugin as Open MPI 5.0 loads it. Jobs under it: mpi/test_programs.py, test_brief."""

import pytest

from harness import open_mpi_5


@open_mpi_5.rotates
@pytest.mark.timeout(3600)  # it may have to make the root
def test_plugin_under_open_mpi_5():
    if open_mpi_5.own_version() >= 5:
        return  # then the same has been run here
    open_mpi_5.build()
    for command in (["ctest", "--test-dir", open_mpi_5.BUILD, "--output-on-failure", "--no-tests=error", "-j2",
                     "-R", "^(plugin|btl_test|btl_overlap)[.]"],
                    ["pytest-3", "-q", "--build", open_mpi_5.BUILD,
                     *(f"tests/plugin/test_{name}.py" for name in ("exports", "precedence", "variables"))]):
        done = open_mpi_5.inside(*command)
        assert done.returncode == 0, "\n".join(done.stdout.splitlines()[-60:])
