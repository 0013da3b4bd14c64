"""A first look: weir beside raw verbs and TCP, in about a minute. tools/quickstart shows it."""

from rig import measures, peers

PROGRAMS = ("pingpong", "msgrate", "flows")
WHO = [peers.RAW, "weir", "tcp"]
LATENCY_BYTES = (1, 4096)
BANDWIDTH_BYTES = (1 << 20,)


def _with_counters(measure, **how):
    """What weir counted goes along with the values."""
    def run(who, plan):
        plan.counters = {}
        return {**measure(who, plan, **how), "counters": plan.counters}
    return run


def groups():
    return [
        measures.Group("latency", WHO, [
            measures.Metric(f"latency_{b}", f"latency {measures.size_name(b)}", "us")
            for b in LATENCY_BYTES], _with_counters(measures.latency, sizes=LATENCY_BYTES)),
        measures.Group("rate", WHO, [
            measures.Metric("rate", f"rate {measures.RATE_BYTES} B", "msg/s", True)],
            _with_counters(measures.rate)),
        measures.Group("bandwidth", WHO, [
            measures.Metric(f"bandwidth_{b}", f"bandwidth {measures.size_name(b)}", "MB/s", True)
            for b in BANDWIDTH_BYTES],
            _with_counters(measures.bandwidth, sizes=BANDWIDTH_BYTES, both=False))]
