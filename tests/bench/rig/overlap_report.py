"""From runs of libraries to tables in Markdown, CSV and a picture."""

import collections
import os

from rig import markdown as md
from rig import overlap, picture
from rig.measures import size_name

TITLES = {key: peer.title for key, peer in {**overlap.LIBRARIES, **overlap.SETTINGS}.items()}


def _median(runs, group, who, key):
    return md.median(md.values(runs, group, who, key))


def _measured(runs, group, order):
    found = {r["who"] for r in runs if r["group"] == group and "values" in r}
    return [who for who in order if who in found]


# ---- two-sided ---------------------------------------------------------------------------------

def _case(runs, who, key):
    """The overlap of who computes; of who does not, how much longer than alone it waits."""
    of = lambda what: _median(runs, "two-sided", who, f"{key}_{what}")
    sender, receiver = of("sender"), of("receiver")
    waits = of("receiver_waits" if receiver is None else "sender_waits")
    if sender is not None and receiver is not None:
        return f"{sender:.0f}, {receiver:.0f} %"
    text = md.number(sender if sender is not None else receiver, 0, " %")
    return text if waits is None else f"{text}; {waits:.0f} ms"


TWO_SIDED = ["", *(title for _, title, *_ in overlap.CASES), "CPU when idle"]


def _two_sided_rows(runs):
    return [[TITLES[who], *(_case(runs, who, key) for key, *_ in overlap.CASES),
             md.number(_median(runs, "two-sided", who, "idle"), 2, " %")]
            for who in _measured(runs, "two-sided", overlap.LIBRARIES)]


def _two_sided_text(runs):
    rows = _two_sided_rows(runs)
    return md.table(TWO_SIDED, rows) if rows else []


# ---- collectives -------------------------------------------------------------------------------

def _collectives_text(runs):
    libraries = _measured(runs, "collectives", overlap.LIBRARIES)
    return md.table(["", *overlap.COLLECTIVES], [
        [TITLES[who], *(md.number(_median(runs, "collectives", who, name), 0, " %")
                        for name in overlap.COLLECTIVES)]
        for who in libraries]) if libraries else []


# ---- one-sided ---------------------------------------------------------------------------------

ONE_SIDED = ["", *(title for _, title, _ in overlap.ONE_SIDED), "the first fetch and add"]


def _one_sided_rows(runs):
    rows = []
    for who in _measured(runs, "one-sided", overlap.LIBRARIES):
        if md.values(runs, "one-sided", who, "no_windows"):
            rows.append([TITLES[who], "no windows"] + [""] * len(overlap.ONE_SIDED))
            continue
        rows.append([TITLES[who], *(md.number(_median(runs, "one-sided", who, key), 0, " %")
                                    for key, *_ in overlap.ONE_SIDED),
                     md.number(_median(runs, "one-sided", who, "first_atomic_ms"), 1, " ms")])
    return rows


def _one_sided_text(runs):
    rows = _one_sided_rows(runs)
    return md.table(ONE_SIDED, rows) if rows else []


# ---- stencil -----------------------------------------------------------------------------------

STENCIL = ["ms", "exchange alone", "computation alone", "step (overlap)", "step, of overlap off",
           "step with tests", "step asleep, of the sleep", "its CPU"]


def _stencil_rows(runs, rate):
    group, rows = f"stencil {rate}", []
    of = lambda who, key, digits=1, unit="": md.number(_median(runs, group, who, key), digits, unit)
    for who in _measured(runs, group, overlap.LIBRARIES):
        ratio = md.ratio(runs, group, who, "step_ms", "off")
        against = "" if ratio is None or who == "off" else md.spread(ratio)
        rows.append([TITLES[who], of(who, "exchange_ms"), of(who, "compute_ms"),
                     f"{of(who, 'step_ms')} ({of(who, 'step_overlap', 0, ' %')})", against,
                     f"{of(who, 'tested_ms')} ({of(who, 'tested_overlap', 0, ' %')})",
                     f"{of(who, 'asleep_ms')} of {of(who, 'pause_ms')}", of(who, "cpu_ms")])
    return rows


def _stencil_text(runs, rate):
    rows = _stencil_rows(runs, rate)
    return [f"### {rate}", ""] + md.table(STENCIL, rows) if rows else []


# ---- small messages ----------------------------------------------------------------------------

SMALL = ["of off; auto of off with threads", *(f"{size_name(size)}, µs" for size in overlap.SMALL_BYTES),
         "8 B messages/s"]


def _small_rows(runs):
    rows = []
    keys = [(f"latency_{size}", 1) for size in overlap.SMALL_BYTES] + [("rate", 0)]
    for who in _measured(runs, "small", overlap.SETTINGS):
        cells = []
        for key, digits in keys:
            ratio = md.ratio(runs, "small", who, key, overlap.COMPARED_WITH.get(who, "off"))
            cells.append(md.number(_median(runs, "small", who, key), digits) + (
                "" if who == "off" or ratio is None else f" ({md.spread(ratio)})"))
        rows.append([TITLES[who], *cells])
    return rows


def _small_text(runs):
    rows = _small_rows(runs)
    return md.table(SMALL, rows) if rows else []


def _missing_text(runs):
    """Runs that failed: that others hang, or lose their peer, is a result, too."""
    rows = []
    for kind in sorted({(r["group"], r["who"]) for r in runs if r.get("error")}):
        of = [r for r in runs if (r["group"], r["who"]) == kind]
        errors = [r["error"] for r in of if r.get("error")]
        rows.append([kind[0], TITLES[kind[1]], f"{len(errors)} of {len(of)}",
                     errors[-1][-150:].replace("|", "/")])
    return md.table(["", "", "runs", "the end of what it said"], rows) if rows else []


def text(taken, brief=False):
    """`brief`: for the README; what it only names lies beside it."""
    runs = taken["runs"]
    named = lambda lines, name: [f"[Data](overlap_{name}.csv)", ""] if brief and lines else lines
    counts = collections.Counter((r["group"], r["who"]) for r in runs if "values" in r)
    rounds = "–".join(map(str, sorted({min(counts.values()), max(counts.values())})))
    return "\n".join([
        *md.head("What overlaps with computation, under which library", "overlap", taken,
                 taken["quick"], rounds=f"{rounds} rounds, ",
                 libraries=f", UCX {taken['guest']['ucx']}, MPICH {taken['guest']['mpich']}"),
        "Medians of the rounds; ratios compare runs of the same round: median [quartiles].", "",
        *md.sections((
            ("Isend and Irecv of 1 MiB beside 500 ms of computation: overlap of the rank that computes; "
             "how much longer than alone the other rank waits", "overlap",
             [named(_two_sided_text(runs), "two_sided")]),
            ("Non-blocking collectives of two ranks, 1 MiB a rank, beside 1 s: overlap, the slower "
             "rank's", "", [_collectives_text(runs)]),
            ("One-sided, 4 MiB beside 500 ms, against a target that makes no call: overlap", "",
             [named(_one_sided_text(runs), "one_sided")]),
            ("A halo exchange of 256 KiB, two ranks on two cores", "",
             [named([line for rate in overlap.STENCIL_RATES for line in _stencil_text(runs, rate)], "halo")]),
            ("What small messages pay for weir's `overlap`, on loopback", "",
             [named(_small_text(runs), "small")]),
            ("Runs without a result", "", [_missing_text(runs)])))])


def _share(runs, who, key):
    """Of both who compute, the lesser."""
    shares = [_median(runs, "two-sided", who, f"{key}_{rank}") for rank in ("sender", "receiver")]
    shares = [share for share in shares if share is not None]
    return min(shares) if shares else None


def store(taken, text_, directory, scripts):
    with open(os.path.join(directory, "README.md"), "w") as file:
        file.write(text_)
    runs = taken["runs"]
    in_directory = lambda name: os.path.join(directory, name)
    md.write_csv(in_directory("overlap_two_sided.csv"), TWO_SIDED, _two_sided_rows(runs))
    md.write_csv(in_directory("overlap_one_sided.csv"), ONE_SIDED, _one_sided_rows(runs))
    md.write_csv(in_directory("overlap_halo.csv"), ["rate", *STENCIL],
                 ([rate, *row] for rate in overlap.STENCIL_RATES for row in _stencil_rows(runs, rate)))
    md.write_csv(in_directory("overlap_small.csv"), SMALL, _small_rows(runs))
    libraries = _measured(runs, "two-sided", overlap.LIBRARIES)
    if not libraries:
        return
    data = in_directory("overlap.csv")
    cell = lambda value: "" if value is None else f"{value:.4g}"
    md.write_csv(data, ["case", *(TITLES[who].replace(",", "") for who in libraries)], [
        *([short, *(cell(_share(runs, who, key)) for who in libraries)]
          for key, _, _, short in overlap.CASES),
        *([short, *(cell(_median(runs, "one-sided", who, key)) for who in libraries)]
          for key, _, short in overlap.ONE_SIDED)])
    picture.draw(os.path.join(scripts, "overlap.gp"), data[:-len("csv")] + "svg", data=data,
                 count=len(libraries))
