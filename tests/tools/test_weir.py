"""The `weir` command as a user meets it: help, usage, JSON, without a device, and asking other hosts.

Where the machine has an RDMA device, the cases that need none are left to the lab (lab/test_doctor.py).
"""

import glob
import json
import time

import pytest

from harness.programs import says

without_device = pytest.mark.skipif(bool(glob.glob("/sys/class/infiniband/*")), reason="this machine has a device")


@pytest.mark.parametrize("arguments, patterns", [
    ([], [r"\binfo\b", r"\bdoctor\b", r"\btop\b", r"\btune\b"]),
    (["top"], ["Exit status:", "Examples:"]),
    (["tune"], ["Exit status:", "Examples:"]),
    (["doctor"], ["--json", "--device", "--peer", "--hostfile", "Exit status:", "0 .*fail", "1 .*fail", "2 .*usage",
                  "Examples:"]),
    (["info"], ["--json", "Exit status"])], ids=["weir", "top", "tune", "doctor", "info"])
def test_help(arguments, patterns, weir):
    says(weir(*arguments, "--help").stdout, *patterns)


@pytest.mark.parametrize("arguments", [
    [], ["doctro"], ["doctor", "--jsno"], ["info", "--gid-index", "x"], ["doctor", "--all-pairs"],
    ["doctor", "--peer", "-oProxyCommand=x"], ["config", "diff"]], ids=" ".join)
def test_wrong_usage(arguments, weir):
    done = weir(*arguments, status=2)
    assert done.stderr and not done.stdout, "the complaint is not on stderr"


def test_top_of_no_process(weir, tmp_path):
    says(weir("top", "--once", "--directory", tmp_path, status=1).stdout, "No weir process")
    assert json.loads(weir("top", "--once", "--json", "--directory", tmp_path, status=1).stdout) == {"ports": []}


# ---- what this machine lacks -------------------------------------------------------------------------

def checks_of(done):
    return json.loads(done.stdout)["checks"]


@without_device
def test_doctor_without_a_device(weir):
    done = weir("doctor", status=1)
    says(done.stdout, r"^fail  device +there is no RDMA device", r"^ +fix: .*rdma_rxe", r"tools/lab/lab",
         r"^(ok|warn)  +open mpi", r"^(ok  |warn)  plugin", r"^\d+ ok, \d+ warn, 1 fail$")
    assert done.stderr == ""
    assert "\x1b" not in done.stdout, "colour although it is no terminal"
    assert done.stdout.count("\nfail") + done.stdout.startswith("fail") == 1, "one cause, more than one failure"


@without_device
def test_doctor_as_json_without_a_device(weir):
    done = weir("doctor", "--json", status=1)
    report = json.loads(done.stdout)
    assert set(report) == {"version", "checks", "ok", "warn", "fail"}
    for check in report["checks"]:
        assert check["status"] in ("ok", "warn", "fail")
        assert check["name"] and check["text"]
        assert bool(check.get("fix")) == (check["status"] != "ok"), check
    for status in "ok", "warn", "fail":
        assert report[status] == sum(check["status"] == status for check in report["checks"])
    assert [check["name"] for check in report["checks"] if check["status"] == "fail"] == ["device"]
    assert done.stderr == ""


@without_device
def test_info_without_a_device(weir):
    done = weir("info", status=1)
    assert done.stdout == ""
    says(done.stderr, "no RDMA device", "rdma_rxe")
    report = json.loads(weir("info", "--json", status=1).stdout)
    assert report["devices"] == [] and report["taken"] is None
    assert "no RDMA device" in report["error"]


def test_doctor_without_open_mpi(weir):
    failed = [check for check in checks_of(weir("doctor", "--json", env={"PATH": "/nonexistent"}, status=1))
              if check["name"] == "open mpi"]
    assert failed and failed[0]["status"] == "fail" and "apt-get" in failed[0]["fix"], failed


def test_doctor_repeats_what_the_loader_says_of_a_plugin(weir, tmp_path):
    """A file that is no plugin, where Open MPI looks first."""
    (tmp_path / "mca_btl_weir.so").write_text("not a library\n")
    done = weir("doctor", "--json", env={"OMPI_MCA_mca_base_component_path": f"system:{tmp_path}"}, status=1)
    plugin = [check for check in checks_of(done) if check["name"] == "plugin"]
    assert plugin and plugin[0]["status"] == "fail", plugin
    says(plugin[0]["text"], "does not load", "too short|invalid ELF")


# ---- other hosts -------------------------------------------------------------------------------------

# In ssh's place: "SHELL HOST COMMAND". Each host is this one, or does what its name says.
SHELL = r"""#!/bin/sh
case $1 in
well) exec sh -c "$2" ;;
other) WEIR_BUFFER_SIZE=16KiB exec sh -c "$2" ;;
silent) exec sleep 60 ;;
ends) echo "Permission denied (publickey)" >&2; exit 255 ;;
floods) exec yes xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx ;;
endless) exec tr '\0' x </dev/zero ;;
lies) printf 'weir-answer {"port":{"name":[]},"settings":[],"weir":"\\u001b[2J"}\n'; exec sleep 60 ;;
missing) exec sh -c /nonexistent/weir ;;
esac
"""


@pytest.fixture
def ask(weir, tmp_path):
    """Runs weir with SHELL."""
    shell = tmp_path / "shell"
    shell.write_text(SHELL)
    shell.chmod(0o755)

    def command(*arguments, timeout_s=60, **options):
        return weir(*arguments, "--rsh", shell, "--timeout", str(timeout_s), **options)
    return command


def ways(done):
    return {pair["to"]: {check["name"]: check for check in pair["checks"]}
            for pair in json.loads(done.stdout)["pairs"]}


def test_hosts_that_do_not_answer(ask):
    """Each is a finding with what it said, in time, whatever it does."""
    start = time.monotonic()
    names = {"silent": "no answer within", "ends": "exit status 255.*Permission denied",
             "floods": "no answer within", "endless": "longer than any answer may be",
             "missing": "there is no weir at .*not found"}
    found = ways(ask("doctor", "--json", *[word for name in names for word in ("--peer", name)], timeout_s=4, status=1))
    assert time.monotonic() - start < 60
    for name, text in names.items():
        shell = found[name]["shell"]
        assert shell["status"] == "fail" and shell["fix"], f"{name}: {shell}"
        says(shell["text"], text)


def test_a_host_that_lies(ask):
    done = ask("doctor", "--peer", "lies", status=1)
    assert "\x1b" not in done.stdout, "bytes of another host reach the terminal"
    says(done.stdout, "^fail  weir ")


@without_device
def test_peers_without_a_device(ask):
    done = ask("doctor", "--json", "--peer", "well", "--peer", "other", status=1)
    found = ways(done)
    for name in "well", "other":
        states = {check: found[name][check]["status"] for check in ("shell", "weir", "port")}
        assert states == {"shell": "ok", "weir": "ok", "port": "fail"}, f"{name}: {found[name]}"
    assert found["well"]["keys"]["status"] == "ok"
    says(found["other"]["keys"]["text"], "buffer_size is 8704B on .*16KiB on other .*WEIR_BUFFER_SIZE")
    says(found["other"]["keys"]["fix"], "mpirun -x WEIR_BUFFER_SIZE")


@without_device
def test_the_table_of_peers(ask):
    done = ask("doctor", "--peer", "well", "--peer", "other", status=1)
    says(done.stdout, r"^from +to +shell", r"^\S+ +other +ok .*FAIL", r"^fail  other  keys")
    assert done.stderr == "", "progress although it is no terminal"


def test_configurations_differ(ask):
    done = ask("config", "diff", "--host", "well", "--host", "other", status=1)
    says(done.stdout, r"^buffer_size +8704B: \S+, well \(default\); 16KiB: other "
                      r"\(environment variable WEIR_BUFFER_SIZE\) .*same everywhere")
    assert done.stdout.count("\n") == 1, "more than one key"


def test_configurations_differ_and_a_host_does_not_answer(ask):
    report = json.loads(ask("config", "diff", "--host", "other", "--host", "ends", "--json", status=1).stdout)
    assert [difference["key"] for difference in report["differences"]] == ["buffer_size"]
    says(report["no_answer"]["ends"], "Permission denied")


def test_parameters_hold_everywhere(ask):
    """mpirun hands them on, and so does weir."""
    done = ask("config", "diff", "--host", "well", "--host", "other", env={"OMPI_MCA_btl_weir_buffer_size": "32KiB"})
    says(done.stdout, r"all \d+ keys are the same on 3 hosts")


@pytest.fixture
def hostfile(tmp_path):
    path = tmp_path / "hosts"
    path.write_text("# all\nwell slots=2\nlocalhost\nother # no slots\n")
    return path


def test_hosts_of_a_hostfile(ask, hostfile):
    assert list(ways(ask("doctor", "--json", "--hostfile", hostfile, status=1))) == ["well", "other"]


def test_all_pairs_of_a_hostfile(ask, hostfile):
    done = ask("doctor", "--json", "--hostfile", hostfile, "--all-pairs", status=1)
    assert [(pair["from"], pair["to"]) for pair in json.loads(done.stdout)["pairs"]] == \
        [("well", "localhost"), ("well", "other"), ("localhost", "other")]


@pytest.mark.parametrize("arguments", [["doctor"], ["config", "diff"]], ids=" ".join)
def test_a_wrong_hostfile(arguments, ask, hostfile):
    hostfile.write_text("-oProxyCommand=touch\n")
    says(ask(*arguments, "--hostfile", hostfile, status=2).stderr, "is no host")
    ask(*arguments, "--hostfile", "/nonexistent", status=2)
