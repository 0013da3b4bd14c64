"""`weir perf` on Soft-RoCE: the table is complete, all bytes arrive as they were sent, and an end that dies ends it."""

import csv
import json
import re

import pytest

from harness import programs
from harness.programs import says

pytestmark = pytest.mark.long(seconds=15, but_after_changes_in=["tools/perf/"])

LIMIT_S = 500
PEER_TIMEOUT_S = 30
SIZES = [1 << power for power in range(27)]  # 1 B to 64 MiB
TESTS = [(operation, kind) for operation, kinds in (
    ("send", ("latency", "stream", "both")), ("put", ("latency", "stream")), ("get", ("latency", "stream")))
    for kind in kinds]
ATOMICS = [("add", "latency", 8), ("add", "stream", 8)]


@pytest.fixture
def sh(build, tmp_path):
    """sh(command) has to succeed, or to end with that exit code."""
    return lambda command, code=0: programs.sh(command, build, tmp_path, LIMIT_S, code)


def complete(report, sizes):
    """Each test has each size once, with numbers over both ways, and the ratio is of their kind."""
    rows = {(row["operation"], row["kind"], row["bytes"]): row for row in report["results"]}
    expected = [(*test, size) for test in TESTS for size in sizes] + ATOMICS
    assert sorted(rows) == sorted(expected) and len(report["results"]) == len(expected)
    for (_, kind, size), row in rows.items():
        assert row["ratio"] > 0 and row["repeats"] >= 1, row
        for way in row["weir"], row["verbs"]:
            if kind == "latency":
                assert 0 < way["us"] <= way["us_99"], row
            else:
                assert way["per_second"] > 0, row
                assert way["mb_per_second"] == pytest.approx(way["per_second"] * size / 1e6), row


@pytest.mark.lab("loopback")
@pytest.mark.timeout(600)
def test_all_sizes_between_two_processes(sh, tmp_path):
    """1 B to 64 MiB, each byte looked at; and the picture."""
    sh("weir perf --local --check --for 5s --repeats 1 --json --svg perf.svg >report")
    report = json.loads((tmp_path / "report").read_text())
    assert report["checked"] and report["here"].endswith("rxe0:1") and report["there"].endswith("rxe0:1")
    complete(report, SIZES)
    says((tmp_path / "perf.svg").read_text(), r"^<svg", "messages, verbs", "streams, MB/s", r"^</svg>")


@pytest.mark.lab("nodes")
@pytest.mark.timeout(600)
def test_between_two_nodes(sh, tmp_path):
    """The other end is started there; repeats in turns."""
    sh("weir perf node2 --check --for 5s --repeats 2 --to 1MiB --json >report")
    report = json.loads((tmp_path / "report").read_text())
    assert (report["here"], report["there"]) == ("node1 rxe0:1", "node2 rxe0:1")
    complete(report, SIZES[:21])


@pytest.mark.lab("nodes")
def test_a_server_started_by_hand(sh, tmp_path):
    """As text and CSV; the server of one client ends with it."""
    serve = 'lab-rsh node2 "exec $(command -v weir) perf --serve 2>&1" >server'  # and the form
    for form in "", "--csv":
        sh(f"{serve}{form} & until grep -q 'weir perf node2' server{form}; do sleep .2; done; "
           f"weir perf node2 --for 1s --to 16B --only send,add {form} >report{form}; status=$?; wait; exit $status")
        says((tmp_path / f"server{form}").read_text(), r"^(::ffff:)?10\.\d+\.\d+\.1 measures$")
    text = (tmp_path / "report").read_text()
    says(text, "^node1 rxe0:1 and node2 rxe0:1, ", r"^ +size +weir +99 % +verbs +ratio$",
         *[rf"^ +{size}B( +[\d.]+){{4}}$" for size in SIZES[:5]],
         *[rf"^ +{size}B( +[\d.kM]+){{7}}$" for size in SIZES[:5]],
         r"^latency of fetch-and-adds of 8B: weir [\d.]+ us .*, verbs [\d.]+ us, ratio")
    rows = list(csv.DictReader((tmp_path / "report--csv").read_text().splitlines()))
    assert len(rows) == 3 * 5 + 2
    assert all(float(row["ratio"]) > 0 for row in rows)


ANSWERER = "pgrep -f \"[d]octor --answer\""


@pytest.mark.lab("nodes")
@pytest.mark.parametrize("trouble, says_what", [
    pytest.param(f"lab-rsh node2 'kill -KILL $({ANSWERER})'",
                 r"node2: it (ended with exit status 137|was ended by signal 9)", id="its process is killed"),
    pytest.param("lab-wire blackout", r"node[12]: ", id="no packet passes", marks=pytest.mark.long),
])
def test_a_peer_that_is_lost_in_the_middle(trouble, says_what, sh):
    """Ends in time, and says between which hosts and what to do."""
    done = sh("weir perf node2 --for 5min --only send --to 8KiB & perf=$!; "
              f"until lab-rsh node2 '{ANSWERER}' >/dev/null; do sleep .2; done; sleep 8; "
              f"{trouble}; lost=$(date +%s); wait $perf; status=$?; echo took $(($(date +%s) - lost)) s; "
              "lab-wire restore; exit $status", 1)
    assert int(re.search(r"took (\d+) s", done.stdout)[1]) <= PEER_TIMEOUT_S + 5
    says(done.stdout, r"weir perf: between node1 and node2: (latency|stream) of messages.* over (weir|verbs): .*"
         + says_what, "'weir doctor --peer node2' tries the way")
