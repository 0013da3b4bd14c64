"""hpcc as Debian ships it, with its own example for an input, made small."""

import glob
import gzip
import os
import re
import shutil

from rig.start import Failed

PROGRAM = "hpcc"
REPORT = "hpccoutf.txt"


def prepare(directory, matrix, grid=(2, 2)):
    """Its input, where it looks for it. A matrix of the example's size takes minutes where all is
    emulated, and small blocks keep the messages many. `grid`: of the processes."""
    found = glob.glob("/usr/share/doc/hpcc/**/_hpccinf.txt*", recursive=True)
    if shutil.which(PROGRAM) is None or not found:
        raise Failed("hpcc is not installed (tools/setup)")
    with (gzip.open if found[0].endswith(".gz") else open)(found[0], "rt") as example:
        text = example.read()
    text = re.sub(r"^\d+(\s+Ns)$", rf"{matrix}\1", text, flags=re.M)
    text = re.sub(r"^\d+(\s+NBs)$", r"20\1", text, flags=re.M)
    for name, number in zip("PQ", grid):
        text = re.sub(rf"^\d+(\s+{name}s)$", rf"{number}\1", text, flags=re.M)
    with open(os.path.join(directory, "hpccinf.txt"), "w") as file:
        file.write(text)


def report(directory):
    """What it wrote, in which it says that all was right."""
    try:
        with open(os.path.join(directory, REPORT)) as file:
            text = file.read()
    except OSError as error:
        raise Failed(f"hpcc: {error}") from error
    if "Success=1" not in text.split() or re.search(r"\bFAILED\b", text):
        raise Failed(f"{REPORT}: no Success=1, or a FAILED check")
    return text
