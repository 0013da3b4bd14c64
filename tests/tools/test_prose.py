"""The prose: spelling, turns of phrase, length of sentences, words of Markdown.

Spelling is codespell's, over Markdown, sources, YAML and scripts. Turns of phrase (BANNED) are looked for
in Markdown and in comments and messages of C and C++. A sentence of Markdown or of a message has at most LONGEST
words; code, tables and link targets do not count. All Markdown together has at most WORDS words, as wc -w counts them.
"""

import pathlib
import re
import shutil
import subprocess
import tempfile

import pytest

LONGEST = 25    # words of a sentence
WORDS = 25_000  # of all Markdown

# Right here, though codespell has another word for them.
RIGHT = {
    "bufers": "a mistake that test_sim.py makes",
    "widnow": "a mistake that nearest_test makes",
    "improbe": "MPI_Improbe",
    "iif": "ip rule's input interface",
}

# What has to be read twice: (regular expression, plain words, why).
BANNED = [
    (r"\b(is|are|was|were) not to be\b", "must not be, cannot be", "forbidden, or impossible?"),
    (r"\bto be had\b", "available", "had by whom?"),
    (r"\bturns? out to be there\b", "is present", "two verbs say nothing"),
    (r"\bwhat (is|was) (not )?(out|there)\b(?! of\b)", "name the things", "a clause in place of a noun"),
    (r"\bwhat there is\b", "name the things", "a clause in place of a noun"),
    (r"\bwho(ever)? is (in|out|there)\b", "a member, those present", "a clause in place of a noun"),
    (r"\b(is|are|was|were|be|stays?) out\b(?! of\b)", "outstanding", "out of where?"),
    (r"\bwhat (came|comes) of\b", "the result", "reads as a question"),
    (r"\b(is|are|was|were) told of\b", "hears of, is announced", "told, or told about?"),
    (r"\bbut for\b", "except, except for", "also means: without it"),
    (r"\ball but\b", "all except", "also means: almost"),
    (r"\bmore seldom\b", "less often", "more and less in one"),
    (r"\bthrough with\b", "finishes", "through something, or done with it?"),
    (r"\bof late\b", "recently", "late reads as delayed"),
    (r"\bthat of (those|that|the one)\b", "repeat the noun", "two pronouns in a row"),
    (r"\bof (which|whom) nothing\b", "nothing of it", "the subject comes last"),
    (r"\bnot none\b", "not empty", "two negations"),
    (r"\bWho (has|leaves|waits|lives|accepted|asked|polls|gives|holds|calls|only|sent|asks is)\b(?![^.?]{,60}\?)",
     "a process that, a side that", "reads as a question"),
    (r"\b[Nn]obody \w+ \w+ who\b", "no process that", "the clause is far from its noun"),
]

KINDS = {".md", ".h", ".cc", ".c", ".py", ".sh", ".yaml", ".yml", ".cmake"}
MESSAGES = re.compile(r"(base|flowctl|rendezvous|srq|transport|tools/(?!sim/)).*\.(cc|h)$")  # files with some
# Or a comment, or a character, whose quotes are none. Lines of a macro end with a backslash.
LITERALS = r"""//[^\n]*|'(?:[^'\\\n]|\\.)+'|(?:"(?:[^"\\\n]|\\.)*"[\s\\]*)+"""
ABBREVIATED = r"\b(e\.g|i\.e|cf|vs|no|fig)\.$"


def files_of(source):
    """What git tracks, or, where there is no git, what is not built or hidden."""
    done = subprocess.run(["git", "-C", source, "ls-files", "-z"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                          text=True, check=False) if shutil.which("git") else None
    if done and done.returncode == 0 and done.stdout:
        names = done.stdout.rstrip("\0").split("\0")
    else:
        names = sorted(str(path.relative_to(source)) for path in source.rglob("*") if path.is_file())
        names = [name for name in names if not re.match(r"build|.*(^|/)(\.|__pycache__/)", name)]
    return [name for name in names if (source / name).is_file() and is_prose(source / name)]


def is_prose(path):
    if path.suffix in KINDS or path.name == "CMakeLists.txt":
        return True
    if path.suffix or "corpus" in path.parts:
        return False
    with path.open("rb") as file:
        return file.read(2) == b"#!"


def blank(match):
    """As many lines, with nothing in them."""
    return "\n" * match[0].count("\n")


def paragraphs_of_markdown(text):
    """(line, text) of each paragraph and list item; no code, tables, headings or link targets."""
    text = re.sub(r"^( *)```.*?^\1```", blank, text, flags=re.S | re.M)
    text = re.sub(r"<!--.*?-->", blank, text, flags=re.S)
    begin, lines = 0, []
    for number, line in enumerate([*text.splitlines(), ""], 1):
        bare = line.strip()
        item = re.match(r"([-*+]|\d+\.)\s+", bare)
        if not bare or item or bare.startswith(("|", "#")):
            if lines:
                yield begin, plain("\n".join(lines))
            lines = []
            bare = bare[item.end():] if item else "" if bare.startswith(("|", "#")) else bare
        if bare:
            begin = begin if lines else number
            lines.append(bare)


def plain(text):
    """Without marks, on as many lines; code is one word."""
    text = re.sub(r"`[^`]*`", lambda code: blank(code) + "CODE", text)
    text = re.sub(r"!?\[([^\]]*)\]\(([^)]*)\)", lambda link: "\n" * link[2].count("\n") + link[1], text)
    return re.sub(r"\*+|(?<!\w)_|_(?!\w)", "", text)


def sentences(text):
    """(offset, text). A sentence ends with '.', '!' or '?' before a space. weir begins with a small letter, so any
    letter may follow."""
    begin = 0
    for end in re.finditer(r"(?<=\w|[)\]%'\"])[.!?]+[)\]'\"]*(?=\s|$)", text):
        if re.search(ABBREVIATED, text[begin:end.end()], re.I):
            continue
        yield begin, text[begin:end.end()]
        begin = end.end()
    if text[begin:].strip():
        yield begin, text[begin:]


def words(sentence):
    return sum(bool(re.search(r"\w", word)) for word in sentence.split())


def long_sentences(text, longest=LONGEST):
    """(line, words, beginning)"""
    for line, paragraph in paragraphs_of_markdown(text):
        for offset, sentence in sentences(paragraph):
            if words(sentence) > longest:
                offset += len(sentence) - len(sentence.lstrip())
                yield line + paragraph.count("\n", 0, offset), words(sentence), " ".join(sentence.split()[:6])


def comments_of(text):
    """(line, text) of the comments of C and C++: lines that belong together are one text."""
    begin, lines = 0, []
    inside = False  # of /* */
    for number, line in enumerate([*text.splitlines(), ""], 1):
        code = re.sub(r'"(\\.|[^"\\])*"', '""', line)
        whole = re.match(r"\s*//+(.*)", code)
        if inside or whole:
            comment = whole[1] if not inside else code.split("*/")[0].strip().lstrip("*")
            inside = inside and "*/" not in code
            begin = begin if lines else number
            lines.append(comment.strip())
            continue
        if lines:
            yield begin, "\n".join(lines)
            lines = []
        if opened := re.search(r"/\*(.*?)(\*/|$)", code):
            inside = not opened[2]
            if inside:
                begin, lines = number, [opened[1].strip(" *")]
            else:
                yield number, opened[1].strip(" *")
        elif behind := re.search(r"//+(.*)", code):
            yield number, behind[1].strip()


def banned(text, markdown):
    """(line, what stands there, what to say, why)"""
    for line, paragraph in (paragraphs_and_rows(text) if markdown else comments_of(text)):
        for pattern, better, why in BANNED:
            for match in re.finditer(pattern.replace(" ", r"\s+"), paragraph):
                yield line + paragraph.count("\n", 0, match.start()), " ".join(match[0].split()), better, why


def paragraphs_and_rows(text):
    """Turns of phrase count in tables, too."""
    yield from paragraphs_of_markdown(text)
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("|"):
            yield number, plain(line)


def misspelt(paths, source):
    """Lines of codespell. Throws if there is none."""
    if shutil.which("codespell") is None:
        raise RuntimeError("codespell is missing: tools/setup --only test, or apt-get install codespell")
    done = subprocess.run(["codespell", "--quiet-level", "3", "--ignore-words-list", ",".join(RIGHT), *paths],
                          cwd=source, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    found = [line for line in done.stdout.splitlines() if " ==> " in line]
    if done.returncode != 0 and not found:
        raise RuntimeError(f"codespell ends with {done.returncode}: {done.stderr.strip()}")
    return found


def said(text):
    """(line, text) of the string literals of C++, adjacent ones joined, by paragraph. A line set in is of a table."""
    for found in re.finditer(LITERALS, text):
        joined = "".join(re.findall(r'"((?:[^"\\\n]|\\.)*)"', found[0])) if found[0].startswith('"') else ""
        for paragraph in re.split(r"\\n(?=\\n|  |#)", joined):
            yield text.count("\n", 0, found.start()) + 1, paragraph.replace("\\n", " ")


# ---- that this test sees something --------------------------------------------------------------------

def of_long_sentences():
    of_25, of_26 = " ".join(["word"] * 25) + ".", " ".join(["word"] * 26) + "."
    yield from wrong("25 words", list(long_sentences(of_25)), [])
    yield from wrong("26 words", [count for _, count, _ in long_sentences(of_26)], [26])
    yield from wrong("26 words, wrapped, on line 3",
                     [found[:2] for found in long_sentences("# A\n\n" + of_26.replace(" ", "\n", 1))], [(3, 26)])
    for text in (f"```\n{of_26}\n```\n", f"| a | {of_26} |\n", f"[x]({of_26.replace(' ', '/')})\n",
                 of_25 + " weir " + of_25[5:] + "\n", f"`{of_26}` is one word.\n", "- one two\n" * 26):
        yield from wrong(repr(text[:40]), list(long_sentences(text)), [])
    yield from wrong("an abbreviation", [count for _, count, _ in long_sentences("see e.g. " + of_25)], [27])
    yield from wrong("a list item", [found[0] for found in long_sentences(f"- a b.\n- {of_26}\n")], [2])
    yield from wrong("a second sentence", [found[0] for found in long_sentences(f"A\n`b\nc` d.\n{of_26}\n")], [4])
    yield from wrong("code over two lines ends a sentence", list(long_sentences(f"A `b\nc`. {of_25}\n")), [])
    yield from wrong("a number like .68", [count for _, count, _ in long_sentences("takes .68 of " + of_25)], [28])


def of_banned_turns():
    examples = ["It is not to be taken.", "No memory is\nto be had.", "It turns out to be there.", "what is out",
                "hand up what there is", "who is in it", "Two are out.", "show what came of it", "is told of by none",
                "all zero but for one", "all but one", "ever more seldom", "is through with it", "seen of late",
                "changes that of those", "of which nothing was sent", "that are not none", "Who waits goes on.",
                "nobody has parted who is"]
    for (pattern, _, _), example in zip(BANNED, examples, strict=True):
        for what, text in ("Markdown", example), ("a table", f"| {' '.join(example.split())} |"):
            if not list(banned(text, True)):
                yield f"{pattern} is not seen in {what}: {example!r}"
        for what, text in (("a comment", re.sub("^", "  // ", example, flags=re.M)),
                           ("a comment behind code", f"int x;  // {' '.join(example.split())}"),
                           ("a block", f"/* {example} */")):
            if not list(banned(text, False)):
                yield f"{pattern} is not seen in {what}: {example!r}"
    for text in ('say("two are out");  // a string', "what is out of reach", "Who has it?  // x"):
        yield from wrong(repr(text), list(banned(text, False)), [])
    yield from wrong("code", list(banned("```\nall but one\n```\n`all but one`\n", True)), [])


def of_misspelt_words():
    with tempfile.TemporaryDirectory() as directory:
        path = pathlib.Path(directory) / "a.md"
        bad = "rec" + "ieve"
        path.write_text(f"They {bad}, and a widnow is meant.\n")
        yield from wrong("a misspelt word", [line.split(":")[-1].split()[0] for line in misspelt([path], directory)],
                         [bad])


def of_messages():
    text = r'''// "a comment"
      say('"', "one "  // of two
          "text:\n  a table\n");
      X(name, "unit",  \
        "two\nlines")'''
    found = [paragraph.strip() for _, paragraph in said(text) if paragraph.strip()]
    yield from wrong("strings", found, ["one", "text:", "a table", "unit", "two lines"])


def wrong(what, found, expected):
    if found != expected:
        yield f"{what}: found {found}, not {expected}"


# ---- the checks ---------------------------------------------------------------------------------------

def check_files(names):
    """Of each kind there are some."""
    for kind in (".md", ".h", ".cc", ".py", ".yaml", ".sh"):
        if not any(name.endswith(kind) for name in names):
            yield f"no {kind} among {len(names)} files"
    for name in ("README.md", "tests/run"):
        if name not in names:
            yield f"{name} is not among {len(names)} files"


def check_turns(source, names):
    for name in names:
        if name.endswith((".md", ".h", ".cc", ".c")):
            text = (source / name).read_text(errors="replace")
            for line, found, better, why in banned(text, name.endswith(".md")):
                yield f"{name}:{line}: '{found}' ({why}): {better}"


def check_sentences(source, names):
    for name in names:
        if not name.endswith(".md"):
            continue
        for line, count, begin in long_sentences((source / name).read_text()):
            yield f"{name}:{line}: {count} words: {begin} …"


def check_messages(source, names):
    for name in filter(MESSAGES.match, names):
        for line, text in said((source / name).read_text()):
            yield from (f"{name}:{line}: {words(sentence)} words: {' '.join(sentence.split()[:6])} …"
                        for _, sentence in sentences(text) if words(sentence) > LONGEST)
            yield from (f"{name}:{line}: '{found[0]}' ({why}): {better}" for pattern, better, why in BANNED
                        if (found := re.search(pattern, text)))


def check_words(source, names):
    counts = {name: len((source / name).read_text().split()) for name in names if name.endswith(".md")}
    if sum(counts.values()) > WORDS:
        yield f"{sum(counts.values())} words of Markdown, of {WORDS}"
        yield from (f"{count:6} {name}" for name, count in sorted(counts.items(), key=lambda pair: -pair[1]))


@pytest.fixture(scope="module")
def source(root):
    return pathlib.Path(root)


@pytest.fixture(scope="module")
def names(source):
    return files_of(source)


def none_of(problems):
    problems = list(problems)
    if problems:
        pytest.fail("\n".join(problems), pytrace=False)


@pytest.mark.parametrize("mistakes", [of_long_sentences, of_banned_turns, of_messages, of_misspelt_words])
def test_it_sees(mistakes):
    none_of(mistakes())


def test_there_are_files_of_each_kind(names):
    none_of(check_files(names))


def test_spelling(source, names):
    none_of(misspelt(names, source))


def test_no_turn_of_phrase_has_to_be_read_twice(source, names):
    none_of(check_turns(source, names))


def test_sentences_are_short(source, names):
    none_of(check_sentences(source, names))


def test_messages_of_programs(source, names):
    none_of(check_messages(source, names))


def test_words_of_all_markdown(source, names):
    none_of(check_words(source, names))
