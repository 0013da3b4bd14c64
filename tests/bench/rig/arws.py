"""The receive window under load: figures 2 and 3 of [ARWS], as runs of one window setting each.

A group is a workload at a number of ranks, "who" is a window: fixed, or growing from 8 up to
W_max, for figure 3 with an RNR timer. Counters are read by a preloaded library when the program
ends, so that programs which are not ours are as good as ours.
"""

import glob
import os
import re
import tempfile
import time

from rig import hpcc, peers
from rig.measures import Group, Metric, size_name
from rig.start import Failed, cause, run

OURS, READER = "window_loads", "pvars_at_finalize.so"
PROGRAMS = (OURS, READER)
MIB = 1 << 20
TIMEOUT_S = 60
HPCC_TIMEOUT_S = 300
FIXED = "fixed 512"  # what the others are compared with: the paper's "Non-Adaptive"
INITIAL = 8
MAXIMA = (16, 32, 64, 128, 256, 512, 1024, 4096)
QUICK_MAXIMA = (16, 64, 1024)
RNR_MAXIMA = (16, 32)
RNR_TIMERS = ("10us", "80us", "640us", "5120us", "40960us", "327680us")
QUICK_RNR_TIMERS = ("10us", "640us", "40960us")
KEPT = re.compile(r"^counter btl_weir_((?:window|srq|credit|receive|frames_received|late)\w*) "
                  r"min (\d+) max (\d+) sum (\d+)", re.M)


def windows(maxima):
    return [FIXED] + [f"{INITIAL}-{most}" for most in maxima]


def rnr_windows(quick):
    return [FIXED] + [f"{INITIAL}-{most} {timer}" for most in RNR_MAXIMA
                      for timer in (QUICK_RNR_TIMERS if quick else RNR_TIMERS)]


def parts(who):
    """(W_initial, W_max, RNR timer or None) of a window's name."""
    if who == FIXED:
        return 512, 512, None
    window, _, timer = who.partition(" ")
    initial, most = window.split("-")
    return int(initial), int(most), timer or None


def _settings(who):
    initial, most, timer = parts(who)
    found = [("btl_weir_window_initial", str(initial)), ("btl_weir_window_max", str(most))]
    return found + ([("btl_weir_rnr_timer", timer)] if timer else [])


class Load:
    """A workload: `title` says what, `rounds` and `quick_rounds` how often."""

    def __init__(self, title, pattern, size_bytes, rounds, quick_rounds, messages=0):
        self.title, self.pattern, self.size_bytes = title, pattern, size_bytes
        self.rounds, self.quick_rounds, self.messages = rounds, quick_rounds, messages

    def words(self, plan):
        rounds = self.quick_rounds if plan.quick else self.rounds
        found = ["--loads", f"{self.pattern}:{self.size_bytes}:{rounds}"]
        if self.messages:
            found += ["--messages", self.messages]
        return found


def _exchange(size_bytes, rounds, quick_rounds):
    return Load(f"all-to-all {size_name(size_bytes)}", "alltoall", size_bytes, rounds, quick_rounds)


LOADS = (
    _exchange(64, 1200, 300),
    _exchange(4 << 10, 600, 150),
    _exchange(64 << 10, 60, 12),
    Load("all-to-all 1 KiB x16", "flood", 1 << 10, 60, 12, 16),
    Load("all-to-one 1 KiB", "burst", 1 << 10, 20, 8, 200),
    Load("halo 4 KiB", "halo", 4 << 10, 600, 150),
)
RNR_LOADS = (LOADS[1], LOADS[2], LOADS[4])


def _naks():
    count = 0
    for path in glob.glob("/sys/class/infiniband/*/ports/1/hw_counters/send_rnr_err"):
        with open(path) as file:
            count += int(file.read())
    return count


def _mpirun(who, plan, ranks, words, timeout_s, environment=None):
    """(output, seconds, RNR NAKs) of a run that ended well."""
    weir = peers.PEERS["copy"]  # what the window is for: messages in frames
    reason = peers.obstacle(weir)
    if reason:
        raise Failed(reason)
    words = peers.command(weir, ranks, words[0], words[1:], own_core=False)
    extra = ["--oversubscribe", "-x", "LD_PRELOAD=" + os.path.join(plan.programs, READER)]
    for key, value in _settings(who):
        extra += ["--mca", key, value]
    before, start_s = _naks(), time.monotonic()
    text = run(words[:1] + extra + words[1:], timeout_s,
               {**peers.environment(weir), **(environment or {})})
    return text, time.monotonic() - start_s, _naks() - before


def _counters(text, ranks):
    """{NAME: mean over the ranks, NAME.max: of the largest rank}"""
    values = {}
    for name, _, most, total in KEPT.findall(text):
        values[name], values[f"{name}.max"] = int(total) / ranks, int(most)
    if not values.get("frames_received"):
        raise Failed("no frame went over weir: " + cause(text))
    values["memory_mib"] = values["receive_bytes_peak"] / MIB
    values["memory_max_mib"] = values["receive_bytes_peak.max"] / MIB
    return values


def _run_load(load, ranks, who, plan):
    words = [os.path.join(plan.programs, OURS), *load.words(plan), "--timeout", TIMEOUT_S]
    text, seconds, naks = _mpirun(who, plan, ranks, words, TIMEOUT_S + 15)
    if not re.search(rf"^{OURS}: ok", text, re.M):
        raise Failed(f"{OURS} did not say that all was right")
    values = _counters(text, ranks)
    line = re.search(r"^load .* first_ms (\S+) later_ms (\S+) median_ms (\S+)", text, re.M)
    first_naks, later_naks = re.search(r"^rnr_naks first (\d+) later (\d+)", text, re.M).groups()
    values.update(first_ms=float(line[1]), time_ms=float(line[2]), median_ms=float(line[3]),
                  wall_ms=seconds * 1e3, naks=naks, naks_first=int(first_naks),
                  naks_later=int(later_naks))
    return values


# ---- hpcc: an unmodified application -----------------------------------------------------------

def _run_hpcc(ranks, who, plan):
    here = os.getcwd()
    with tempfile.TemporaryDirectory(prefix="bench-hpcc-") as directory:
        hpcc.prepare(directory, 100 if plan.quick else 200)
        os.chdir(directory)
        try:
            text, seconds, naks = _mpirun(who, plan, ranks, [hpcc.PROGRAM], HPCC_TIMEOUT_S,
                                          {"OPENBLAS_NUM_THREADS": "1"})
        finally:
            os.chdir(here)
        hpcc.report(directory)
    return {**_counters(text, ranks), "time_ms": seconds * 1e3, "wall_ms": seconds * 1e3,
            "naks": naks}


# ---- what to run -------------------------------------------------------------------------------

METRICS = [Metric("memory_mib", "receive memory, peak", "MiB"), Metric("time_ms", "time", "ms")]


class Workload(Group):
    def __init__(self, figure, title, ranks, who, measure, slice=1):
        super().__init__(f"fig{figure} {title}, {ranks} ranks", who, METRICS, measure, slice)
        self.figure, self.title, self.ranks = figure, title, ranks


def _of(figure, load, ranks, who):
    return Workload(figure, load.title, ranks, who,
                    lambda window, plan: _run_load(load, ranks, window, plan))


def groups_for(asked):
    """asked: {figure: 2, 3 or None; loads: [part of a name] or None; windows: [W_max] of
    figure 2, or None; quick}"""
    quick, found = asked["quick"], []
    growing = windows(asked["windows"] or (QUICK_MAXIMA if quick else MAXIMA))
    if asked["figure"] in (None, 2):
        found += [_of(2, load, ranks, growing) for ranks in (4, 8) for load in LOADS]
        # It takes half a minute: every third round.
        found.append(Workload(2, hpcc.PROGRAM, 4, growing,
                              lambda window, plan: _run_hpcc(4, window, plan), slice=3))
    if asked["figure"] in (None, 3):
        found += [_of(3, load, 8, rnr_windows(quick)) for load in RNR_LOADS]
    return [g for g in found if any(part in g.key for part in asked["loads"] or [""])]
