"""The papers' figures (tools/sim/figures): what they claim can fail, and what a run found is told."""

import csv
import importlib.util
import os
import shutil

import pytest

from harness.kinds import ROOT

SPEC = importlib.util.spec_from_file_location("figures", os.path.join(ROOT, "tools", "sim", "figures", "figures.py"))
figures = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(figures)

FULL, SMOKE = (figures.read_figures(figures.CLAIMS, smoke) for smoke in (False, True))
EACH = pytest.mark.parametrize("figure", FULL, ids=lambda figure: figure.name)
SIDES = pytest.mark.parametrize("claimed, number, verdict", [
    ([1.6, 2.4], 2, "yes"), ([1.6, 2.4], 1.3, "weaker"), ([1.6, 2.4], 2.6, "stronger"), ([1.6, 2.4], 1.05, "no"),
    ([1.6, 2.4], 0.5, "no"), ([0.4, 0.6], 0.8, "weaker"), ([0.4, 0.6], 0.3, "stronger"), ([0.4, 0.6], 0.95, "no")])


def fault(claim):
    """What keeps it from being one that can fail, or None. A ratio is on one side of 1, or near it."""
    least, most = claim["range"]
    if not claim["is"] or not claim["number"]:
        return "it says nothing"
    if ("of" in claim) != ("over" in claim):
        return "a ratio says what it is compared with"
    if "of" not in claim and not claim.get("paper"):
        return "there is nothing to hold it against"
    if "of" not in claim and least < 0.8 * most:
        return "the range is too wide"
    if ("of" in claim and least <= 1 <= most and (least < 0.9 or most > 1.2)
            and claim.get("paper") not in ("no gain", "a little less")):
        return "the range of nothing has something in it"
    return None if claim["verdict"] in ("yes", "no", "weaker", "stronger") else "there is no such verdict"


@EACH
def test_each_claim_can_fail(figure):
    assert [fault(claim) for claim in figure.claims] == [None] * len(figure.claims)


def test_one_that_cannot_fail_is_seen():
    good = {"is": "it", "of": "that", "range": [1.1, 2], "verdict": "yes", "number": ["a", 1], "over": ["a", 2]}
    assert fault(good) is None
    for change in {"range": [0.5, 1.1]}, {"verdict": "perhaps"}, {"number": []}, {"is": ""}:
        assert fault({**good, **change}), change
    assert fault({key: value for key, value in good.items() if key != "over"})
    assert fault({key: value for key, value in good.items() if key not in ("of", "over")})


@EACH
def test_each_term_is_a_point(figure):
    points = {(point.series, point.x) for point in figure.points}
    for claim in figure.claims:
        for number in claim["number"], claim.get("over", []):
            for term in figures.terms_of(number) if number else []:
                assert {(term[0], x) for x in figures.as_list(term[1])} <= points, claim["is"]


@pytest.mark.parametrize("all_of_them", [FULL, SMOKE], ids=["full", "smoke"])
def test_each_says_what_differs_and_has_points(all_of_them):
    assert len(all_of_them) >= 10
    for figure in all_of_them:
        assert figure.points and all((figure.title, figure.source, figure.differs, figure.x_label,
                                      figure.y_label)), figure.name


def test_a_play_has_a_point_for_each_x():
    full, smoke = (next(figure.points for figure in those if figure.name == "core-budget") for those in (FULL, SMOKE))
    assert len(full) == 14 and len(smoke) == 8
    assert (full[3].series, full[3].x, full[3].seeds) == ("of the node, 4x", 30, 1)
    assert "reads_max: 30\n" in full[3].scenario
    assert (smoke[2].series, smoke[2].seeds) == ("of each of 4 processes, 4x", 1)


@SIDES
def test_a_verdict_says_how_far_a_number_is_from_what_is_claimed(claimed, number, verdict):
    assert figures.judge({"of": "that", "range": claimed}, number) == verdict
    if verdict != "yes":
        assert figures.judge({"range": claimed}, number) == "no", "only a ratio has sides"


# ---- of a run that told this ---------------------------------------------------------------------------

@pytest.fixture
def tiny():
    claims = [{"is": "the drop", "of": "none", "range": [1.1, 2], "verdict": "yes", "number": ["8x", 8], "over": ["8x", 0]},
              {"is": "another", "paper": "1", "range": [1, 1], "verdict": "no", "number": ["not played", 8]}]
    said = {"title": "a < b", "source": "[RDRP]", "differs": "it's ours", "x_label": "slow nodes", "claims": claims,
            "y_label": "a message's latency"}
    return figures.Figure("tiny", said, [figures.Point("8x", x, 2, f"slow: {x}@8x\n") for x in (0, 4, 8)])


def told(scenario, seed):
    slow = int(scenario.split()[1].split("@")[0])
    return {"seed": seed, "throughput": 0.8 / (1 + slow) + seed / 100, **({"others": 0.25} if slow else {}), "events": 7,
            "trace_hash": f"{seed:016x}", "cpu_s": 0.5, "violation": "it broke" if slow == 4 else ""}


def test_means_are_of_all_seeds(tiny):
    told_of = []
    rows, = figures.play([tiny], 3, 1, lambda *how_many: told_of.append(how_many), told)
    assert told_of == [(n, 6) for n in range(1, 7)]
    assert [(row.x, row.measured["seed"]) for row in rows] == [(x, seed) for x in (0, 4, 8) for seed in (1, 2)]
    assert figures.mean(rows, "8x", 0) == pytest.approx(0.815)
    assert figures.ours(rows, tiny.claims[0]) == pytest.approx((0.8 / 9 + 0.015) / 0.815)


def test_what_broke_and_a_verdict_that_is_another_one_are_told(tiny, tmp_path):
    shown = figures.Shown(tiny, figures.play([tiny], 1, 1, run=told)[0])
    assert [claim["is"] for claim, *_ in shown.claims] == ["the drop"], "what was not played is left out"
    assert shown.faults == ["the drop, of none: 0.13 is 'no', was 'yes'",
                            *(f"8x, slow nodes 4, seed {seed}: it broke" for seed in (1, 2))]
    assert figures.to_text(shown).count("BROKEN") == 3
    report = figures.to_markdown([shown], "how")
    assert "|tiny|the drop, of none||0.13|no|" in report and report.count("BROKEN") == 3
    tiny.claims[0]["range"] = [0, 0.9]
    assert figures.Shown(tiny, shown.rows).faults == shown.faults[1:], "a verdict that is the claim's is no fault"
    figures.write_csv(shown.rows, tmp_path / "tiny.csv")
    with open(tmp_path / "tiny.csv") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ["series", "x", "seed", "throughput", "others", "events", "trace_hash", "cpu_s", "violation"]
    assert (rows[0]["others"], rows[2]["others"], rows[2]["violation"]) == ("", "0.25", "it broke")


def test_a_picture_is_drawn(tiny, tmp_path):
    assert shutil.which("gnuplot"), "gnuplot?"
    path = tmp_path / "weir it's.svg"
    assert figures.draw(figures.Shown(tiny, figures.play([tiny], 1, 1, run=told)[0]), path)
    assert "a message's latency" in path.read_text().replace("&#39;", "'")


@pytest.fixture
def weir(build, monkeypatch):
    monkeypatch.setattr(figures, "WEIR", os.path.join(build, "bin", "weir"))


@pytest.mark.parametrize("name", ["routing", "core-scale", "tok-cores"])
def test_a_point_of_every_model_tells_what_it_cost(name, weir):
    told_of = figures.run(next(figure.points[0].scenario for figure in SMOKE if figure.name == name), 1)
    assert told_of["violation"] == "" and told_of["events"] > 0 and told_of["cpu_s"] > 0
    assert int(told_of["trace_hash"], 16) != 0


def test_a_scenario_that_is_wrong_is_told(weir):
    assert "bufers: there is no such key" in figures.run("bufers: 1\n", 1)["violation"]
