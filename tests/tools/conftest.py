"""The `weir` command."""

import os

import pytest

from harness.programs import no_settings, run  # noqa: F401


@pytest.fixture
def weir(build, no_settings, tmp_path):  # noqa: F811
    """Runs it, in an empty directory: weir("doctor", "--json", status=1)."""
    def command(*arguments, **options):
        return run(os.path.join(build, "bin", "weir"), *arguments, **{"cwd": tmp_path, **options})
    return command
