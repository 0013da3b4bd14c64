"""The `weir` command as a user meets it: help, usage, JSON, without a device, and asking other hosts.

Where the machine has an RDMA device, the cases that need none are left to the lab (lab/test_doctor.py).
"""

import contextlib
import glob
import json
import os
import socket
import subprocess
import time

import pytest

from harness.programs import run, says

without_device = pytest.mark.skipif(bool(glob.glob("/sys/class/infiniband/*")), reason="this machine has a device")


@pytest.mark.parametrize("arguments, patterns", [
    ([], [r"\binfo\b", r"\bdoctor\b", r"\btop\b", r"\bperf\b", r"\btune\b"]),
    (["top"], ["Exit status:", "Examples:"]),
    (["set"], ["Exit status:", "Examples:", "cannot change while a job runs"]),
    (["tune"], ["Exit status:", "Examples:"]),
    (["doctor"], ["--json", "--device", "--peer", "--hostfile", "Exit status:", "0 .*fail", "1 .*fail", "2 .*usage",
                  "Examples:"]),
    (["perf"], ["--serve", "--local", "--ports", "--check", "--csv", "--svg", "Exit status:", "Examples:"]),
    (["info"], ["--json", "Exit status"])], ids=["weir", "top", "set", "tune", "doctor", "perf", "info"])
def test_help(arguments, patterns, weir):
    says(weir(*arguments, "--help").stdout, *patterns)


@pytest.mark.parametrize("arguments", [
    [], ["doctro"], ["doctor", "--jsno"], ["info", "--gid-index", "x"], ["doctor", "--all-pairs"],
    ["doctor", "--peer", "-oProxyCommand=x"], ["config", "diff"], ["config", "diff", "--launcher", "srun"],
    ["perf"], ["perf", "a b"], ["perf", "--local", "--serve"],
    ["perf", "--local", "--from", "3B"], ["perf", "--local", "--to", "128MiB"], ["perf", "--local", "--for", "20"],
    ["perf", "--local", "--from", "8B", "--to", "4B"], ["perf", "--local", "--only", "all"],
    ["perf", "--local", "--ports", "a,b,c"], ["perf", "--local", "--json", "--csv"]], ids=" ".join)
def test_wrong_usage(arguments, weir):
    done = weir(*arguments, status=2)
    assert done.stderr and not done.stdout, "the complaint is not on stderr"


def test_top_of_no_process(weir, tmp_path):
    says(weir("top", "--once", "--directory", tmp_path, status=1).stdout, "No weir process")
    assert json.loads(weir("top", "--once", "--json", "--directory", tmp_path, status=1).stdout)["ports"] == []


@pytest.mark.parametrize("change, answer", [
    ("chunk_size=64KiB", "chunk_size cannot change while a job runs; these can: window_max, "),
    ("reads_maxx=1", "no key 'reads_maxx'; did you mean reads_max"),
    ("reads_max=0", "reads_max: '0' is out of range .it takes: auto or number, 1 to 128"),
    ("tokens=auto", "tokens: 'auto' is no whole number"), ("reads_max", "no '=VALUE'")])
def test_set_takes_what_a_file_may_say(change, answer, weir):
    says(weir("set", change, status=2).stderr, answer)


def test_set_of_no_process(weir, tmp_path):
    says(weir("set", "reads_max=1", "--directory", tmp_path, status=1).stdout, "No weir process of any job")


# ---- what this machine lacks -------------------------------------------------------------------------

def checks_of(done):
    return json.loads(done.stdout)["checks"]


@without_device
def test_doctor_without_a_device(weir):
    done = weir("doctor", status=1)
    says(done.stdout, r"^fail  device +there is no RDMA device", r"^ +fix: .*rdma_rxe", r"weir-lab -- CMD",
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
def test_brief_without_a_device(weir):
    done = weir("doctor", "--brief", status=1)
    says(done.stdout, r"\Afail  device: there is no RDMA device[^\n]*\n\Z")
    assert done.stderr == ""
    report = json.loads(weir("doctor", "--brief", "--json", status=1).stdout)
    assert report["status"] == "fail" and report["fix"] and report["seconds"] <= 2


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

# A launcher: "LAUNCHER HOST PROGRAM ARGUMENT...". Each host is this one, or does what its name says.
LAUNCHER = r"""#!/bin/sh
host=$1
shift
case $host in
well | node[0-9]*) exec "$@" ;;
other) WEIR_BUFFER_SIZE=16KiB exec "$@" ;;
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
    """Runs weir with LAUNCHER."""
    launcher = tmp_path / "launcher"
    launcher.write_text(LAUNCHER)
    launcher.chmod(0o755)

    def command(*arguments, timeout_s=60, **options):
        return weir(*arguments, "--launcher", launcher, "--timeout", str(timeout_s), **options)
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


@pytest.mark.parametrize("arguments, pairs", [
    ([], [("well", "localhost"), ("well", "other")]),
    (["--all-pairs"], [("well", "localhost"), ("well", "other"), ("localhost", "other")])], ids=["partners", "all pairs"])
def test_pairs_of_a_hostfile(arguments, pairs, ask, hostfile):
    done = ask("doctor", "--json", "--hostfile", hostfile, *arguments, status=1)
    assert sorted((pair["from"], pair["to"]) for pair in json.loads(done.stdout)["pairs"]) == sorted(pairs)


@pytest.mark.parametrize("arguments", [["doctor"], ["config", "diff"]], ids=" ".join)
def test_a_wrong_hostfile(arguments, ask, hostfile):
    hostfile.write_text("-oProxyCommand=touch\n")
    says(ask(*arguments, "--hostfile", hostfile, status=2).stderr, "is no host")
    ask(*arguments, "--hostfile", "/nonexistent", status=2)


# ---- hosts as people write them ----------------------------------------------------------------------

@pytest.fixture
def hosts_of(ask, weir, tmp_path):
    """The hosts that weir asks, for arguments; ClusterShell knows the group @rack7."""
    folder = tmp_path / "clustershell"
    folder.mkdir()
    (folder / "groups.conf").write_text(
        "[Main]\ndefault: local\n[local]\nmap: [ $GROUP = rack7 ] && echo 'node[71-72]'\n")

    def run(*arguments, **options):
        options.setdefault("env", {})["CLUSTERSHELL_CFGDIR"] = str(folder)
        done = ask("config", "diff", *arguments, "--json", **options)
        return sorted(name for name in json.loads(done.stdout)["hosts"] if name.startswith("node"))
    return run


@pytest.mark.parametrize("text, names", [
    ("node3,node1", ["node1", "node3"]),
    ("node[08-10],node7", ["node08", "node09", "node10", "node7"]),
    ("node[0-4/2]", ["node0", "node2", "node4"]),
    ("node[1-4]!node[2-3]", ["node1", "node4"]),
    ("node0,@rack7", ["node0", "node71", "node72"])])
def test_lists_of_hosts(text, names, hosts_of):
    assert hosts_of("--hosts", text) == names


def test_lists_of_hosts_in_a_hostfile(hosts_of, hostfile):
    hostfile.write_text("node[1-2] slots=4\n@rack7\n")
    assert hosts_of("--hostfile", hostfile) == ["node1", "node2", "node71", "node72"]


@pytest.mark.parametrize("text, complaint", [
    ("node[1-", "nodeset does not understand.*missing bracket"), ("@rack8", "names no host"),
    ("-x[1-2]", "begins with '-'"), ("", "empty"), ("node[1-20000]", "more than 10000 hosts")])
def test_wrong_lists_of_hosts(text, complaint, ask):
    says(ask("config", "diff", "--hosts", text, status=2).stderr, complaint)


def test_lists_without_clustershell(weir, ask, tmp_path):
    """Slurm's lists need Slurm alone; what nobody knows is told."""
    folder = tmp_path / "bin"
    folder.mkdir()
    path = {"PATH": str(folder)}
    says(weir("config", "diff", "--hosts", "node[1-2]", env=path, status=2).stderr, "install clustershell")
    scontrol = folder / "scontrol"
    scontrol.write_text("#!/bin/sh\nprintf '%s\\n' node1 node2\n")
    scontrol.chmod(0o755)
    done = ask("config", "diff", "--hosts", "node[1-2]", env=path)
    says(done.stdout, "same on 3 hosts")
    says(weir("config", "diff", "--hosts", "@rack7", env=path, status=2).stderr, "install clustershell")


# ---- weir perf ---------------------------------------------------------------------------------------

@pytest.mark.parametrize("name, text", [
    ("silent", "no answer within"), ("ends", "exit status 255.*Permission denied"), ("missing", "there is no weir at"),
    ("floods", "no answer within"), ("endless", "longer than any answer may be")])
def test_perf_with_a_host_that_does_not_answer(name, text, ask):
    """Ends with both hosts' names, and what that one said."""
    start = time.monotonic()
    done = ask("perf", name, timeout_s=4, status=1)
    assert time.monotonic() - start < 60 and done.stdout == ""
    says(done.stderr, rf"^weir perf: between \S+ and {name}: .*{text}", f"'weir doctor --peer {name}' tries the way")


def test_perf_with_a_host_that_lies(ask):
    assert "\x1b" not in ask("perf", "lies", status=1).stderr, "bytes of another host reach the terminal"


@without_device
def test_perf_without_a_device(weir):
    says(weir("perf", "--local", status=1).stderr, "no RDMA device")


@pytest.fixture
def server(build, no_settings):
    """(port, process) of one that is started by hand."""
    with socket.create_server(("localhost", 0)) as free:
        port = free.getsockname()[1]
    with subprocess.Popen([f"{build}/bin/weir", "perf", "--serve", "--listen", str(port)], stderr=subprocess.PIPE,
                          text=True) as process:
        says(process.stderr.readline(), f"weir perf \\S+ --listen {port}$")
        yield port, process
        process.kill()


@without_device
def test_perf_with_a_server_started_by_hand(server, weir):
    """They find each other, and the server ends with its client."""
    port, process = server
    says(weir("perf", "127.0.0.1", "--listen", str(port), status=1).stderr, "no RDMA device")
    assert process.wait(60) == 0
    says(process.stderr.read(), "^(::ffff:)?127.0.0.1 measures$")


@pytest.mark.parametrize("nonsense", [b"\xff\n{}\n[1]\n" + b'{"do": "perf run"}\n{"do": ' + b"[" * 90000 + b"\n",
                                      b"x" * (1 << 20)], ids=["no requests", "a line without an end"])
def test_perf_with_a_client_that_sends_nonsense(nonsense, server):
    port, process = server
    with socket.create_connection(("127.0.0.1", port)) as client, contextlib.suppress(ConnectionError):
        client.sendall(nonsense)
        client.shutdown(socket.SHUT_WR)
        while client.recv(65536):
            pass
    assert process.wait(60) == 0


# ---- schedulers --------------------------------------------------------------------------------------

@pytest.mark.parametrize("status, line", [(0, "ok    mlx5_0:1 is active"), (1, "fail  port: mlx5_0:1 is down (eth0)")])
def test_check_for_nhc(status, line, root, tmp_path):
    """As NHC calls it, whose `die` takes the node from jobs."""
    (tmp_path / "weir").write_text(f"#!/bin/sh\n[ \"$*\" = 'doctor --brief' ] && echo '{line}'\nexit {status}\n")
    (tmp_path / "weir").chmod(0o755)
    nhc = f"die() {{ echo \"died $*\"; }}; . {root}/packaging/example/slurm/weir.nhc; check_weir"
    done = run("bash", "-c", nhc, status=status, env={"PATH": f"{tmp_path}:{os.environ['PATH']}"})
    assert done.stdout == (f"died 1 weir: {line}\n" if status else "")
