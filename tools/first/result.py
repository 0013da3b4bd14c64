"""What a first run found, in words, bars and a picture. No function here runs or reads anything."""

import re

from rig import peers
from rig.report import figure

OTHERS = [peers.RAW, "tcp"]
WIDTH = 40  # of the longest bar
NOISE = 0.05  # closer than this is no difference
UNSTEADY = 2  # quartiles of one figure, the upper one over the lower: somebody else had the processors

# weir's counters that are shown; base/counters.h says what they are.
COUNTERS = ["messages_sent", "frames_sent", "messages_bundled", "doorbells", "gets", "chunks_sent",
            "credit_stalls", "window_peak", "receive_bytes_peak"]
# A device's are the same in both ranks of a run, so the larger one counts.
DEVICE = {"rnr_naks_sent": "Messages that found no receive buffer [NAKs]; 0 is what the credits are for"}

LINE = re.compile(r'X\((\w+), "([^"]*)", (\w+),((?:[\s\\]*"[^"]*")+)\)')


def times_as_good(result, ratio):
    """weir / other, so that more is better for every metric."""
    return ratio if result["more_is_better"] else 1 / ratio


def bars(results, block="#"):
    """Lines: a bar for each figure. In one metric the longest is the largest, good or bad."""
    lines = []
    for result in results:
        medians = {who: spread["median"] for who, spread in result["peers"].items()}
        if not medians:
            continue
        longer = "longer" if result["more_is_better"] else "shorter"
        lines.append(f"{result['title']}, {result['unit']} ({longer} is better)")
        for who, value in medians.items():
            bar = block * max(1, round(WIDTH * value / max(medians.values())))
            lines.append(f"  {peers.TITLES[who]:9}  {bar} {figure(value)}")
    return lines


def verdicts(results, soft):
    """Lines: where weir wins and where it loses, against each. `soft`: on Soft-RoCE."""
    lines = []
    for other in OTHERS:
        wins, losses = [], []
        for result in results:
            if other not in result["ratios"]:
                continue
            ratio = result["ratios"][other]
            good = times_as_good(result, ratio["median"])
            if abs(good - 1) > NOISE and not ratio["low"] < 1 < ratio["high"]:
                (wins if good > 1 else losses).append(f"{result['title']} ({good:.2g} times as good)")
        for verb, found in ("beats", wins), ("loses to", losses):
            if found:
                lines.append(f"weir {verb} {peers.TITLES[other]}: {', '.join(found)}.")
            if found is wins and other == peers.RAW and any(w.startswith("rate") for w in wins):
                lines.append("  Small messages share a send of weir's; perftest posts a send for each.")
        if losses and other == peers.RAW:
            lines.append("  Raw verbs has no MPI above it, which matches tags and sends headers.")
        if losses and other == "tcp" and soft:
            lines.append("  Soft-RoCE makes a packet and a checksum of each 4 KiB in software, where TCP "
                         "hands on 64 KiB\n  at once. An RDMA adapter does in hardware what Soft-RoCE does "
                         "on these cores.")
    return lines


def doubts(results):
    """A line, where the rounds do not agree."""
    found = [result["title"] for result in results
             if any(s["high"] > UNSTEADY * s["low"] for s in result["peers"].values())]
    if not found:
        return []
    return [f"The rounds differ much ({', '.join(found)}): this machine has other work. Once it is idle, "
            "run this again:\n  tools/quickstart --no-setup"]


def table(text):
    """{counter: (kind, sentence)} of base/counters.h, whose text this is."""
    return {name: (kind, "".join(re.findall('"([^"]*)"', help_)) + f" [{unit}]")
            for name, unit, kind, help_ in LINE.findall(text)}


def add_up(runs, lines, prefix="btl_weir_"):
    """{counter: value} of weir's runs, by the kinds in `lines`; without those that nobody had."""
    found = {}
    for name in [*COUNTERS, *DEVICE]:
        of_runs = [event["values"]["counters"][prefix + name] for event in runs
                   if event["who"] == "weir" and
                   prefix + name in event.get("values", {}).get("counters", {})]
        if of_runs:
            _, most, total = zip(*of_runs)
            found[name] = (sum(most) if name in DEVICE else
                           sum(total) if lines[name][0] == "sum" else max(most))
    return found


def counters(totals, lines):
    return [f"{value:>12,.0f}  {name:18}  {DEVICE.get(name) or lines[name][1]}"
            for name, value in totals.items()]


def csv(results):
    """For the picture: metric, how often as good as each of OTHERS."""
    lines = [",".join(["metric", *OTHERS])]
    for result in results:
        ratios = [result["ratios"].get(other) for other in OTHERS]
        lines.append(",".join([result["title"], *(
            f"{times_as_good(result, ratio['median']):.3f}" if ratio else "" for ratio in ratios)]))
    return "\n".join(lines) + "\n"
