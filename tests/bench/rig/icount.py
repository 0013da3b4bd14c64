"""Latency counted in instructions, for regressions of the code path.

Under `lab --icount` QEMU executes one instruction per 4 ns of the guest's time, on one CPU, so the
clock shows how many instructions a message took: the whole path, kernel and rxe included, and the
same to a few tenths of a percent whatever the machine is busy with. It says nothing about caches or
overlap. Small messages only; the two ranks yield to each other, as they share the CPU.
"""

import json
import statistics

from rig import measures

NS_AN_INSTRUCTION = 4
SIZES = (1, 1024, 4096)
WHO = ["weir", "ucx", "tcp"]  # the others as a control: if all move, it was not weir
# What decides the count besides weir's code. A figure is compared under the same conditions only.
HOLDS_FOR = ("kernel", "openmpi", "libibverbs", "qemu", "build_type")


def group():
    """In the guest: {size: us of half a round trip}."""
    return measures.Group("icount", WHO, [], lambda who, plan: measures.latencies(
        who, plan, SIZES, own_core=False))


def load(path):
    try:
        with open(path) as file:
            return json.load(file)
    except FileNotFoundError:
        return None


def store(path, conditions, figures):
    kept = {"unit": f"us of half a round trip, {NS_AN_INSTRUCTION} ns an instruction",
            "date": conditions["date"], "weir": conditions["weir"],
            "holds_for": {key: conditions[key] for key in HOLDS_FOR}, "p50_us": figures}
    with open(path, "w") as file:
        json.dump(kept, file, indent=2)
        file.write("\n")


def differences(stored, conditions):
    """[(what, then, now)] of the conditions the stored figure does not hold for."""
    return [(key, then, conditions.get(key)) for key, then in stored["holds_for"].items()
            if then != conditions.get(key)]


def compare(stored, figures, tolerance):
    """[(who, size, then, now, change, verdict)]; the control is never a regression."""
    rows = []
    for who, by_size in figures.items():
        for size, now in by_size.items():
            then = stored["p50_us"].get(who, {}).get(size) if stored else None
            change = now / then - 1 if then else None
            if change is None:
                verdict = "not stored"
            elif abs(change) <= tolerance:
                verdict = "same"
            else:
                verdict = "slower" if change > 0 else "faster"
            rows.append((who, size, then, now, change, verdict))
    return rows


def figures(runs):
    """({who: {size: median us}}, {who: the first reason of its failures})"""
    found, failed = {}, {}
    for who in WHO:
        own = [e for e in runs if e["who"] == who]
        values = [e["values"] for e in own if "values" in e]
        if values:
            found[who] = {size: round(statistics.median(v[size] for v in values), 3)
                          for size in values[0]}
        errors = [e["error"] for e in own if "error" in e]
        if errors or not own:
            failed[who] = errors[0] if errors else "never ran"
    return found, failed
