"""The nodes of a lab, and what runs on them."""

import os
import subprocess

# 'PID NAME' of each process that has this in its environment. What has ended shows none any more.
# Without Python, which takes seconds to start beside ranks that leave no processor free.
MARKED = (r"for file in $(grep -lsz '^{mark}$' /proc/[0-9]*/environ); do "
          r"pid=${{file#/proc/}} pid=${{pid%/environ}}; "
          r"name=$(cat /proc/$pid/comm 2>/dev/null) && echo $pid $name; done; true")


def nodes():
    return (1, 2) if "LAB_HOSTFILE" in os.environ else (1,)


def node_of(rank):
    return 1 + rank % len(nodes())  # --map-by node


def on_node(node, script):
    return subprocess.run(["sh", "-c", script] if node == 1 else ["lab-rsh", f"node{node}", script],
                          capture_output=True, text=True, check=False)


def kill(node, how, pids):
    """Those of them that are still there."""
    if pids:
        on_node(node, f"kill {how} {' '.join(map(str, pids))}")


def marked(mark):
    """[(node, pid, name)] of all that have this in their environment."""
    found = []
    for node in nodes():
        done = on_node(node, MARKED.format(mark=mark))
        assert done.returncode == 0, f"node{node} does not say what runs there: {done.stdout}"
        lines = [line.split(" ", 1) for line in done.stdout.splitlines() if line]
        found += [(node, int(pid), name) for pid, name in lines]
    return found
