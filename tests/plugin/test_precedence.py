"""Which value the plugin takes: default, file, environment, MCA parameter. ompi_info shows it."""

import pytest

from harness.programs import says

PARSABLE = ("--param", "btl", "weir", "--level", "9", "--parsable")
OF_MCA = "OMPI_MCA_btl_weir_"
WINDOW, EAGER = "btl_weir_window_initial:value:{}$", "btl_weir_eager_limit:value:{}$"


@pytest.fixture
def files(no_settings):
    """The user's own file, and one for each way to name another: {name: path}."""
    (no_settings / "weir").mkdir()
    paths = {name: str(no_settings / name) for name in ("weir/weir.yaml", "named.yaml", "other.yaml")}
    for number, path in enumerate(paths.values(), 20):
        with open(path, "w") as file:
            file.write(f"window_initial: {number}\n")
    return paths


def test_the_default(ompi_info):
    says(ompi_info(*PARSABLE), WINDOW.format(8))


def test_the_users_file_and_its_line(ompi_info, files):
    says(ompi_info(*PARSABLE), WINDOW.format(20),
         f"btl_weir_window_initial:help:.*set by {files['weir/weir.yaml']}:1")


# The name of one of the files stands for its path. The user's own file is always there.
@pytest.mark.parametrize("shown, environment", [
    pytest.param(WINDOW.format(21), {"WEIR_CONFIG": "named.yaml"}, id="a named file"),
    pytest.param(WINDOW.format(22), {"WEIR_CONFIG": "named.yaml", OF_MCA + "config": "other.yaml"},
                 id="a file named by MCA"),
    pytest.param(WINDOW.format(23), {"WEIR_CONFIG": "named.yaml", "WEIR_WINDOW_INITIAL": "23"}, id="the environment"),
    pytest.param(WINDOW.format(24), {"WEIR_WINDOW_INITIAL": "23", OF_MCA + "window_initial": "24"},
                 id="an MCA parameter"),
    pytest.param(WINDOW.format(8), {"WEIR_WINDOW_INITIAL": "23", OF_MCA + "window_initial": "8"},
                 id="an MCA parameter that is the default"),
    pytest.param(WINDOW.format(16), {"WEIR_CONFIG": "/dev/null", "WEIR_PROFILE": "roce", "XDG_CONFIG_HOME": "/nowhere"},
                 id="a profile"),
    pytest.param(WINDOW.format(8), {"WEIR_CONFIG": "none", "WEIR_WINDOW_INITIAL": "23"}, id="no files, no variables"),
    # The limits of the BTL follow, whoever sets the size.
    pytest.param(EAGER.format("164[46][04]"), {"WEIR_EAGER_MAX": "16KiB"}, id="the eager limit, environment"),
    pytest.param(EAGER.format("82[47][82]"), {"WEIR_EAGER_MAX": "16KiB", OF_MCA + "eager_max": "8KiB"},
                 id="the eager limit, MCA"),
])
def test_what_wins(shown, environment, ompi_info, files):
    says(ompi_info(*PARSABLE, **{name: files.get(value, value) for name, value in environment.items()}),
         shown)


def test_a_wrong_file_hides_nothing(ompi_info, files):
    with open(files["weir/weir.yaml"], "w") as file:
        file.write("window_inital: [\n")
    says(ompi_info(*PARSABLE), WINDOW.format(8))
