#!/usr/bin/env python3
"""The part of tools/quickstart behind the packages: builds, measures, shows. Started by it, not by hand.

    main.py [--host]       --host: this machine's RDMA device, not the micro-VM
"""

import os
import shutil
import sys

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.realpath(__file__))
ROOT = os.path.normpath(os.path.join(HERE, "..", ".."))
sys.path[:0] = [HERE, os.path.join(ROOT, "tests", "bench")]

import progress  # noqa: E402
import result  # noqa: E402
from rig import first, lab, picture, raw, report  # noqa: E402
from rig.peers import TITLES  # noqa: E402

BUILD = os.path.join(ROOT, "build")
ROUNDS, LIMIT_S = 3, 75  # fewer rounds on a machine that is slow, or busy
# The plugin, the tool and MPI programs; tests/run builds the rest, with the same settings, so it does
# not build these again.
TARGETS = "mca_btl_weir weir weir_tune_load mpi_pingpong"
SCRIPT = ("cmake -S . -B build -G Ninja -DWEIR_TESTS=ON -DCMAKE_UNITY_BUILD=ON && "
          f"cmake --build build --target {TARGETS}")

NEXT = """\
Next
  your own program:
    {own} mpirun --tune conf/weir-tune.conf -np 4 ./my_app
  what each process sends, holds and waits for, while a job runs:
    {top}
  is anything wrong here, and how is it repaired:
    {own} weir doctor
  every key with its reason (none has to be set):
    {own} weir config explain
  the tests, a minute of them, and all:
    tests/run host
    tests/run
"""
TOP = {True: 'eval "$(tools/env)"; weir top',
       False: "tools/lab/lab -- sh -c 'mpirun --tune conf/weir-tune.conf -np 4 ./my_app & sleep 5; "
              "weir top --once; wait'"}


def measure(host, device):
    """(results, run events, lines that name what is missing)"""
    groups = first.groups()
    asked = {"first": True, "device": device, "rounds": ROUNDS, "programs": os.path.join(BUILD, "mpi"),
             "quick": False, "limit_s": LIMIT_S}
    print("[4/4] two ranks over weir, beside raw verbs and btl tcp, in turn: about a minute")
    shown = lab.Progress(groups, ROUNDS, sys.stdout, "[4/4] measuring")
    guest, runs, problem = lab.run(ROOT, asked, groups, BUILD, ["--host"] if host else [],
                                   progress=shown)
    if not guest or not any("values" in run for run in runs):
        sys.exit(f"tools/quickstart: {problem or 'nothing could be measured'}")
    missing = [f"missing: {TITLES[who]}, {group}: {reason}"
               for group, who, _, _, reason in report.missing(groups, runs)]
    return report.summarise(groups, runs), runs, missing + ([problem] if problem else [])


def draw(results):
    """The picture's path, or nothing."""
    data, svg = os.path.join(BUILD, "quickstart.csv"), os.path.join(BUILD, "quickstart.svg")
    with open(data, "w") as file:
        file.write(result.csv(results))
    if shutil.which("gnuplot") is None:
        return None
    picture.draw(os.path.join(HERE, "ratios.gp"), svg, data=data)
    return os.path.relpath(svg, ROOT)


def main():
    host = "--host" in sys.argv[1:]
    progress.run("[2/4] build", ["sh", "-c", SCRIPT], progress.Build(), ROOT)
    info = progress.run("[3/4] an RDMA device",
                        ["tools/lab/lab", *(["--host"] if host else []), "--timeout", "60", "--",
                         "build/bin/weir", "info"], progress.Words(), ROOT)
    taken = [line for line in info if line.startswith("*")]
    print("\n".join(taken))
    device = taken[0].split()[1].split(":")[0] if host and taken else raw.DEVICE
    results, runs, missing = measure(host, device)

    block = "█" if (sys.stdout.encoding or "").lower().startswith("utf") else "#"
    print()
    print("\n".join(report.table(results, quartiles=False)))
    rounds = 1 + max(run["round"] for run in runs)
    print(f"Medians of {rounds} rounds. A ratio is weir's figure over the other's in the same round.\n"
          if rounds > 1 else "One round, for this machine is slow or busy: no verdict. Once it is idle, run this again:\n"
          "  tools/quickstart --no-setup\n")
    print("\n".join(result.bars(results, block)))
    print()
    # One round may be anything: two ranks that shared a processor are 100 times as slow.
    verdicts = result.verdicts(results, device.startswith("rxe")) if rounds > 1 else []
    print("\n".join([*verdicts, *result.doubts(results), *missing]))
    svg = draw(results)
    if svg:
        print(f"The ratios as a picture: {svg}")
    print("\nWhat weir counted meanwhile (MPI_T variables btl_weir_…; both ranks, all rounds)")
    with open(os.path.join(ROOT, "base", "counters.h")) as file:
        lines = result.table(file.read())
    print("\n".join(result.counters(result.add_up(runs, lines), lines)))
    own = 'eval "$(tools/env)";' if host else "tools/lab/lab --"
    print("\n" + NEXT.format(own=own, top=TOP[host]), end="")


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
