"""Runs a tool of the host whose failure ends the run."""

import subprocess

from .errors import SETUP, LabError


def tool(cmd, what, hint="", **kw):
    try:
        return subprocess.run(cmd, check=True, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, **kw).stdout.decode(errors="replace")
    except FileNotFoundError as e:
        raise LabError(f"{what}: {cmd[0]} is not installed (run {SETUP})") from e
    except subprocess.CalledProcessError as e:
        tail = e.stdout.decode(errors="replace").strip().splitlines()[-1:] or [""]
        raise LabError(f"{what}: {cmd[0]} failed: {tail[0]}{hint}") from e
