"""What `weir top` shows of the jobs under way."""

import json
import os

from harness.programs import run


class Top:
    status = 0  # None: there may be no process yet

    def __init__(self, build):
        self.weir = os.path.join(build, "bin", "weir")

    def text(self, *args, status=0):
        return run(self.weir, "top", "--once", *args, status=status, limit_s=60).stdout

    def ports(self, *args):
        return json.loads(self.text("--json", "--interval", "0.5", *args, status=self.status))["ports"]

    def processes(self, *args):
        return [process for port in self.ports(*args) for process in port["processes"]]
