"""From runs to results, and results as a table."""

from rig import peers, stats

OURS = "weir"
COLUMNS = [peers.RAW, "weir", "copy", "off", "on", *peers.OTHERS]  # of these, who was measured


def summarise(groups, runs):
    """Per metric: the spread of each peer's values and of the ratios weir / peer."""
    results = []
    for group in groups:
        for metric in group.metrics:
            values = {who: {} for who in group.who}
            for event in runs:
                value = event.get("values", {}).get(metric.key)
                if event["group"] == group.key and value is not None:
                    values[event["who"]][event["round"]] = value
            results.append({
                "metric": metric.key, "title": metric.title, "unit": metric.unit,
                "more_is_better": metric.more_is_better,
                "peers": {who: stats.spread(by_round.values())
                          for who, by_round in values.items() if by_round},
                "ratios": {who: stats.pair_ratios(values[OURS], by_round)
                           for who, by_round in values.items()
                           if who != OURS and set(values[OURS]) & set(by_round)}})
    return results


def missing(groups, runs):
    """[(group, who, how many runs failed, of how many, the first reason)]"""
    found = []
    for group in groups:
        for who in group.who:
            of = [e for e in runs if e["group"] == group.key and e["who"] == who]
            failed = [e for e in of if "error" in e]
            if failed or not of:
                found.append((group.key, who, len(failed), len(of),
                              failed[0]["error"] if failed else "never ran"))
    return found


def figure(value):
    if value is None:
        return "-"
    if value >= 10000:
        return f"{value / 1000:,.1f}k"
    return f"{value:.0f}" if value >= 1000 else f"{value:.3g}"


def _ratio(spread, quartiles=True):
    if spread is None:
        return "-"
    if not quartiles:
        return f"{spread['median']:.2f}"
    return f"{spread['median']:.2f} [{spread['low']:.2f} {spread['high']:.2f}]"


def table(results, quartiles=True):
    """Lines. A ratio is weir's figure over the peer's, round by round: median [quartiles]."""
    columns = [c for c in COLUMNS if any(c in result["peers"] for result in results)]
    head = ["", "unit", *(peers.TITLES[c] for c in columns),
            *(f"weir/{c}" for c in columns if c != OURS), "better"]
    rows = [head]
    for result in results:
        medians = {who: spread["median"] for who, spread in result["peers"].items()}
        rows.append([result["title"], result["unit"],
                     *(figure(medians.get(c)) for c in columns),
                     *(_ratio(result["ratios"].get(c), quartiles) for c in columns if c != OURS),
                     "more" if result["more_is_better"] else "less"])
    widths = [max(len(row[i]) for row in rows) for i in range(len(head))]
    lines = []
    for row in rows:
        cells = [row[0].ljust(widths[0]), row[1].ljust(widths[1])]
        cells += [cell.rjust(width) for cell, width in zip(row[2:], widths[2:])]
        lines.append("  ".join(cells).rstrip())
    return lines


def by_size(results, keys, sizes):
    """Rows of a table, its head first: weir's medians, and their ratios to the peers'."""
    found = {result["metric"]: result for result in results}
    others = (peers.RAW, *peers.OTHERS)
    rows = [["metric", "bytes", OURS, *(f"{OURS}/{peers.TITLES[who]}" for who in others)]]
    for key in keys:
        for size in sizes:
            result = found[f"{key}_{size}"]
            ours = result["peers"].get(OURS)
            ratios = [result["ratios"].get(who) for who in others]
            rows.append([key, size, f"{ours['median']:.4g}" if ours else "-",
                         *(f"{ratio['median']:.3f}" if ratio else "-" for ratio in ratios)])
    return rows


def csv_rows(groups, results, nodes):
    """(head, rows): medians, and the ratios weir / peer with their quartiles. Empty: not measured."""
    columns = [c for c in COLUMNS if any(c in group.who for group in groups)]
    others = [c for c in columns if c != OURS]
    named = {c: peers.TITLES[c] for c in columns}
    head = ["metric", "nodes", "unit", "better", *named.values()]
    for who in others:
        ratio = f"weir/{named[who]}"
        head += [ratio, f"{ratio} low", f"{ratio} high"]
    rows = []
    for result in results:
        medians = [result["peers"].get(c) for c in columns]
        row = [result["title"].strip(), str(nodes), result["unit"],
               "more" if result["more_is_better"] else "less",
               *(f"{spread['median']:.4g}" if spread else "" for spread in medians)]
        for who in others:
            spread = result["ratios"].get(who)
            row += [f"{spread[key]:.3f}" if spread else "" for key in ("median", "low", "high")]
        rows.append(row)
    return head, rows


def bundling(results):
    """The sentence on what bundling does, or None."""
    for result in results:
        if result["metric"] == "rate" and result["ratios"].get("alone"):
            return (f"bundling, {result['title']}: with / without "
                    f"{_ratio(result['ratios']['alone'])}, without it "
                    f"{figure(result['peers']['alone']['median'])} {result['unit']}")
    return None
