"""The samples of a call, which --json keeps and --redraw takes, and how a call ends."""

import json
import sys


def load(paths, told=0):
    """The samples of earlier calls as if of one, with the conditions of that number `told`. Only runs
    of one call's round are compared."""
    found = []
    for i, path in enumerate(paths):
        with open(path) as file:
            found.append(json.load(file))
        for run in found[-1]["runs"]:
            run["round"] += i * 1000
    return {**found[told], "runs": [run for taken in found for run in taken["runs"]],
            "problem": next((taken["problem"] for taken in found if taken["problem"]), None)}


def end(program, taken):
    """Names what could not be measured. The exit status."""
    absent = [r for r in taken["runs"] if r.get("error")]
    for run in absent:
        print(f"MISSING {run['group']}, {run['who']}: {run['error']}", file=sys.stderr)
    if taken["problem"]:
        print(f"{program}: {taken['problem']}", file=sys.stderr)
        return 2
    return 1 if absent else 0
