"""What `weir tune` looks for, and when it has found it. Knows no MPI, no files and no clock.

A run is asked for as measure(settings, points, round) and gives {point: messages a second}; points
are (cores, outstanding, bytes). All that is compared was measured in the same round, one run after
the other: whatever the machine did, it did to both.
"""

import math
import statistics

BASELINE = {}

# What is below is noise: neither a threshold nor a better setting.
MARGIN = 0.03
DROP = 0.07     # so far below its best a throughput is congested
ENOUGH = 0.97   # of the best is as good as the best


class Plan:
    """sizes, outstanding and cores to look at; rounds at least and at most for each comparison."""

    def __init__(self, sizes, outstanding, cores, least_rounds=3, most_rounds=9):
        self.sizes, self.outstanding, self.cores = sorted(sizes), sorted(outstanding), sorted(cores)
        self.least_rounds, self.most_rounds = least_rounds, most_rounds

    def points(self):
        return [(c, m, b) for b in self.sizes for c in self.cores for m in self.outstanding]


# ---- comparing ---------------------------------------------------------------------------------

def geometric_mean(values):
    return math.exp(statistics.fmean(math.log(v) for v in values))


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


def ratio(measure, candidate, against, points, number):
    """Of one round of both."""
    order = (candidate, against) if number % 2 else (against, candidate)
    found = {id(s): measure(s, points, number) for s in order}
    ours, theirs = found[id(candidate)], found[id(against)]
    both = [p for p in points if ours.get(p) and theirs.get(p)]
    if not both:
        raise RuntimeError("nothing was measured with " + (str(candidate) or "the defaults"))
    return geometric_mean([ours[p] / theirs[p] for p in both])


def compare(measure, plan, candidate, against, points):
    """Rounds of both, in turns, until it is decided."""
    ratios = []
    for number in range(plan.most_rounds):
        ratios.append(ratio(measure, candidate, against, points, number))
        if len(ratios) >= plan.least_rounds and Verdict(ratios).decided():
            break
    return Verdict(ratios)


# ---- the tables of Algorithm 1 [TOK §7] ----------------------------------------------------------

def medians(rounds):
    """[{point: rate}] to {point: median}."""
    return {p: statistics.median(r[p] for r in rounds if p in r)
            for p in set().union(*rounds)}


def knee(curve):
    """[(x, rate)], x rising. The first x that is as good as the best, if beyond it the throughput
    falls for good; None if more x does no harm."""
    best = max(rate for _, rate in curve)
    at = next(x for x, rate in curve if rate >= ENOUGH * best)
    beyond = [rate for x, rate in curve if x > at]
    if not beyond or min(beyond) > (1 - DROP) * best:
        return None
    # One dip between two good values is noise.
    return at if beyond[-1] < (1 - DROP / 2) * best else None


def tables(plan, survey):
    """{cct: {bytes: cores}, nrct: {bytes: messages}, crct: {(cores, bytes): messages}}"""
    found = {"cct": {}, "nrct": {}, "crct": {}}
    for size in plan.sizes:
        rate = {(c, m): survey[(c, m, size)] for c in plan.cores for m in plan.outstanding
                if (c, m, size) in survey}
        blocking = [(c, rate[(c, plan.outstanding[0])]) for c in plan.cores
                    if (c, plan.outstanding[0]) in rate]
        at = knee(blocking) if len(blocking) > 1 else None
        if at is not None:  # the next one is too many
            found["cct"][size] = next((c for c in plan.cores if c > at), at + 1)
        for cores in plan.cores:
            curve = [(m, rate[(cores, m)]) for m in plan.outstanding if (cores, m) in rate]
            at = knee(curve) if len(curve) > 1 else None
            if at is not None:
                found["crct"][(cores, size)] = at
        by_node = {}
        for (cores, messages), value in rate.items():
            under_way = cores * messages
            by_node[under_way] = max(by_node.get(under_way, 0), value)
        at = knee(sorted(by_node.items())) if len(by_node) > 1 else None
        if at is not None:
            found["nrct"][size] = at
    return found


def congested(plan, survey, found):
    """The points beyond a threshold: where throttling can help at all."""
    points = []
    for (cores, messages, size) in plan.points():
        beyond = (cores >= found["cct"].get(size, math.inf) or
                  cores * messages > found["nrct"].get(size, math.inf) or
                  messages > found["crct"].get((cores, size), math.inf))
        if beyond and (cores, messages, size) in survey:
            points.append((cores, messages, size))
    return points


def size_text(value):
    for unit, step in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if value and value % step == 0:
            return f"{value // step}{unit}"
    return f"{value}B"


NO_LIMIT = 1 << 31  # a table has no holes: where nothing was found, nothing is limited


def table_text(table, sizes):
    if not table:
        return "none"
    return ", ".join(f"{size_text(s)}={table.get(s, NO_LIMIT)}" for s in sizes)


def core_table_text(table, sizes, cores):
    if not table:
        return "none"
    return ", ".join(f"{c}@{size_text(s)}={table.get((c, s), NO_LIMIT)}"
                     for c in cores for s in sizes)


# ---- the search ----------------------------------------------------------------------------------

def climb(try_value, start, step_up, step_down, most_steps=4):
    """The value with the best ratio, going up or down from `start` while that is better. try_value
    gives a Verdict against the defaults, or None if the value is not possible."""
    best_value, best = start, try_value(start)
    for step in (step_up, step_down):
        value, moved = best_value, False
        for _ in range(most_steps):
            value = step(value)
            verdict = try_value(value)
            if verdict is None or verdict.ratio < best.ratio * (1 + MARGIN / 2):
                break
            best_value, best, moved = value, verdict, True
        if moved:
            break  # up was better: down has been seen
    return best_value, best


class Result:
    def __init__(self):
        self.survey, self.tables, self.congested = {}, {}, []
        self.settings = {}       # what to write: {key: text}
        self.tried = []          # [(settings, Verdict, points)]
        self.notes = []
        self.final = None        # Verdict of the settings against the defaults, at all points
        self.by_point = {}       # {point: ratio} of that


def search(measure, plan, large_bytes=256 << 10, small_bytes=4 << 10, say=lambda stage: None):
    result = Result()
    say("survey")
    rounds = [measure(BASELINE, plan.points(), n) for n in range(plan.least_rounds)]
    result.survey = medians(rounds)
    result.tables = tables(plan, result.survey)
    result.congested = congested(plan, result.survey, result.tables)

    def attempt(settings, points):
        verdict = compare(measure, plan, settings, BASELINE, points)
        result.tried.append((dict(settings), verdict, points))
        return verdict

    def confirm(settings, points):
        """The best of many that were tried may owe that to noise: it has to be better in each of
        some more rounds, too."""
        again = Verdict([ratio(measure, settings, BASELINE, points, number)
                         for number in range(100, 100 + plan.least_rounds + 2)])
        if min(again.ratios) > 1 and again.ratio > 1 + MARGIN:
            result.settings.update(settings)
        else:
            result.notes.append(
                f"Measured again, {' and '.join(sorted(settings))} had {again.ratio:.2f} of the "
                f"throughput of the defaults (at least {min(again.ratios):.2f}): that may be noise, "
                "and is not written.")

    if result.congested:
        say("tokens")
        tune_tokens(plan, result, attempt, confirm)
    else:
        result.notes.append("Throughput never falls with more cores or more outstanding messages: "
                            "there is nothing to throttle, and admission stays off.")
    large = [p for p in plan.points() if p[2] >= large_bytes]
    if large:
        say("chunks")
        tune_one(result, attempt, confirm, large, "chunk_size", ("64KiB", "256KiB", "512KiB"), "128KiB")
        tune_one(result, attempt, confirm, large, "reads_max", ("2", "4", "8", "16"), "auto")
    small = [p for p in plan.points() if p[2] <= small_bytes and p[0] > 1]
    if small:
        say("servers")
        tune_one(result, attempt, confirm, small, "proxy_servers", ("1", "2", "4"), "0")
    if result.settings:
        say("proof")
        prove(measure, plan, result)
    return result


def tune_tokens(plan, result, attempt, confirm):
    thresholds = {"admission": "thresholds",
                  "cct": table_text(result.tables["cct"], plan.sizes),
                  "nrct": table_text(result.tables["nrct"], plan.sizes),
                  "crct": core_table_text(result.tables["crct"], plan.sizes, plan.cores)}
    peaks = [best_in_flight(plan, result.survey, size)
             for size in {p[2] for p in result.congested}]
    start = max(1, int(statistics.median(peaks)))

    def with_tokens(tokens, extra=None):
        return {**thresholds, "tokens": str(tokens), **(extra or {})}

    def try_tokens(tokens):
        if not 1 <= tokens <= 65535:
            return None
        return attempt(with_tokens(tokens), result.congested)

    tokens, best = climb(try_tokens, start, lambda t: t * 2, lambda t: t // 2)
    chosen = with_tokens(tokens)
    # In proportion to size: as many tokens as before for a message of the middle size.
    middle = plan.sizes[len(plan.sizes) // 2]
    if len({p[2] for p in result.congested}) > 1:
        by_size = with_tokens(tokens, {"bytes_per_token": size_text(max(middle, 64))})
        verdict = attempt(by_size, result.congested)
        if verdict.ratio > best.ratio * (1 + MARGIN):
            chosen, best = by_size, verdict
    if best.better():
        confirm(chosen, result.congested)
    else:
        result.notes.append(
            f"Throughput falls beyond some load, but tokens do not bring it back (best: {tokens} "
            f"tokens, {best.ratio:.2f} of without [{best.low:.2f} {best.high:.2f}]): admission "
            "stays off.")


def best_in_flight(plan, survey, size):
    best = max((survey[(c, m, s)], -c * m) for (c, m, s) in survey if s == size)
    return -best[1]


def tune_one(result, attempt, confirm, points, key, values, default):
    """The best of the values, if it is better than the default."""
    value, verdict = max(((v, attempt({key: v}, points)) for v in values),
                         key=lambda found: found[1].ratio)
    if verdict.better():
        confirm({key: value}, points)
    else:
        result.notes.append(f"{key} stays {default}: the best other one, {value}, has "
                            f"{verdict.ratio:.2f} of its throughput "
                            f"[{verdict.low:.2f} {verdict.high:.2f}].")


def prove(measure, plan, result):
    """All points, those without congestion too. A profile that costs something there is none."""
    points, rounds = plan.points(), []
    for number in range(200, 200 + plan.least_rounds):
        order = ((result.settings, BASELINE), (BASELINE, result.settings))[number % 2]
        found = {bool(s): measure(s, points, number) for s in order}
        rounds.append({p: found[True][p] / found[False][p] for p in points
                       if found[True].get(p) and found[False].get(p)})
    result.by_point = medians(rounds)
    result.final = Verdict([geometric_mean(r.values()) for r in rounds])
    if result.final.worse():
        result.notes.append(f"Over all points the settings have {result.final.ratio:.2f} of the "
                            "throughput of the defaults: they are not written.")
        result.settings = {}
