"""What a table of times has to be read with: how fast this machine is, and how busy."""

import glob
import os
import time

# Outside of a function, where a variable is an entry of a dictionary.
LOOP = compile("""
total = 0
for number in range(3_000_000):
    total += number
""", "loop", "exec")


def speed_s():
    """The processor time of a loop of three million additions, in s: the best of three. What else
    runs here does not count; load() says that."""
    times = []
    for _ in range(3):
        start = time.process_time()
        exec(LOOP, {})
        times.append(time.process_time() - start)
    return min(times)


def load():
    """Processes that wanted a processor, on average over the last minute."""
    return os.getloadavg()[0]


def has_active_port():
    """As the lab's --host asks for."""
    for path in glob.glob("/sys/class/infiniband/*/ports/*/state"):
        with open(path) as file:
            if "ACTIVE" in file.read():
                return True
    return False
