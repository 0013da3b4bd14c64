"""gnuplot's SVG, made small."""

import re
import shutil
import subprocess
import sys


def draw(script, picture, **variables):
    """Runs the script with its variables set, `picture` among them."""
    if shutil.which("gnuplot") is None:
        print("no gnuplot, no picture (tools/setup)", file=sys.stderr)
        return
    said = "; ".join(f"{key}={value}" if isinstance(value, int) else f"{key}='{value}'"
                     for key, value in {"picture": picture, **variables}.items())
    done = subprocess.run(["gnuplot", "-e", said, script], capture_output=True, text=True,
                          check=False)
    if done.returncode != 0:
        print(f"gnuplot: {done.stderr.strip()}", file=sys.stderr)
        return
    with open(picture) as file:
        text = file.read()
    # Half of what gnuplot writes repeats defaults.
    text = re.sub(r' (stroke-width="1.00"|stroke-linecap="butt"|stroke-linejoin="miter"'
                  r'|font-family="sans"|font-size="10.00")', "", text)
    text = text.replace("<svg", '<svg font-family="sans" font-size="10"', 1)
    text = re.sub(r"(\d\.\d)\d\b", r"\1", re.sub(r"\s*\n\s*", "\n", text))
    text = re.sub(r"<(g|title)[^>]*>\s*</\1>", "", text)
    with open(picture, "w") as file:
        file.write(text)
