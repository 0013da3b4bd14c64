#!/usr/bin/env python3
"""Play the papers' figures; write CSV, SVG and one report in Markdown.

points.json has the points to play. What they have in common stands beside the `plays` of a figure; a
play is a series with what it has of its own, and both may say more for a size:

  {"lane": {"slow": "11@8x", "protocol": "reads", "reads_max": "{}",
            "full": {"x": [8, 16, 30, 60]}, "smoke": {"x": [30], "to": "100us"},
            "plays": [{"series": "own lane"}, {"series": "with data", "request_lane": "no"}]}}

The keys are a scenario's (`weir sim run --help`), except `series`, `x` and `seeds` (2 in full). There
is a point for each x. In a text {} stands for it; a list has a value for each x.

claims.json has what figures say and claim:

  {"lane": {"title": "…", "source": "[RDRP] Fig. 9", "differs": "…", "x_label": "c",
            "claims": [{"is": "c = 30", "of": "c = 8", "paper": "2", "range": [1.6, 2.4],
                        "verdict": "yes", "number": ["own lane", 30], "over": ["own lane", 8]}]}}

A number is `number`, divided by `over` if there is that. Each is a term [series, x, value], or the
most of several, or of several x. In `range` it is what the paper says. A run judges, and fails where
its verdict is another one than the file's.
"""

import argparse
import collections
import concurrent.futures
import csv
import itertools
import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.realpath(__file__))
CLAIMS = os.path.join(HERE, "claims.json")
WEIR = os.environ.get("WEIR_COMMAND", "weir")
COST = ("events", "trace_hash", "cpu_s", "violation")  # of a run, besides what it measured
COLOURS = ("#274d7d", "#c04020", "#3a8a4d", "#8a5aa8", "#c79a2a", "#3f9aa8", "#804020", "#6f7f8f")

EPILOG = """\
Each number is shown with what the paper says and a verdict: whether ours is that, weaker,
stronger, or none of it. README.md in the output folder is the report. Pictures need
gnuplot.

Examples:
  weir sim reproduce                         all of it: some minutes on two cores
  weir sim reproduce --figure rdrp-fig5 --output /tmp/fig5

Exit status: 0; 1 when a verdict is another one or a check did not hold; 2 on wrong usage;
3 when that is all well, but there is no gnuplot to draw pictures.
"""


class Problem(Exception):
    """One with a file."""


# Of a figure: the scenario that it plays, as a file has it, with so many seeds.
Point = collections.namedtuple("Point", "series x seeds scenario")
# What a point measured with one seed, as `weir sim run --json` tells it.
Row = collections.namedtuple("Row", "series x measured")


class Figure:
    """What claims.json has of it, and its points."""

    def __init__(self, name, said, points):
        self.name, self.points = name, points
        self.title, self.source, self.differs = said["title"], said["source"], said["differs"]
        self.x_label = said["x_label"]
        self.y_label = said.get("y_label", "throughput, flits a node and cycle")
        self.y = said.get("y", "throughput")  # which value is drawn
        self.log = said.get("log", "")        # the axes that are logarithmic: "x", "y", "xy"
        self.claims = said["claims"]


# ---- what is to be played ----------------------------------------------------------------------------

def as_list(value):
    return value if isinstance(value, list) else [value]


def points_of(figure, smoke):
    """The later ones overrule the earlier ones, and what is said of the size overrules the rest."""
    size = "smoke" if smoke else "full"
    points = []
    for play in figure["plays"]:
        keys = {**figure, **figure.get(size, {}), **play, **play.get(size, {})}
        for done in "plays", "full", "smoke":
            keys.pop(done, None)
        series, all_x, seeds = keys.pop("series"), keys.pop("x"), keys.pop("seeds", 1 if smoke else 2)
        for place, x in enumerate(all_x):
            own = {key: value[place] if isinstance(value, list) else value for key, value in keys.items()}
            scenario = "".join(f"{key}: {value.format(x) if isinstance(value, str) else json.dumps(value)}\n"
                               for key, value in own.items())
            points.append(Point(series, x, seeds, scenario))
    return points


def read(path):
    try:
        with open(path) as file:
            return json.load(file)
    except OSError as error:
        raise Problem(f"{path}: cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise Problem(f"{path}: {error}") from None


def read_figures(claims_file, smoke):
    """In the order of the file."""
    claims, points = read(claims_file), read(os.path.join(HERE, "points.json"))
    try:
        return [Figure(name, said, points_of(points[name], smoke)) for name, said in claims.items()]
    except KeyError as error:
        raise Problem(f"{claims_file}: {error} is missing") from None
    except (AttributeError, TypeError, ValueError) as error:
        raise Problem(f"{claims_file}: {error}") from None


# ---- playing -----------------------------------------------------------------------------------------

def run(scenario, seed):
    """What `weir sim run` tells of it. A run that tells nothing is one that broke."""
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        file.write(scenario)
        file.flush()
        done = subprocess.run([WEIR, "sim", "run", file.name, "--json", "--seed", str(seed)], capture_output=True,
                              text=True, check=False)
    if done.returncode not in (0, 1) or not done.stdout:
        return {"seed": seed, "violation": done.stderr.strip() or f"exit status {done.returncode}"}
    measured = json.loads(done.stdout)["runs"][0]
    return {**measured, "cpu_s": round(measured["cpu_s"], 3)}


def play(figures, jobs, first_seed, tell=lambda done, of: None, run=run):
    """[rows] of each figure, in the order of its points; `jobs` points at a time."""
    tasks = [[(point, first_seed + n) for point in figure.points for n in range(point.seeds)] for figure in figures]
    of = sum(map(len, tasks))
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        futures = [[pool.submit(run, point.scenario, seed) for point, seed in those] for those in tasks]
        for done, _ in enumerate(concurrent.futures.as_completed(itertools.chain(*futures)), 1):
            tell(done, of)
    return [[Row(point.series, point.x, future.result()) for (point, _), future in zip(*those)] for those in zip(tasks, futures)]


# ---- judging -----------------------------------------------------------------------------------------

def mean(rows, series, x, value="throughput"):
    """Over the seeds of a point; NaN if there is none."""
    found = [row.measured.get(value) for row in rows if row.series == series and row.x == x]
    found = [math.nan if number is None else number for number in found]
    return sum(found) / len(found) if found else math.nan


def terms_of(number):
    """One, or several."""
    return [number] if isinstance(number[0], str) else number


def most(rows, number):
    found = [mean(rows, term[0], x, *term[2:]) for term in terms_of(number) for x in as_list(term[1])]
    return max((one for one in found if not math.isnan(one)), default=math.nan)


def ours(rows, claim):
    number = most(rows, claim["number"])
    return number / most(rows, claim["over"]) if "over" in claim else number


def judge(claim, number):
    """yes: within the range. A ratio may be weaker or stronger than that, on the same side of 1. A tenth
    of difference is none."""
    least, highest = claim["range"]
    if least <= number <= highest:
        return "yes"
    if "of" in claim and ((least > 1 and number > 1.1) or (highest < 1 and number < 0.9)):
        return "weaker" if (least > 1) == (number < least) else "stronger"
    return "no"


class Shown:
    """A figure that was played. Claims of points that were not played are left out."""

    def __init__(self, figure, rows):
        self.figure, self.rows = figure, rows
        self.claims = []  # (claim, ours, verdict)
        self.faults = []  # broken promises, and verdicts that are not the claim's
        for claim in figure.claims:
            number = ours(rows, claim)
            if math.isnan(number):
                continue
            verdict = judge(claim, number)
            self.claims.append((claim, number, verdict))
            if verdict != claim["verdict"]:
                self.faults.append(f"{text_of(claim)}: {number_text(number)} is '{verdict}', was '{claim['verdict']}'")
        self.faults += [f"{row.series}, {figure.x_label} {row.x}, seed {row.measured['seed']}: {row.measured['violation']}"
                        for row in rows if row.measured["violation"]]


# ---- what is left of a run: for each figure its points as CSV and a picture, and one report ----------

def number_text(value):
    if math.isnan(value):
        return "-"
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.2f}"


def text_of(claim):
    return f"{claim['is']}, of {claim['of']}" if "of" in claim else claim["is"]


def write_csv(rows, path):
    names = list(dict.fromkeys(name for row in rows for name in row.measured if name not in ("seed", *COST)))
    with open(path, "w", newline="") as file:
        out = csv.writer(file, lineterminator="\n")
        out.writerow(["series", "x", "seed", *names, *COST])
        for row in rows:
            values = [row.measured.get(name) for name in names]
            out.writerow([row.series, row.x, row.measured["seed"],
                          *("" if value is None else f"{value:.6g}" for value in values),
                          *(row.measured.get(name, "") for name in COST)])


def quotable(text):
    return text.replace("'", "''")


def gnuplot_script(shown):
    said = shown.figure
    script = ["set terminal svg size 560,360 font 'sans,11' background 'white'", "set key outside right",
              "set grid ytics lc rgb '#e0e0e0'", "set border 3", "set tics nomirror",
              f"set xlabel '{quotable(said.x_label)}'", f"set ylabel '{quotable(said.y_label)}'",
              "set logscale x 2" if "x" in said.log else "set offsets graph 0.03, graph 0.03, 0, 0",
              "set logscale y" if "y" in said.log else "set yrange [0:*]"]
    all_series = list(dict.fromkeys(row.series for row in shown.rows))
    plots = [f"'-' using 1:2 with linespoints lc rgb '{COLOURS[i % len(COLOURS)]}' dt {1 + i // len(COLOURS)} pt 7 ps 0.5 "
             f"title '{quotable(series)}'" for i, series in enumerate(all_series)]
    script.append("plot " + ", ".join(plots))
    for series in all_series:
        all_x = sorted({row.x for row in shown.rows if row.series == series})
        script += [f"{x} {mean(shown.rows, series, x, said.y):.6g}" for x in all_x] + ["e"]
    return "\n".join(script) + "\n"


def draw(shown, path):
    """False: there is no gnuplot, or it failed."""
    if not shutil.which("gnuplot"):
        return False
    with open(path, "w") as file:
        return subprocess.run(["gnuplot"], input=gnuplot_script(shown), stdout=file, stderr=subprocess.DEVNULL, text=True,
                              check=False).returncode == 0


def to_text(shown):
    """A table for the terminal."""
    said = shown.figure
    text = f"{said.name}: {said.title} ({said.source})\n"
    for claim, number, verdict in shown.claims:
        paper = f"; paper: {claim['paper']}" if claim.get("paper") else ""
        text += f"  {verdict:<8}  {number_text(number):>6}  {text_of(claim)}{paper}\n"
    return text + "".join(f"  BROKEN    {fault}\n" for fault in shown.faults)


def to_markdown(all_shown, how):
    """`how`: what it took. Pictures and CSV are in the folder data."""
    text = (f"# The figures\n\nWritten by `weir sim reproduce`: {how}\n\n"
            "|figure|claim|paper|ours|as claimed|\n|---|---|---|---|---|\n")
    for shown in all_shown:
        for claim, number, verdict in shown.claims:
            text += (f"|{shown.figure.name}|{text_of(claim)}|{claim.get('paper', '')}|{number_text(number)}|"
                     f"{verdict}|\n")
    for shown in all_shown:
        said = shown.figure
        text += (f"\n## {said.title}\n\n{said.name}, {said.source} ([data](data/{said.name}.csv)). {said.differs}\n\n"
                 f"![](data/{said.name}.svg)\n")
        text += "".join(f"\nBROKEN: {fault}\n" for fault in shown.faults)
    return text


# ---- the commands ------------------------------------------------------------------------------------

def tell(done, of):
    """People see how far it is; programs see nothing."""
    if sys.stderr.isatty():
        print(f"\r\x1b[K{done} of {of} points " if done < of else "\r\x1b[K", end="", file=sys.stderr, flush=True)


def reproduce(options):
    figures = read_figures(options.claims, options.smoke)
    for name in options.figure:
        if name not in [figure.name for figure in figures]:
            print(f"weir sim: there is no figure {name}; 'weir sim list' names them", file=sys.stderr)
            return 2
    figures = [figure for figure in figures if not options.figure or figure.name in options.figure]
    data = os.path.join(options.output, "data")
    os.makedirs(data, exist_ok=True)
    begin = time.monotonic()
    played = play(figures, options.jobs or os.cpu_count(), options.seed, tell)
    took_s = time.monotonic() - begin
    all_shown, all_drawn = list(map(Shown, figures, played)), True
    for shown in all_shown:
        path = os.path.join(data, shown.figure.name)
        write_csv(shown.rows, path + ".csv")
        all_drawn = draw(shown, path + ".svg") and all_drawn
        print(to_text(shown), end="")
    rows = [row for shown in all_shown for row in shown.rows]
    cpu_s = sum(row.measured.get("cpu_s", 0) for row in rows)
    how = f"{len(rows)} points{' of the smoke set' if options.smoke else ''} in {took_s:.0f} s, {cpu_s:.0f} CPU seconds."
    report = os.path.join(options.output, "README.md")
    with open(report, "w") as file:
        file.write(to_markdown(all_shown, how))
    print(f"{how}\n{report}")
    if not all_drawn:
        print("weir sim: no pictures: gnuplot is not installed, or failed", file=sys.stderr)
    if any(shown.faults for shown in all_shown):
        return 1
    return 0 if all_drawn else 3


def list_them(_):
    for figure in read_figures(CLAIMS, smoke=True):
        print(f"{figure.name:<12} {figure.title}")
    return 0


def parse(arguments):
    parser = argparse.ArgumentParser(prog="weir sim", allow_abbrev=False)
    commands = parser.add_subparsers(dest="command", required=True)
    playing = commands.add_parser("reproduce", help="play them", description=__doc__.split("\n", 1)[0], epilog=EPILOG,
                                  allow_abbrev=False, formatter_class=argparse.RawDescriptionHelpFormatter)
    playing.set_defaults(run=reproduce)
    playing.add_argument("--figure", action="append", default=[], metavar="NAME",
                         help="only this one (repeatable; weir sim list)")
    playing.add_argument("--smoke", action="store_true", help="a few points of each on a small fabric")
    playing.add_argument("--output", default="weir-sim", metavar="DIR", help="the directory to write to (%(default)s)")
    playing.add_argument("--seed", type=int, default=1, metavar="N", help="the first seed (%(default)s)")
    playing.add_argument("--jobs", type=int, default=0, metavar="N",
                         help="points at a time; 0: as many as there are cores (%(default)s)")
    playing.add_argument("--claims", default=CLAIMS, metavar="FILE", help="what is claimed, a JSON file")
    commands.add_parser("list", help="name them", description="Name the figures that can be reproduced.",
                        allow_abbrev=False).set_defaults(run=list_them)
    return parser.parse_args(arguments)


def main():
    options = parse(sys.argv[1:])
    try:
        return options.run(options)
    except Problem as problem:
        print(f"weir sim: {problem}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
