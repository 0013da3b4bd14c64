"""Starting a program so that it ends: its output, or why there is none."""

import os
import re
import signal
import subprocess
import tempfile


# What mpirun prints after the cause, and in place of it.
NOISE = re.compile(r"more process(es)? ha(s|ve) sent help|orte_base_help_aggregate|^counter |"
                   r"^Primary job|^a non-zero exit code|^mpirun (detected|has exited)|^MPI_ABORT|"
                   r"\*\*\* ")


class Failed(Exception):
    """A run without a result; the text is the reason, for the report; output is for the JSON."""

    def __init__(self, reason, output=""):
        super().__init__(reason)
        self.output = output[-8000:]


def cause(text, lines=3):
    """The first lines of complaint: what follows is mostly consequence. The dashes are frames."""
    said = [line.strip() for line in text.splitlines()
            if line.strip(" -\t") and not NOISE.search(line.strip())]
    return " | ".join(said[:lines])[:400] or "no output"


def end(process):
    """mpirun first, politely, so that it stops its ranks."""
    for number, patience_s in ((signal.SIGTERM, 3), (signal.SIGKILL, 3)):
        try:
            os.killpg(process.pid, number)
            process.wait(patience_s)
            return
        except (OSError, subprocess.TimeoutExpired):
            continue


def run(words, timeout_s, environment=None):
    """stdout and stderr together. In a file: a leftover process must not keep us reading."""
    with tempfile.TemporaryFile() as output:
        try:
            process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=output,
                                       stderr=subprocess.STDOUT, env=environment,
                                       start_new_session=True)
        except OSError as error:
            raise Failed(f"{words[0]}: {error.strerror}") from error
        late = False
        try:
            process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            late = True
            end(process)
        output.seek(0)
        text = output.read().decode(errors="replace")
    if late:
        raise Failed(f"no end after {timeout_s} s: {cause(text)}", text)
    if process.returncode != 0:
        raise Failed(f"exit code {process.returncode}: {cause(text)}", text)
    return text
