"""Comparing settings on a machine that is never quiet. Knows no MPI, no files and no clock.

A run is asked for as measure(settings, points, round) and gives {point: messages a second}; points
are (cores, outstanding, bytes). All that is compared was measured in the same round, one run after
the other: whatever the machine did, it did to both.
"""

import math
import statistics

BASELINE = {}

MARGIN = 0.03  # What is below is noise: neither a threshold nor a better setting.
LOOKS = 9      # at a point that seems to lose: one that does not passes all of them once in 512


def geometric_mean(values):
    return math.exp(statistics.fmean(math.log(v) for v in values))


def medians(rounds):
    """[{point: value}] to {point: median}."""
    return {p: statistics.median(r[p] for r in rounds if p in r)
            for p in set().union(*rounds)}


def quartiles(values):
    if len(values) < 3:
        return min(values), max(values)
    low, _, high = statistics.quantiles(values, n=4, method="inclusive")
    return low, high


class Verdict:
    """ratio: candidate over baseline, the median of the rounds; low and high are the quartiles."""

    def __init__(self, ratios):
        self.ratios = ratios
        self.ratio = statistics.median(ratios)
        self.low, self.high = quartiles(ratios)

    def better(self):
        return self.low > 1 and self.ratio > 1 + MARGIN

    def worse(self):
        return self.high < 1 and self.ratio < 1 - MARGIN

    def decided(self):
        """Better or worse beyond doubt, or the same for all that matters."""
        return (self.better() or self.worse() or
                (self.low > 1 - MARGIN and self.high < 1 + MARGIN))


def by_point(measure, candidate, against, points, number):
    """{point: ratio} of one round of both."""
    order = (candidate, against) if number % 2 else (against, candidate)
    found = {id(s): measure(s, points, number) for s in order}
    ours, theirs = found[id(candidate)], found[id(against)]
    both = {p: ours[p] / theirs[p] for p in points if ours.get(p) and theirs.get(p)}
    if not both:
        raise RuntimeError("nothing was measured with " + (str(candidate) or "the defaults"))
    return both


def mean_over(points, ratios):
    """Of those of the points that were measured."""
    return geometric_mean([ratios[p] for p in points if p in ratios])


def compare(measure, plan, candidate, against, points):
    """Rounds of both, in turns, until it is decided."""
    ratios = []
    for number in range(plan.most_rounds):
        ratios.append(mean_over(points, by_point(measure, candidate, against, points, number)))
        if len(ratios) >= plan.least_rounds and Verdict(ratios).decided():
            break
    return Verdict(ratios)


def lost(measure, candidate, points, rounds, first):
    """{point: ratio} of those of the points where the candidate is worse than the defaults beyond
    noise. `rounds` of all points say which to suspect; of many points some always look worse, so
    these are measured again, from round `first` on, as long as every round says the same."""
    seen = {p: [r[p] for r in rounds if p in r] for p in points}
    again = {p: [] for p, ratios in seen.items() if ratios and Verdict(ratios).worse()}
    for number in range(first, first + LOOKS):
        if not again:
            break
        found = by_point(measure, candidate, BASELINE, sorted(again), number)
        again = {p: [*ratios, found[p]] for p, ratios in again.items() if found.get(p, 1) < 1}
    return {p: statistics.median(ratios) for p, ratios in again.items()
            if statistics.median(ratios) < 1 - MARGIN}
