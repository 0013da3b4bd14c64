"""Threads of a rank, pairs of ranks, and many ranks, at once."""

import re

from rig import peers
from rig.measures import Group, Metric, PROGRAM_TIMEOUT_S, RATE_BYTES, RATE_WINDOW, counter, flow_rates, mpi
from rig.measures import size_name
from rig.start import Failed

THREADS = PAIRS = (1, 2, 4)
WITH_OVERLAP = ["weir", "off", "on", "ucx", "tcp"]  # weir's own choice depends on threads
FLOW_BYTES = (64 << 10, 1 << 20)


def _rate(who, plan, ranks, *arguments, messages, own_core):
    text = mpi(peers.PEERS[who], plan, ranks, "msgrate", "--bytes", RATE_BYTES, "--messages",
               messages // 10 if plan.quick else messages, *arguments, own_core=own_core)
    return float(re.search(r": (\d+) messages/s", text).group(1))


def _messages(who, plan, ranks, each, own_core, *threads):
    """Streams one way and both ways, and half a round trip; `each`: streams at once."""
    def rate(messages, window, *more):
        return _rate(who, plan, ranks, "--window", window, *more, *threads, messages=messages // each,
                     own_core=own_core)
    return {"one_way": rate(16000, RATE_WINDOW), "both_ways": rate(8000, RATE_WINDOW, "--both"),
            "latency": each / 2e-6 / rate(2000, 1)}


def _message_metrics(title):
    return [Metric("one_way", f"{title}, {RATE_BYTES} B", "msg/s", True),
            Metric("both_ways", f"{title}, {RATE_BYTES} B both ways", "msg/s", True),
            Metric("latency", f"{title}, latency", "us")]


def thread_groups():
    def group(threads):
        def measure(who, plan):
            # One core would not do for several.
            return _messages(who, plan, 2, threads, threads == 1, "--threads", threads)
        return Group(f"threads {threads}", WITH_OVERLAP, _message_metrics(f"{threads} threads"), measure)
    return [group(threads) for threads in THREADS]


def pair_groups():
    def group(pairs):
        def measure(who, plan):
            values = _messages(who, plan, 2 * pairs, pairs, pairs == 1)
            text = mpi(peers.PEERS[who], plan, 2 * pairs, "flows", "--both", "--sizes",
                       ",".join(map(str, FLOW_BYTES)), "--ms", 100 if plan.quick else 300)
            for (way, size, *_), rates in flow_rates(text).items():
                values[f"{way}_{size}"] = sum(rates.values())
            return values
        title = f"{pairs} pairs"
        metrics = _message_metrics(title)
        for size in FLOW_BYTES:
            metrics += [Metric(f"one way_{size}", f"{title}, {size_name(size)}", "MB/s", True),
                        Metric(f"both ways_{size}", f"{title}, {size_name(size)} both ways", "MB/s", True)]
        return Group(f"pairs {pairs}", ["weir", "on", "ucx", "ofi", "tcp"], metrics, measure)
    return [group(pairs) for pairs in PAIRS]


# ---- many ranks --------------------------------------------------------------------------------

RANKS = {1: (16, 32), 2: (32,)}  # by nodes
OURS, READER = "window_loads", "pvars_at_finalize.so"
PROGRAMS = ("initlat", OURS, READER)
MANY_TIMEOUT_S = 3 * PROGRAM_TIMEOUT_S
# Pattern, bytes, rounds of 16 ranks; of more ranks fewer.
LOADS = (("alltoall", 8, 200), ("alltoall", 1 << 10, 100), ("alltoall", 64 << 10, 8),
         ("halo", 1 << 10, 200), ("burst", 1 << 10, 10))
TITLES = {"alltoall": "all-to-all", "halo": "halo", "burst": "many-to-one"}


def memory_of(ranks, nodes):
    """Of a VM: UCX has 100 MiB a rank, and more with more peers."""
    return f"{max(2, ranks // nodes // 4)}G"


def _many(ranks):
    def measure(who, plan):
        peer = peers.PEERS[who]
        rounds = {load: max(3, load[2] * 16 // ranks // (5 if plan.quick else 1)) for load in LOADS}
        text = mpi(peer, plan, ranks, OURS, "--loads",
                   ",".join(f"{pattern}:{size}:{rounds[pattern, size, of]}" for pattern, size, of in LOADS),
                   "--messages", 20, "--gap-ms", 0, timeout_s=MANY_TIMEOUT_S, preload=READER)
        if peer.counts and counter(text, peer.counts, "min") == 0:
            raise Failed(f"{peer.counts} is 0: the messages went elsewhere")
        values = {f"{pattern}_{size}": 1e3 * float(ms) for pattern, size, ms in
                  re.findall(r"^load (\w+) (\d+) .*median_ms ([\d.]+)", text, re.M)}
        values["resident_peak_mib"] = counter(text, "resident_peak_kb", "max") / 1024
        if peer.counts:
            values["receive_peak_kib"] = counter(text, "btl_weir_receive_bytes_peak", "max") / 1024
        text = mpi(peer, plan, ranks, "initlat", timeout_s=MANY_TIMEOUT_S)
        init, first = (float(re.search(rf"^{name}\s+p50\s+([\d.]+)", text, re.M).group(1))
                       for name in ("MPI_Init", "first round trip to a peer"))
        return {**values, "first_ms": init + first / 1e3}

    title = f"{ranks} ranks"
    return Group(f"many {ranks}", ["weir", *peers.OTHERS], [
        *(Metric(f"{pattern}_{size}", f"{title}, {TITLES[pattern]} {size_name(size)}", "us")
          for pattern, size, _ in LOADS),
        Metric("first_ms", f"{title}, init to 1st message", "ms"),
        Metric("receive_peak_kib", f"{title}, receive memory", "KiB"),
        Metric("resident_peak_mib", f"{title}, resident", "MiB")], measure)


def many_groups(asked):
    return [_many(ranks) for ranks in ([asked["ranks"]] if asked["ranks"] else RANKS[asked["nodes"]])]
