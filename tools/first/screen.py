"""What the run shows: lines, and on a terminal one more below them that says how far it is.

Lines may come from any thread. Where stdout is no terminal there are lines only, without carriage
returns: the log of a CI keeps what is written once. There the status is a line now and then, if that is
asked for.
"""

import shutil
import sys
import threading


def clock(seconds):
    seconds = max(0, round(seconds))
    if seconds < 3600:
        return f"{seconds // 60}:{seconds % 60:02}"
    return f"{seconds // 3600}:{seconds // 60 % 60:02}:{seconds % 60:02}"


class Screen:
    def __init__(self, status=lambda: "", every_s=None):
        """`status` says the text of the line below, whenever that is drawn; `every_s`: how often that
        is a line where there is no terminal."""
        self.live = sys.stdout.isatty()
        self.status, self.lock, self.ended = status, threading.Lock(), threading.Event()
        if self.live or every_s:
            threading.Thread(target=self._keep_fresh, args=(1 if self.live else every_s,),
                             daemon=True).start()

    def line(self, text=""):
        # What rewrites its own line, as apt does, has the last word.
        text = text.rstrip("\r\n").rsplit("\r", 1)[-1]
        with self.lock:
            if self.live:
                sys.stdout.write("\r\x1b[K")
            sys.stdout.write(text + "\n")
            self._draw()
            sys.stdout.flush()

    def end(self):
        """No status any more."""
        with self.lock:
            self.ended.set()
            if self.live:
                sys.stdout.write("\r\x1b[K")
            sys.stdout.flush()

    def _draw(self):
        if self.live and not self.ended.is_set():
            width = shutil.get_terminal_size().columns - 1
            sys.stdout.write("\r\x1b[K" + self.status()[:width])

    def _keep_fresh(self, pause_s):
        while not self.ended.wait(pause_s):
            with self.lock:
                if self.live:
                    self._draw()
                else:
                    sys.stdout.write(self.status() + "\n")
                sys.stdout.flush()
