"""Finds snippets of code in sources: with any white space between their words and signs, and never in
comments."""

import collections
import functools
import re

_COMMENT_OR_STRING = re.compile(
    r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|' r"(?<![0-9a-zA-Z_])'(?:\\.|[^'\\\n])*'", re.S)
_TOKEN = re.compile(r"\w+|[^\w\s]")


@functools.lru_cache(maxsize=1000)  # a source is searched for many snippets
def without_comments(text):
    """The same text with blanks in the place of comments: every character stays where it was."""
    def blank(found):
        if not found.group().startswith("/"):
            return found.group()
        return re.sub(r"[^\n]", " ", found.group())
    return _COMMENT_OR_STRING.sub(blank, text)


def pattern(snippet):
    tokens = _TOKEN.findall(snippet)
    if not tokens:
        raise ValueError("an empty snippet")
    parts, before = [], None
    for token in tokens:
        if before is not None:
            both_are_words = re.match(r"\w", before) and re.match(r"\w", token)
            parts.append(r"\s+" if both_are_words else r"\s*")
        parts.append(re.escape(token))
        before = token
    begin = r"(?<!\w)" if re.match(r"\w", tokens[0]) else ""
    end = r"(?!\w)" if re.match(r"\w", tokens[-1]) else ""
    return re.compile(begin + "".join(parts) + end)


def places(text, find, after=None):
    """(begin, end) of each place of `find` in the text; with `after`, of the first one behind each
    place of that."""
    plain = without_comments(text)
    wanted = pattern(find)
    if after is None:
        return [found.span() for found in wanted.finditer(plain)]
    behind = (wanted.search(plain, anchor.end()) for anchor in pattern(after).finditer(plain))
    return sorted({found.span() for found in behind if found})


def line_of(text, offset):
    return text.count("\n", 0, offset) + 1


def nearest(texts, snippet):
    """What is most like the snippet in the sources {path: text}: (path, line, the code there)."""
    wanted = collections.Counter(_TOKEN.findall(snippet))
    size, best = sum(wanted.values()), (0, None)
    for path, text in texts.items():
        tokens = list(_TOKEN.finditer(without_comments(text)))
        window, common = collections.Counter(), 0
        for i, token in enumerate(tokens):
            word = token.group()
            window[word] += 1
            common += window[word] <= wanted[word]
            if i >= size:
                gone = tokens[i - size].group()
                common -= window[gone] <= wanted[gone]
                window[gone] -= 1
            if common > best[0]:
                best = (common, (path, tokens[max(0, i - size + 1)].start(), token.end()))
    if best[1] is None:
        return None
    path, begin, end = best[1]
    return path, line_of(texts[path], begin), " ".join(texts[path][begin:end].split())
