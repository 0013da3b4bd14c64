"""How the plugin is linked."""

import pytest

from harness.programs import run, says


def test_nothing_but_the_component_is_exported(plugin):
    """Open MPI loads it RTLD_GLOBAL, so any other symbol could take the place of the application's own."""
    lines = run("nm", "-D", "--defined-only", plugin).stdout.splitlines()
    assert [line.split()[-1] for line in lines] == ["mca_btl_weir_component"]


@pytest.mark.parametrize("entry", [
    # All symbols are bound while loading, or a plugin for another Open MPI is found out too late.
    pytest.param(r"BIND_NOW|FLAGS_1.*NOW", id="bound while loading"),
    pytest.param(r"NEEDED.*libopen-pal", id="linked with libopen-pal")])
def test_the_dynamic_section_has(entry, plugin):
    says(run("readelf", "-dW", plugin).stdout, entry)
