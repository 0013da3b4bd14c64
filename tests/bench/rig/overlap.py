"""What overlaps under which library, as runs of one library each. [OVL]

A group is a program on a fabric; "who" is a library, or a setting of weir's key `overlap`. On the
wire the two ranks are at its ends, with the two CPUs of the VM for themselves and for the kernel.
"""

import os
import re
import shutil
import subprocess

from rig import measures, peers
from rig.measures import Group, Metric, counter
from rig.peers import PEERS, Peer
from rig.start import Failed, run

PROGRAMS = ("overlap", "overlap_collectives", "rma_passive", "stencil", "pingpong", "msgrate")
FABRICS = {"wire": ["--wire", "--rate", "100mbit"], "loopback": []}
PARTS = ("two-sided", "collectives", "one-sided", "stencil", "small")

ALL = ("btl_weir_overlap", "all")
THREAD = ("btl_tcp_progress_thread", "1")
MPICH = {"UCX_TLS": "rc_v,self", "UCX_UD_VERBS_ETH_DGID_CHECK": "n",
         "MPIR_CVAR_NOLOCAL": "1"}  # no shared memory between the two ranks

LIBRARIES = {library.key: library for library in (
    PEERS["off"],
    PEERS["on"],
    peers.weir("all", "weir, overlap all", peers.RDMA, ALL),
    PEERS["ucx"],
    PEERS["tcp"],
    Peer("tcp-thread", "btl tcp, its thread", [*PEERS["tcp"].mca, THREAD]),
    Peer("mpich", "MPICH, UCX", [], MPICH),
    Peer("mpich-thread", "MPICH, its thread", [], {**MPICH, "MPIR_CVAR_ASYNC_PROGRESS": "1"}),
)}

# `auto` does something only where the program asks for threads, which the variable does for it.
# Open MPI's locks, which are real then, are not weir's doing.
def _with_threads(key, value):
    return Peer(f"{key}-threads", f"{value}, of a program with threads",
                [*peers.weir("", "", peers.RDMA).mca, ("btl_weir_overlap", value)],
                {"OMPI_MPI_THREAD_LEVEL": "1"}, counts=LIBRARIES["off"].counts)


SETTINGS = {setting.key: setting for setting in (
    LIBRARIES["off"],
    _with_threads("off", "off"),
    _with_threads("auto", "auto"),
    LIBRARIES["on"],
    LIBRARIES["all"],
)}
COMPARED_WITH = {"auto-threads": "off-threads"}  # else with off

# (key, title, its title in the program's output, in the picture)
CASES = (
    ("sender", "the sender computes", "sender computes", "sender"),
    ("late_receive", "the receiver, announced before, posted after it",
     "receiver computes, announced before, not posted", "receiver, posted late"),
    ("posted", "the receiver, announced before, posted before it",
     "receiver computes, announced before, posted", "receiver, posted"),
    ("meanwhile", "the receiver, announced meanwhile", "receiver computes, announced meanwhile",
     "receiver, meanwhile"),
    ("both_meanwhile", "both, announced meanwhile", "both compute, announced meanwhile",
     "both, meanwhile"),
    ("both_before", "both, announced before", "both compute, announced before, not posted",
     "both, before"),
)
COLLECTIVES = ("Ialltoall", "Iallgather", "Ibcast", "Iallreduce")
ONE_SIDED = (("code1", "lock, put, unlock (Code 1)", "lock, put (Code 1)"),
             ("first_put", "the first put (Codes 2, 3)", "first put (Code 2)"),
             ("put", "a later put", "later put"), ("get", "a get", "get"))
STENCIL_RATES = ("100mbit", "50mbit")
SMALL_BYTES = (1, 8192)


def _run(library, plan, program, *arguments, wire=True):
    """The output of two ranks, once it is sure that all was right and weir was used."""
    mpich = not library.mca
    path = os.path.join(plan.mpich if mpich else plan.programs, program)
    if library.counts:
        reason = peers.obstacle(library)
        if reason:
            raise Failed(reason)
        arguments += ("--counters",)
    arguments += ("--timeout", measures.PROGRAM_TIMEOUT_S)
    each = [[f"WEIR_DEVICE=rxe0{end}", f"UCX_NET_DEVICES=rxe0{end}:1",
             f"OMPI_MCA_btl_tcp_if_include=w0{end}"] for end in "ab"] if wire else None
    if mpich:
        words = ["mpiexec.mpich"]
        for i, variables in enumerate(each):
            words += ([":"] if i else []) + ["-n", "1"]
            for variable in variables:
                words += ["-env", *variable.split("=", 1)]
            words += [path, *map(str, arguments)]
    else:
        # The kernel moves the wire's packets: spinning ranks leave it a core.
        words = peers.command(library, 2, path, arguments, own_core=not wire, each=each)
    text = run(words, measures.PROGRAM_TIMEOUT_S + measures.GRACE_S, peers.environment(library))
    if not re.search(rf"^{program}: (ok|\d+ pairs)", text, re.M):
        raise Failed(f"{program} did not say that all was right", text)
    if library.counts and counter(text, library.counts, "min") == 0:
        raise Failed(f"{library.counts} is 0: the messages went elsewhere", text)
    return text


def _number(pattern, text):
    found = re.search(pattern, text, re.M)
    if not found:
        raise Failed(f"no {pattern} in the output", text)
    return float(found[1])


def _two_sided(who, plan):
    text = _run(LIBRARIES[who], plan, "overlap", "--bytes", "1M", "--compute-ms", 500,
                "--repeat", 1)
    values = {"idle": _number(r"^overlap: idle, ([\d.]+) %", text)}
    for key, _, name, _ in CASES:
        line = re.search(rf"^overlap: .* ms, {name}: (.*)$", text, re.M)
        if not line:
            raise Failed(f"overlap did not say: {name}", text)
        for rank, share in re.findall(r"(sender|receiver) (-?\d+) %", line[1]):
            values[f"{key}_{rank}"] = float(share)
        for rank, ms in re.findall(r"(sender|receiver) waits ([\d.]+) ms", line[1]):
            values[f"{key}_{rank}_waits"] = float(ms)
    return values


def _collectives(who, plan):
    text = _run(LIBRARIES[who], plan, "overlap_collectives", "--bytes", "1M", "--compute-ms", 1000,
                "--repeat", 1 if plan.quick else 3)
    return {name: _number(rf"^overlap_collectives: {name} of .* overlap (\d+) %", text)
            for name in COLLECTIVES}


def _one_sided(who, plan):
    library = LIBRARIES[who]
    if library.counts or who == "ucx":
        library = peers.one_sided(library)
    try:
        text = _run(library, plan, "rma_passive", "--bytes", "4M", "--compute-ms", 500, "--repeat",
                    2, "--measure")
    except Failed as failed:
        if "An error occurred in MPI_Win_create" not in failed.output:
            raise
        return {"no_windows": 1}
    share = lambda what: _number(rf"^rma_passive: {what}: .* overlap (\d+) %", text)
    return {"code1": share("lock, put, unlock 1"), "first_put": share("put 1"),
            "put": share("put 2"), "get": share("get 2"),
            "first_atomic_ms": _number(r"^rma_passive: fetch and add: .* first ([\d.]+) ms", text)}


def _stencil(rate):
    def measure(who, plan):
        subprocess.run(["lab-wire", "set", rate, "none", "none"], check=True,
                       stdout=subprocess.DEVNULL)
        try:
            text = _run(LIBRARIES[who], plan, "stencil", "--steps", 5 if plan.quick else 10)
        finally:
            subprocess.run(["lab-wire", "set", "100mbit", "none", "none"], check=True,
                           stdout=subprocess.DEVNULL)
        ms = lambda what: _number(rf"^stencil: .*{what} ([\d.]+) ms", text)
        values = {"exchange_ms": ms("exchange"), "compute_ms": ms("computation"),
                  "step_ms": ms(r"computation [\d.]+ ms, step"), "tested_ms": ms("with tests"),
                  "pause_ms": ms("asleep for"), "asleep_ms": ms(r"asleep for [\d.]+ ms, step"),
                  "cpu_ms": ms("CPU")}
        shorter = min(values["exchange_ms"], values["compute_ms"])
        alone = values["exchange_ms"] + values["compute_ms"]
        for key in ("step", "tested"):
            values[f"{key}_overlap"] = 100 * (alone - values[f"{key}_ms"]) / shorter
        return values
    return measure


def _small(who, plan):
    setting = SETTINGS[who]
    text = _run(setting, plan, "pingpong", "--sizes", ",".join(map(str, SMALL_BYTES)), "--ms",
                100 if plan.quick else 300, wire=False)
    values = {f"latency_{size}": float(us) for size, us in
              re.findall(r"^\s*(\d+)\s+([\d.]+)\s+[\d.]+\s+[\d.]+$", text, re.M)}
    text = _run(setting, plan, "msgrate", "--bytes", measures.RATE_BYTES, "--window",
                measures.RATE_WINDOW, "--messages", 5000 if plan.quick else 20000, wire=False)
    return {**values, "rate": _number(r": (\d+) messages/s", text)}


def have_mpich(directory):
    return os.access(os.path.join(directory, "overlap"), os.X_OK) and shutil.which("mpiexec.mpich")


def groups_for(asked):
    """asked: {libraries: keys; fabric; parts: or None; quick}"""
    found, libraries = [], asked["libraries"]
    wanted = lambda part: asked["parts"] is None or part in asked["parts"]
    if asked["fabric"] == "wire":
        if wanted("two-sided"):
            found.append(Group("two-sided", libraries, [
                Metric(key, title, "%", True) for key, title, *_ in CASES], _two_sided))
        if wanted("collectives"):
            found.append(Group("collectives", libraries, [
                Metric(name, name, "%", True) for name in COLLECTIVES], _collectives))
        if wanted("one-sided"):
            found.append(Group("one-sided", libraries, [
                Metric(key, title, "%", True) for key, title, _ in ONE_SIDED], _one_sided))
        if wanted("stencil"):
            found += [Group(f"stencil {rate}", libraries, [Metric("step_ms", "a step", "ms")],
                            _stencil(rate)) for rate in STENCIL_RATES]
    elif wanted("small"):
        found.append(Group("small", list(SETTINGS), [Metric("rate", "rate", "msg/s", True)],
                           _small))
    return found
