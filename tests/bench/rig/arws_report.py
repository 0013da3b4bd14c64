"""From runs of windows to a table in Markdown, CSV and pictures."""

import os

from rig import arws, picture, stats
from rig import markdown as md

COLUMNS = ("workload", "ranks", "window", "w_max", "rnr_timer_us", "position", "memory_mib",
           "memory_max_mib", "less_memory", "speed", "speed_low", "speed_high", "first_speed",
           "naks", "naks_later", "w_peak", "runs", "round_speed")
GROWTH = ("window_peak", "window_grows", "window_demands", "srq_limit_events",
          "srq_limit_self_raised", "credit_stalls", "credits_overcommitted")


def _row(group, who, position, runs):
    values = lambda key, of=who: md.values(runs, group.key, of, key)
    time_ms = values("time_ms")
    speed = stats.pair_ratios(values("time_ms", arws.FIXED), time_ms) or {}
    memory = stats.pair_ratios(values("memory_mib", arws.FIXED), values("memory_mib")) or {}
    first = stats.pair_ratios(values("first_ms", arws.FIXED), values("first_ms")) or {}
    typical = stats.pair_ratios(values("median_ms", arws.FIXED), values("median_ms")) or {}
    _, most, timer = arws.parts(who)
    return {"workload": group.title, "ranks": group.ranks, "window": who, "w_max": most,
            "rnr_timer_us": timer[:-2] if timer else "", "position": position,
            "memory_mib": md.median(values("memory_mib")),
            "memory_max_mib": md.median(values("memory_max_mib")),
            "less_memory": memory.get("median"), "speed": speed.get("median"),
            "speed_low": speed.get("low"), "speed_high": speed.get("high"),
            "first_speed": first.get("median"), "round_speed": typical.get("median"),
            "naks": md.median(values("naks")),
            "naks_later": md.median(values("naks_later")),
            "w_peak": md.median(values("window_peak.max")), "runs": len(time_ms),
            "growth": {key: (md.median(values(key)), md.median(values(f"{key}.max")))
                       for key in GROWTH}}


def summarise(groups, runs):
    """[(group, [row])] of what was measured."""
    found = []
    for group in groups:
        rows = [_row(group, who, i, runs) for i, who in enumerate(group.who)]
        rows = [row for row in rows if row["runs"]]
        if rows:
            found.append((group, rows))
    return found


# ---- text --------------------------------------------------------------------------------------

WINDOW = ("Window: W_initial-W_max. Memory: peak registered receive memory of a process, mean and "
          f"largest rank. Speed: time of the {arws.FIXED} window / time of this one, from the same "
          "round, median [quartiles]; of hpcc the whole run, else all rounds but the first, which "
          "has a column of its own, as has the median round, when W has grown. W: the largest of "
          "any rank.")
BRIEFLY = (f"Window: W_initial-W_max. In the data, `speed` is against the {arws.FIXED} window, and "
           "`less_memory` says how many times less receive memory a process has at its peak.")


def _speed(row):
    if row["window"] == arws.FIXED:
        return "1"
    return md.spread({"median": row["speed"], "low": row["speed_low"], "high": row["speed_high"]})


def _main_table(results):
    return md.table(
        ["window", "memory MiB: mean", "max", "fixed / this", "speed", "median round",
         "first round", "RNR NAKs", "after the first round", "W", "runs"],
        [[row["window"], md.number(row["memory_mib"], 2), md.number(row["memory_max_mib"], 2),
          md.number(row["less_memory"], 1), _speed(row), md.number(row["round_speed"], 2),
          md.number(row["first_speed"], 2), md.number(row["naks"], 0), md.number(row["naks_later"], 0),
          md.number(row["w_peak"], 0), str(row["runs"])]
         for row in results])


def _largest(results):
    """The window with the largest W_max: nothing but the traffic stops it."""
    return max((row for _, rows in results for row in rows), key=lambda row: row["w_max"])["window"]


def _growth(results, window):
    """[(group, {counter: (mean, largest)})]"""
    return [(group, row["growth"]) for group, of in results for row in of if row["window"] == window]


def _growth_table(results, window):
    return md.table(["workload, ranks", "W", "grown", "by demand", "limit events", "self-raised",
                     "credit stalls", "credits overcommitted"],
                    [[f"{group.title}, {group.ranks}",
                      *(" / ".join(md.number(v, 0) for v in growth[key]) for key in GROWTH)]
                     for group, growth in _growth(results, window)])


def text(results, taken, brief=False):
    """`brief`: for the README; the data lie beside it."""
    asked = taken["asked"]
    lines = [
        *md.head("The receive window under load", "arws", taken, asked["quick"],
                 after="; instructions counted as time" if asked.get("icount") else ""),
        BRIEFLY if brief else WINDOW, ""]
    for figure in (2, 3):
        of = [(g, rows) for g, rows in results if g.figure == figure]
        if not of:
            continue
        lines += [f"## Figure {figure}", "", f"![figure {figure}](arws_fig{figure}.svg)", ""]
        if brief:
            lines += [f"[Data](arws_fig{figure}.csv)", ""]
        else:
            for group, rows in of:
                lines += [f"### {group.title}, {group.ranks} ranks", ""] + _main_table(rows)
        if figure == 2:
            window = _largest(of)
            lines += [f"What made W grow, {window}: [data](arws_growth.csv).", ""] if brief else \
                [f"### What made W grow, {window}", "",
                 "Mean / largest over the ranks.", ""] + _growth_table(of, window)
    return "\n".join(lines)


# ---- files -------------------------------------------------------------------------------------

def _cell(value):
    return f"{value:.4g}" if isinstance(value, float) else "" if value is None else value


def store(results, text_, directory, scripts):
    with open(os.path.join(directory, "README.md"), "w") as file:
        file.write(text_)
    for figure in (2, 3):
        of = [(g, rows) for g, rows in results if g.figure == figure]
        if not of:
            continue
        data = os.path.join(directory, f"arws_fig{figure}.csv")
        md.write_csv(data, COLUMNS, ([_cell(row[c]) for c in COLUMNS] for _, rows in of for row in rows))
        if figure == 2:
            window = _largest(of)
            md.write_csv(os.path.join(directory, "arws_growth.csv"),
                         ["workload", "ranks", "window",
                          *(name for key in GROWTH for name in (key, f"{key}_max"))],
                         ([group.title, group.ranks, window,
                           *(md.number(value, 0) for key in GROWTH for value in growth[key])]
                          for group, growth in _growth(of, window)))
        picture.draw(os.path.join(scripts, f"fig{figure}.gp"), data[:-len("csv")] + "svg",
                     data=data, count=len(of),
                     loads=" ".join(f'"{g.title},{g.ranks}"' for g, _ in of))
