"""The report of `weir tune`: one HTML file, its pictures inside.

The pictures have the shapes of [TOK]'s figures: throughput against active cores (Fig. 1), against
outstanding messages of a core (Fig. 2), against size (Fig. 5), and with the new settings against
without (Fig. 7).
"""

import html
import re
import shutil
import subprocess

from tables import size_text

STYLE = ("body{font:14px sans-serif;max-width:70em;margin:2em auto;padding:0 1em}"
         "table{border-collapse:collapse}td,th{padding:.2em .7em;border-bottom:1px solid #ddd;"
         "text-align:right}td:first-child,th:first-child{text-align:left}"
         "figure{display:inline-block;margin:.5em}pre{background:#f4f4f4;padding:.7em}")
NO_PICTURES = "<p>No pictures: gnuplot is not installed.</p>"
COLOURS = ("#c8d4e3", "#9db6d6", "#7398c4", "#4a78b0", "#274d7d", "#c04020", "#804020", "#203040")


def can_plot():
    return shutil.which("gnuplot") is not None


def plot(title, xlabel, ylabel, lines, log_y=True, one=False):
    """lines: {label: [(x, y)]}. SVG, or nothing where there is no gnuplot."""
    lines = {label: points for label, points in lines.items() if points}
    if not lines or not can_plot():
        return ""
    script = [f'set terminal svg size 420,280 font "sans,10" background "white"',
              f'set title "{title}"', f'set xlabel "{xlabel}"', f'set ylabel "{ylabel}"',
              "set logscale x 2", "set key outside right", 'set grid ytics lc rgb "#e0e0e0"',
              "set logscale y" if log_y else "set yrange [0:*]"]
    curves = [f"'-' using 1:2 with linespoints lc rgb '{COLOURS[i % len(COLOURS)]}' pt 7 ps 0.5 "
              f"title '{label}'" for i, label in enumerate(lines)]
    if one:
        curves.append('1 lc rgb "#808080" dt 3 notitle')
    script.append("plot " + ", ".join(curves))
    for points in lines.values():
        script += [f"{x} {y}" for x, y in points] + ["e"]
    done = subprocess.run(["gnuplot"], input="\n".join(script), capture_output=True, text=True,
                          check=False)
    if done.returncode != 0:
        return ""
    svg = done.stdout[done.stdout.index("<svg"):]
    return "<figure>" + re.sub(r"\s*\n\s*", "\n", svg) + "</figure>"


def table(head, rows):
    def cells(row, kind):
        return "".join(f"<{kind}>{html.escape(str(cell))}</{kind}>" for cell in row)
    return ("<table><tr>" + cells(head, "th") + "</tr>" +
            "".join("<tr>" + cells(row, "td") + "</tr>" for row in rows) + "</table>")


def curves(plan, result):
    rate = result.survey
    found = []
    for size in plan.sizes:
        name = size_text(size)
        found.append(plot(f"{name}: active cores", "cores", "messages/s",
                          {f"{m} outstanding": [(c, rate[(c, m, size)]) for c in plan.cores
                                                if (c, m, size) in rate]
                           for m in plan.outstanding}))
        found.append(plot(f"{name}: outstanding messages", "a core", "messages/s",
                          {f"{c} cores": [(m, rate[(c, m, size)]) for m in plan.outstanding
                                          if (c, m, size) in rate]
                           for c in plan.cores}))
    most = plan.outstanding[-1]
    found.append(plot(f"size, {most} outstanding", "bytes", "MB/s",
                      {f"{c} cores": [(b, rate[(c, most, b)] * b / 1e6) for b in plan.sizes
                                      if (c, most, b) in rate] for c in plan.cores}))
    if result.by_point:
        cores = plan.cores[-1]
        found.append(plot(f"with the settings, {cores} cores", "outstanding, a core",
                          "of the defaults",
                          {size_text(b): [(m, result.by_point[(cores, m, b)])
                                                 for m in plan.outstanding
                                                 if (cores, m, b) in result.by_point]
                           for b in plan.sizes}, log_y=False, one=True))
    return "".join(found)


def thresholds(result):
    rows = [["CCT", size_text(s), "", v] for s, v in result.tables["cct"].items()]
    rows += [["NRCT", size_text(s), "", v] for s, v in result.tables["nrct"].items()]
    rows += [["CRCT", size_text(s), c, v] for (c, s), v in result.tables["crct"].items()]
    if not rows:
        return "<p>No congestion was found: throughput never falls by more than 7 %.</p>"
    return table(["threshold", "size", "cores", "value"], rows)


def tried(result):
    rows = [[", ".join(f"{k} {v}" for k, v in c.settings.items()), f"{c.verdict.ratio:.3f}",
             f"{c.verdict.low:.3f} – {c.verdict.high:.3f}", len(c.verdict.ratios), len(c.points)]
            for c in result.tried]
    return table(["settings", "of the defaults", "quartiles", "rounds", "points"], rows)


def page(opt, plan, result, when, runs):
    settings = "\n".join(f"{k}: {v}" for k, v in result.settings.items()) or "(the defaults)"
    notes = "".join(f"<li>{html.escape(note)}</li>" for note in result.notes)
    final = ""
    if result.final:
        final = (f"<p>Over all points: <b>{result.final.ratio:.3f}</b> of the throughput of the "
                 f"defaults [{result.final.low:.3f} {result.final.high:.3f}]; best point "
                 f"{max(result.by_point.values()):.2f}, worst "
                 f"{min(result.by_point.values()):.2f}.</p>")
    return (f"<!doctype html><html lang=en><meta charset=utf-8><title>weir tune</title>"
            f"<style>{STYLE}</style><h1>weir tune</h1>"
            f"<p>{html.escape(opt.hardware)}; {when}; {opt.np} ranks, half of them senders, "
            f"{'random partners' if opt.random else 'one partner each'}; {runs} runs.</p>"
            f"<h2>Settings</h2><pre>{html.escape(settings)}</pre>{final}<ul>{notes}</ul>"
            f"<h2>With the defaults</h2>{curves(plan, result) or NO_PICTURES}"
            f"<h2>Thresholds</h2>{thresholds(result)}"
            f"<h2>What was tried</h2>{tried(result)}</html>\n")
