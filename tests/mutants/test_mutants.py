"""The list of mutants is as it should be: otherwise `mutants run`, which takes hours, would not begin."""

import os
import re
import sys

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import catalogue  # noqa: E402

TESTS, _ = catalogue.load_tests()
MUTANTS = catalogue.load_mutants()


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
