"""What a survey says of congestion: the tables of Algorithm 1 [TOK §7], and how fast one process
should go that does not know of the others. A survey is {(cores, outstanding, bytes): messages a
second}, with the defaults.
"""

import math

DROP = 0.07     # so far below its best a throughput is congested
ENOUGH = 0.97   # of the best is as good as the best

NO_LIMIT = 1 << 31  # a table has no holes: where nothing was found, nothing is limited

# weir looks requests up in its tables, not messages: frames with all headers, and chunks.
HEADERS = 64         # of a frame, its message and Open MPI's: at most
FRAME = 8 << 10      # buffer_size by default
TRAIN = 64 << 10     # eager_max by default: up to this size a message is frames
CHUNK = 128 << 10    # chunk_size by default


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


def best_in_flight(survey, size):
    """Messages of the node under way where its throughput is best; of several, the fewest."""
    return -max((survey[(c, m, s)], -c * m) for (c, m, s) in survey if s == size)[1]


# ---- one process that does not know of the others ------------------------------------------------

def own_limits(plan, points):
    """{bytes: messages} that a process may have under way, by the congested points, when all others
    have as many; 0: none."""
    most, limits = plan.cores[-1], {}
    for size in {b for c, _, b in points if c == most}:
        too_many = min(m for c, m, b in points if (c, b) == (most, size))
        limits[size] = max((m for m in plan.outstanding if m < too_many), default=0)
    return limits


def pace(plan, survey, size):
    """Seconds between two requests of a process, so that all processes together make what the node
    does at its best."""
    best = max(rate for (_, _, b), rate in survey.items() if b == size)
    return plan.cores[-1] / best / requests(size)


# ---- as text -------------------------------------------------------------------------------------

def requests(size):
    """That a message of so many bytes becomes."""
    return -(-size // (FRAME if size <= TRAIN else CHUNK))


def request_bytes(size):
    """A table's entry for them: the largest that such a message becomes, with headers."""
    framed = size + HEADERS
    if size <= TRAIN:
        return min(1 << (framed - 1).bit_length(), FRAME)
    return min(size, CHUNK)


def size_text(value):
    for unit, step in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if value and value % step == 0:
            return f"{value // step}{unit}"
    return f"{value}B"


def by_request(table, sizes, scaled):
    """{size: value} by request. Sizes that become the same requests take the least value."""
    found = {}
    for size in sizes:
        value = min(table.get(size, NO_LIMIT) * (requests(size) if scaled else 1), NO_LIMIT)
        found[request_bytes(size)] = min(value, found.get(request_bytes(size), NO_LIMIT))
    return sorted(found.items())


def table_text(table, sizes, scaled=True):
    """`scaled`: values are messages, and not processes."""
    if not table:
        return "none"
    return ", ".join(f"{size_text(b)}={v}" for b, v in by_request(table, sizes, scaled))


def core_table_text(table, sizes, cores):
    if not table:
        return "none"
    rows = {c: {s: v for (at, s), v in table.items() if at == c} for c in cores}
    return ", ".join(f"{c}@{size_text(b)}={v}"
                     for c in cores for b, v in by_request(rows[c], sizes, True))


def duration_text(seconds):
    """To three digits: what was measured is no more exact than that."""
    ns = round(float(f"{seconds:.3g}") * 1e9)
    for unit, step in (("s", 10**9), ("ms", 10**6), ("us", 10**3)):
        if ns and ns % step == 0:
            return f"{ns // step}{unit}"
    return f"{ns}ns"


def delay_text(seconds, sizes):
    """{bytes: seconds}; no delay for the others."""
    found = {}
    for size in sizes:
        found[request_bytes(size)] = max(seconds.get(size, 0), found.get(request_bytes(size), 0))
    return ", ".join(f"{size_text(b)}={duration_text(s)}" for b, s in sorted(found.items()))
