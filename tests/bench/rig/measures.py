"""What is measured: the metrics, and how one run of one peer yields them.

A group is what one start of a program measures: mpirun takes seconds to start, so all sizes share
one start. A run returns {metric key: value} or raises Failed.
"""

import os
import re

from rig import peers, raw
from rig.start import Failed, run

LATENCY_BYTES = (1, 1024, 4096)
BANDWIDTH_BYTES = (64 << 10, 256 << 10, 1 << 20, 4 << 20, 8 << 20)
CHUNK_BYTES, READS = 128 << 10, 16  # weir's chunk_size, and the most reads of one of its lanes
ONE_SIDED_BYTES = (8, 4096)
RATE_BYTES, RATE_WINDOW = 8, 64
BURST_BYTES, BURST_PUTS = 4, 40000
MANY = 8  # ranks, for init and memory
PROGRAMS = ("pingpong", "msgrate", "flows", "rma_latency", "collective_times", "initlat", "alltoall_mem")
COUNTING = PROGRAMS[:5]  # with --counters
COLLECTIVE_BYTES = (8, 1 << 10, 64 << 10, 1 << 20)
COLLECTIVES = ("allreduce", "bcast", "alltoall")
PROGRAM_TIMEOUT_S = 60
GRACE_S = 15  # after the program's own watchdog, which knows more


def size_name(size_bytes):
    for unit, name in ((1 << 20, "MiB"), (1 << 10, "KiB")):
        if size_bytes >= unit:
            return f"{size_bytes / unit:g} {name}"
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
        self.limit_s = None  # no further round begins that would end later, by those so far
        self.counters = {}  # of the last run that had some: {name: (min, max, sum) over the ranks}


def mpi(peer, plan, ranks, program, *arguments, own_core=None, each=None, preload=None,
        timeout_s=PROGRAM_TIMEOUT_S):
    """One mpirun; its output, once it is sure that all was right and weir was really used."""
    path = os.path.join(plan.programs, program)
    if not os.access(path, os.X_OK):
        raise Failed(f"{program} is not built in {plan.programs}")
    if peer.counts and program in COUNTING:
        arguments += ("--counters",)
    words = peers.command(peer, ranks, path, [*arguments, "--timeout", timeout_s],
                          own_core=ranks == 2 if own_core is None else own_core, each=each)
    if preload:
        words[1:1] = ["-x", "LD_PRELOAD=" + os.path.join(plan.programs, preload)]
    text = run(words, timeout_s + GRACE_S, peers.environment(peer))
    if not re.search(rf"^{program}: (ok|\d+ pairs)", text, re.M):
        raise Failed(f"{program} did not say that all was right")
    if "--counters" in arguments and counter(text, peer.counts, "min") == 0:
        raise Failed(f"{peer.counts} is 0: the messages went elsewhere")
    if "--counters" in arguments:
        plan.counters = counters(text)
    return text


def counters(text):
    return {name: tuple(map(float, values)) for name, *values in
            re.findall(r"^counter (\S+) min (\d+) max (\d+) sum (\d+)", text, re.M)}


def counter(text, name, which):
    """A line of the programs: "counter NAME min MIN max MAX sum SUM" (or "memory NAME …")."""
    line = re.search(rf"^(?:counter|memory) {name} min (\d+) max (\d+) sum (\d+)", text, re.M)
    if not line:
        raise Failed(f"no counter {name}")
    return float(line.group(("min", "max", "sum").index(which) + 1))


# ---- latency -----------------------------------------------------------------------------------

def latency(who, plan, sizes=LATENCY_BYTES):
    if who == peers.RAW:
        return {f"latency_{b}": raw.latency_us(b, 500 if plan.quick else 2000) for b in sizes}
    return {f"latency_{b}": us for b, us in latencies(who, plan, sizes, True).items()}


def latencies(who, plan, sizes, own_core):
    """{size: P50 in us}"""
    rows = _pingpong(who, plan, sizes, "--ms", 30 if plan.quick else 100, own_core=own_core)
    return {size: row[0] for size, row in rows.items()}


def _pingpong(who, plan, sizes, *arguments, own_core=None):
    """{size: the figures of its row}"""
    text = mpi(peers.PEERS[who], plan, 2, "pingpong", "--sizes", _listed(sizes), *arguments,
               own_core=own_core)
    rows = re.findall(r"^ *(\d+)((?: +[\d.]+){3,})$", text, re.M)
    if [int(size) for size, _ in rows] != list(sizes):
        raise Failed("pingpong did not print every size")
    return {int(size): [float(figure) for figure in row.split()] for size, row in rows}


# ---- by size -----------------------------------------------------------------------------------

SIZES = sorted({1 << k for k in range(23)} | {3 << k for k in range(21)})  # to 4 MiB, with the 1.5s
# Columns of `pingpong --more`, and where they stand in its rows.
BY_SIZE = (("used", "half a round trip, same buffers", "us", 0), ("fresh", "fresh pages", "us", 3),
           ("exchange", "exchange", "us", 4), ("stream", "one way", "MB/s", 2),
           ("both", "both ways", "MB/s", 5))
IN_FLIGHT = 64


def by_size(who, plan):
    """{KEY_SIZE: value} for all of BY_SIZE; of raw verbs the first one, for powers of two."""
    if who == peers.RAW:
        return {f"used_{b}": raw.latency_us(b, max(20, min(1000, (8 << 20) // b)))
                for b in SIZES if b & (b - 1) == 0}
    rows = _pingpong(who, plan, SIZES, "--more", "--window", IN_FLIGHT, "--ms", 10 if plan.quick else 50)
    return {f"{key}_{b}": row[place] for b, row in rows.items() for key, _, _, place in BY_SIZE}


def _by_size_metrics():
    return [Metric(f"{key}_{b}", f"{title}, {size_name(b)}", unit, unit == "MB/s")
            for key, title, unit, _ in BY_SIZE for b in SIZES]


def _listed(sizes):
    return ",".join(map(str, sizes))


# ---- bandwidth ---------------------------------------------------------------------------------

SETTLE_MS = 400  # what is in flight at first comes all at once where it is not served in order


def bandwidth(who, plan, sizes=BANDWIDTH_BYTES, both=True):
    if who == peers.RAW:
        return _raw_bandwidth(plan, sizes, both)
    text = mpi(peers.PEERS[who], plan, 2, "flows", *(["--both"] if both else []), "--sizes",
               _listed(sizes), "--settle-ms", SETTLE_MS, "--ms", 150 if plan.quick else 400)
    if peers.PEERS[who].counts and (counter(text, "btl_weir_gets", "sum") > 0) != (who == "weir"):
        raise Failed("messages were copied that should be read, or read that should be copied")
    values = {}
    for (way, size, *_), rates in flow_rates(text).items():
        values[f"{'both' if way == 'both ways' else 'bandwidth'}_{size}"] = sum(rates.values())
    return values


def flow_rates(text):
    """{(way, bytes): {receiver: MB/s}} of what flows printed."""
    found = {}
    for way, size, to, rate in re.findall(
            r"^(one way|both ways) +(\d+) B, .* -> (\d+): ([\d.]+) MB/s", text, re.M):
        found.setdefault((way, int(size)), {})[int(to)] = float(rate)
    return found


def _raw_bandwidth(plan, sizes, both_ways):
    """Reads of weir's size: a message is one such read after the other."""
    values = {}
    for size in {min(b, CHUNK_BYTES) for b in sizes}:
        count = (10 << 20 if plan.quick else 40 << 20) // size
        for key, both in (("bandwidth", False), ("both", True)) if both_ways else (("bandwidth", False),):
            rate = raw.read_mb_per_s(size, count, READS, both)
            values.update({f"{key}_{b}": rate for b in sizes
                           if min(b, CHUNK_BYTES) == size})
    return values


# ---- one-sided ---------------------------------------------------------------------------------

def _one_sided(who, plan):
    count = 200 if plan.quick else 1000
    puts = BURST_PUTS // 10 if plan.quick else BURST_PUTS
    if who == peers.RAW:
        values = {"fetch_add": raw.fetch_add_us(count),
                  "put_rate": raw.writes_per_s(BURST_BYTES, puts, RATE_WINDOW)}
        for b in ONE_SIDED_BYTES:
            values[f"put_{b}"] = raw.write_us(b, count)
            values[f"one_way_{b}"] = raw.write_latency_us(b, count)
            values[f"get_{b}"] = raw.read_latency_us(b, count)
        return values
    peer = peers.PEERS[who]
    text = mpi(peers.one_sided(peer), plan, 2, "rma_latency", "--sizes", _listed(ONE_SIDED_BYTES),
               "--count", count, "--burst", puts)
    if peer.counts and counter(text, "btl_weir_puts", "sum") == 0:
        raise Failed("btl_weir_puts is 0: the puts went elsewhere")
    found = {(what, int(b)): float(us) for what, b, us in
             re.findall(r"^(\S+)(?: and flush)? +(\d+) B +p50 +([\d.]+) us", text, re.M)}
    burst_ms = float(re.search(r"puts of \d+ B and a fence: ([\d.]+) ms", text).group(1))
    return {"put_rate": puts / burst_ms * 1e3,
            "fetch_add": found["fetch-and-add", 8], "swap": found["compare-and-swap", 8],
            **{f"{what}_{b}": found[what, b] for what in ("put", "get") for b in ONE_SIDED_BYTES}}


def _one_sided_metrics():
    found = []
    for b in ONE_SIDED_BYTES:
        found += [Metric(f"put_{b}", f"put and flush {size_name(b)}", "us"),
                  Metric(f"one_way_{b}", "  ib_write_lat: half a round trip", "us"),
                  Metric(f"get_{b}", f"get and flush {size_name(b)}", "us")]
    return found + [Metric("put_rate", f"{BURST_PUTS} puts of {BURST_BYTES} B and a fence", "puts/s", True),
                    Metric("fetch_add", "fetch-and-add 8 B", "us"),
                    Metric("swap", "compare-and-swap 8 B", "us")]


# ---- rate --------------------------------------------------------------------------------------

def rate(who, plan):
    messages = 5000 if plan.quick else 20000
    if who == peers.RAW:
        return {"rate": raw.messages_per_s(RATE_BYTES, messages, RATE_WINDOW)}
    peer = peers.PEERS[who]
    text = mpi(peer, plan, 2, "msgrate", "--bytes", RATE_BYTES, "--window", RATE_WINDOW,
                "--messages", messages)
    values = {"rate": float(re.search(r": (\d+) messages/s", text).group(1))}
    if peer.counts:
        values["frames_per_message"] = (counter(text, "btl_weir_frames_sent", "sum") /
                                        counter(text, "btl_weir_messages_sent", "sum"))
    return values


# ---- init and memory -----------------------------------------------------------------------------

def _initlat(who, plan):
    text = mpi(peers.PEERS[who], plan, MANY, "initlat")
    found = {}
    for name, p50, most in re.findall(r"^(.+?)\s+p50\s+([\d.]+) \w+\s+max\s+([\d.]+)", text, re.M):
        found[name] = float(p50), float(most)
    init, first = found["MPI_Init"], found["first round trip to a peer"]
    second = found["second round trip"]
    return {"init_ms": init[0], "init_max_ms": init[1],
            "connect_ms": (first[0] - second[0]) / 1e3, "connect_max_ms": first[1] / 1e3,
            "init_first_ms": init[0] + first[0] / 1e3}


def _memory(who, plan):
    text = mpi(peers.PEERS[who], plan, MANY, "alltoall_mem", "--rounds", 5 if plan.quick else 20,
                "--bytes", 1024, "--depth", 16)
    values = {"resident_peak_mib": counter(text, "resident_peak_kb", "max") / 1024}
    if peers.PEERS[who].counts:
        values["receive_peak_kib"] = counter(text, "btl_weir_receive_bytes_peak", "max") / 1024
    return values


# ---- collectives -------------------------------------------------------------------------------

def collectives(who, plan):
    text = mpi(peers.PEERS[who], plan, MANY, "collective_times", "--sizes", _listed(COLLECTIVE_BYTES),
               "--ms", 20 if plan.quick else 100)
    return {f"{name}_{size}": float(us) for name, size, us in
            re.findall(r"^(\w+) (\d+) B: ([\d.]+) us", text, re.M)}


def _collective_metrics():
    return [Metric("barrier_0", f"barrier, {MANY} ranks", "us"),
            *(Metric(f"{name}_{b}", f"{name} {size_name(b)}", "us")
              for name in COLLECTIVES for b in COLLECTIVE_BYTES)]


class Group:
    """slice: every how many rounds it runs; slow starts that repeat well need fewer. warm_up: who runs before
    all, unmeasured; else who is first waits for files, and for the emulator to translate the program."""

    def __init__(self, key, who, metrics, measure, slice=1, warm_up=None):
        self.key, self.who, self.metrics = key, who, metrics
        self.measure, self.slice, self.warm_up = measure, slice, warm_up


def groups_for(only):
    """The groups of --only that this file has; rdma is two of them."""
    wanted = lambda *names: only is None or only in names
    found = []
    if only == "collectives":  # minutes a round
        found.append(Group("collectives", ["weir", *peers.OTHERS], _collective_metrics(), collectives))
    if only == "latency":  # minutes a round
        found.append(Group("latency", [peers.RAW, "weir", *peers.OTHERS], _by_size_metrics(), by_size))
    elif wanted("latency"):
        found.append(Group("latency", [peers.RAW, "weir", *peers.OTHERS], [
            Metric(f"latency_{b}", f"latency {size_name(b)}", "us") for b in LATENCY_BYTES],
            latency))
    if wanted("bandwidth", "rdma"):
        found.append(Group("bandwidth", [peers.RAW, "weir", "copy", *peers.OTHERS], [
            Metric(f"{key}_{b}", f"{title} {size_name(b)}", "MB/s", True)
            for key, title in (("bandwidth", "bandwidth"), ("both", "both ways"))
            for b in BANDWIDTH_BYTES], bandwidth, slice=1 if only else 2))
    if wanted("rdma"):
        found.append(Group("one-sided", [peers.RAW, "weir", "ucx"], _one_sided_metrics(),
                           _one_sided))
    if wanted("rate"):
        found.append(Group("rate", [peers.RAW, "weir", "alone", *peers.OTHERS], [
            Metric("rate", f"rate {RATE_BYTES} B", "msg/s", True),
            Metric("frames_per_message", "  frames a message", "1")], rate))
    if wanted("init"):
        found.append(Group("init", ["weir", *peers.OTHERS], [
            Metric("init_ms", "MPI_Init", "ms"), Metric("init_max_ms", "  slowest rank", "ms"),
            Metric("connect_ms", "connecting", "ms"),
            Metric("connect_max_ms", "  slowest 1st message", "ms"),
            Metric("init_first_ms", "init to 1st message", "ms")], _initlat, slice=2))
    if wanted("memory"):
        found.append(Group("memory", ["weir", *peers.OTHERS], [
            Metric("receive_peak_kib", "receive memory, peak", "KiB"),
            Metric("resident_peak_mib", "resident process, peak", "MiB")], _memory, slice=4))
    return found
