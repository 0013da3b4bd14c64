"""Large messages by RDMA reads: chunk size, c, and a slow receiver, as runs of one setting each.

A group is a workload on a fabric, "who" is a setting. All of them are streams of `flows`; a message
is one read where the chunk is as large as a chunk can be.
"""

import os

from rig import measures, peers
from rig.measures import Group, Metric, flow_rates, size_name
from rig.start import Failed

SLOW_ADAPTER = "slow_adapter.so"
PROGRAMS = ("flows", SLOW_ADAPTER)
KiB, MiB = 1 << 10, 1 << 20
CHUNKS = (16 * KiB, 32 * KiB, 64 * KiB, 128 * KiB, 256 * KiB, 512 * KiB, 1 * MiB)
QUICK_CHUNKS = (16 * KiB, 128 * KiB, 1 * MiB)
READS = ("1", "2", "4", "8", "16", "auto")
ONE_READ = f"{8 * MiB} 16"  # every message up to 8 MiB is one read, 16 at a time
ONE_READ_AUTO = f"{8 * MiB} auto"
DEFAULT = f"{128 * KiB} auto"
SWEEP_BYTES = 4 * MiB
IDLE_BYTES = (1 * MiB, 2 * MiB, 4 * MiB, 8 * MiB)
CHAIN_READS = ("4", "8")
SLOW_BYTES = 2 * MiB
# Beside a slow receiver OFI is measured, too, which calls the device so. UCX crashes under slow_adapter.
DEVICE_OF = {"ofi": "FI_VERBS_DEVICE_NAME={}"}
PACE_MS = "200"  # between two looks of a slow receiver at what has completed

# Until what is in flight at first is over.
SETTLE_MS = {"loopback": measures.SETTLE_MS, "wire": 2000}

# Of the lab. On the wire bandwidth and delay are what netem says, whatever software costs: 12 MB/s
# of data, and 2 ms there and back.
FABRICS = {"loopback": [], "wire": ["--wire", "--rate", "100mbit", "--delay", "1ms"]}


def parts(who):
    """(chunk bytes, c) of a setting's name, its other words apart."""
    chunk, reads = who.split()[:2]
    return int(chunk), reads


def library(who):
    """The other library that is measured, or None."""
    first = who.split()[0]
    return first if first in DEVICE_OF else None


def name(who):
    if library(who):
        return peers.TITLES[library(who)]
    chunk, reads = parts(who)
    return ("one read a message" if chunk == 8 * MiB else f"{size_name(chunk)} chunks") + (
        f", c {reads}" if who != ONE_READ else "")


class Study(Group):
    def __init__(self, part, fabric, title, who, metrics, measure):
        super().__init__(f"{part} {fabric}", who, metrics, measure)
        self.part, self.fabric, self.title = part, fabric, title


def _flows(who, plan, fabric, ranks, *arguments, slow=False, mca=()):
    """(flow_rates, text) of one run under a setting."""
    other = library(who)
    if other:
        peer = peers.PEERS[other]
    else:
        chunk, reads = parts(who)
        peer = peers.weir(who, who, peers.RDMA, ("btl_weir_chunk_size", str(chunk)),
                          ("btl_weir_reads_max", reads), *mca)
    reason = peers.obstacle(peer)
    if reason:
        raise Failed(reason)
    each = None
    if fabric == "wire":  # senders on one end, receivers on the other
        device = DEVICE_OF.get(other, "WEIR_DEVICE={}")
        each = [[device.format("rxe0" + ("a" if rank < ranks / 2 else "b"))] for rank in range(ranks)]
        if slow:
            preloaded = os.path.join(plan.programs, SLOW_ADAPTER)
            each[-1] += ["LD_PRELOAD=" + preloaded, "SLOW_ADAPTER_MS=" + PACE_MS]
    # The kernel moves the wire's packets: spinning ranks leave it a core.
    text = measures.mpi(peer, plan, ranks, "flows", *arguments, own_core=fabric == "loopback",
                        each=each)
    if not other and measures.counter(text, "btl_weir_gets", "sum") == 0:
        raise Failed("btl_weir_gets is 0: the messages were not read")
    return flow_rates(text), text


def _sweep(fabric):
    def measure(who, plan):
        ms, in_flight = (1500, 8 * MiB) if fabric == "wire" else (400, 16 * MiB)
        rates, text = _flows(who, plan, fabric, 2, "--sizes", SWEEP_BYTES, "--in-flight", in_flight,
                             "--settle-ms", SETTLE_MS[fabric], "--ms", ms // 2 if plan.quick else ms)
        return {"mb_per_s": rates["one way", SWEEP_BYTES][1],
                "reads_peak": measures.counter(text, "btl_weir_reads_out_peak", "max")}
    return measure


def _idle(fabric):
    def measure(who, plan):
        ms = 1500 if fabric == "wire" else 500
        rates, _ = _flows(who, plan, fabric, 2, "--sizes", ",".join(map(str, IDLE_BYTES)),
                          "--in-flight", 16 * MiB, "--settle-ms", SETTLE_MS[fabric],
                          "--ms", ms // 2 if plan.quick else ms)
        return {f"mb_per_s_{b}": rates["one way", b][1] for b in IDLE_BYTES}
    return measure


def chain_settings(reads):
    """The same c kept by software, and by a lane that is as deep."""
    return [f"{128 * KiB} {reads} {how}" for how in ("scheduled", "chains")]


def _chains(fabric):
    def measure(who, plan):
        ms, chained = 1500 if fabric == "wire" else 500, "chains" in who
        rates, text = _flows(who, plan, fabric, 2, "--sizes", ",".join(map(str, IDLE_BYTES)),
                             "--window", 1, "--ms", ms // 2 if plan.quick else ms,
                             mca=[("btl_weir_offload_min", "4KiB" if chained else "0")])
        if (measures.counter(text, "btl_weir_chains", "sum") > 0) != chained:
            raise Failed(f"btl_weir_chains is not what {who} should have")
        return {f"mb_per_s_{b}": rates["one way", b][1] for b in IDLE_BYTES}
    return measure


def _slow(who, plan):
    rates, text = _flows(who, plan, "wire", 4, "--sizes", SLOW_BYTES, "--in-flight", 16 * MiB,
                         "--settle-ms", 3000, "--ms", 6000 if plan.quick else 10000,
                         slow="slow" in who, mca=[("btl_weir_node_sharing", "user")])
    to = rates["one way", SLOW_BYTES]
    values = {"other": to[2], "slow": to[3]}
    if not library(who):
        values["reads_peak"] = measures.counter(text, "btl_weir_reads_out_peak", "max")
    return values


def groups_for(asked):
    """asked: {parts: of sweep, idle, chains, slow, or None; fabric; quick}"""
    fabric, found = asked["fabric"], []
    wanted = lambda part: asked["parts"] is None or part in asked["parts"]
    if wanted("sweep"):
        chunks = QUICK_CHUNKS if asked["quick"] else CHUNKS
        found.append(Study("sweep", fabric, f"stream of {size_name(SWEEP_BYTES)}",
                           [ONE_READ] + [f"{c} {r}" for c in chunks for r in READS],
                           [Metric("mb_per_s", "bandwidth", "MB/s", True)], _sweep(fabric)))
    if wanted("idle"):
        found.append(Study("idle", fabric, "streams", [ONE_READ, ONE_READ_AUTO, DEFAULT],
                           [Metric(f"mb_per_s_{b}", size_name(b), "MB/s", True)
                            for b in IDLE_BYTES], _idle(fabric)))
    if wanted("chains"):
        found.append(Study("chains", fabric, "one message at a time",
                           [who for reads in CHAIN_READS for who in chain_settings(reads)],
                           [Metric(f"mb_per_s_{b}", size_name(b), "MB/s", True)
                            for b in IDLE_BYTES], _chains(fabric)))
    if wanted("slow") and fabric == "wire":
        settings = [ONE_READ, DEFAULT, f"{128 * KiB} 4", *DEVICE_OF]
        found.append(Study("slow", fabric, "two receivers on a port",
                           [s + slow for s in settings for slow in ("", " slow")],
                           [Metric("other", "the other receiver", "MB/s", True),
                            Metric("slow", "the slow receiver", "MB/s", True)], _slow))
    return found
