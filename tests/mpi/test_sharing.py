"""What the processes of a node share, when jobs and processes come and go; what `weir top` shows of it, and
what `weir tune` makes of it.

Each test starts jobs of its own, and looks at the segments in /dev/shm.
"""

import contextlib
import glob
import os
import re
import shutil
import signal
import subprocess
import time

import pytest

from harness.mpirun import LEAK, Heard, mpirun
from harness.open_mpi_5 import own_version
from harness.programs import run, says
from harness.top import Top

pytestmark = [pytest.mark.lab("loopback"), pytest.mark.timeout(900), pytest.mark.long(seconds=9)]

PATIENCE_S = 240  # for what hangs, on a slow machine
TAIL = 2000
FEW_TOKENS = {"admission": "always", "tokens": "2"}
FOR_LONG = ["--rounds", "100000"]  # of alltoall_mem: until it is killed


def segments():
    return sorted(glob.glob("/dev/shm/weir-*"))


def nothing_is_left():
    assert not segments(), "segments are left behind"


def wait_for(condition, what):
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, f"{what} did not come"
        time.sleep(0.05)


class Shown(Top):
    status = None

    def at_tokens(self):
        return [p for p in self.processes() if p["tokens_held"] + p["tokens_waited_for"] > 0]

    def served(self):
        return sum(p["counters"]["proxy_served"] for p in self.processes())

    def prometheus(self, directory):
        path = directory / "weir.prom"
        self.text("--prometheus", str(path))
        return [line for line in path.read_text().splitlines() if not line.startswith("#")]


class Job(Heard):
    """Its program, started with these keys of weir."""

    def __init__(self, programs, np, program, args=(), launch=(), **keys):
        # Several jobs share the cores, and no job knows it: without yielding, ranks of one job that
        # land on the same core spin whole time slices away for each other, whatever the transport.
        mca = {"mpi_yield_when_idle": 1, **{f"btl_weir_{key}": value for key, value in keys.items()}}
        self.np = np
        super().__init__([*mpirun(mca.items()), "-n", str(np), *launch, os.path.join(programs, program), *args])

    def runs(self):
        return not self.is_over()

    def ranks(self):
        return [pid for _, pid, _ in self.processes() if pid != self.process.pid]

    def end(self):
        """Waits until it ends well. What it said."""
        try:
            code = self.process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            code = "none: no end in time"
        if code != 0:
            pytest.fail(f"exit code {code}:\n{self.text()[-TAIL:]}", pytrace=False)
        leak = LEAK.search(self.text())
        assert not leak, leak.group()
        return self.text()

    def end_stream(self):
        """It has run long enough. Before it is ready it would take the signal ill."""
        wait_for(lambda: not self.runs() or self.text().count(" ready, pid ") == self.np, "the start of stream")
        for pid in self.ranks():
            with contextlib.suppress(ProcessLookupError):  # it ends with the others
                os.kill(pid, signal.SIGUSR2)
        return self.end()

    def kill(self):
        victims = self.processes()
        super().kill()
        self.process.wait()
        wait_for(lambda: not any(os.path.exists(f"/proc/{pid}") for _, pid, _ in victims), "the end of what was killed")


@pytest.fixture
def start(build):
    """start(np, program, args, launch, key=value): a job under way. None is left after the test."""
    jobs, before = [], segments()

    def start(*args, **options):
        jobs.append(Job(os.path.join(build, "mpi"), *args, **options))
        return jobs[-1]
    yield start
    for job in jobs:
        job.kill()
    for path in set(segments()) - set(before):
        os.unlink(path)


@pytest.fixture
def stream(start):
    """Traffic until it is told to end."""
    return lambda np=2, **keys: start(np, "stream", ["--seconds", "600", "--timeout", "700"], **keys)


@pytest.fixture
def ring(start):
    """A short job, from its start to its end. What it said."""
    def ring(laps, np=2, **options):
        text = start(np, "ring", ["--laps", str(laps)], **options).end()
        assert "ring: ok" in text
        return text
    return ring


@pytest.fixture
def weir(build):
    return lambda *args, **options: run(os.path.join(build, "bin", "weir"), *args, **options)


@pytest.fixture
def top(build):
    return Shown(build)


# ---- segments, and jobs that come and go -------------------------------------------------------------

def test_segment_comes_with_a_job_and_goes_with_it(start):
    job = start(2, "ring", ["--laps", "5000"])
    wait_for(segments, "the segment")
    assert oct(os.stat(segments()[0]).st_mode & 0o777) == "0o600"
    job.end()
    nothing_is_left()


def test_node_sharing_off_shares_nothing(start, top):
    """Not even with admission always: its processes only show themselves."""
    job = start(2, "ring", ["--laps", "60000"], node_sharing="off", admission="always")
    seen = []

    def both_have_sent():  # one look: the job may have ended before another
        seen[:] = top.ports()
        sent = [p["counters"]["messages_sent"] for port in seen for p in port["processes"]]
        return len(sent) == 2 and all(sent) or not job.runs()

    wait_for(both_have_sent, "its processes in weir top")
    assert [port["sharers"] for port in seen] == ["nothing shared"]
    assert len(seen[0]["processes"]) == 2
    for p in seen[0]["processes"]:
        assert p["tokens_held"] == p["tokens_waited_for"] == p["reads_asked_bytes"] == 0
        assert p["counters"]["token_waits"] == 0
    job.end()
    nothing_is_left()


def test_jobs_killed_with_tokens_make_way_for_another(start, stream, top, request):
    """A job that waits for the tokens of another one goes on when that one is killed."""
    survivor = stream(**FEW_TOKENS)
    wait_for(segments, "the segment")
    for _ in range(4 if request.config.option.long else 2):
        victim = start(3, "alltoall_mem", FOR_LONG, **FEW_TOKENS)
        wait_for(lambda: len(victim.ranks()) == 3, "the victim's ranks")
        wait_for(lambda: sum(p["counters"]["token_requests"] > 0 for p in top.processes()) > 3 or
                 not survivor.runs(), "the victim's traffic")
        victim.kill()
    assert survivor.runs(), survivor.text()[-TAIL:]
    assert "stream: ok" in survivor.end_stream()
    nothing_is_left()


def test_nobody_waits_for_a_job_that_is_stopped(start, ring, top):
    """Its processes live, so nothing is taken from them; but nobody waits for them for ever."""
    stopped = start(3, "alltoall_mem", FOR_LONG, **FEW_TOKENS)
    wait_for(lambda: len(top.at_tokens()) >= 2, "its traffic")
    for pid in stopped.ranks():
        os.kill(pid, signal.SIGSTOP)
    ring(500, **FEW_TOKENS)


def test_segment_left_by_a_killed_job_is_used_on(start, ring, top):
    job = start(2, "alltoall_mem", FOR_LONG, **FEW_TOKENS)
    wait_for(top.at_tokens, "its traffic")
    job.kill()
    assert segments(), "there is no segment left behind to be used on"
    ring(500, **FEW_TOKENS)
    nothing_is_left()


def test_segment_of_a_killed_job_is_removed_by_the_next(start, stream, top):
    """Nobody asks for the segment of a job of its own again."""
    job = start(2, "alltoall_mem", FOR_LONG, node_sharing="job")
    wait_for(lambda: len(top.processes()) == 2, "its processes")
    job.kill()
    left, = segments()
    job = start(2, "alltoall_mem", FOR_LONG, node_sharing="job")
    wait_for(lambda: left not in segments(), "its removal")
    job.kill()
    left = segments()
    job = stream()
    wait_for(lambda: not set(left) & set(segments()), "the removal of that of the second one")
    job.end_stream()
    nothing_is_left()


@pytest.mark.parametrize("sharing, files", [("user", 1), ("job", 2)])
def test_two_jobs_share_by_user_and_not_by_job(sharing, files, stream, top):
    jobs = [stream(node_sharing=sharing) for _ in range(2)]
    wait_for(lambda: len(top.processes()) == 4 or not all(j.runs() for j in jobs), "four processes")
    assert len(segments()) == files
    for job in jobs:
        job.end_stream()
    nothing_is_left()


def test_file_in_the_way_of_the_segment(start, ring):
    """A line says so, and the job has limits of its own."""
    job = start(2, "ring", ["--laps", "20000"])
    wait_for(segments, "the segment")
    path, = segments()
    job.end()
    with open(path, "w") as file:
        file.write("not a segment")
    text = ring(100, node_sharing="user")
    assert text.count("shares no read budget") == 1 and path in text


def test_rank_with_a_dev_shm_of_its_own(start):
    """As in a container of its own."""
    script = 'if [ "$OMPI_COMM_WORLD_RANK" = 1 ]; then mount -t tmpfs none /dev/shm; fi; exec "$@"'
    text = start(2, "stream", ["--seconds", "4"], launch=["unshare", "-m", "sh", "-c", script, "sh"],
                 node_sharing="user").end()
    assert text.count("only 1 of the job's 2 processes") == 1
    nothing_is_left()  # of the private one anyway; the other was removed by its owner


# ---- the proxy ---------------------------------------------------------------------------------------

@pytest.fixture
def proxied(start, top):
    """A job whose messages go by a server."""
    def proxied():
        job = start(4, "alltoall_mem", FOR_LONG, proxy_servers="1")
        wait_for(lambda: top.served() > 100, "proxied traffic")
        return job
    return proxied


def test_job_killed_with_a_proxy(proxied, ring):
    """Its segment is its own, so another job's proxy does not meet it, but clears it away."""
    job = proxied()
    assert len(segments()) == 2, "there are not the node's and the proxy's"
    assert all(os.stat(path).st_mode & 0o777 == 0o600 for path in segments())
    job.kill()
    ring(500, np=4, proxy_servers="1")
    nothing_is_left()


@pytest.mark.parametrize("serves", [True, False], ids=["server", "served"])
def test_rank_killed_with_a_proxy_ends_its_job(serves, proxied, ring, top):
    job, victims = proxied(), []

    def found():  # a server may have given its token up just now
        victims[:] = [p["pid"] for p in top.processes() if bool(p["proxy"]["serves_ranks"]) == serves]
        return victims

    wait_for(found, "the victim")
    os.kill(victims[0], signal.SIGKILL)
    wait_for(lambda: not job.runs(), "the end of the job")
    assert job.process.returncode != 0
    ring(10, proxy_servers="1")
    nothing_is_left()


def test_rank_stopped_with_a_proxy_goes_on(stream, top, request):
    """Stopped one after the other, the server among them; all goes on, each message once."""
    job = stream(4, proxy_servers="1")
    wait_for(lambda: top.served() > 100, "proxied traffic")
    for _ in range(2 if request.config.option.long else 1):
        for pid in job.ranks():
            os.kill(pid, signal.SIGSTOP)
            time.sleep(0.3)
            os.kill(pid, signal.SIGCONT)
            time.sleep(0.1)
    before = top.served()
    wait_for(lambda: top.served() > before, "more of the traffic")
    assert "stream: ok" in job.end_stream()
    nothing_is_left()


# ---- weir top ----------------------------------------------------------------------------------------

def test_top_shows_who_does_what(start, top, tmp_path):
    job = start(3, "alltoall_mem", FOR_LONG, **FEW_TOKENS)
    wait_for(lambda: len(top.processes()) == 3, "three processes")
    wait_for(lambda: all(p["per_second"].get("messages_sent") for p in top.processes()), "rates")
    found = top.processes()
    assert sorted(p["rank"] for p in found) == [0, 1, 2]
    assert sorted(p["pid"] for p in found) == sorted(job.ranks())
    assert all(p["counters"]["window"] >= 8 for p in found)
    wait_for(lambda: any(p["tokens_held"] for p in top.processes()), "tokens held")
    wait_for(lambda: any(p["tokens_waited_for"] for p in top.processes()), "tokens waited for")
    assert len(re.findall(r"^ +\d+ +[012] ", top.text(), re.M)) == 3

    for p in top.processes("--peers"):
        assert sorted(peer["rank"] for peer in p["peers"]) == sorted({0, 1, 2} - {p["rank"]})
        assert {peer["state"] for peer in p["peers"]} == {"ready"}

    def peers():
        return [peer for p in top.processes("--peers") for peer in p["peers"]]
    wait_for(lambda: all(peer["frames_sent_per_second"] for peer in peers()), "frames to each peer")
    wait_for(lambda: any(peer["waits_for"] == "tokens" for peer in peers()), "a peer's frames that wait for tokens")

    samples = top.prometheus(tmp_path)
    assert sum(line.startswith("weir_messages_sent_total{") for line in samples) == 3
    for name in "tokens_held", "tokens_waited_for", "adapter_rnr_naks_received_total":
        assert any(line.startswith(f"weir_{name}{{") for line in samples), f"no weir_{name}"
    assert not [line for line in samples
                if not re.fullmatch(r'weir_[a-z_]+\{(\w+="[^"]*",?)+\} [\d.e+-]+', line)], "no samples"
    job.kill()
    top.text(status=1)  # nobody is there


def test_top_shows_the_proxy(proxied, top, tmp_path):
    proxied()

    def servers():
        found = top.processes()
        assert all(p["proxy"] for p in found), "not all are in the proxy"
        return [p for p in found if p["proxy"]["serves_ranks"]]

    wait_for(servers, "a server")
    says(top.text(), r"SERVER +QUEUE +RELAY/s")
    samples = top.prometheus(tmp_path)
    assert sum(line.startswith(("weir_proxy_serves{", "weir_proxy_waiting{")) for line in samples) == 8


# ---- weir set ----------------------------------------------------------------------------------------

def test_set_makes_memory_go_back(stream, weir, top):
    """A lower cap is kept by a process that runs; one beyond its queue is not."""
    job = stream(2, window_initial="128")
    wait_for(lambda: [p["counters"]["window"] >= 128 for p in top.processes()] == [True] * 2, "a window of 128")
    refused = weir("set", "window_max=32", status=1, limit_s=60).stdout
    says(refused, "rank [01] .* refused; its output says why")
    says(job.text(), "window_initial .128. must not exceed window_max .32.")
    job.end_stream()
    job = stream(2, window_initial="16", window_shrink_after="0")
    wait_for(lambda: [p["counters"]["window"] >= 64 for p in top.processes()] == [True] * 2, "a window of 64")
    before = max(p["counters"]["receive_bytes"] for p in top.processes())
    weir("set", "window_max=32", limit_s=60)
    wait_for(lambda: max(p["counters"]["receive_bytes"] for p in top.processes()) < before, "memory given back")
    assert all(p["counters"]["window"] <= 32 for p in top.processes())
    says(weir("set", "window_max=32768", status=1, limit_s=60).stdout, "its receive queue has room for no more")
    job.end_stream()


def test_set_of_another_user(stream, build, weir):
    """Who is not root sees and changes their own jobs only."""
    job = stream()
    wait_for(lambda: "ready" in job.text(), "its start")
    says(run("setpriv", "--reuid", "games", "--clear-groups", os.path.join(build, "bin", "weir"), "set", "reads_max=1",
             status=1).stdout, "No weir process")
    job.end_stream()


# ---- the summary -------------------------------------------------------------------------------------

@pytest.mark.parametrize("open_mpi", ["4.1", pytest.param("5.0", marks=pytest.mark.lab("Open MPI 5.0"))])
def test_summary_is_of_all_ranks(open_mpi, ring):
    text = ring(100, np=3, summary="on")
    says(text, r"weir: summary of 3 ranks, [\d.]+ s$", r"^  moved .* in (3\d\d|[4-9]\d\d) messages, ",
         r"^  waited for  credits of slow receivers \d+ times", r"^  memory      of a rank at most [\d.]+ [KM]iB",
         r"^  outages     0 connections broke")
    assert text.count("summary of") == 1
    assert "summary of" not in ring(10)


# ---- weir tune ---------------------------------------------------------------------------------------

@pytest.mark.parametrize("environment, arguments", [({"WEIR_DEVICE": "nope0"}, []), ({}, ["--device", "nope0"])],
                         ids=["environment", "option"])
def test_tune_takes_the_device_that_is_configured(environment, arguments, weir):
    assert "nope0" in weir("tune", *arguments, env=environment, status=2, limit_s=60).stderr


# In place of mpirun, a node on which windows of more than one message cost, and tokens help. With
# the defaults and with tokens it does run the program, once each, which has to measure every point.
SURVEY = """#!/bin/sh
settings=defaults points=
for word; do
  case $word in
    btl_weir_tokens) settings=tokens ;;
    *[!0-9x]*) ;;
    *x*x*) points="$points $word" ;;
  esac
done
ran=$(dirname $0)/$settings
if [ ! -e $ran ]; then
  mpirun "$@" >$ran.said || exit
  [ $(grep -c messages_per_s $ran.said) = $(echo $points | wc -w) ] || exit 1
  touch $ran
fi
for point in $points; do
  IFS=x; set -- $point; unset IFS
  rate=$((1000 * $1))
  [ $2 = 1 ] || [ $settings = tokens ] || rate=$((300 * $1))
  echo "{\\"cores\\": $1, \\"outstanding\\": $2, \\"bytes\\": $3, \\"messages_per_s\\": $rate}"
done
"""


@pytest.mark.parametrize("mpirun", ["survey", "mpirun"])
def test_tune_writes_a_profile_for_this_machine(mpirun, weir, ring, tmp_path):
    """It measures, says what it found, and weir takes the profile without a word."""
    if mpirun == "survey":
        survey = tmp_path / mpirun
        survey.write_text(SURVEY)
        survey.chmod(0o755)
        mpirun = str(survey)
    device = min(os.listdir("/sys/class/infiniband"))
    weir("tune", "--np", "4", "--sizes", "8", "--outstanding", "1,8", "--ms", "20", "--quick",
         "--device", device, "--mpirun", mpirun, cwd=tmp_path, limit_s=3 * PATIENCE_S)
    profile = tmp_path / "weir-tuned.yaml"
    text = profile.read_text()
    if mpirun != "mpirun":
        assert (tmp_path / "defaults").exists() and "\ntokens: " in text
    assert 'tuned_for: "Soft-RoCE, ' in text or "Gb/s" in text
    if own_version() < 5 or shutil.which("gnuplot"):  # Debian 13's root of Open MPI 5.0 has no gnuplot
        assert (tmp_path / "weir-tuned.html").read_text().count("<svg") >= 3
    weir("config", "check", str(profile))
    assert "were measured on" not in ring(10, config=str(profile)), "it complains of its own profile"
    profile.write_text(re.sub(r"^tuned_for: .*$", 'tuned_for: "another machine"', text, flags=re.M))
    assert ring(10, config=str(profile)).count("were measured on 'another machine'") == 1
