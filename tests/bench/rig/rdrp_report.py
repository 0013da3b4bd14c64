"""From runs of chunk sizes and c to tables in Markdown, CSV and a picture."""

import os

from rig import markdown as md
from rig import picture, rdrp
from rig.measures import size_name

COLUMNS = ("fabric", "chunk_bytes", "c", "mb_per_s", "of_one_read", "low", "high", "reads_peak",
           "runs")


def _measured(runs, part, fabric):
    """The settings of a part on a fabric, in the order in which they first ran."""
    group = f"{part} {fabric}"
    return list(dict.fromkeys(r["who"] for r in sorted(
        (r for r in runs if r["group"] == group and "values" in r), key=lambda r: r["round"])))


# ---- the sweep ---------------------------------------------------------------------------------

def sweep_rows(runs, fabric):
    group, rows = f"sweep {fabric}", []
    for who in _measured(runs, "sweep", fabric):
        chunk, reads = rdrp.parts(who)
        values = md.values(runs, group, who, "mb_per_s")
        ratio = md.ratio(runs, group, who, "mb_per_s", rdrp.ONE_READ) or {}
        rows.append({"fabric": fabric, "chunk_bytes": chunk, "c": reads,
                     "mb_per_s": md.median(values), "of_one_read": ratio.get("median"),
                     "low": ratio.get("low"), "high": ratio.get("high"),
                     "reads_peak": md.median(md.values(runs, group, who, "reads_peak")),
                     "runs": len(values)})
    return sorted(rows, key=lambda row: row["chunk_bytes"])


def _sweep_text(runs, fabric):
    rows = sweep_rows(runs, fabric)
    if not rows:
        return []
    found = {(row["chunk_bytes"], row["c"]): row for row in rows}
    one = found.pop(rdrp.parts(rdrp.ONE_READ), None)
    reads = [r for r in rdrp.READS if any(c == r for _, c in found)]
    lines = md.table(["chunk"] + [f"c {r}" for r in reads], [
        [size_name(chunk)] + [md.number(found.get((chunk, r), {}).get("of_one_read"), 2)
                              for r in reads] for chunk in sorted({b for b, _ in found})])
    one_s = f"One read a message: {md.number(one['mb_per_s'])} MB/s. " if one else ""
    return [f"### {fabric}: bandwidth, of that of one read a message", "", one_s +
            f"{max(row['runs'] for row in rows)} rounds.", ""] + lines


# ---- idle --------------------------------------------------------------------------------------

def _idle_text(runs, fabric):
    group, settings = f"idle {fabric}", _measured(runs, "idle", fabric)
    if not settings:
        return []
    rows = []
    for who in sorted(settings, key=lambda who: who != rdrp.ONE_READ):
        cells = []
        for size in rdrp.IDLE_BYTES:
            key = f"mb_per_s_{size}"
            median = md.number(md.median(md.values(runs, group, who, key)))
            cells.append(median if who == rdrp.ONE_READ else
                         md.spread(md.ratio(runs, group, who, key, rdrp.ONE_READ)))
        rows.append([rdrp.name(who) + (", MB/s" if who == rdrp.ONE_READ else "")] + cells)
    return [f"### {fabric}", ""] + md.table(
        ["", *(size_name(size) for size in rdrp.IDLE_BYTES)], rows)


# ---- who starts the next read ------------------------------------------------------------------

def _chains_text(runs, fabric):
    group, rows = f"chains {fabric}", []
    for reads in rdrp.CHAIN_READS:
        scheduled, chains = rdrp.chain_settings(reads)
        if not {scheduled, chains} <= set(_measured(runs, "chains", fabric)):
            continue
        keys = [f"mb_per_s_{size}" for size in rdrp.IDLE_BYTES]
        rows.append([f"c {reads}, scheduled, MB/s",
                     *(md.number(md.median(md.values(runs, group, scheduled, key))) for key in keys)])
        rows.append([f"c {reads}, chains, of that",
                     *(md.spread(md.ratio(runs, group, chains, key, scheduled)) for key in keys)])
    return [f"### {fabric}", ""] + md.table(
        ["", *(size_name(size) for size in rdrp.IDLE_BYTES)], rows) if rows else []


# ---- a slow receiver ---------------------------------------------------------------------------

def _slow_text(runs):
    group, settings = "slow wire", _measured(runs, "slow", "wire")
    rows = []
    for who in [w for w in settings if not w.endswith("slow")]:
        slow = who + " slow"
        rows.append([
            rdrp.name(who), md.number(md.median(md.values(runs, group, who, "other"))),
            md.number(md.median(md.values(runs, group, slow, "other"))),
            md.number(md.median(md.values(runs, group, slow, "slow"))),
            md.spread(md.ratio(runs, group, slow, "other", rdrp.ONE_READ + " slow")),
            md.number(md.median(md.values(runs, group, slow, "reads_peak")), 0)])
    return md.table(["", "both fast, each", "beside a slow one", "the slow one",
                     "beside a slow one, of one read a message", "reads under way, most"],
                    rows) if rows else []


SWEEP_BRIEFLY = ["Bandwidth, of that of one read a message: [data](rdrp_sweep.csv).", ""]


def text(taken, brief=False):
    """`brief`: for the README; the sweep's data lie beside it."""
    runs = taken["runs"]
    sweep = [_sweep_text(runs, f) for f in rdrp.FABRICS]
    return "\n".join([
        *md.head("Chunk size, c and a slow receiver", "rdrp", taken, taken["quick"]),
        "Ratios compare runs of the same round: median [quartiles].", "",
        *md.sections((
            (f"A stream of {size_name(rdrp.SWEEP_BYTES)} messages", "rdrp_sweep",
             [SWEEP_BRIEFLY] if brief and any(sweep) else sweep),
            ("An idle fabric: bandwidth, of that of one read a message", "",
             [_idle_text(runs, f) for f in rdrp.FABRICS]),
            ("One message at a time: chains of reads, of what software schedules", "",
             [_chains_text(runs, f) for f in rdrp.FABRICS]),
            (f"Two receivers on a port, MB/s; the slow one looks every {rdrp.PACE_MS} ms", "",
             [_slow_text(runs)])))])


def store(taken, text_, directory, scripts):
    with open(os.path.join(directory, "README.md"), "w") as file:
        file.write(text_)
    rows = [row for fabric in rdrp.FABRICS for row in sweep_rows(taken["runs"], fabric)]
    if not rows:
        return
    data = os.path.join(directory, "rdrp_sweep.csv")
    md.write_csv(data, COLUMNS, ([f"{v:.4g}" if isinstance(v, float) else "" if v is None else v
                                  for v in (row[c] for c in COLUMNS)] for row in rows))
    picture.draw(os.path.join(scripts, "sweep.gp"), data[:-len("csv")] + "svg", data=data,
                 fabrics=" ".join(dict.fromkeys(row["fabric"] for row in rows)))
