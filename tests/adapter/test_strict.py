"""The rules of strict.so: each is named when a program breaks it, and none when it does not (README.md)."""

import os
import pathlib
import re

import pytest

from harness.programs import run, says

LIMIT_S = 30
HERE = pathlib.Path(__file__).parent
RULES = re.findall(r"^  X\((\w+),", (HERE / "strict" / "rules.h").read_text(), re.M)


@pytest.fixture
def breaks(build):
    """breaks(rule, strict="slow"): what strict_breaks says, and its exit status."""
    def call(rule, strict="slow"):
        return run(os.path.join(build, "mpi", "strict_breaks"), rule, status=None, limit_s=LIMIT_S, one_stream=True,
                   env={"LD_PRELOAD": os.path.join(build, "mpi", "strict.so"), "STRICT": strict})
    return call


@pytest.mark.lab("loopback")
@pytest.mark.parametrize("rule", RULES)
def test_who_breaks_a_rule_is_ended(rule, breaks):
    """And reads which one, and what was done before."""
    done = breaks(rule)
    assert done.returncode != 0, done.stdout
    says(done.stdout, rf"^strict: rule {rule}: ", r"^strict: \d+ calls with it")


@pytest.mark.lab("loopback")
@pytest.mark.parametrize("rule, strict", [("none", "slow"), ("none", ""), ("timers", "slow,-timers")])
def test_nobody_else_is_ended(rule, strict, breaks):
    """Who breaks none, or one that is off."""
    done = breaks(rule, strict)
    assert done.returncode == 0, done.stdout
    says(done.stdout, "nobody minded")
