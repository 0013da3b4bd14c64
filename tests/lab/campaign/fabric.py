"""The fabric of a lab, and what breaks it under a job."""

import contextlib
import re
import subprocess
import time
import types

import pytest

from harness.kinds import KINDS
from harness.nodes import nodes


# Where jobs may outlive their processes: they are started with `--with-ft ulfm`. The nodes have two rails.
ULFM, ULFM_NODES = "Open MPI 5.0", "nodes of Open MPI 5.0"


def on(*kinds, long=(), seconds=30):
    """The kinds of labs that a test runs in; those in `long` only with the long tests, for so many seconds."""
    return pytest.mark.parametrize("fabric", [
        pytest.param(kind, marks=[pytest.mark.lab(kind), *([pytest.mark.long(seconds=seconds)] if kind in long else [])])
        for kind in (*kinds, *long)], indirect=True)


class Fabric:
    """Of one node with two ends of a wire (or none), or of two nodes."""

    def __init__(self, kind):
        options = KINDS[kind].options
        self.kind = kind
        self.rails = 2 if "--rails" in options else 1
        # One's own ends of the rails have to be named. On nodes of their own, jobs take what is there.
        self.rails_of_wire = self.rails if "--wire" in options else 0
        self.survivable = kind in (ULFM, ULFM_NODES)
        self.has_changed = False

    def netdevs(self, where=""):
        """What sends at this end of these rails: all, `0`, or `0b` for one end of a wire."""
        if len(nodes()) > 1:
            return [f"eth{rail}" for rail in range(self.rails) if str(rail).startswith(where)]
        return [f"w{rail}{end}" for rail in range(self.rails_of_wire) for end in "ab"
                if f"{rail}{end}".startswith(where)]

    def wire(self, *words):
        """When it was so."""
        self.has_changed = True
        done = subprocess.run(["lab-wire", *words], capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"lab-wire {' '.join(words)}: {done.stderr.strip()}"
        return time.monotonic()

    def netem(self, *words):
        """The same to both ends of the only wire."""
        self.has_changed = True
        for device in self.netdevs():
            subprocess.run(["tc", "qdisc", "replace", "dev", device, "root", "netem", *words,
                            "limit", "100000"], check=True)

    def packets(self, devices):
        """(sent, taken by netem) so far."""
        said = "".join(subprocess.run(["tc", "-s", "qdisc", "show", "dev", device], capture_output=True,
                                      text=True, check=True).stdout for device in devices)
        counts = re.findall(r"Sent \d+ bytes (\d+) pkt \(dropped (\d+)", said)
        return tuple(sum(map(int, column)) for column in zip(*counts)) or (0, 0)

    @contextlib.contextmanager
    def blackout(self, *where):
        """Of these rails and ends. `begin` and `end` say when it was."""
        devices = self.netdevs(*where)
        _, before = self.packets(devices)  # where the machine is slow, all is given up before both nodes are dark
        dark = types.SimpleNamespace(begin=self.wire("blackout", *where))
        yield dark
        _, after = self.packets(devices)
        dark.end = self.wire("restore", *where)
        assert after > before, "nobody sent anything in the dark"

    def black_for(self, length_s, *where):
        with self.blackout(*where):
            time.sleep(length_s)

    def mend(self):
        if self.has_changed:
            subprocess.run("lab-wire up; lab-wire restore; lab-wire set none none none", shell=True,
                           check=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


class Dark:
    """A blackout of this length, of nodes only of what the first one sends, acknowledgements included.
    The commands go before the ranks, which leave no processor free."""

    def __init__(self, fabric, length_s):
        self.fabric, fabric.has_changed = fabric, True
        self.devices = fabric.netdevs()
        for loss in ("100%", "0%"):
            with open(f"/tmp/loss{loss}", "w") as file:
                file.writelines(f"qdisc replace dev {device} root netem loss {loss} limit 100000\n"
                                for device in self.devices)
        self.begin = time.monotonic()
        self.process = subprocess.Popen(
            ["chrt", "--fifo", "50", "bash", "-c", f"tc -batch /tmp/loss100% && echo && "
             f"{{ read -t {length_s} early; tc -batch /tmp/loss0%; }}"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.process.stdout.readline()
        _, self.before = fabric.packets(self.devices)

    def lift(self):
        """Now, and not when its time is over."""
        self.process.stdin.close()
        self.end()

    def end(self):
        """Waits for it; how long it was, in s."""
        assert self.process.wait() == 0, "tc failed"
        _, after = self.fabric.packets(self.devices)
        assert after > self.before, "nobody sent anything in the dark"
        return time.monotonic() - self.begin
