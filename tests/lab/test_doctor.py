"""`weir doctor` in labs that are well, and in labs that lack something: it overlooks nothing that is wrong,
names the fix, and complains of nothing that is well."""

import contextlib
import json
import re

import pytest

from harness import programs

pytestmark = pytest.mark.long(but_after_changes_in=["tools/doctor/"])

LIMIT_S = 120


@pytest.fixture
def sh(build, tmp_path):
    """sh(command) has to succeed, or to end with that exit code."""
    return lambda command, code=0: programs.sh(command, build, tmp_path, LIMIT_S, code)


@pytest.fixture
def report_of(sh, tmp_path):
    """report_of(command, code) of weir, which has to end with that exit code."""
    def run(command, code):
        sh(f"{command} --json >report", code)
        return json.loads((tmp_path / "report").read_text())
    return run


@contextlib.contextmanager
def meanwhile(sh, change, back):
    sh(change)
    try:
        yield
    finally:
        sh(back)


def one(report, name, status, text="", fix=""):
    """All checks of a name are `status`; one of them says `text`, and names `fix`."""
    found = [check for check in report["checks"] if check["name"] == name]
    assert found, f"no check '{name}'"
    assert all(check["status"] == status for check in found), f"'{name}' is not {status}: {found}"
    assert any(re.search(text, check["text"]) and re.search(fix, check.get("fix", "")) for check in found), \
        f"'{name}' does not say /{text}/ with the fix /{fix}/: {found}"


def only(report, status, *names):
    """What is of this status."""
    found = [check for check in report["checks"] if check["status"] == status]
    assert sorted({check["name"] for check in found}) == sorted(names), f"{status}: {found}, expected {names}"


# ---- of one node -------------------------------------------------------------------------------------

WELL = {
    "configuration": r"no mistakes; .*profile rxe",
    "device": r"rxe0", "modules": r"rdma_ucm", "memlock": r"any amount of memory|limit is unlimited",
    "open files": r"\d+", "fork": r"fork", "shared memory": r"/dev/shm",
    "overlap": r"if it asks for MPI_THREAD_FUNNELED", "device files": r"opens",
    "port": r"is active", "gid": r"RoCEv2 over an IPv4", "mtu": r"4096 B", "path": r"traffic class",
    "limits": r"has what weir needs",
    "registration": r"registered in", "cache": r"1 MiB take [\d.]+ ms at first, [\d.]+ us when known",
    "connection": r"intact; 8 B take [\d.]+ us",
    # Soft-RoCE's variant, which the window's control is made for.
    "srq limit": r"fires within .*silent when armed already below",
    "rnr": r"delivered [\d.]+ ms after one is posted; [1-9]\d* RNR NAKs, .*kernel ticks",
    "dead peer": r"an error after \d+ ms", "write": r"works", "read": r"works",
    "atomic": r"works", "counters": r"[1-9]\d* RNR NAKs sent and [1-9]\d* received",
    "open mpi": r"Open MPI [45]\.", "plugin": r"loads .*mca_btl_weir\.so",
    "selection": r"OMPI_MCA_pml=ob1 is set",
}


@pytest.mark.lab("loopback")
def test_everything_is_ok(report_of):
    """A lab that is well: everything is ok."""
    report = report_of("weir doctor", 0)
    only(report, "fail")
    only(report, "warn")
    for name, text in WELL.items():
        one(report, name, "ok", text)


# What sites alarm on; packets repeated (completer_retry_err, duplicate_request) a busy host has anyway.
ALARMING = "cd /sys/class/infiniband/rxe0/ports/1/hw_counters && grep . *rnr* retry_exceeded_err *seq* link_downed"


@pytest.mark.lab("loopback")
def test_brief(sh, tmp_path):
    """One line, and nothing that sites alarm on counts up, while the whole doctor has RNR NAKs counted."""
    sh(f"({ALARMING}) >before; weir doctor --brief --timeout 60 >brief && ({ALARMING}) >after", 0)
    assert re.fullmatch(r"ok    rxe0:1 is active: RoCE, .* Gb/s; \d+ checks, [\d.]+ s\n", (tmp_path / "brief").read_text())
    assert (tmp_path / "before").read_text() == (tmp_path / "after").read_text()
    sh(f"weir doctor >whole && ({ALARMING}) >after", 0)
    assert (tmp_path / "before").read_text() != (tmp_path / "after").read_text(), "these counters never move"


@pytest.mark.lab("wire")
def test_brief_of_a_link_that_is_down(sh, tmp_path):
    """Why the node is not fit, for a scheduler to show."""
    with meanwhile(sh, "lab-wire down", "lab-wire up"):
        sh("weir doctor --brief --timeout 60 --device rxe0a >brief", 1)
    assert re.fullmatch(r"fail  port: rxe0a:1 is .*w0a.*\n", (tmp_path / "brief").read_text())


@pytest.mark.lab("loopback")
def test_a_device_that_is_not_there(report_of):
    """Named, with those that are."""
    report = report_of("weir doctor --device mlx5_9", 1)
    only(report, "fail", "port")
    one(report, "port", "fail", r"mlx5_9.*rxe0:1", "--device")


@pytest.mark.lab("loopback")
def test_fewer_pairs_than_a_full_node_could_use(report_of, build):
    """No failure: pairs are made when processes first talk."""
    report = report_of(f"ADAPTER=few-queue-pairs:3 LD_PRELOAD={build}/mpi/adapter.so weir doctor", 0)
    one(report, "limits", "warn", r"rxe0 has max_qp 3, and weir wants \d+ .*first talk")


@pytest.mark.lab("loopback")
@pytest.mark.parametrize("where, status, text, fix", [
    pytest.param("", "ok", r"large messages move while a program computes, .*on \d+ CPUs", "",
                 id="that is asked for: it can work here", marks=pytest.mark.long),
    pytest.param("taskset -c 0", "warn", r"one CPU only", r"WEIR_OVERLAP_CPUS=any",
                 id="of a process that is bound to one CPU: what it costs"),
    pytest.param("WEIR_OVERLAP_CPUS=0-1 taskset -c 0", "ok",
                 r"large messages move while a program computes, .*on 2 CPUs", "",
                 id="the same with other CPUs for its threads", marks=pytest.mark.long),
    pytest.param("WEIR_OVERLAP_CPUS=0-", "warn", r"'0-' is neither auto nor any nor a list of CPUs", r"a list",
                 id="CPUs for its threads that are no list", marks=pytest.mark.long),
])
def test_overlap(where, status, text, fix, report_of):
    """Overlap that is asked for."""
    one(report_of(f"WEIR_OVERLAP=on {where} weir doctor", 0), "overlap", status, text, fix)


@pytest.mark.lab("loopback")
def test_an_environment_that_is_not_set(report_of):
    """Says what would happen."""
    report = report_of("env -u OMPI_MCA_pml -u OMPI_MCA_mca_base_component_path weir doctor", 0)
    one(report, "selection", "warn", r"ucx", r"pml ob1")
    one(report, "plugin", "warn", r"does not look there", r"tools/env")


@pytest.mark.lab("loopback")
def test_a_small_mtu(sh, report_of):
    """A warning with the fix."""
    with meanwhile(sh, "ip link set eth0 mtu 1500", "ip link set eth0 mtu 4200"):
        report = report_of("weir doctor", 0)
    only(report, "fail")
    one(report, "mtu", "warn", r"1024 B instead of 4096 B.*eth0's MTU is 1500", "mtu 4200")


@pytest.mark.lab("loopback")
def test_no_ip_address(sh, report_of):
    """Link-local or nothing, with the fix."""
    sh("ip -o addr show dev eth0 scope global | awk '{ print $4 }' >addresses")
    with meanwhile(sh, "ip addr flush dev eth0 scope global", "xargs -I {} ip addr add {} dev eth0 <addresses"):
        report = report_of("weir doctor", 0)
    one(report, "gid", "warn", "", "ip addr add")


@pytest.mark.lab("no device")
def test_no_device(report_of):
    """Fails with the fix."""
    report = report_of("weir doctor", 1)
    only(report, "fail", "device")
    one(report, "device", "fail", "no RDMA device", "rdma link add")


@pytest.mark.lab("64 KiB of locked memory")
def test_too_little_locked_memory(report_of):
    """The limit and the fix."""
    report = report_of("weir doctor", 1)
    only(report, "fail", "memlock", "registration")
    one(report, "memlock", "fail", r"limit is 64 KiB", r"limits\.d")
    one(report, "registration", "fail", "cannot be registered", "memlock")
    one(report, "connection", "ok", "intact")


@pytest.mark.lab("wire")
def test_a_black_holed_port(sh, report_of):
    """Nothing of what the doctor does needs the wire: silence is for a job to find. It ends."""
    with meanwhile(sh, "lab-wire blackout", "lab-wire restore"):
        one(report_of("weir doctor --device rxe0a", 0), "connection", "ok", "intact")


@pytest.mark.lab("wire")
def test_a_link_that_is_down(sh, report_of):
    """The interface and the fix."""
    with meanwhile(sh, "lab-wire down", "lab-wire up"):
        report = report_of("weir doctor --device rxe0a", 1)
    only(report, "fail", "port")
    one(report, "port", "fail", r"rxe0a:1 is .*w0a", "ip link set w0a up")


# ---- of the way between two --------------------------------------------------------------------------

WELL_BETWEEN = {
    "shell": r"node2 answers", "weir": r"both have weir", "open mpi": r"both have Open MPI [45]\.",
    "path": r"traffic_class auto, service_level auto",
    "keys": r"all keys .* agree", "gid": r"RoCEv2 ::ffff:10\.77\.0\.1 .* RoCEv2 ::ffff:10\.77\.0\.2",
    "mtu": r"4096 B", "connection": r"connects .* within \d+ ms", "packet": r"of 4096 B.* both ways",
    "latency": r"8 B take [\d.]+ us", "to": r"MB/s from node1 to node2", "from": r"MB/s from node2 to node1",
}
PEER = "weir doctor --peer node2"


def pair(report, peer="node2"):
    found = [way for way in report["pairs"] if way["to"] == peer]
    assert len(found) == 1, f"not one pair with {peer}: {report['pairs']}"
    return found[0]


def on_node2(command):
    return f"lab-rsh node2 '{command}'"


@pytest.mark.lab("nodes")
@pytest.mark.parametrize("command", [
    pytest.param(PEER, id="two nodes", marks=pytest.mark.long),
    pytest.param('weir doctor --hostfile "$LAB_HOSTFILE" --all-pairs',
                 id="a hostfile: the ways between all its nodes"),
    pytest.param('weir doctor --hostfile "$LAB_HOSTFILE"',
                 id="a hostfile: each of its nodes with a partner", marks=pytest.mark.long),
])
def test_the_way_between_two_nodes_is_ok(command, report_of):
    """Two nodes that are well."""
    report = report_of(command, 0)
    assert len(report["pairs"]) == 1, f"{report['pairs']}"
    way = pair(report)
    only(way, "fail")
    for name, text in WELL_BETWEEN.items():
        one(way, name, "ok", text)
    # Soft-RoCE repeats what came too late when the host is busy; that is no case's business.
    assert {check["name"] for check in way["checks"]} == {*WELL_BETWEEN, "counters"}
    assert way["latency_us"] > 0 and way["to_bytes_per_second"] > 1e5 and way["from_bytes_per_second"] > 1e5
    for name in "node1", "node2":
        hardware = report["hosts"][name]["hardware"]
        assert hardware["driver"] == "rdma_rxe" and hardware["kernel"] and hardware["interface mtu"] == "4200", hardware


@pytest.mark.lab("nodes")
@pytest.mark.long
def test_a_peer_with_another_mtu(sh, report_of):
    """A warning with the fix."""
    with meanwhile(sh, on_node2("ip link set eth0 mtu 1500"), on_node2("ip link set eth0 mtu 4200")):
        way = pair(report_of(PEER, 1))
    one(way, "mtu", "warn", r"4096 B on node1, 1024 B on node2", r"on node2: ip link set eth0 mtu 4200")
    one(way, "connection", "ok")
    # What node1 sends is too large for node2's interface; smaller packets pass.
    one(way, "packet", "fail", r"packets of 1024 B pass, but those of 4096 B do not", "btl_weir_mtu 1024")
    assert way["latency_us"] is not None


@pytest.fixture
def larger_buffers_on_node2(sh):
    with meanwhile(sh, on_node2('mkdir -p /etc/weir; echo "buffer_size: 16KiB" >/etc/weir/weir.yaml'),
                   on_node2("rm /etc/weir/weir.yaml")):
        yield


@pytest.mark.lab("nodes")
def test_a_peer_with_another_buffer_size(larger_buffers_on_node2, report_of):
    """Both sources."""
    way = pair(report_of(PEER, 1))
    only(way, "fail", "keys")
    one(way, "keys", "fail", r"buffer_size is 8704B on node1 \(default\), 16KiB on node2 "
                             r"\(/etc/weir/weir.yaml:1\)", r"btl_weir_buffer_size")
    one(way, "latency", "ok")


@pytest.mark.lab("nodes")
def test_config_diff_lists_another_buffer_size(larger_buffers_on_node2, report_of):
    """weir config diff"""
    report = report_of("weir config diff --host node2", 1)
    assert [difference["key"] for difference in report["differences"]] == ["buffer_size"]
    assert report["differences"][0]["alike"]


@pytest.mark.lab("nodes")
def test_hosts_that_cannot_be_reached(report_of):
    """Named, and the others are tried."""
    report = report_of("weir doctor --timeout 20 --peer node9 --peer 10.78.0.9 --peer node2", 1)
    for peer in "node9", "10.78.0.9":
        one(pair(report, peer), "shell", "fail", f"{re.escape(peer)} does not answer", "--launcher")
    assert pair(report)["latency_us"] is not None, "others suffer"


@pytest.mark.lab("nodes")
@pytest.mark.long
def test_a_way_that_is_dark(sh, report_of):
    """No connection, and it ends."""
    with meanwhile(sh, "lab-wire blackout", "lab-wire restore"):
        way = pair(report_of(PEER, 1))
    only(way, "fail", "connection")
    one(way, "connection", "fail", r"no queue pair of node1 connects to one of node2", "4791")
