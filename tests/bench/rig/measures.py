"""What is measured: the metrics, and how one run of one peer yields them.

A group is what one start of a program measures: mpirun takes seconds to start, so all sizes share
one start. A run returns {metric key: value} or raises Failed.
"""

import os
import re

from rig import peers, raw
from rig.start import Failed, run

LATENCY_BYTES = (1, 1024, 4096)
BANDWIDTH_BYTES = (64 << 10, 1 << 20)
RATE_BYTES, RATE_WINDOW = 8, 64
STREAM_WINDOW = 16
MANY = 8  # ranks, for init and memory
PROGRAMS = ("pingpong", "msgrate", "initlat", "alltoall_mem")
PROGRAM_TIMEOUT_S = 60
RUN_TIMEOUT_S = 75  # after the program's own watchdog, which knows more


def size_name(size_bytes):
    for unit, name in ((1 << 20, "MiB"), (1 << 10, "KiB")):
        if size_bytes >= unit:
            return f"{size_bytes // unit} {name}"
    return f"{size_bytes} B"


class Metric:
    def __init__(self, key, title, unit, more_is_better=False):
        self.key, self.title, self.unit = key, title, unit
        self.more_is_better = more_is_better


class Plan:
    """What the host asks for; passed into the guest as JSON."""

    def __init__(self, groups, rounds, programs, quick, needs=PROGRAMS):
        self.groups, self.rounds, self.programs, self.quick = groups, rounds, programs, quick
        self.needs = needs  # files in `programs`


def _mpi(peer, plan, ranks, program, *arguments, own_core=None):
    """One mpirun; its output, once it is sure that all was right and weir was really used."""
    path = os.path.join(plan.programs, program)
    if not os.access(path, os.X_OK):
        raise Failed(f"{program} is not built in {plan.programs}")
    if peer.counts and program in ("pingpong", "msgrate"):
        arguments += ("--counters",)
    words = peers.command(peer, ranks, path, [*arguments, "--timeout", PROGRAM_TIMEOUT_S],
                          own_core=ranks == 2 if own_core is None else own_core)
    text = run(words, RUN_TIMEOUT_S, peers.environment(peer))
    if not re.search(rf"^{program}: (ok|\d+ pairs)", text, re.M):
        raise Failed(f"{program} did not say that all was right")
    if "--counters" in arguments and counter(text, peer.counts, "min") == 0:
        raise Failed(f"{peer.counts} is 0: the messages went elsewhere")
    return text


def counter(text, name, which):
    """A line of the programs: "counter NAME min MIN max MAX sum SUM" (or "memory NAME …")."""
    line = re.search(rf"^(?:counter|memory) {name} min (\d+) max (\d+) sum (\d+)", text, re.M)
    if not line:
        raise Failed(f"no counter {name}")
    return float(line.group(("min", "max", "sum").index(which) + 1))


# ---- latency and bandwidth ---------------------------------------------------------------------

def _pingpong_metrics(sizes):
    return [Metric(f"latency_{b}", f"latency {size_name(b)}", "us")
            if b in LATENCY_BYTES else
            Metric(f"bandwidth_{b}", f"bandwidth {size_name(b)}", "MB/s", True) for b in sizes]


def _pingpong(who, plan, sizes):
    if who == peers.RAW:
        return _raw_pingpong(plan, sizes)
    rows = _rows(who, plan, sizes)
    return {f"latency_{b}" if b in LATENCY_BYTES else f"bandwidth_{b}":
            rows[b][0 if b in LATENCY_BYTES else 1] for b in sizes}


def latencies(who, plan, sizes, own_core):
    """{size: P50 in us}"""
    return {str(b): row[0] for b, row in _rows(who, plan, sizes, own_core).items()}


def _rows(who, plan, sizes, own_core=None):
    """{size: (P50 in us, MB/s)}"""
    text = _mpi(peers.PEERS[who], plan, 2, "pingpong", "--sizes", ",".join(map(str, sizes)),
                "--ms", 30 if plan.quick else 100, "--window", STREAM_WINDOW, own_core=own_core)
    rows = {}
    for line in text.splitlines():
        if re.fullmatch(r"\s*\d+(\s+[\d.]+){3}", line):
            size_bytes, p50_us, _, mb_per_s = line.split()
            rows[int(size_bytes)] = float(p50_us), float(mb_per_s)
    if set(rows) != set(sizes):
        raise Failed("pingpong did not print every size")
    return rows


def _raw_pingpong(plan, sizes):
    values = {}
    for b in sizes:
        if b in LATENCY_BYTES:
            values[f"latency_{b}"] = raw.latency_us(b, 500 if plan.quick else 2000)
        else:
            messages = (10 << 20 if plan.quick else 40 << 20) // b
            values[f"bandwidth_{b}"] = raw.bandwidth_mb_per_s(b, max(messages, STREAM_WINDOW),
                                                              STREAM_WINDOW)
    return values


# ---- rate --------------------------------------------------------------------------------------

def _rate(who, plan):
    messages = 5000 if plan.quick else 20000
    if who == peers.RAW:
        return {"rate": raw.messages_per_s(RATE_BYTES, messages, RATE_WINDOW)}
    peer = peers.PEERS[who]
    text = _mpi(peer, plan, 2, "msgrate", "--bytes", RATE_BYTES, "--window", RATE_WINDOW,
                "--messages", messages)
    values = {"rate": float(re.search(r": (\d+) messages/s", text).group(1))}
    if peer.counts:
        values["frames_per_message"] = (counter(text, "btl_weir_frames_sent", "sum") /
                                        counter(text, "btl_weir_messages_sent", "sum"))
    return values


# ---- init and memory -----------------------------------------------------------------------------

def _initlat(who, plan):
    text = _mpi(peers.PEERS[who], plan, MANY, "initlat")
    found = {}
    for name, p50, most in re.findall(r"^(.+?)\s+p50\s+([\d.]+) \w+\s+max\s+([\d.]+)", text, re.M):
        found[name] = float(p50), float(most)
    init, first = found["MPI_Init"], found["first round trip to a peer"]
    second = found["second round trip"]
    return {"init_ms": init[0], "init_max_ms": init[1],
            "connect_ms": (first[0] - second[0]) / 1e3, "connect_max_ms": first[1] / 1e3,
            "init_first_ms": init[0] + first[0] / 1e3}


def _memory(who, plan):
    text = _mpi(peers.PEERS[who], plan, MANY, "alltoall_mem", "--rounds", 5 if plan.quick else 20,
                "--bytes", 1024, "--depth", 16)
    values = {"resident_peak_mib": counter(text, "resident_peak_kb", "max") / 1024}
    if peers.PEERS[who].counts:
        values["receive_peak_kib"] = counter(text, "btl_weir_receive_bytes_peak", "max") / 1024
    return values


class Group:
    """slice: every how many rounds it runs; slow starts that repeat well need fewer."""

    def __init__(self, key, who, metrics, measure, slice=1):
        self.key, self.who, self.metrics = key, who, metrics
        self.measure, self.slice = measure, slice


def groups_for(only):
    """The groups of --only; latency and bandwidth share their starts when both are wanted."""
    wanted = lambda name: only in (None, name)
    found = []
    sizes = ((LATENCY_BYTES if wanted("latency") else ()) +
             (BANDWIDTH_BYTES if wanted("bandwidth") else ()))
    if sizes:
        found.append(Group("pingpong", [peers.RAW, "weir", "ucx", "tcp"], _pingpong_metrics(sizes),
                           lambda who, plan: _pingpong(who, plan, sizes)))
    if wanted("rate"):
        found.append(Group("rate", [peers.RAW, "weir", "alone", "ucx", "tcp"], [
            Metric("rate", f"rate {RATE_BYTES} B", "msg/s", True),
            Metric("frames_per_message", "  frames a message", "1")], _rate))
    if wanted("init"):
        found.append(Group("init", ["weir", "ucx", "tcp"], [
            Metric("init_ms", "MPI_Init", "ms"), Metric("init_max_ms", "  slowest rank", "ms"),
            Metric("connect_ms", "connecting", "ms"),
            Metric("connect_max_ms", "  slowest 1st message", "ms"),
            Metric("init_first_ms", "init to 1st message", "ms")], _initlat, slice=2))
    if wanted("memory"):
        found.append(Group("memory", ["weir", "ucx", "tcp"], [
            Metric("receive_peak_kib", "receive memory, peak", "KiB"),
            Metric("resident_peak_mib", "resident process, peak", "MiB")], _memory, slice=4))
    return found
