"""Tries every command that a README of this repository shows.

A command is a line of a fenced block, or code in a sentence, that begins with a program of ours, of Open
MPI or of the build. Of each one the program has to exist and its --help to know each option. What a block
or the first README shows is also run, in a directory of its own: here what needs no fabric; in the lab
what is shown as "tools/lab/lab -- ..." or looks at a device. Some take too long or install things: they
are in ELSEWHERE, with what runs them.
"""

import contextlib
import dataclasses
import fnmatch
import os
import pathlib
import re
import shlex
import subprocess

import pytest

from harness.kinds import ROOT
from harness.programs import run, unit_program
from mpi.ruled_out import NOT_UNDER

SOURCE = pathlib.Path(ROOT)

# Not run by this test, and why.
ELSEWHERE = {
    "tools/quickstart": "builds and boots",
    "tests/run": "is what runs this",
    "pytest-3 *": "is what runs this",
    "tests/run [!-]*": "is what runs this",
    "tests/run --[!hl]*": "is what runs this",
    "packaging/make-deb*": "tests/packaging",
    "apt install *": "tests/packaging",
    "cmake *": "every build",
    "tools/lab/root *": "harness/open_mpi_5.py",
    "tools/lab/lab --root *": "harness/open_mpi_5.py",
    "tests/fuzz/run*": "tests/fuzz/test_fuzz.py",
    "tests/mutants/mutants *": "tests/mutants/test_mutants.py; hours",
    "ADAPTER=*": "tests/adapter/test_variants.py",
    "STRICT=*": "tests/contract/test_on_device.py",
    "mpirun -np 2 -x ADAPTER=*": "tests/adapter/test_variants.py",
    "tests/bench/*": "a measurement",
    "build/bin/*_bench": "a measurement",
    "weir doctor --peer *": "tests/lab/test_doctor.py",
    "weir doctor --hosts *": "tests/tools/test_hosts.py",
    "weir config diff*": "tests/lab/test_doctor.py",
    "weir perf *": "tests/lab/test_perf.py",
    "weir set": "tests/mpi/test_sharing.py",
    "weir set *": "tests/mpi/test_sharing.py",
    "weir top --hosts *": "tests/tools/test_many.py",
    "weir tune *": "tests/mpi/test_sharing.py",
    "weir sim reproduce*": "ctest: sim.smoke",
}
# Run in the lab even where no lab is named: they look at a device or at a job.
AT_A_DEVICE = ["weir info", "weir doctor", "weir top --once*", "eval *", "mpirun *"]
# In a sentence these are names of a command, which wants more words.
NAMES = ["weir config", "weir config check", "weir config diff", "weir sim", "weir top", "weir tune",
         "tests/run", "tools/lab/lab"]

PROGRAMS = r"(?:tools|tests|packaging|build(?:-asan)?/bin|build/mpi)/[\w./-]+|weir|cmake|mpirun|apt|eval|python3|pytest-3|bench|overlap"
FIRST_WORD = re.compile(rf"(?:\w+=\S+ )*(?:{PROGRAMS})(?= |;|$)")


@dataclasses.dataclass
class Command:
    file: str
    line: int
    text: str
    shown: bool  # in a block or in the first README: it is run, not only looked at

    def is_to_fill_in(self):
        """It has a word that the reader replaces."""
        return "…" in self.text or re.search(r"(?<![\w$./])[A-Z]{3,}\b(?![=\w])", self.text)


def of_block(text):
    """The command lines of a block: what follows "$ " if that is there, else all that are commands."""
    lines = text.replace("\\\n", "").splitlines()
    prompts = any(line.startswith("$ ") for line in lines)
    for number, line in enumerate(lines):
        if not prompts or line.startswith("$ "):
            yield number, re.sub(r"\s+#\s.*", "", line.removeprefix("$ ")).rstrip()


def commands_of(path, name):
    text = path.read_text()
    for block in re.finditer(r"^```\w*\n(.*?)^```", text, re.S | re.M):
        for number, line in of_block(block[1]):
            if FIRST_WORD.match(line):
                yield Command(name, text[:block.start(1)].count("\n") + number + 1, line, True)
    prose = re.sub(r"^```.*?^```", lambda block: "\n" * block[0].count("\n"), text, flags=re.S | re.M)
    for code in re.finditer(r"`([^`]+)`", prose):
        line = " ".join(code[1].split())
        if FIRST_WORD.match(line) and (" " in line or "/" in line and not line.endswith("/")):
            yield Command(name, prose[:code.start()].count("\n") + 1, line,
                          name == "README.md" and line not in NAMES)


def is_elsewhere(text):
    return any(fnmatch.fnmatch(text, glob) for glob in ELSEWHERE)


def is_for_the_lab(text):
    return text.startswith("tools/lab/lab ") or any(fnmatch.fnmatch(text, glob) for glob in AT_A_DEVICE)


def all_commands():
    listed = subprocess.run(["git", "-C", SOURCE, "ls-files", "*.md"], capture_output=True, text=True,
                            check=False).stdout.split()
    files = listed or [path.relative_to(SOURCE).as_posix() for path in SOURCE.rglob("*.md")]
    return [command for name in sorted(files) if not name.startswith("build")
            for command in commands_of(SOURCE / name, name)]


COMMANDS = all_commands()
# What is shown twice is run once.
TO_RUN = dict.fromkeys(command.text for command in COMMANDS
                       if command.shown and not command.is_to_fill_in() and not is_elsewhere(command.text))


def simple_commands(text):
    """The words of each command of a line of shell."""
    words = []
    lexer = shlex.shlex(text.replace("…", ""), posix=True, punctuation_chars=";&|")
    lexer.whitespace_split = True
    for word in lexer:
        if set(word) <= set(";&|"):
            yield words
            words = []
        else:
            words.append(word)
    yield words


class Look:
    """What exists, and what its --help knows."""

    def __init__(self, build):
        self.build, self.helps = pathlib.Path(build), {}

    def help(self, *words):
        """None if it has none. Test programs in C++ know no --help, and say their usage."""
        if words not in self.helps:
            done = run(*words, "--help", status=None)
            has_one = done.returncode == 0 or "/bin/weir_" in words[0] and "usage: " in done.stderr
            self.helps[words] = done.stdout + done.stderr if has_one else None
        return self.helps[words]

    def program(self, word):
        if word in ("bench", "overlap"):  # tests/bench/README is beside them
            word = "tests/bench/" + word
        if word == "weir":
            return self.build / "bin/weir"
        if word.startswith("build-asan/bin/"):
            return pathlib.Path(unit_program(str(self.build), pathlib.Path(word).name))
        if word.startswith("build/"):
            return self.build / word.removeprefix("build/")
        return SOURCE / word

    def problems(self, text):
        for words in simple_commands(text):
            while words and re.match(r"\w+=", words[0]):
                words.pop(0)
            if not words or not re.fullmatch(PROGRAMS, words[0]) or \
                    words[0] in ("cmake", "apt", "eval", "python3"):
                continue
            if words[0] == "pytest-3":
                yield from self.of_pytest(words)
                continue
            if words[0] == "mpirun":
                yield from self.parameters_unknown(words)
                continue
            yield from self.of_ours(words)

    def of_ours(self, words):
        program = self.program(words[0])
        if not program.exists():
            yield f"{words[0]} is not there"
            return
        if program.is_dir() or not os.access(program, os.X_OK) or words[0].startswith("build/mpi/"):
            return  # MPI programs of tests have no --help
        if "--" in words:  # what follows is another command
            words, rest = words[:words.index("--")], words[words.index("--") + 1:]
            yield from self.problems(shlex.join(rest)) if rest else ()
        options = [word.split("=")[0] for word in words[1:] if word.startswith("--")]
        path = [str(program)]
        if words[0] == "weir" or program.name == "mutants":
            for word in words[1:]:
                if not re.fullmatch(r"[a-z]+", word) or self.help(*path, word) is None:
                    break
                path.append(word)
            if len(path) == 1 and len(words) > 1 and re.fullmatch(r"[a-z]+", words[1]):
                yield f"{words[0]} {words[1]} is no command"
        if not [option for option in options if not option.startswith("--gtest")]:
            return
        text = self.help(*path)
        if text is None:
            yield f"{shlex.join(words[:len(path)])} has no --help"
            return
        for option in options:
            if not option.startswith("--gtest") and not re.search(re.escape(option) + r"(?![\w-])", text):
                yield f"{shlex.join(words[:len(path)])} has no {option}"

    def of_pytest(self, words):
        """It finds files, options and tests; NAME is for the reader to fill in."""
        done = run(*words, "--long", "--collect-only", "-q", cwd=SOURCE, status=None)
        if done.returncode != 0 and "NAME" not in words:
            yield f"pytest finds no such tests: {(done.stdout + done.stderr)[-500:]}"

    def parameters_unknown(self, words):
        known = run(self.program("weir"), "config", "show", "--defaults").stdout
        for word in words:
            name = word.removeprefix("btl_weir_")
            if name != word and not re.search(rf"^#{name}:", known, re.M):
                yield f"{word} is no parameter"
        for option, value in zip(words, words[1:]):
            if option == "--tune" and not (SOURCE / value).exists():
                yield f"{value} is not there"


@pytest.fixture(scope="module")
def look(build):
    return Look(build)


class Place:
    """A directory that looks like the checkout, in which a command may leave files."""

    def __init__(self, build, directory):
        self.directory = directory
        for entry in SOURCE.iterdir():
            if not entry.name.startswith(("build", ".")):
                (directory / entry.name).symlink_to(entry)
        (directory / "build").symlink_to(build)
        (directory / "my.yaml").write_text("window_max: 64\n")
        app = directory / "my_app"
        app.write_text(f'#!/bin/sh\nexec {build}/mpi/ring "$@"\n')
        app.chmod(0o755)
        self.environment = {"PATH": f"{build}/bin:{os.environ['PATH']}", "WEIR_BUILD_DIR": build,
                            "OMPI_MCA_rmaps_base_oversubscribe": "1"}

    def run(self, text):
        run("bash", "-c", text, cwd=self.directory, env=self.environment)

    @contextlib.contextmanager
    def a_job(self):
        """For what looks at processes."""
        with subprocess.Popen(["bash", "-c", 'eval "$(tools/env)"; exec mpirun --tune conf/weir-tune.conf -np 2 '
                                             './my_app --laps 100000000'],
                              cwd=self.directory, env={**os.environ, **self.environment}, stdin=subprocess.DEVNULL,
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as job:
            try:
                self.run("for i in {1..100}; do weir top --once >/dev/null && exit; sleep .2; done; exit 1")
                yield
            finally:
                job.terminate()


@pytest.fixture
def place(build, tmp_path):
    return Place(build, tmp_path)


# ---- the tests ---------------------------------------------------------------------------------------

@pytest.mark.parametrize("command", [pytest.param(command, id=f"{command.file}:{command.line}: {command.text}")
                                     for command in COMMANDS])
def test_program_and_options_exist(command, look):
    problems = list(look.problems(command.text))
    assert not problems


@pytest.mark.parametrize("text", [text for text in TO_RUN if not is_for_the_lab(text)])
def test_runs_here(text, place):
    place.run(text)


@pytest.mark.lab("loopback")
@pytest.mark.long(seconds=9)
@pytest.mark.parametrize("text", [text for text in TO_RUN if is_for_the_lab(text)])
def test_runs_in_the_lab(text, place):
    with place.a_job() if text.startswith("weir top") else contextlib.nullcontext():
        place.run(re.sub(r"^tools/lab/lab (?:\S+ )*?-- ", 'eval "$(tools/env)"; ', text))


@pytest.mark.parametrize("glob", ELSEWHERE)
def test_an_exception_is_shown_by_a_readme(glob):
    assert any(command.shown and fnmatch.fnmatch(command.text, glob) for command in COMMANDS)


def test_each_cell_about_deaths_names_a_test():
    """Of tests/lab, as pytest's -k finds them."""
    found = run("pytest-3", "tests/lab", "--long", "--collect-only", "-q", cwd=SOURCE).stdout.lower().splitlines()
    table = [line for line in (SOURCE / "transport/DEATHS.md").read_text().splitlines() if line.startswith("| ")]
    for row in table[1:]:
        for cell in row.strip("| ").split(" | ")[2:]:
            names = re.findall(r"`(\w+)`", cell)
            assert names, f"no test is named: {cell}"
            for name in names:
                assert any(name in test for test in found), f"-k {name} finds no test"


def test_the_table_of_versions_of_open_mpi_names_what_they_rule_out():
    table = (SOURCE / "tests/mpi/README.md").read_text().splitlines()
    for version, rules in NOT_UNDER.items():
        row = next(line for line in table if line.startswith(f"| {version}."))
        for glob, _ in rules:
            assert f"`{glob.split()[0]}`" in row, f"{glob} is ruled out under Open MPI {version}"
