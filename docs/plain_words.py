#!/usr/bin/env python3
"""Counts words that keep strangers out of the comments and documents.

Usage: docs/plain_words.py [--check] [--worst N] [--root DIR]

For each group of text prints, per 1,000 words:

  persons    who, whom, whose, whoever, somebody, nobody, anybody, everybody (other projects of this field: 0.06 to 0.33)
  speech     told, said, says, heard, hears                                  (0.06 to 0.22)

and the share of sentences that begin with What, Who, Whoever, Whose, Of, Those, So many, As there, As above (0 to 0.3 %),
of sentences of more than 30 words, and of types whose name another type of the workspace has (5 to 20 %).

  --worst N   lists the N files with most of these words
  --check     exits with 1 where a group exceeds a limit of LIMITS, or a file has more than FILE_FREE of these words and more
              than FILE_RATE of them in 1,000 words

The counts show where to look. Text that passes and is hard to read is still a defect.
"""

import argparse
import collections
import pathlib
import re
import sys

PERSONS = re.compile(r"\b(who|whom|whose|whoever|whomever|somebody|nobody|anybody|everybody)\b", re.I)
SPEECH = re.compile(r"\b(told|said|says|heard|hears)\b", re.I)
OPENING = re.compile(r"^(What|Who|Whom|Whose|Whoever|Whatever|Of|Those|So many|As there|As above)\b")
LIMITS = {"persons": 1.0, "speech": 0.7, "opening": 1.0, "long": 8.0}
SHARED_NAMES = 20.0
FILE_FREE = 4
FILE_RATE = 5.0
FRONT = ["README.md", "docs/guide.md", "ARCHITECTURE.md", "CONTRIBUTING.md"]
TYPE = re.compile(r"^\s*(?:pub(?:\([^)]*\))?\s+)?(?:struct|enum|trait)\s+([A-Z]\w*)", re.M)


def rust_comments(path: pathlib.Path) -> str:
    """Comments of a source up to its tests, without the code in them."""
    out: list[str] = []
    fence = False
    for line in path.read_text(errors="replace").splitlines():
        stripped = line.strip()
        if stripped.startswith("#[cfg(test)]"):
            break
        comment = re.match(r"//[/!]\s?(.*)", stripped) or re.match(r"//\s(.*)", stripped)
        if not comment:
            out.append("")
        elif comment[1].startswith("```"):
            fence = not fence
        elif not fence:
            out.append(comment[1])
    return "\n".join(out)


def markdown(path: pathlib.Path) -> str:
    """A document without its code; each cell of a table is a sentence."""
    out: list[str] = []
    fence = False
    for line in path.read_text(errors="replace").splitlines():
        if line.startswith("```"):
            fence = not fence
        elif not fence:
            out.append(line.replace("|", " . "))
    return "\n".join(out)


def count(text: str) -> dict[str, float]:
    """Words, rates and hits of a text."""
    text = re.sub(r"`[^`]*`", "X", text)
    text = re.sub(r"\]\([^)]*\)", "]", text)
    text = re.sub(r"<!--.*?-->", "", text, flags=re.S)
    words = len(re.findall(r"[A-Za-z][A-Za-z'’-]*", text))
    sentences = [s.strip(" #*-[]_\n\"“(") for s in re.split(r"(?<=[.!?:;])\s+|\n\s*\n|\n(?=[-#*])", text)]
    sentences = [s for s in sentences if len(s.split()) > 2]
    persons, speech = len(PERSONS.findall(text)), len(SPEECH.findall(text))
    openings = sum(bool(OPENING.match(s)) for s in sentences)
    return {
        "words": words,
        "persons": 1000 * persons / max(words, 1),
        "speech": 1000 * speech / max(words, 1),
        "opening": 100 * openings / max(len(sentences), 1),
        "long": 100 * sum(len(s.split()) > 30 for s in sentences) / max(len(sentences), 1),
        "hits": persons + speech + openings,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent.parent)
    parser.add_argument("--worst", type=int, default=0)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    root = options.root
    sources = [
        path
        for path in sorted(root.glob("crates/**/*.rs"))
        if "src" in path.parts and not {"target", "tests"} & set(path.parts) and not re.search(r"tests?\.rs$", path.name)
    ]
    front = [root / name for name in FRONT if (root / name).exists()]
    documents = [path for path in sorted(root.glob("docs/**/*.md")) if path not in front]
    attackers = [path for path in documents if path.stem == "threat-model" or path.parent.name == "threat-model"]
    groups = [
        ("comments in crates/", sources, rust_comments),
        ("README, guide, ARCHITECTURE, CONTRIBUTING", front, markdown),
        ("threat model", attackers, markdown),
        ("other documents", [path for path in documents if path not in attackers], markdown),
    ]
    wrong: list[str] = []
    files: list[tuple[int, pathlib.Path]] = []
    print(f"{'':44} {'words':>7} {'persons':>8} {'speech':>7} {'opening':>8} {'long':>6}")
    for name, paths, read in groups:
        texts = {path: read(path) for path in paths}
        whole = count("\n\n".join(texts.values()))
        print(f"{name:44} {whole['words']:7} {whole['persons']:8.2f} {whole['speech']:7.2f} {whole['opening']:7.1f}% {whole['long']:5.1f}%")
        wrong += [f"{name}: {key} {whole[key]:.2f}, at most {most}" for key, most in LIMITS.items() if whole[key] > most]
        for path, text in texts.items():
            one = count(text)
            files.append((int(one["hits"]), path))
            if one["hits"] > FILE_FREE and 1000 * one["hits"] > FILE_RATE * one["words"]:
                wrong.append(f"{path.relative_to(root)}: {one['hits']:.0f} counted words in {one['words']}, more than allowed")
    names = collections.Counter(name for path in sources for name in TYPE.findall(path.read_text(errors="replace")))
    total = sum(names.values())
    shared = 100 * sum(n for n in names.values() if n > 1) / max(total, 1)
    print(f"types that share their name with another: {shared:.0f} % of {total}")
    if shared > SHARED_NAMES:
        most = ", ".join(f"{name} {n}" for name, n in names.most_common(12))
        wrong.append(f"types that share their name: {shared:.0f} %, at most {SHARED_NAMES:.0f}; most: {most}")
    for hits, path in sorted(files, reverse=True)[: options.worst]:
        print(f"{hits:5} {path.relative_to(root)}")
    print("\n".join(wrong) if wrong else "plain words: every limit holds")
    sys.exit(1 if options.check and wrong else 0)


if __name__ == "__main__":
    main()
