"""What monitors take: the file for Prometheus, alert rules and a dashboard (packaging/monitoring).

promtool is Debian's, of the package prometheus; only the program is taken out of it, because the package would start
a service.
"""

import glob
import json
import os
import pathlib
import re
import subprocess
import tempfile

import pytest
import yaml

from harness.kinds import ROOT
from harness.programs import run, unit_program

MONITORING = pathlib.Path(ROOT, "packaging", "monitoring")
RULES = MONITORING / "alerts.yml"
DASHBOARD = json.loads((MONITORING / "grafana.json").read_text())


@pytest.fixture(scope="session")
def promtool(build):
    folder = os.path.join(build, "promtool")
    path = os.path.join(folder, "usr", "bin", "promtool")
    if not os.path.exists(path):
        with tempfile.TemporaryDirectory(dir=build) as begun:  # one that was interrupted is no program
            run("apt-get", "download", "prometheus", cwd=begun, limit_s=600)
            package, = glob.glob(os.path.join(begun, "prometheus_*.deb"))
            run("dpkg-deb", "-x", package, os.path.join(begun, "promtool"), limit_s=600)
            os.rename(os.path.join(begun, "promtool"), folder)
    return path


@pytest.fixture(scope="session")
def sample(build, tmp_path_factory):
    """The file, of processes that say whatever fits into their words."""
    file = tmp_path_factory.mktemp("metrics") / "weir.prom"
    run(unit_program(build, "unit_top"), "--gtest_filter=Top.PrometheusTakesAnyNumbers",
        env={"WEIR_PROMETHEUS_FILE": str(file)})
    return file.read_text()


@pytest.fixture(scope="session")
def names(sample):
    """Of samples, so a histogram has its three."""
    return set(re.findall(r"^(weir_\w+)\{", sample, re.M))


def adapters():
    """These are there only where an adapter counts them."""
    text = pathlib.Path(ROOT, "tools/top/report.h").read_text()
    return {f"weir_adapter_{name}_total" for name in re.findall(r'say\("(\w+)"', text)}


def expressions():
    for panel in DASHBOARD["panels"]:
        yield from (target["expr"] for target in panel["targets"])
    for group in yaml.safe_load(RULES.read_text())["groups"]:
        yield from (rule["expr"] for rule in group["rules"])


def test_the_file_is_as_prometheus_wants_it(promtool, sample):
    done = subprocess.run([promtool, "check", "metrics"], input=sample, text=True, capture_output=True, check=False)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_the_rules_are_as_prometheus_wants_them(promtool):
    run(promtool, "check", "rules", str(RULES))


def test_each_rule_names_its_pain():
    headings = re.findall(r"^## (.*)$", pathlib.Path(ROOT, "conf/PAINS.md").read_text(), re.M)
    pains = {heading.lower().replace(" ", "-") for heading in headings}
    rules = [rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]
    assert {rule["annotations"]["pain"] for rule in rules} == pains - {
        "wrong-data-in-a-program-that-replaces-its-pages", "receivers-that-compute", "gpu-memory"}


def test_rules_and_dashboard_ask_for_what_there_is(names):
    for expression in expressions():
        asked = set(re.findall(r"\bweir_\w+", expression))
        assert asked and asked <= names | adapters(), expression


def test_the_dashboard_asks_in_prometheus_words(promtool, tmp_path):
    """As a rule, because that is what promtool can check."""
    rules = [{"record": f"panel:{i}", "expr": re.sub(r"\$__\w+", "1m", expression)}
             for i, expression in enumerate(expressions())]
    file = tmp_path / "rules.yml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": rules}]}))
    run(promtool, "check", "rules", str(file))


def test_the_dashboard_is_whole():
    panels = DASHBOARD["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels) > 5
    spots = {(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in panels}
    assert len(spots) == len(panels), "panels lie upon each other"
    variables = {variable["name"] for variable in DASHBOARD["templating"]["list"]}
    used = set(re.findall(r"\$\{?(\w+)", json.dumps(panels))) - {"__rate_interval"}
    assert used <= variables
    for panel in panels:  # as @grafana/schema wants it, from 10.4 to 12.4
        assert {key: set(options) for key, options in panel["options"].items()} == {
            "legend": {"displayMode", "placement", "showLegend", "calcs"}, "tooltip": {"mode", "sort"}}
