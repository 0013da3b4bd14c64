"""count_results.py STATUS LOG: how many tests a runner's log says passed and failed.

Prints "PASSED FAILED". Knows ctest, GoogleTest and the line "N passed, N failed". A status other
than 0 counts as at least one failure; so does a log in which no test ran. What was skipped has
failed: nothing here may be skipped.
"""

import re
import sys


def count(status: int, text: str) -> tuple[int, int]:
    passed = failed = 0
    # ctest shows what a test that failed said, the counts of that test among it.
    ctest = re.findall(r"tests passed, (\d+) tests? failed out of (\d+)", text)
    ctest_skipped = re.findall(r"^ *\d+/\d+ Test .*\*\*\*Skipped", text, re.M)
    plain = re.findall(r"^(?:\w+: )?(\d+) passed, (\d+) failed", text, re.M)
    google = re.findall(r"^\[  PASSED  \] (\d+) tests?", text, re.M)
    google_failed = re.findall(r"^ ?(\d+) FAILED TESTS?", text, re.M)
    google_skipped = re.findall(r"^\[  SKIPPED \] (\d+) tests?, listed", text, re.M)
    if ctest:
        failed, total = map(int, ctest[-1])
        failed += len(ctest_skipped)
        passed = total - failed
    elif plain:
        passed, failed = map(int, plain[-1])
    elif google:
        passed = sum(map(int, google))
        failed = sum(map(int, google_failed + google_skipped))
    if failed == 0 and (status != 0 or passed == 0):
        failed = 1
    return passed, failed


if __name__ == "__main__":
    with open(sys.argv[2], encoding="utf-8", errors="replace") as log:
        print(*count(int(sys.argv[1]), log.read()))
