"""What the log of a runner says: how many tests passed and failed, and how long each case took.

Knows ctest (and the log it keeps of what its programs said), GoogleTest, the lines "ok - NAME (2.1 s)" and
"NAME: ok (2 s)", and "N passed, N failed".
"""

import re

CTEST = re.compile(r"^ *\d+/\d+ Test +#\d+: (\S+) \.* *(?:Passed|\*\*\*\S+.*?) +([\d.]+) sec", re.M)
CTEST_TOTAL = re.compile(r"tests passed, (\d+) tests? failed out of (\d+)")
CTEST_SKIPPED = re.compile(r"^ *\d+/\d+ Test .*\*\*\*Skipped", re.M)
CTEST_BLOCK = re.compile(r"^\d+/\d+ Testing: (\S+)$(.*?)^Test (Passed|Failed)", re.M | re.S)
GOOGLE = re.compile(r"^\[ +(?:OK|FAILED) +\] (\S+?),?(?: .*)? \((\d+) ms\)$", re.M)
GOOGLE_PASSED = re.compile(r"^\[  PASSED  \] (\d+) tests?", re.M)
GOOGLE_FAILED = re.compile(r"^ ?(\d+) FAILED TESTS?", re.M)
GOOGLE_SKIPPED = re.compile(r"^\[  SKIPPED \] (\d+) tests?, listed", re.M)
PLAIN = re.compile(r"^(?:\w+: )?(\d+) passed, (\d+) failed", re.M)
OK_LINE = re.compile(r"^(?:not )?ok(?: \d+)? - (.*?) \((\d+(?:\.\d+)?) s\)", re.M)
OK_BEHIND = re.compile(r"^([\w-]+): (?:ok|FAILED.*?) \((\d+) s\)$", re.M)


def google_counts(text):
    passed = sum(map(int, GOOGLE_PASSED.findall(text)))
    failed = sum(map(int, GOOGLE_FAILED.findall(text) + GOOGLE_SKIPPED.findall(text)))
    return passed, failed


def ctest_counts(text, programs):
    """Of a GoogleTest program its tests, of any other one. ctest has the last word on what failed."""
    failed, total = map(int, CTEST_TOTAL.findall(text)[-1])
    failed += len(CTEST_SKIPPED.findall(text))
    passed = total - failed
    for _, said, verdict in CTEST_BLOCK.findall(programs):
        more_passed, more_failed = google_counts(said)
        if verdict == "Passed" and more_passed:
            passed += more_passed - 1
            failed += more_failed
        elif verdict == "Failed" and more_passed + more_failed:
            passed += more_passed
            failed += max(0, more_failed - 1)
    return passed, failed


def count(status: int, text: str, programs: str = "") -> tuple[int, int]:
    """How many passed and failed. A status other than 0 counts as at least one failure; so does a log
    in which no test ran. What was skipped has failed: nothing here may be skipped."""
    passed = failed = 0
    # ctest shows what a test that failed said, the counts of that test among it.
    if CTEST_TOTAL.search(text):
        passed, failed = ctest_counts(text, programs)
    elif plain := PLAIN.findall(text):
        passed, failed = map(int, plain[-1])
    else:
        passed, failed = google_counts(text)
    if failed == 0 and (status != 0 or passed == 0):
        failed = 1
    return passed, failed


def cases(text: str, programs: str = "") -> list[tuple[str, float]]:
    """(name, seconds) of each case of which the log says how long it took."""
    tests = [(name, float(s)) for name, s in CTEST.findall(text)]
    inner = text
    if tests:
        inner = programs
        split = {name for name, said, _ in CTEST_BLOCK.findall(programs) if GOOGLE.search(said)}
        tests = [(name, s) for name, s in tests if name not in split]
    google = [(name, int(ms) / 1000) for name, ms in GOOGLE.findall(inner)]
    plain = [(name, float(s)) for name, s in (OK_LINE.findall(text) + OK_BEHIND.findall(text))]
    return tests + google + plain
