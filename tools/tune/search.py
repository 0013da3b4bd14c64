"""What `weir tune` looks for, and when it has found it: candidates, each from what the survey says
or from the best one before, never a grid. What a run is, and how two settings are compared:
compare.py.
"""

import statistics

from compare import (BASELINE, MARGIN, Verdict, by_point, compare, geometric_mean, lost, mean_over,
                     medians)
from tables import (FRAME, TRAIN, best_in_flight, congested, core_table_text, delay_text, own_limits, pace,
                    size_text, table_text, tables)

MOST_SERVERS = 64           # that proxy_servers takes
PATHS = ("2", "4", "8")     # 1 is the default
MOST_UNASKED = 256 << 10    # the largest eager_max


class Plan:
    """sizes, outstanding and cores to look at; whether receivers are on another node; rounds at least
    and at most for each comparison."""

    def __init__(self, sizes, outstanding, cores, two_nodes=False, least_rounds=3, most_rounds=9):
        self.two_nodes = two_nodes
        self.sizes, self.outstanding, self.cores = sorted(sizes), sorted(outstanding), sorted(cores)
        self.least_rounds, self.most_rounds = least_rounds, most_rounds

    def points(self):
        return [(c, m, b) for b in self.sizes for c in self.cores for m in self.outstanding]


class Candidate:
    """Settings, and how they compare with the defaults at these points."""

    def __init__(self, settings, verdict, points):
        self.settings, self.verdict, self.points = settings, verdict, points

    def better(self):
        return self.verdict.better()


class Result:
    def __init__(self):
        self.survey, self.tables, self.congested = {}, {}, []
        self.settings = {}       # what to write: {key: text}
        self.tried = []          # [Candidate]
        self.notes = []
        self.final = None        # Verdict of the settings against the defaults, at all points
        self.by_point = {}       # {point: ratio} of that


class Search:
    def __init__(self, measure, plan, say):
        self.measure, self.plan, self.say = measure, plan, say
        self.result = Result()

    def note(self, text):
        self.result.notes.append(text)

    def survey(self):
        plan, result = self.plan, self.result
        self.say("survey")
        rounds = [self.measure(BASELINE, plan.points(), n) for n in range(plan.least_rounds)]
        result.survey = medians(rounds)
        result.tables = tables(plan, result.survey)
        result.congested = congested(plan, result.survey, result.tables)

    def attempt(self, settings, points):
        verdict = compare(self.measure, self.plan, settings, BASELINE, points)
        self.result.tried.append(Candidate(dict(settings), verdict, points))
        return self.result.tried[-1]

    def beats(self, one, other, points):
        return compare(self.measure, self.plan, one.settings, other.settings, points).better()

    # ---- candidates ------------------------------------------------------------------------------

    def climb(self, settings_of, points, start, most_steps=4):
        """The best candidate, doubling or halving from `start` while that is better. settings_of
        gives None for what is not possible."""
        best_value, best = start, self.attempt(settings_of(start), points)
        for factor in (2, 0.5):
            value, moved = best_value, False
            for _ in range(most_steps):
                value = value * factor
                settings = settings_of(value)
                found = settings and self.attempt(settings, points)
                if not found or found.verdict.ratio < best.verdict.ratio * (1 + MARGIN / 2):
                    break
                best_value, best, moved = value, found, True
            if moved:
                break  # up was better: down has been seen
        return best

    def tokens(self):
        """ITT [TOK §5.2]."""
        plan, result = self.plan, self.result
        found, points = result.tables, result.congested
        sizes = {p[2] for p in points}
        thresholds = {"admission": "thresholds",
                      "cct": table_text(found["cct"], plan.sizes, scaled=False),
                      "nrct": table_text(found["nrct"], plan.sizes),
                      "crct": core_table_text(found["crct"], plan.sizes, plan.cores)}

        def with_tokens(tokens):
            return ({**thresholds, "tokens": str(int(tokens))} if 1 <= tokens <= 65535 else None)

        start = int(statistics.median(best_in_flight(result.survey, size) for size in sizes))
        best = self.climb(with_tokens, points, max(1, start))
        if len(sizes) > 1:
            # In proportion to size: as many tokens as before for a message of the middle size.
            middle = plan.sizes[len(plan.sizes) // 2]
            by_size = self.attempt(
                {**best.settings, "bytes_per_token": size_text(max(middle, 64))}, points)
            if by_size.verdict.ratio > best.verdict.ratio * (1 + MARGIN):
                best = by_size
        return best

    def delays(self):
        """IRT [TOK §5.2]. weir delays where the node shares no tokens, and then a process sees only
        what it has under way itself: its limit is what it may have when all others have as many."""
        plan, result = self.plan, self.result
        limits = own_limits(plan, result.congested)
        if not limits:
            return None
        alone = {"admission": "thresholds", "node_sharing": "off",
                 "crct": core_table_text({(1, b): m for b, m in limits.items()}, plan.sizes, [1])}
        paces = {b: pace(plan, result.survey, b) for b in limits}

        def with_delays(factor):
            return {**alone, "delay": delay_text({b: factor * s for b, s in paces.items()},
                                                 plan.sizes)}

        best = self.climb(with_delays, result.congested, 1.0, most_steps=3)
        if not best.better():
            return best
        # Without node_sharing there is no read budget of the node either: that may be the gain.
        if not self.beats(best, Candidate({"node_sharing": "off"}, None, None), result.congested):
            self.note("Delays are no better than node_sharing off alone: they are not used.")
            return None
        return best

    def is_better(self, best, key, default):
        """Whether the best of some values is better than the default."""
        if not best.better():
            self.note(f"{key} stays {default}: the best other one, {best.settings[key]}, has "
                      f"{best.verdict.ratio:.2f} of its throughput "
                      f"[{best.verdict.low:.2f} {best.verdict.high:.2f}].")
        return best.better()

    def take_best(self, points, key, values, default):
        best = max((self.attempt({key: v}, points) for v in values), key=ratio_of)
        if self.is_better(best, key, default):
            self.confirm(best)

    def best_servers(self, points, settings_of):
        """The best of 1, 2 and 4, or of more while more do no harm, up to one for two processes
        [TOK §7: 24 for 48]."""
        most = min(max(max(self.plan.cores) // 2, 4), MOST_SERVERS)
        servers = 1
        best = last = self.attempt(settings_of(servers), points)
        while servers < most and (servers < 4 or ratio_of(last) > ratio_of(best) * (1 - MARGIN)):
            servers = min(2 * servers, most)
            last = self.attempt(settings_of(servers), points)
            best = max(best, last, key=ratio_of)
        return best

    def servers_with_tokens(self, servers, tokens):
        """Proxy+ITT [TOK §5.2]: as many servers as are best alone, if any are; and one process has
        now what several had in the adapter, so another number of tokens may be right."""
        points = sorted({*servers.points, *tokens.points})

        def with_both(processes, count):
            return ({**tokens.settings, "proxy_servers": str(processes), "tokens": str(int(count))}
                    if 1 <= count <= 65535 else None)

        start = int(tokens.settings["tokens"])
        processes = servers.settings["proxy_servers"]
        if not servers.better():
            best = self.best_servers(points, lambda number: with_both(number, start))
            processes = best.settings["proxy_servers"]
        return self.climb(lambda count: with_both(processes, count), points, start, most_steps=2)

    # ---- which of them ---------------------------------------------------------------------------

    def limits_and_servers(self, small):
        """Tokens or delays, servers, or servers with tokens: the best first, and what is to be tried
        if that does not hold."""
        tokens = delays = servers = None
        if self.result.congested:
            self.say("tokens")
            tokens = self.tokens()
            self.say("delays")
            delays = self.delays()
            found = [c for c in (tokens, delays) if c]
            if not any(c.better() for c in found):
                best = max(found, key=ratio_of)
                self.note("Throughput falls beyond some load, but neither tokens nor delays bring it "
                          f"back (best: {describe(best.settings)}, {best.verdict.ratio:.2f} of "
                          f"without [{best.verdict.low:.2f} {best.verdict.high:.2f}]): admission "
                          "stays off.")
        else:
            self.note("Throughput never falls with more cores or more outstanding messages: "
                      "there is nothing to throttle, and admission stays off.")
        if small:
            self.say("servers")
            servers = self.best_servers(small, lambda number: {"proxy_servers": str(number)})
            self.is_better(servers, "proxy_servers", "0")

        order = [c for c in (tokens, delays) if c and c.better()]
        # Of two that are the same, the one that keeps the read budget.
        if len(order) == 2 and delays.verdict.ratio > tokens.verdict.ratio * (1 + MARGIN):
            order.reverse()
        if servers and servers.better():
            if order and not self.beats(servers, order[0],
                                        sorted({*servers.points, *order[0].points})):
                order.append(servers)
            else:
                order.insert(0, servers)
        if servers and tokens:
            self.say("both")
            both = self.servers_with_tokens(servers, tokens)
            if both.better() and all(self.beats(both, one, both.points) for one in order[:2]):
                order.insert(0, both)
        return order

    def confirm(self, found):
        """Whether to take it. The best of many that were tried may owe that to noise: it has to be
        better in each of some more rounds, too, and by more than these differ. And it must not lose
        where nothing is congested."""
        plan, points = self.plan, self.plan.points()
        rounds = [by_point(self.measure, found.settings, BASELINE, points, number)
                  for number in range(100, 100 + plan.least_rounds + 4)]
        again = Verdict([mean_over(found.points, r) for r in rounds])
        spread = again.high - again.low
        if min(again.ratios) <= 1 or again.ratio <= 1 + max(MARGIN, spread):
            self.note(f"Measured again, {describe(found.settings)} had {again.ratio:.2f} of the "
                      f"throughput of the defaults (at least {min(again.ratios):.2f}): that may be "
                      "noise, and is not written.")
            return False
        if self.loses(found.settings, rounds, 300):
            return False
        self.result.settings.update(found.settings)
        return True

    def loses(self, settings, rounds, first):
        calm = [p for p in self.plan.points() if p not in self.result.congested]
        points = lost(self.measure, settings, calm, rounds, first)
        if points:
            (cores, messages, size), ratio = min(points.items(), key=lambda found: found[1])
            self.note(f"{describe(settings)}: not written, as it loses where nothing is congested: "
                      f"at {len(points)} of {len(calm)} points, worst {ratio:.2f} ({cores} cores, "
                      f"{messages} x {size_text(size)}).")
        return bool(points)

    def prove(self):
        """All points, those without congestion too. A profile that costs something there is none."""
        plan, result = self.plan, self.result
        self.say("proof")
        rounds = [by_point(self.measure, result.settings, BASELINE, plan.points(), number)
                  for number in range(200, 200 + plan.least_rounds)]
        result.by_point = medians(rounds)
        result.final = Verdict([geometric_mean(r.values()) for r in rounds])
        if result.final.worse():
            self.note(f"Over all points the settings have {result.final.ratio:.2f} of the "
                      "throughput of the defaults: they are not written.")
        elif not self.loses(result.settings, rounds, 400):
            return
        result.settings = {}


def ratio_of(found):
    return found.verdict.ratio


def describe(settings):
    """Without the tables, which are long."""
    shown = {k: v for k, v in settings.items() if k not in ("cct", "nrct", "crct", "admission")}
    return ", ".join(f"{key} {value}" for key, value in shown.items())


def eager_maxima(sizes):
    """Values of eager_max that announce none of the sizes, all, or some, but not those that auto
    announces."""
    by_what_goes_unasked = {tuple(s for s in sorted(sizes) if s <= most): size_text(most)
                            for most in (FRAME, *sorted(sizes))}
    by_what_goes_unasked.pop(tuple(s for s in sorted(sizes) if s <= TRAIN), None)
    return tuple(by_what_goes_unasked.values())


def search(measure, plan, large_bytes=256 << 10, small_bytes=4 << 10, say=lambda stage: None):
    whole = Search(measure, plan, say)
    whole.survey()
    small = [p for p in plan.points() if p[2] <= small_bytes and p[0] > 1]
    candidates = whole.limits_and_servers(small)
    next(filter(whole.confirm, candidates), None)  # the first that holds
    several = [p for p in plan.points() if FRAME < p[2] <= MOST_UNASKED]
    values = eager_maxima({size for _, _, size in several})
    if values:
        say("unasked")
        whole.take_best(several, "eager_max", values, "auto")
    large = [p for p in plan.points() if p[2] >= large_bytes]
    if large and not plan.two_nodes:
        whole.note("chunk_size, paths and reads_max depend on the network between nodes. One node has "
                   "none, so they keep their values (see --hostfile).")
    elif large:
        say("chunks")
        whole.take_best(large, "chunk_size", ("64KiB", "256KiB", "512KiB"), "128KiB")
        say("paths")
        whole.take_best(large, "paths", PATHS, "1")
        # A bound is for those who contend. Where nobody does, the best one is as large as can be,
        # and would be wrong for a job in which they do.
        if set(large) & set(whole.result.congested):
            whole.take_best(large, "reads_max", ("2", "4", "8", "16"), "auto")
        else:
            whole.note("reads_max stays auto: nothing contends for reads here, so a bound cannot be "
                       "measured.")
    if whole.result.settings:
        whole.prove()
    return whole.result
