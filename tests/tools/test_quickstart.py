"""What tools/quickstart makes of what a build prints and of what was measured."""

import os
import re
import sys

import pytest

from harness.kinds import ROOT
from harness.programs import run, says

sys.path[:0] = [os.path.join(ROOT, *folder) for folder in (("tools", "first"), ("tests", "bench"))]
import result  # noqa: E402
from progress import Build, subject  # noqa: E402
from rig import first, report  # noqa: E402


def event(who, group, round_, values, counters=None):
    return {"who": who, "group": group, "round": round_,
            "values": {**values, "counters": counters or {}}}


def results_of(figures):
    """figures: {who: [(latency of 1 B, MB/s) of each round]}"""
    runs = []
    for who, rounds in figures.items():
        for number, (latency, rate) in enumerate(rounds):
            runs.append(event(who, "latency", number, {"latency_1": latency}))
            runs.append(event(who, "bandwidth", number, {"bandwidth_1048576": rate}))
    return [result for result in report.summarise(first.groups(), runs) if result["peers"]]


SOFT_ROCE = {"raw": [(12, 138)] * 3, "weir": [(15, 126)] * 3, "tcp": [(30, 850)] * 3}


@pytest.mark.parametrize("text, made", [
    ("Building CXX object transport/core/CMakeFiles/weir_core.dir/lane/send.cc.o", "transport/core/lane/send.cc"),
    ("Linking CXX shared module lib/openmpi/mca_btl_weir.so", "lib/openmpi/mca_btl_weir.so"),
    ("Building CXX object transport/CMakeFiles/weir_core.dir/__/srq/pool.cc.o", "srq/pool.cc"),
    ("", "")])
def test_a_step_says_what_it_makes(text, made):
    assert subject(text) == made


def shown_after(build, line, now_s):
    build.read(line, now_s)
    return build.shown(now_s)


def test_the_time_left_follows_the_counts():
    build = Build()
    shown_after(build, "[0/1] Re-running CMake...", 0)
    text = shown_after(build, "[1/200] Building CXX object a.cc.o", 10)
    assert text == "0 % (a.cc)"
    text = shown_after(build, "[50/200] Building CXX object b.cc.o", 50)
    assert text == "25 %, about 2:30 left (b.cc)"
    assert build.shown(60) == "25 %, about 3:00 left (b.cc)", "a step that lasts"
    text = shown_after(build, "[200/200] Linking CXX executable x", 200)
    assert text == "100 % (x)"


def test_other_lines_do_not_hide_the_count():
    build = Build()
    text = shown_after(build, "-- Found Threads", 0)
    assert text == "Found Threads"
    shown_after(build, "[10/20] Building CXX object a.cc.o", 5)
    text = shown_after(build, "a.cc:3: note: something", 6)
    assert text.startswith("50 %")


def test_the_longest_bar_is_the_largest_figure():
    lines = result.bars(results_of(SOFT_ROCE))
    assert lines[0] == "latency 1 B, us (shorter is better)"
    assert [line.count("#") for line in lines[1:4]] == [16, 20, 40], "\n".join(lines)


def test_a_loss_is_said_and_explained():
    text = "\n".join(result.verdicts(results_of(SOFT_ROCE), soft=True))
    assert "weir beats btl tcp: latency 1 B (2 times as good)." in text
    assert "weir loses to btl tcp: bandwidth 1 MiB (0.15 times as good).\n  Soft-RoCE" in text
    assert "weir loses to raw verbs: latency 1 B (0.8" in text
    text = "\n".join(result.verdicts(results_of(SOFT_ROCE), soft=False))
    assert "Soft-RoCE" not in text


def test_what_the_rounds_do_not_agree_on_is_no_verdict():
    results = results_of({"weir": [(10, 100), (20, 100), (80, 100)], "tcp": [(20, 100)] * 3})
    assert result.verdicts(results, True) == []
    assert "(latency 1 B)" in result.doubts(results)[0]
    assert result.doubts(results_of(SOFT_ROCE)) == [], "doubts where there are none"


def test_a_peer_that_failed_is_left_out():
    results = results_of({who: SOFT_ROCE[who] for who in ("weir", "tcp")})
    lines = report.table(results, quartiles=False)
    assert lines[1].split() == ["latency", "1", "B", "us", "15", "30", "0.50", "less"]
    assert "latency 1 B,,2.000" in result.csv(results)


@pytest.fixture
def lines(root):
    with open(os.path.join(root, "base", "counters.h")) as text:
        return result.table(text.read())


def test_counters_go_together_by_their_kind(lines):
    counted = {"btl_weir_gets": [0, 5, 5], "btl_weir_window_peak": [32, 64, 96],
               "btl_weir_rnr_naks_sent": [3, 3, 6]}
    runs = [event("weir", "rate", 0, {}, counted), event("weir", "rate", 1, {}, counted),
            event("tcp", "rate", 0, {}), {"who": "weir", "group": "rate", "round": 2, "error": "x"}]
    totals = result.add_up(runs, lines)
    assert totals == {"gets": 10, "window_peak": 64, "rnr_naks_sent": 6}
    shown = result.counters(totals, lines)
    assert len(shown) == 3
    assert shown[0].endswith(lines["gets"][1])


def test_the_table_of_counters_is_read_whole(root, lines):
    with open(os.path.join(root, "base", "counters.h")) as text:
        count = len(re.findall(r"^  X\(", text.read(), re.MULTILINE))
    assert len(lines) == count > 80
    assert {kind for kind, _ in lines.values()} == {"sum", "now", "most"}


@pytest.mark.parametrize("name", [*result.COUNTERS, *result.DEVICE])
def test_a_counter_that_is_shown_exists(name, root, lines):
    """By the name that weir has for it."""
    with open(os.path.join(root, "transport", "btl", "pvars.cc")) as text:
        assert name in lines or f'"{name}"' in text.read()


def test_help_and_what_it_does_not_know(root):
    command = os.path.join(root, "tools", "quickstart")
    says(run(command, "--nonsense", status=2).stderr, "--nonsense")
    says(run(command, "--help").stdout, "--no-setup")
