"""count_results.py STATUS LOG: how many tests a runner's log says passed and failed.

Prints "PASSED FAILED". Knows ctest, GoogleTest and the line "N passed, N failed". A status other
than 0 counts as at least one failure; so does a log in which no test ran.
"""

import re
import sys


def count(status: int, text: str) -> tuple[int, int]:
    passed = failed = 0
    plain = re.findall(r"^(?:\w+: )?(\d+) passed, (\d+) failed", text, re.M)
    ctest = re.findall(r"tests passed, (\d+) tests? failed out of (\d+)", text)
    google = re.findall(r"^\[  PASSED  \] (\d+) tests?", text, re.M)
    google_failed = re.findall(r"^ ?(\d+) FAILED TESTS?", text, re.M)
    if plain:
        passed, failed = map(int, plain[-1])
    elif ctest:
        failed, total = map(int, ctest[-1])
        passed = total - failed
    elif google:
        passed = sum(map(int, google))
        failed = sum(map(int, google_failed))
    if failed == 0 and (status != 0 or passed == 0):
        failed = 1
    return passed, failed


if __name__ == "__main__":
    with open(sys.argv[2], encoding="utf-8", errors="replace") as log:
        print(*count(int(sys.argv[1]), log.read()))
