"""The `weir config` command: what it says, where, and with which exit status."""

import os

import pytest

from harness.programs import says

OF_THE_REPOSITORY = ("weir", "rxe", "roce", "infiniband")


@pytest.fixture
def conf(root):
    return os.path.join(root, "conf")


@pytest.fixture
def config(weir):
    def command(*arguments, **options):
        return weir("config", *arguments, **options)
    return command


@pytest.fixture
def write(tmp_path):
    """A file of these lines in the directory of the command; its name."""
    def file(name, *lines):
        (tmp_path / name).write_text("".join(line + "\n" for line in lines))
        return name
    return file


@pytest.fixture
def bad(write):
    return write("bad.yaml", "window_maxx: 5", "rnr_timer: 12furlongs", "buffer_size: 1", "buffer_size: 2", "mtu: [1]")


# ---- the file of all defaults, and check -------------------------------------------------------------

def test_the_reference_is_what_the_schema_says(config, conf):
    with open(os.path.join(conf, "weir.yaml")) as file:
        assert file.read() == config("show", "--defaults").stdout, \
            "conf/weir.yaml is not up to date: weir config show --defaults > conf/weir.yaml"


def test_the_repositorys_files_are_right(config, conf):
    done = config("check", *(os.path.join(conf, f"{name}.yaml") for name in OF_THE_REPOSITORY))
    says(done.stdout, *(f"/conf/{name}.yaml: ok" for name in OF_THE_REPOSITORY))


@pytest.mark.parametrize("complaint", [
    r"^bad.yaml:1: window_maxx: there is no such key; did you mean window_max\?",
    r"^bad.yaml:2: rnr_timer: .*furlongs",
    r"^bad.yaml:3: buffer_size: '1' is out of range \(it takes: size, 1KiB to 1MiB\)",
    r"^bad.yaml:4: buffer_size: is set twice; first in line 3",
    r"^bad.yaml:5: mtu: is a list"], ids=["no such key", "no unit", "out of range", "twice", "a list"])
def test_check_names_a_mistake_and_its_line(complaint, config, bad):
    says(config("check", bad, status=1).stderr, complaint)


def test_a_wrong_file_does_not_hide_the_next_one(config, conf, bad):
    says(config("check", bad, os.path.join(conf, "rxe.yaml"), status=1).stdout, "rxe.yaml: ok")


def test_check_names_two_keys_that_clash(config, write):
    done = config("check", write("clash.yaml", "window_initial: 600", "window_max: 500"), status=1)
    says(done.stderr, r"^clash.yaml:[12]: .*window_initial \(600\) must not exceed window_max \(500\)")


def test_check_names_a_file_that_is_missing(config):
    says(config("check", "missing.yaml", status=1).stderr, "^missing.yaml: cannot be read: No such file")


def test_check_looks_at_the_environment(config):
    says(config("check", status=1, env={"WEIR_WINDOW_MAX": "0"}).stderr,
         "^environment variable WEIR_WINDOW_MAX: '0' is out of range")


def test_check_warns_of_a_variable_that_is_no_key(config):
    done = config("check", env={"WEIR_WINDOWMAX": "5"})
    says(done.stderr, r"^warning: environment variable WEIR_WINDOWMAX names no key .* did you mean WEIR_WINDOW_MAX\?")
    says(done.stdout, "^configuration: ok")


# ---- show --------------------------------------------------------------------------------------------

def test_show_names_the_profile(config):
    says(config("show", "--profile", "infiniband").stdout,
         "^rnr_timer +auto +profile infiniband", "^ack_timeout +2s +profile infiniband")


def test_show_names_file_and_variables(config, write):
    done = config("show", "--file", write("good.yaml", "window_max: 77"),
                  env={"WEIR_MTU": "1024", "OMPI_MCA_btl_weir_retry_count": "5"})
    says(done.stdout, "^window_max +77 +good.yaml:1", "^mtu +1024 +environment variable WEIR_MTU",
         "^retry_count +5 +environment variable OMPI_MCA_btl_weir_retry_count")


def test_show_as_json(config, write):
    done = config("show", "--json", env={"WEIR_CONFIG": write("good.yaml", "window_max: 77")})
    says(done.stdout, '"from": "good.yaml:1"')


def test_show_as_yaml_can_be_read_again(config, write):
    done = config("show", "--yaml", env={"WEIR_CONFIG": write("good.yaml", "window_max: 77")})
    says(done.stdout, "^window_max: 77  # good.yaml:1")
    config("check", write("again.yaml", done.stdout))


def test_show_of_a_wrong_file(config, bad):
    says(config("show", "--file", bad, status=1).stderr, "bad.yaml:1: window_maxx")


def test_show_of_no_profile(config):
    config("show", "--profile", "ethernet", status=2)


# ---- explain -----------------------------------------------------------------------------------------

def test_explain_begins_with_what_matters(config):
    says(config("explain").stdout, "^What matters most", "^  window_max +auto ")


def test_explain_of_a_key(config):
    says(config("explain", "rnr_timer").stdout, "takes +auto or duration, 10us to 655360us", "default +640us",
         "because +Credits", "WEIR_RNR_TIMER=640us", "btl_weir_rnr_timer 640us", "profile +roce: auto")


def test_explain_says_what_has_to_be_alike(config):
    says(config("explain", "buffer_size").stdout, "alike +in all processes of a job")


def test_explain_knows_what_was_meant(config):
    says(config("explain", "window_mx", status=1).stderr, r"did you mean window_max\?")


# ---- help --------------------------------------------------------------------------------------------

def test_help_says_which_value_wins(config):
    says(config("--help").stdout, "Which value wins")


@pytest.mark.parametrize("command", [(), ("show",), ("check",), ("explain",), ("diff",)], ids=" ".join)
def test_help_has_examples(command, config):
    says(config(*command, "--help").stdout, "Examples:", "Exit status:")
