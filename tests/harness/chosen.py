"""Which tests a run has: all but those marked `long`, and of these one share (tests/README.md)."""

import collections
import functools
import subprocess
import zlib

from harness import boots, open_mpi_5
from harness.kinds import KINDS, ROOT
from harness.shares import SHARES, number_of_this_commit

WORTH_A_BOOT_S = 100  # of tests, for a boot takes 40
SECONDS = 6  # that a test takes, where its mark says nothing else: long(seconds=30)
# Of tests under Open MPI 5.0, when that has its turn: a dozen in loopback, about 50 s, and as many of another boot.
SHARES_IN_LOOPBACK = 30
SHARES_OF_A_BOOT = 4


def turn(option):
    """Counts on with the commits."""
    return number_of_this_commit() if option.share is None else option.share


@functools.cache
def changed_lately():
    """Files that the last commits changed, without READMEs; None where git cannot tell."""
    done = subprocess.run(["git", "-C", ROOT, "diff", "--name-only", f"HEAD~{SHARES}"], capture_output=True,
                          text=True, check=False)
    names = [name for name in done.stdout.split() if not name.endswith(".md")]
    return names if done.returncode == 0 else None


def rotating(item):
    """(its marks `long`, its own before its kind's; the name of what has its turn as one), of what is not in every run."""
    kind = boots.kind_of(item)
    of_kind = kind and kind.rotates and kind.rotates.mark
    marks = [mark for mark in (item.get_closest_marker("long"), of_kind) if mark]
    return marks, marks[-1].kwargs.get("together", item.nodeid) if marks else ""


def sharing_boots(seconds, boot_of):
    """{name: the first of those that are dealt with it}: so many of a boot that they are worth it."""
    first_of, open_of, sums = {}, {}, collections.Counter()
    for together, boot in boot_of.items():
        first = open_of.get(boot)
        if first is None or sums[first] + seconds[together] > WORTH_A_BOOT_S:
            first = open_of[boot] = together
        first_of[together] = first
        sums[first] += seconds[together]
    return first_of


class Chosen:
    """Of the tests that there are, in their order."""

    def __init__(self, items, option):
        """Each share takes about as long as another. Neighbours are of a kind, so they are dealt in turn; where only they
        want a boot, several at a time."""
        self.option, seconds, boot_of, in_every_run = option, collections.Counter(), {}, set()
        for item in items:
            marks, together = rotating(item)
            if not marks:
                in_every_run.add(boots.boot_of(item))
            elif all(mark.kwargs.get("in_shares", True) for mark in marks):
                seconds[together] += max(mark.kwargs.get("seconds", SECONDS) for mark in marks)
                boot_of[together] = boots.boot_of(item)
        first_of = {together: together for together in seconds}
        first_of |= sharing_boots(seconds, {name: boot for name, boot in boot_of.items() if boot not in in_every_run})
        dealt = collections.Counter()
        for together, takes in seconds.items():
            dealt[first_of[together]] += takes
        share_of, loads = {}, [0] * SHARES
        for first, takes in dealt.most_common():
            share_of[first] = share = loads.index(min(loads))
            loads[share] += takes
        self.share_of = {together: share_of[first] for together, first in first_of.items()}

    def has_turn(self, mark, together):
        """Whether what bears this mark `long`, and is in a share with `together`, is run without --long."""
        depends_on = mark.kwargs.get("but_after_changes_in", ())
        if depends_on and any(path.startswith(tuple(depends_on)) for path in changed_lately() or depends_on):
            return True
        return (mark.kwargs.get("in_shares", True) and
                self.share_of.get(together, 0) == turn(self.option) % SHARES)

    def has(self, item):
        if self.option.long or any(named.endswith(item.nodeid) for named in self.option.file_or_dir):
            return True
        marks, together = rotating(item)
        return all(self.has_turn(mark, together) for mark in marks)

    def twins(self, items):
        """Tests of labs again under Open MPI 5.0: all with --long, else a share when that has its turn."""
        twins = [twin for twin in map(boots.twin_of, items) if twin]
        mark = open_mpi_5.rotates.mark
        if self.option.long or not twins:
            return twins
        if not self.has_turn(mark, mark.kwargs["together"]):
            return []
        return [twin for twin in twins if self.twin_has_turn(twin)]

    def twin_has_turn(self, twin):
        """Those in loopback share a boot with tests that are run anyway. Beside it one boot has its turn."""
        own, common = boots.kind_of(twin).boot(), KINDS["loopback"].boot()
        number, times = zlib.crc32(twin.nodeid.encode()), turn(self.option) // SHARES
        if own == common:
            return (number - times) % SHARES_IN_LOOPBACK == 0
        others = list(dict.fromkeys(kind.boot() for kind in KINDS.values()
                                    if not kind.prepare and kind.boot() != common))
        return others.index(own) == times % len(others) and (number - times // len(others)) % SHARES_OF_A_BOOT == 0
