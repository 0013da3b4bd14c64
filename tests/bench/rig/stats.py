"""Medians, quartiles, and ratios of neighbours.

Two figures of one round were taken seconds apart, so whatever the machine did, it did to both:
their ratio is steadier than either. The figures of different rounds are never divided.
"""

import statistics


def spread(values):
    """{median, low, high, count}: low and high are the quartiles."""
    values = sorted(values)
    if not values:
        return None
    low, high = values[0], values[-1]
    if len(values) > 2:
        low, _, high = statistics.quantiles(values, n=4, method="inclusive")
    return {"median": statistics.median(values), "low": low, "high": high, "count": len(values)}


def pair_ratios(ours, theirs):
    """ours and theirs: {round: value}. The spread of ours / theirs over the common rounds."""
    return spread([ours[r] / theirs[r] for r in ours if theirs.get(r)])
