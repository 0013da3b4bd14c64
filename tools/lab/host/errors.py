"""The lab's own exit codes and the exception that carries one."""

from pathlib import Path

# Installs what the lab needs: of a checkout, or of the package weir-lab.
SETUP = Path(__file__).resolve().parent.parent.parent / "setup"

EXIT_TIMEOUT = 124
EXIT_LAB = 125
EXIT_USAGE = 2


class LabError(Exception):
    """The lab, not CMD, failed. Printed as one line; `code` is the exit code."""

    def __init__(self, reason, code=EXIT_LAB):
        super().__init__(reason)
        self.code = code


class BootStalled(LabError):
    """No guest came up, so nothing of the command has run."""
