"""The lab's own exit codes and the exception that carries one."""

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
