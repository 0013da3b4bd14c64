"""The list of mutants is as it should be: otherwise `mutants run`, which takes hours, would not begin. Its results
are about mutants of that list."""

import os
import re
import shutil
import subprocess
import sys

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import catalogue  # noqa: E402
import results  # noqa: E402
import workshop  # noqa: E402
from harness.chosen import changed_lately  # noqa: E402
from harness.shares import share_of_this_commit  # noqa: E402

TESTS, _ = catalogue.load_tests()
MUTANTS = catalogue.load_mutants()
MOST_AT_ONCE = 5  # mutants of what changed lately: some minutes each


def test_all_mutants_apply():
    """Exactly once, and change the code; their names, sentences and tests are right."""
    assert MUTANTS
    problems = catalogue.problems_of(MUTANTS, TESTS)
    if problems:
        pytest.fail("\n".join(f"{mutant.part}: {mutant.name}: {problem}" for mutant, problem in problems),
                    pytrace=False)


@pytest.mark.parametrize("key", TESTS)
def test_the_files_of_a_test_exist(key):
    """A command that fails for another reason would kill every mutant."""
    command = TESTS[key].command
    is_there = os.path.exists if "{pytest}" in command else os.path.isfile  # a folder is no program
    named = re.findall(r"(?<![\w/}.])(?:tests|tools|conf)/[\w./]+",
                       command.replace("{tests}", "tests").replace("{source}/", ""))
    assert not [path for path in named if not is_there(os.path.join(catalogue.ROOT, path))], command


def test_the_results_are_about_these_mutants():
    assert list(results.problems_of(results.load(), MUTANTS, TESTS)) == []


def test_a_run_keeps_what_it_does_not_refute():
    mutant = catalogue.Mutant("core", "m", "F.", [], "a", "b", tests=["unit_core", "sharing"])

    def after(before, noticed, tried):
        return results.merged(before, mutant, noticed, tried, "new")

    in_the_lab = results.Row("m", "killed", by="sharing", code="old")
    accepted = results.Row("m", "alive", reason="It takes a week.", code="old")
    assert after(in_the_lab, {}, ["unit_core"]) is in_the_lab
    assert after(in_the_lab, {}, ["unit_core", "sharing"]).told().startswith("ALIVE: why?")
    assert after(None, {}, ["unit_core"]).untried == ["sharing"]
    assert after(accepted, {}, ["unit_core", "sharing"]).reason == accepted.reason
    assert after(accepted, {"unit_core": "A.b"}, ["unit_core"]).told().startswith("killed by unit_core (A.b), new")


def test_a_test_hangs_by_what_it_takes_of_a_processor(tmp_path, monkeypatch):
    monkeypatch.setattr(workshop, "LEAST_CPU_S", 1)
    shop = workshop.Workshop(catalogue.ROOT, str(tmp_path), {})
    os.makedirs(shop.source)

    def outcome(command):
        return shop.run(catalogue.Test("any", command, [], limit=60), "any", unmutated_cpu_s=0)[0]
    assert outcome("while :; do :; done") == "hangs"
    assert outcome("sleep 2; exit 1") == "failed"
    assert outcome("sleep 2") == "passed"


def mutants_of(files):
    """Those that put their fault into one of these files, and have a test that needs no lab."""
    for mutant in MUTANTS:
        path, _ = catalogue.apply(mutant, catalogue.sources_of(mutant.folders))
        if path in files and not all(TESTS[key].lab for key in mutant.tests):
            yield mutant.name


@pytest.mark.long(in_shares=False)
@pytest.mark.timeout(4 * 3600)
def test_mutants_of_what_changed_lately_are_noticed(tmp_path, capsys):
    """On the host; others of them after the next commit. results.csv stays as it is."""
    names = list(mutants_of(changed_lately() or []))
    if not names:
        pytest.skip("none is in files that the last commits changed")
    begin = share_of_this_commit() * MOST_AT_ONCE % len(names)
    turn = (names[begin:] + names[:begin])[:MOST_AT_ONCE]
    table = tmp_path / "results.csv"
    if os.path.exists(results.TABLE):
        shutil.copy(results.TABLE, table)
    with capsys.disabled():
        print(f"\n{len(turn)} of {len(names)} mutants of what changed lately: {' '.join(turn)}", flush=True)
        code = subprocess.run([os.path.join(HERE, "mutants"), "run", "--host-only", "--results", table,
                               *(word for name in turn for word in ("--only", name))], check=False).returncode
    assert code == 0
