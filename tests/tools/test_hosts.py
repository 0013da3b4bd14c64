"""`weir doctor` over many hosts: a launcher stands in for them, and answers as hosts of its names would."""

import collections
import itertools
import json
import math
import os
import re
import shlex

import pytest

from harness.programs import says

# "LAUNCHER HOST PROGRAM ARGUMENT...". The folder facts has what each host says of itself, troubles what ails it.
LAUNCHER = r"""#!/bin/sh
host=$1 here=${0%/*} card=10 latency=2 rate=12e9 errors=0 peer= trouble=
[ -f "$here/troubles/$host" ] && read -r trouble <"$here/troubles/$host"
case $trouble in
dead) echo "ssh: connect to host $host port 22: No route to host" >&2; exit 255 ;;
slow*) card=11 latency=40 ;;
narrow*) card=22 rate=3e9 ;;
esac
say() { printf '\nweir-answer %s\n' "$1"; }
while read -r line; do
	case $line in
	*'"do":"facts"'*) read -r facts <"$here/facts/$host"; say "$facts" ;;
	*'"do":"counters"'*)
		say "{\"counters\":{\"rx_crc_errors_phy\":$errors,\"out_of_sequence\":7}}"
		case $trouble in *cable*) errors=$((errors + 12)) ;; esac ;;
	*'"do":"listen"'*)
		echo "1 $host" >>"$here/at-work"
		say "{\"card\":\"$card\"}" ;;
	*'"do":"connect"'*) peer=${line#*'"card":"'}; say '{"ms":1,"mtu":4096}' ;;
	*'"do":"accept"'*) peer=; say '{"mtu":4096}' ;;
	*'"do":"ping"'*)
		[ "$trouble" = hangs ] && exec sleep 600
		case $peer in 11*) say '{"us":40}' ;; *) say "{\"us\":$latency}" ;; esac ;;
	*'"do":"pong"'*)
		[ "$trouble" = hangs ] && exec sleep 600
		say '{"done":true}' ;;
	*'"do":"memory"'*) say "{\"address\":1,\"key\":$card}" ;;
	*'"do":"read"'*) case $line in *'"key":22'*) say '{"bytes_per_second":3e9}' ;; *) say "{\"bytes_per_second\":$rate}" ;; esac ;;
	*'"do":"drop"'*) echo "-1 $host" >>"$here/at-work"; say '{"dropped":true}' ;;
	esac
done
"""

HARDWARE = {"driver": "mlx5_core", "firmware": "28.39.1002", "kernel": "6.1.0-30-amd64", "pcie": "x16 16.0 GT/s",
            "pfc": "0:off 3:on"}
FACTS = {"weir": "0.1.0", "open_mpi": "4.1.4", "profile": "roce", "hardware": HARDWARE, "counters": {"symbol_error": 2},
         "port": {"name": "mlx5_0:1", "link": "RoCE", "gid": "::ffff:10.0.0.1", "gid_type": "RoCEv2", "interface": "eth0",
                  "rails": "mlx5_0:1", "rail_count": 1, "mtu_bytes": 4096, "speed_mbps": 100000, "soft": False}}
LIMIT_S = 240


class Cluster:
    def __init__(self, folder, weir):
        self.folder, self.weir, self.names = folder, weir, []
        for name in "facts", "troubles":
            (folder / name).mkdir()
        self.launcher = folder / "launcher"
        self.launcher.write_text(LAUNCHER)
        self.launcher.chmod(0o755)

    def add(self, count):
        for i in range(count):
            self.names.append(f"node{len(self.names) + 1:03}")
            self.give(self.names[-1])
        (self.folder / "hostfile").write_text("\n".join(self.names))
        return self

    def give(self, name, trouble="", hardware=None, **facts):
        said = {**FACTS, "host": name, **facts, "hardware": {**HARDWARE, **(hardware or {})}}
        (self.folder / "facts" / name).write_text(json.dumps(said) + "\n")
        if trouble:
            (self.folder / "troubles" / name).write_text(trouble + "\n")

    def ask(self, *arguments, **options):
        return self.weir("doctor", "--hostfile", self.folder / "hostfile", "--launcher", self.launcher, *arguments,
                         limit_s=LIMIT_S, **options)

    def report(self, *arguments, **options):
        return json.loads(self.ask("--json", *arguments, **options).stdout)


@pytest.fixture
def cluster(weir, tmp_path):
    return Cluster(tmp_path, weir)


def rounds_of(report):
    """The pairs of each round; no host is in two of them."""
    rounds = collections.defaultdict(list)
    for pair in report["pairs"]:
        rounds[pair["round"]].append((pair["from"], pair["to"]))
    for pairs in rounds.values():
        hosts = [host for pair in pairs for host in pair]
        assert len(hosts) == len(set(hosts)), "a host has two partners at once"
    assert [len(rounds[i]) for i in range(len(rounds))] == [done["pairs"] for done in report["rounds"]]
    return list(rounds.values())


@pytest.mark.timeout(LIMIT_S)
@pytest.mark.long(seconds=25, but_after_changes_in=["tools/between/"])
def test_500_hosts_each_with_a_partner(cluster):
    """One minute by its steps: 5 s is what a pair of adapters takes at most. Whoever is odd is named, with what
    says why; whoever had such a partner is not."""
    cluster.add(500)
    cluster.give("node007", "slow, its cable counts errors")
    cluster.give("node123", "narrow", slow_slot="runs at PCIe x4 16.0 GT/s, and could at x16 16.0 GT/s",
                 hardware={"pcie": "x4 16.0 GT/s"})
    cluster.give("node124", "hangs")
    cluster.give("node200", "dead")
    cluster.give("node333", "slow", hardware={"firmware": "28.36.0001"})
    cluster.give("node444", counters={"symbol_error": 4711})
    report = cluster.report(status=1)
    rounds = rounds_of(report)
    assert sum(math.ceil(len(pairs) / 64) for pairs in rounds) * 5 <= 60
    assert {host for pair in rounds[0] for host in pair} == set(cluster.names)
    odd = report["odd_hosts"]
    assert sorted(odd) == ["node007", "node123", "node124", "node200", "node333", "node444"]
    for host, status, text in [
            ("node007", "warn", r"2 of its 2 ways are bad: 40\.0 us to node\d+, where good ways take 2\.0; "
                                r"24 packets with a wrong checksum \(rx_crc_errors_phy\)"),
            ("node123", "warn", r"3\.0 GB/s with node\d+, where good ways have 12\.0 GB/s.*PCIe x4"),
            ("node124", "fail", r"no answer within \d+ s"), ("node200", "fail", r"No route to host"),
            ("node333", "warn", r"its firmware is 28\.36\.0001, of most others 28\.39\.1002"),
            ("node444", "warn", r"4711 symbol errors of the link \(symbol_error\)")]:
        assert odd[host]["status"] == status and odd[host]["fix"], odd[host]
        says(odd[host]["text"], text)
    assert [one["key"] for one in report["hardware_differences"]] == ["firmware", "pcie"]


def test_all_pairs_meet_once_and_few_at_a_time(cluster):
    cluster.add(17)
    cluster.give("node003", "slow")
    report = cluster.report("--all-pairs", "--at-once", "3")
    rounds = rounds_of(report)
    met = collections.Counter(frozenset(pair) for pairs in rounds for pair in pairs)
    assert len(rounds) == 17 and len(met) == 17 * 16 // 2 and set(met.values()) == {1}
    steps = [int(line.split()[0]) for line in (cluster.folder / "at-work").read_text().splitlines()]
    assert max(itertools.accumulate(steps)) == 6 and sum(steps) == 0, "not three pairs at once"
    assert list(report["odd_hosts"]) == ["node003"]
    says(report["odd_hosts"]["node003"]["text"], "16 of its 16 ways are bad")


def test_neighbours_below_a_switch_first(cluster):
    """Then each with one of another switch."""
    cluster.add(12)
    leaves = {"leaf1": cluster.names[::2], "leaf2": cluster.names[1::2]}
    (cluster.folder / "topology.conf").write_text(
        "# all\nSwitchName=spine Switches=leaf[1-2]\n" +
        "".join(f"SwitchName={leaf} Nodes={','.join(names)} LinkSpeed=1\n" for leaf, names in leaves.items()))
    report = cluster.report("--switches", "topology.conf")
    near, far = rounds_of(report)
    leaf_of = {name: leaf for leaf, names in leaves.items() for name in names}
    assert all(leaf_of[a] == leaf_of[b] for a, b in near) and len(near) == 6
    assert all(leaf_of[a] != leaf_of[b] for a, b in far) and len(far) == 6
    assert report["hosts"]["node001"]["switch"] == "leaf1" and not report["odd_hosts"]
    says(cluster.ask("--switches", cluster.folder / "hostfile", status=2).stderr, "SwitchName=NAME Nodes=LIST")


@pytest.mark.parametrize("arguments, cells", [([], 30), (["--all-pairs"], 2 * 30 * 30)], ids=["partners", "all pairs"])
def test_pictures(arguments, cells, cluster):
    """On the terminal and as SVG; what a host says is no markup."""
    cluster.add(30)
    cluster.give("node005", "narrow", slow_slot="<script>")
    cluster.give("node009", "dead")
    picture = cluster.folder / "hosts.svg"
    done = cluster.ask("--svg", picture, *arguments, status=1)
    says(done.stdout, r"^node001 +[.O ]+X[.O X]+$", r"^warn  node005  odd host", r"^fail  node009  odd host", r"^\. as good ways")
    svg = picture.read_text()
    assert len(re.findall("<rect .*<title>", svg)) == cells + 6, "cells, and the scale"
    says(svg, "node005.*GB/s", "node009.*(failed|it does not answer)", "&lt;script&gt;")
    assert "<script" not in svg and "\x1b" not in done.stdout


def readme_cluster(cluster):
    """Whose picture tools/README.md shows."""
    cluster.add(12)
    cluster.give("node003", "slow, its cable counts errors")
    cluster.give("node008", "narrow")
    cluster.give("node011", "dead")
    return cluster


def test_the_picture_of_the_readme(cluster, root):
    """Is what the doctor draws. If it draws better now, copy the new one there."""
    picture = cluster.folder / "hosts.svg"
    readme_cluster(cluster).ask("--all-pairs", "--svg", picture, status=1)
    with open(os.path.join(root, "tools", "between", "hosts.svg")) as file:
        assert picture.read_text() == file.read(), picture


def test_words_of_a_launcher(cluster):
    """Each argument is one, whatever is in it: only ssh has a shell at the other end."""
    cluster.add(2)
    spy = cluster.folder / "spy"
    spy.write_text(f"#!/bin/sh\nprintf '%s\\n' $# >>{shlex.quote(str(cluster.folder / 'words'))}\n"
                   f"exec {shlex.quote(str(cluster.launcher))} \"$@\"\n")
    spy.chmod(0o755)
    cluster.launcher = spy
    cluster.report()
    assert (cluster.folder / "words").read_text().split() == ["4", "4"], "HOST, weir, doctor, --answer"


@pytest.mark.parametrize("arguments, complaint", [
    (["--hosts", "node1"], "at least two hosts"), (["--hosts", "node1,node2", "--peer", "node3"], "from here"),
    (["--hosts", "node1,node2", "--at-once", "0"], "--at-once"), (["--hosts", "node1,node2", "--switches", "/none"], "read"),
    (["--hosts", "node1,node2", "--svg", "/none/x"], "cannot be written")],
    ids=" ".join)
def test_wrong_usage(arguments, complaint, weir):
    says(weir("doctor", *arguments, status=2).stderr, complaint)
