"""GoogleTest programs as tests of pytest."""

import os
import xml.etree.ElementTree as ElementTree

import pytest

from harness.programs import run

TAIL_LINES = 25


def check(program, directory, limit_s, to_build="cmake --build build", env=None):
    """Fails with the tests of it that failed or were skipped. How many tests there are."""
    if not os.access(program, os.X_OK):
        pytest.fail(f"{program} does not exist: {to_build}", pytrace=False)
    told = os.path.join(directory, "told.xml")
    done = run(program, f"--gtest_output=xml:{told}", status=None, cwd=directory, limit_s=limit_s, env=env)
    said = done.stdout + done.stderr
    if not os.path.exists(told):  # it crashed, in what is named last
        pytest.fail(f"exit code {done.returncode}\n" + "\n".join(said.splitlines()[-TAIL_LINES:]), pytrace=False)
    cases = list(ElementTree.parse(told).iter("testcase"))
    problems = [f"{case.get('classname')}.{case.get('name')}: {kind}\n{problem.get('message') or ''}"
                for case in cases for kind in ("failure", "skipped") for problem in case.iter(kind)]
    if not cases:
        problems.append("it ran no test")
    if done.returncode != 0:
        problems.append(f"exit code {done.returncode}")
        if len(problems) == 1:  # no test has failed, so it is in what was said, as of a sanitizer
            problems.append("\n".join(said.splitlines()[-TAIL_LINES:]))
    if problems:
        pytest.fail("\n".join(problems), pytrace=False)
    return len(cases)
