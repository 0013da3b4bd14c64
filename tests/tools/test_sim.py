"""`weir sim` as a user meets it: help, mistakes, a run, figures."""

import csv
import json
import pathlib
import re

import pytest


@pytest.fixture
def sim(weir):
    """Runs it: sim("run", FILE, code=2)."""
    def command(*arguments, code=0):
        return weir("sim", *map(str, arguments), status=code)
    return command


@pytest.fixture
def conf(root):
    return pathlib.Path(root) / "conf"


def test_help_texts(sim, conf, tmp_path):
    assert "Exit status:" in sim("--help").stdout, "sim --help has no exit status"
    for command in "run", "reproduce":
        text = sim(command, "--help").stdout
        assert "Examples:" in text and "Exit status:" in text, f"{command} --help: {text}"
    text = sim("run", "--help").stdout
    for key in "topology", "buffers", "reads_max", "slow":
        assert re.search(rf"^  {key} ", text, re.MULTILINE), f"run --help does not name {key}"
    sim(code=2)
    sim("run", code=2)
    sim("reproduec", code=2)


def test_a_run(sim, conf, tmp_path):
    small = conf / "sim" / "small.yaml"
    first = json.loads(sim("run", small, "--json", "--seeds", 2, "--jobs", 2).stdout)
    again = json.loads(sim("run", small, "--json", "--seeds", 2, "--jobs", 1).stdout)
    assert first["nodes"] == 72, f"nodes: {first}"
    hashes = [run["trace_hash"] for run in first["runs"]]
    assert hashes == [run["trace_hash"] for run in again["runs"]], "the same seed, another run"
    assert len(set(hashes)) == 2, "two seeds, one run"
    for run in first["runs"]:
        assert run["violation"] == "" and 0.2 < run["throughput"] <= 1, f"run: {run}"
    text = sim("run", small).stdout
    assert "throughput" in text and "trace_hash" in text, text


def test_bad_scenarios(sim, conf, tmp_path):
    bad = tmp_path / "bad.yaml"
    bad.write_text("topology: dragonfly\nbufers: 64KiB\nslow: some\n")
    done = sim("run", bad, code=2)
    assert f"{bad}:2: bufers: there is no such key; did you mean buffers?" in done.stderr, done.stderr
    assert f"{bad}:3: slow: " in done.stderr and not done.stdout, done.stderr
    assert "cannot be read" in sim("run", "/nowhere.yaml", code=2).stderr, "no such file"


def test_a_figure(sim, conf, tmp_path):
    names = [line.split()[0] for line in sim("list").stdout.splitlines()]
    assert "rdrp-fig5" in names and "core-budget" in names, f"figures: {names}"
    assert "there is no figure" in sim("reproduce", "--figure", "fig99", code=2).stderr, "fig99"
    output = tmp_path / "out"
    text = sim("reproduce", "--smoke", "--figure", "tok-cores", "--output", output).stdout
    assert "tokens, 32 cores, of no limit" in text, text
    assert "  yes  " in text and "BROKEN" not in text, text
    assert "<svg" in (output / "data/tok-cores.svg").read_text(), "SVG"
    rows = list(csv.DictReader((output / "data/tok-cores.csv").open()))
    assert list(rows[0])[:4] == ["series", "x", "seed", "throughput"], "CSV"
    assert rows and all(float(row["throughput"]) > 0 and int(row["events"]) > 0 and float(row["cpu_s"]) > 0 and
                        int(row["trace_hash"], 16) for row in rows), rows
    report = (output / "README.md").read_text()
    assert "Written by `weir sim reproduce`" in report and "|tokens, 32 cores, of no limit|1.5|" in report, report


def test_a_verdict_that_is_another_one(sim, conf, tmp_path):
    claims = tmp_path / "claims.json"
    own = {"is": "it", "paper": "9", "range": [8, 9], "verdict": "yes", "number": ["tokens", 16, "rnr_naks"]}
    figure = {"title": "t", "source": "s", "differs": "d", "x_label": "x", "claims": [own]}
    claims.write_text(json.dumps({"tok-cores": figure}))
    play = ["reproduce", "--smoke", "--figure", "tok-cores", "--claims", claims, "--output",
            tmp_path / "out"]
    assert "is 'no', was 'yes'" in sim(*play, code=1).stdout, "a number that is not what is claimed"
    claims.write_text("{")
    assert str(claims) in sim(*play, code=1).stderr, "which file is wrong"
    claims.unlink()
    assert f"{claims}: cannot be read" in sim(*play, code=1).stderr, "which file is not there"
