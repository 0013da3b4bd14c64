"""`weir top` and `weir set` for a job on many hosts: a launcher stands in for them, and answers as hosts would."""

import json
import os
import re
import time

import pytest

from harness.kinds import ROOT
from harness.programs import run, says

# "LAUNCHER HOST PROGRAM ARGUMENT...". The folder `looks` has what each host shows, `orders` what it says of an order.
LAUNCHER = r"""#!/bin/sh
host=$1 here=${0%/*}
[ "$host" != hangs ] || exec sleep 600
[ -f "$here/looks/$host" ] || { echo "ssh: connect to host $host: No route to host" >&2; exit 255; }
while read -r line; do
	case $line in
	*'"do":"top look"'*) file=looks/$host ;;
	*'"do":"top order"'*) echo "$line" >>"$here/asked-$host"; file=orders/$host ;;
	esac
	[ -f "$here/$file" ] || exec sleep 600
	printf '\nweir-answer '
	cat "$here/$file"
done
"""
HEAD = 19  # numbers of a process before its counters
READ_TIMES = 16


def counters():
    with open(os.path.join(ROOT, "base", "counters.h")) as file:
        return len(re.findall(r"^  X\(", file.read(), re.M))


def caps():
    with open(os.path.join(ROOT, "base", "caps.h")) as file:
        return len(re.findall(r'"\w+"', file.read()))


def process(job, rank, slurm_job=""):
    second = 10 ** 9
    head = [1000 + rank, 5, job, rank] + [0] * (HEAD - 4)
    head[9] = 100 * second  # when it showed this
    return {"head": head, "slurm_job": slurm_job, "caps": [16] * caps(), "counters": [3] * counters(),
            "read_times": [0] * READ_TIMES, "peers": [[job << 32 | rank + 1, 0, 5 << 32, 0, 0]]}


class Hosts:
    def __init__(self, folder, weir, build):
        self.folder, self.weir = folder, weir
        for name in "looks", "orders":
            (folder / name).mkdir()
        self.launcher = folder / "launcher"
        self.launcher.write_text(LAUNCHER)
        self.launcher.chmod(0o755)
        asked = f"""echo '{{"do":"top look"}}' | {build}/bin/weir doctor --answer"""
        self.layout = json.loads(run("sh", "-c", asked).stdout.split("weir-answer ")[1])["layout"]

    def page(self, *processes):
        return {"layout": self.layout, "segments_left_out": 0, "next": 0, "ports": [
            {"path": "/dev/shm/weir-1", "device": "mlx5_0", "port": 1, "sharers": "", "user": 1000, "user_name": "alice",
             "at_ns": 101 * 10 ** 9, "adapter": {"rnr_naks_sent": 0}, "processes": list(processes)}]}

    def shows(self, host, page):
        (self.folder / "looks" / host).write_text(json.dumps(page) + "\n")

    def obeys(self, host, processes, **said):
        answer = {"processes": processes, "answered": processes, "ms": 300, "good": 1, "words": [], **said}
        (self.folder / "orders" / host).write_text(json.dumps(answer) + "\n")

    def asked(self, host):
        path = self.folder / f"asked-{host}"
        return json.loads(path.read_text()) if path.exists() else None

    def ask(self, command, hosts, *arguments, timeout_s=60, **options):
        return self.weir(command, "--hosts", ",".join(hosts), "--launcher", self.launcher, "--timeout", str(timeout_s),
                         *arguments, limit_s=120, **options)


@pytest.fixture
def hosts(weir, build, tmp_path):
    return Hosts(tmp_path, weir, build)


@pytest.fixture
def job(hosts):
    """Its ranks 0 to 5 on three hosts, in turn."""
    names = ["node1.cluster", "node2.cluster", "node3.cluster"]
    for i, name in enumerate(names):
        hosts.shows(name, hosts.page(process(7, i, "12"), process(7, i + 3, "12")))
    return names


# ---- weir top ----------------------------------------------------------------------------------------

def test_top_of_a_job_on_three_hosts(hosts, job):
    text = hosts.ask("top", job, "--once", "--peers", "--interval", "0.1").stdout
    says(text, r"^job 7  6 processes on 3 hosts .* user alice, slurm job 12$")
    rows = re.findall(r"^ *(node\d) +(\d+) +(\d) ", text, re.M)
    assert [(host, int(rank)) for host, _, rank in rows[:6]] == [(f"node{1 + rank % 3}", rank) for rank in range(6)]
    says(text, r"^ *HOST +PID +RANK +PEER +STATE", r"^ *node1 +1000 +0 +1 ")
    ports = json.loads(hosts.ask("top", job, "--once", "--json", "--interval", "0.1").stdout)["ports"]
    assert {port["host"]: [p["rank"] for p in port["processes"]] for port in ports} == \
        {name: [i, i + 3] for i, name in enumerate(job)}


def test_top_names_who_does_not_answer(hosts, job):
    """The others are shown, in time."""
    start = time.monotonic()
    text = hosts.ask("top", [*job, "gone", "hangs"], "--once", "--interval", "0.1", timeout_s=12, status=1).stdout
    says(text, "6 processes on 3 hosts", "^gone does not answer: .*No route to host", "^hangs does not answer: ")
    assert time.monotonic() - start < 80


def test_top_does_not_mix_jobs_of_the_same_number(hosts):
    """mpirun on two nodes may number its jobs alike: each has a rank 0."""
    for name in "node1", "node2":
        hosts.shows(name, hosts.page(process(7, 0), process(7, 1)))
    text = hosts.ask("top", ["node1", "node2"], "--once", "--interval", "0.1").stdout
    says(text, "^job 7  2 processes on node1 ", "^job 7  2 processes on node2 ")


def test_top_takes_pages(hosts):
    """What comes next, and nothing for ever."""
    page = hosts.page(*[process(7, rank) for rank in range(32)])
    hosts.shows("node1", {**page, "next": 32})
    text = hosts.ask("top", ["node1"], "--once", "--interval", "0.1").stdout
    assert len(re.findall(r"^ *node1 +\d+ +\d+ ", text, re.M)) == 64


def test_top_counts_a_process_of_two_rails_once(hosts):
    page = hosts.page(process(7, 0), process(7, 1))
    hosts.shows("node1", {**page, "ports": [page["ports"][0], {**page["ports"][0], "path": "/dev/shm/weir-2", "port": 2}]})
    says(hosts.ask("top", ["node1"], "--once", "--interval", "0.1").stdout, "^job 7  2 processes on node1 ")


def broken(change):
    def spoil(page):
        change(page["ports"][0])
        return page
    return spoil


LIES = {
    "another weir": (lambda page: {**page, "layout": 4711}, "install the same version"),
    "no layout": (lambda page: {"ports": []}, "install the same version"),
    "no ports": (lambda page: {**page, "ports": 7}, "says what no weir top says"),
    "ports that are none": (lambda page: {**page, "ports": [None, "x"]}, "says what no weir top says"),
    "no adapter": (broken(lambda port: port.update(adapter=[])), "says what no weir top says"),
    "too many processes": (broken(lambda port: port.update(processes=port["processes"] * 33)), "says what no weir top says"),
    "few counters": (broken(lambda port: port["processes"][0]["counters"].pop()), "says what no weir top says"),
    "negative": (broken(lambda port: port["processes"][0]["head"].__setitem__(3, -1)), "says what no weir top says"),
    "words": (broken(lambda port: port["processes"][0]["caps"].__setitem__(0, "many")), "says what no weir top says"),
    "no peers": (broken(lambda port: port["processes"][0].pop("peers")), "says what no weir top says"),
    "short peers": (broken(lambda port: port["processes"][0].update(peers=[[1]])), "says what no weir top says"),
    "many peers": (broken(lambda port: port["processes"][0].update(peers=[[0] * 5] * 33)), "says what no weir top says")}


@pytest.mark.parametrize("lie", LIES)
def test_top_believes_nothing(lie, hosts, job):
    spoil, answer = LIES[lie]
    hosts.shows("liar", spoil(hosts.page(process(7, 9, "12"))))
    says(hosts.ask("top", [*job, "liar"], "--once", "--interval", "0.1", status=1).stdout,
         "6 processes on 3 hosts", f"^liar does not answer: .*{answer}")


def test_top_shows_no_control_characters(hosts):
    page = hosts.page(process(7, 0, "1\x1b[2J"))
    page["ports"][0].update(device="\x1b[31mx", user_name="a\nb", sharers="\x9b2J")
    hosts.shows("node1", page)
    for form in [], ["--json"]:
        text = hosts.ask("top", ["node1"], "--once", "--interval", "0.1", *form).stdout
        assert not re.search(r"[^\n\x20-\x7e]|\\u00[019]", text), text


# ---- weir set ----------------------------------------------------------------------------------------

def test_set_on_all_hosts_of_a_job(hosts, job):
    hosts.shows("node4", hosts.page(process(8, 0, "13")))
    for name in job:
        hosts.obeys(name, 2)
    text = hosts.ask("set", [*job, "node4"], "--slurm-job", "12", "reads_max=1").stdout
    says(text, "^job 7: 6 processes on 3 hosts$", "^  reads_max from 16 to 1$", "^6 answered$",
         *[f"^  {name}: 2 of 2 answered after 0.3 s$" for name in job])
    wish = {"do": "top order", "job": 7, "user": 1000, "slurm_job": "12", "changes": ["reads_max=1"]}
    assert [hosts.asked(name) for name in job] == [wish] * 3 and hosts.asked("node4") is None


def test_set_says_who_did_not_take_it(hosts, job):
    hosts.obeys(job[0], 2)
    hosts.obeys(job[1], 2, good=0, words=["rank 1 refused; its output says why\x1b[2J"])
    text = hosts.ask("set", [*job, "gone"], "reads_max=1", status=1).stdout
    says(text, "^gone does not answer: .*No route", f"^  {job[0]}: 2 of 2 answered", "^    rank 1 refused.*why.\\[2J$",
         f"^  {job[2]}: no answer within", "^4 answered$")


def test_set_does_not_choose_between_jobs(hosts, job):
    hosts.shows("node4", hosts.page(process(8, 0, "13")))
    says(hosts.ask("set", [*job, "node4"], "reads_max=1", status=1).stderr, "several jobs",
         r"--job 7  \(user alice, slurm job 12\)", r"--job 8  \(user alice, slurm job 13\)")
    hosts.shows("node4", hosts.page(process(7, 0, "12")))
    says(hosts.ask("set", ["node1.cluster", "node4"], "--job", "7", "reads_max=1", status=1).stderr, "several jobs",
         r"--job 7 .*--hosts node1\.cluster\)", r"--job 7 .*--hosts node4\)")
    assert hosts.asked("node4") is None


@pytest.mark.parametrize("arguments, answer", [
    (["top", "--hosts", "a", "--tidy"], "excludes"), (["top", "--hostfile", "/x", "--prometheus", "x"], "excludes"),
    (["set", "--hosts", "-x", "reads_max=1"], "is no host"), (["top", "--hosts", "a;b", "--once"], "is no host")])
def test_wrong_usage(arguments, answer, weir):
    says(weir(*arguments, status=2).stderr, answer)
