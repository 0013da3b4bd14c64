"""conf/PAINS.md names only what exists.

In backticks are a key of the configuration, alone or with a value that it takes, a counter, a column of
`weir top`, or a command. Links lead to files, and checks of `weir doctor`, in italics, exist.
"""

import pathlib
import re
import subprocess

import pytest

from harness.kinds import ROOT

SOURCE = pathlib.Path(ROOT)
TEXT = (SOURCE / "conf/PAINS.md").read_text()


def read(name):
    return (SOURCE / name).read_text()


class Names:
    """What may be named, and what is."""

    def __init__(self, program, directory):
        self.program, self.directory, self.taken = program, directory, {}
        self.keys = set(re.findall(r"^#(\w+):", self.output("config", "show", "--defaults"), re.M))
        self.counters = self.counters_there_are()
        told = self.output("top", "--help")
        self.columns = {name for name in re.findall(r'"([A-Z][A-Z0-9/% ]*[A-Za-z]*|c)"',
                                                    read("tools/top/table.cc") + read("tools/top/peers.cc"))
                        if re.search(r"(?<!\w)" + re.escape(name) + r"(?!\w)", told)}
        self.doctor = "".join(file.read_text() for file in (SOURCE / "tools/doctor").glob("*.cc"))
        self.seen = set()

    def run(self, *arguments):
        return subprocess.run([self.program, *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              check=False)

    def output(self, *arguments):
        return self.run(*arguments).stdout

    def counters_there_are(self):
        """The list that all processes show, that of the port, and the plugin's own."""
        names = re.findall(r"^  X\((\w+),", read("base/counters.h"), re.M)
        names += re.findall(r'say\("(\w+)"', read("tools/top/report.h"))
        names += ["registration_" + name
                  for name in re.findall(r"^  X\((\w+),", read("transport/verbs/registration_cache.h"), re.M)]
        names += re.findall(r"^  X\((\w+),", read("transport/btl/pvars.h"), re.M)
        return set(names)

    def is_taken(self, setting):
        if setting not in self.taken:
            file = self.directory / "setting.yaml"
            file.write_text(setting + "\n")
            self.taken[setting] = self.run("config", "check", file).returncode == 0
        return self.taken[setting]

    def is_command(self, words):
        """A command of weir, and its options; of other programs the name only."""
        if words[0] != "weir":
            return words[0] in ("ethtool", "mpirun")
        done = self.run(*[word for word in words[1:] if not word.startswith("--")], "--help")
        options = [word for word in words if word.startswith("--")]
        return done.returncode == 0 and all(re.search(re.escape(option) + r"\b", done.stdout) for option in options)

    def problems(self, text):
        for quoted in re.findall(r"`([^`]+)`", text):
            name = " ".join(quoted.split())
            if name in self.keys or name in self.counters:
                self.seen.add(name)
            elif re.fullmatch(r"\w+: \S+", name):
                self.seen.add(name.split(":")[0])
                if not self.is_taken(name):
                    yield f"`{name}` is no setting"
            elif " " in name and name[0].islower():
                if not self.is_command(name.split()):
                    yield f"`{name}` is no command"
            elif name not in self.columns:
                yield f"`{name}` is no key, counter or column"
        for link in re.findall(r"\]\(([^)]+)\)", text):
            if not (SOURCE / "conf" / link).exists():
                yield f"the link to {link} leads nowhere"
        for check in re.findall(r"(?<!\*)\*(\w+)\*(?!\*)", text):
            if f'"{check}"' not in self.doctor:
                yield f"weir doctor has no check '{check}'"


@pytest.fixture(scope="module")
def names(build, tmp_path_factory):
    return Names(f"{build}/bin/weir", tmp_path_factory.mktemp("pains"))


def test_what_the_page_names_exists(names):
    assert list(names.problems(TEXT)) == []
    assert len(names.seen & names.keys) >= 20 and len(names.seen & names.counters) >= 20, "the page names too little"


@pytest.mark.parametrize("mistake", ["`window_maxx`", "`overlap: perhaps`", "`weir top --perrs`", "`MASS/s`",
                                     "[x](nowhere.md)", "*rnrr*"])
def test_a_mistake_in_it_is_found(mistake, names):
    assert len(list(names.problems(mistake))) == 1
