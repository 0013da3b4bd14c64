"""The mutants and the tests that may notice them, as the .toml files of this folder say."""

import dataclasses
import fnmatch
import os
import re
import tomllib

import snippets

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
TESTS = "tests.toml"
NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")


class Mistake(Exception):
    """In the list of mutants or of tests."""


@dataclasses.dataclass
class Mutant:
    part: str
    name: str
    fault: str
    folders: list
    find: str
    replacement: str
    tests: list
    after: str | None = None


@dataclasses.dataclass
class Test:
    key: str
    command: str
    targets: list
    limit: int
    tree: str = "plain"
    lab: bool = False


def _load(path):
    with open(path, "rb") as file:
        try:
            return tomllib.load(file)
        except tomllib.TOMLDecodeError as error:
            raise Mistake(f"{path}: {error}") from None


def load_tests():
    """The tests by key, and the arguments of cmake by build tree."""
    table = _load(os.path.join(HERE, TESTS))
    tests = {}
    for key, entry in table["test"].items():
        try:
            tests[key] = Test(key=key, **entry)
        except TypeError as error:
            raise Mistake(f"{TESTS}: {key}: {error}") from None
        if tests[key].tree not in table["tree"]:
            raise Mistake(f"{TESTS}: {key}: there is no tree '{tests[key].tree}'")
    return tests, {name: entry["cmake"] for name, entry in table["tree"].items()}


def load_mutants():
    """All of them, by file and then as they stand there. What the beginning of a file says holds for
    all of its mutants that say nothing else."""
    mutants = []
    for name in sorted(os.listdir(HERE)):
        if not name.endswith(".toml") or name == TESTS:
            continue
        table = _load(os.path.join(HERE, name))
        for entry in table.get("mutant", []):
            entry = {"in": table.get("in"), "tests": table.get("tests"), **entry}
            lacking = [key for key in ("name", "fault", "in", "find", "with", "tests")
                       if entry.get(key) is None]
            unknown = set(entry) - {"name", "fault", "in", "find", "with", "tests", "after"}
            if lacking or unknown:
                raise Mistake(f"{name}: {entry.get('name', '?')}: lacks {lacking}, unknown {unknown}")
            folders = [entry["in"]] if isinstance(entry["in"], str) else entry["in"]
            mutants.append(Mutant(
                part=name.removesuffix(".toml"), name=entry["name"], fault=entry["fault"],
                folders=folders, find=entry["find"], replacement=entry["with"], tests=entry["tests"],
                after=entry.get("after")))
    return mutants


def chosen(mutants, only, part):
    """Those whose name matches one of `only`, if any are given, of this part, if one is."""
    return [m for m in mutants if part in (None, m.part)
            and (not only or any(fnmatch.fnmatch(m.name, glob) for glob in only))]


def sources_of(folders, root=ROOT):
    """{path below root: text} of the sources in the folders and below."""
    texts = {}
    for folder in folders:
        for directory, _, names in sorted(os.walk(os.path.join(root, folder))):
            for name in sorted(names):
                if name.endswith((".h", ".cc")):
                    path = os.path.join(directory, name)
                    with open(path, encoding="utf-8") as file:
                        texts[os.path.relpath(path, root)] = file.read()
    return texts


def apply(mutant, texts):
    """(path, the text with the fault in it). Raises Mistake unless it applies exactly once."""
    found = [(path, place) for path, text in texts.items()
             for place in snippets.places(text, mutant.find, mutant.after)]
    where = " or ".join(mutant.folders)
    if not found:
        missing = mutant.find
        if mutant.after and any(snippets.places(text, mutant.find) for text in texts.values()):
            missing = mutant.after
        near = snippets.nearest(texts, missing)
        hint = f"\n    nearest, {near[0]}:{near[1]}: {near[2]}" if near else ""
        raise Mistake(f"not found in {where}: {' '.join(missing.split())}{hint}")
    if len(found) > 1:
        at = ", ".join(f"{path}:{snippets.line_of(texts[path], begin)}" for path, (begin, _) in found)
        raise Mistake(f"found {len(found)} times: {at}")
    path, (begin, end) = found[0]
    changed = texts[path][:begin] + mutant.replacement + texts[path][end:]
    if snippets.without_comments(changed).split() == snippets.without_comments(texts[path]).split():
        raise Mistake("changes nothing")
    return path, changed


def problems_of(mutants, tests, root=ROOT):
    """[(mutant, problem)] of those that are not as they should be."""
    problems, seen, texts = [], {}, {}
    for mutant in mutants:
        if not NAME.fullmatch(mutant.name):
            problems.append((mutant, "its name is not in kebab-case"))
        if mutant.name in seen:
            problems.append((mutant, f"there is one of this name in {seen[mutant.name]}.toml"))
        seen[mutant.name] = mutant.part
        if not re.fullmatch(r"[A-Z].*[.]", mutant.fault):
            problems.append((mutant, "its fault is no sentence"))
        unknown = [key for key in mutant.tests if key not in tests]
        if unknown or not mutant.tests:
            problems.append((mutant, f"no such tests: {unknown}" if unknown else "no tests"))
        key = tuple(mutant.folders)
        try:
            texts.setdefault(key, sources_of(mutant.folders, root))
            apply(mutant, texts[key])
        except Mistake as mistake:
            problems.append((mutant, str(mistake)))
    return problems
