"""What the reports in Markdown have in common: runs to medians and ratios, and these to tables."""

import csv

from rig import stats


def values(runs, group, who, key):
    """{round: value}"""
    return {r["round"]: r["values"][key] for r in runs
            if r["group"] == group and r["who"] == who and key in r.get("values", {})}


def median(by_round):
    spread = stats.spread(by_round.values())
    return spread["median"] if spread else None


def ratio(runs, group, who, key, than):
    """Round by round."""
    return stats.pair_ratios(values(runs, group, who, key), values(runs, group, than, key))


def number(value, digits=1, unit=""):
    return "–" if value is None else f"{value:.{digits}f}{unit}"


def spread(of, digits=2):
    """median [quartiles]"""
    if of is None:
        return "–"
    middle, low, high = (number(of[key], digits) for key in ("median", "low", "high"))
    return f"{middle} [{low} {high}]"


def table(head, rows):
    return ["| " + " | ".join(head) + " |", "|" + "---|" * len(head),
            *("| " + " | ".join(row) + " |" for row in rows), ""]


def write_csv(path, head_, rows):
    """What a README has no room for."""
    with open(path, "w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(head_)
        writer.writerows(rows)


def head(title, program, taken, quick, libraries="", rounds="", after=""):
    """The lines above all tables: what was measured, of which weir, where."""
    host, guest = taken["host"], taken["guest"]
    return [
        f"# {title}", "",
        f"Written by `tests/bench/{program} --figures`; "
        "[tests/bench](../../tests/bench/README.md) says how it is measured.", "",
        f"weir {host['weir']}{' with changes' if host['weir_changed'] else ''}, "
        f"{host['build_type'] or 'unknown build type'}; {host['date']}. Linux {guest['kernel']}, "
        f"{guest['cpus']} emulated CPUs, Open MPI {guest['openmpi']}{libraries}; {rounds}load of "
        f"the machine before: {host['load']:.1f}{'; quick runs' if quick else ''}{after}.", ""]


def sections(parts):
    """`parts`: title, picture or "", lists of lines. Those without a line are left out."""
    lines = []
    for title, picture, of in parts:
        if any(of):
            lines += [f"## {title}", ""]
            if picture:
                lines += [f"![{picture.rsplit('_', 1)[-1]}]({picture}.svg)", ""]
            lines += [line for part in of for line in part]
    return lines
