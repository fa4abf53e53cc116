#!/usr/bin/env python3
"""Makes one site of documentation of the repository's Markdown, and checks its links.

Usage: docs/book.py --check [--root DIR]
       docs/book.py --sources PROGRAM [--into DIR] [--root DIR]
       docs/book.py --build PROGRAM [--into DIR] [--root DIR]

  --check            one line for each relative link of a tracked Markdown file whose file or heading is missing;
                     exit status 1 if there is one
  --sources PROGRAM  writes the sources of the site into DIR/src (default: target/book): the documents, one page for
                     each command from `PROGRAM VERB --help`, one for each job of docs/guide.md, and SUMMARY.md
  --build PROGRAM    as --sources, then runs mdbook; the site stands in DIR/html
  --root DIR         another checkout

The site has four parts: Start, How to, Reference, Explanation. A document that is not listed in PARTS fails the build,
so that none is forgotten.
"""

import argparse
import pathlib
import re
import subprocess
import sys

# Each part: a title and its pages in order. `*` stands for all files that match and are not listed elsewhere.
PARTS = [
    ("Start", ["README.md", "docs/glossary.md"]),
    ("How to", ["docs/guide.md", "docs/service.md", "docs/cluster.md", "docs/node.md", "docs/ui.md", "docs/sum.md", "crates/xylem-python/README.md", "docs/packaging.md"]),
    ("Reference", ["docs/features.md", "(commands)", "docs/tools.md", "docs/spec/README.md", "docs/spec/json-events.md", "docs/spec/*.md", "docs/interop.md"]),
    (
        "Explanation",
        [
            "ARCHITECTURE.md",
            "docs/threat-model.md",
            "docs/threat-model/*.md",
            "docs/shaping.md",
            "docs/hash-engine.md",
            "docs/explanation/*.md",
            "docs/benchmarks.md",
            "docs/instructions.md",
            "docs/reliability.md",
            "docs/mistakes.md",
            "docs/dependencies.md",
            "CONTRIBUTING.md",
            "CHANGELOG.md",
            "SECURITY.md",
        ],
    ),
]
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^()\s]+)\)")


def tracked(root: pathlib.Path) -> list[str]:
    """Markdown files of the repository, as paths below its root."""
    listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"]
    paths = subprocess.run(listed, cwd=root, check=True, capture_output=True, text=True).stdout.split()
    return sorted(path for path in paths if (root / path).is_file() and not (root / path).is_symlink())


def outside_fences(text: str) -> list[tuple[int, str]]:
    """Lines of a document with their numbers, without those of code."""
    lines, fence = [], ""
    for number, line in enumerate(text.split("\n"), 1):
        mark = re.match(r"\s*(```+|~~~+)", line)
        if mark and (not fence or mark[1].startswith(fence)):
            fence = "" if fence else mark[1]
        elif not fence:
            lines.append((number, line))
    return lines


def slug(heading: str) -> str:
    """The anchor of a heading, as mdBook and GitHub make it."""
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").strip().lower()
    return re.sub(r"[^\w\- ]", "", text).replace(" ", "-")


def anchors(text: str) -> set[str]:
    """All anchors of a document; a heading that stands twice has a number."""
    found: set[str] = set()
    for _, line in outside_fences(text):
        heading = re.match(r"#{1,6}\s+(.*?)\s*#*$", line)
        if heading:
            base = anchor = slug(heading[1])
            count = 0
            while anchor in found:
                count += 1
                anchor = f"{base}-{count}"
            found.add(anchor)
        found.update(re.findall(r'<a (?:id|name)="([^"]+)"', line))
    return found


def links(text: str) -> list[tuple[int, str]]:
    """Targets of the relative links, with the numbers of their lines."""
    found = []
    for number, line in outside_fences(text):
        for match in LINK.finditer(re.sub(r"`[^`]*`", lambda code: "x" * len(code[0]), line)):
            if not re.match(r"[a-z+]+:", match[3]):
                found.append((number, match[3]))
    return found


def broken(root: pathlib.Path) -> list[str]:
    """A line for each link that leads nowhere."""
    bad = []
    for path in tracked(root):
        text = (root / path).read_text()
        for number, target in links(text):
            file, _, anchor = target.partition("#")
            to = (root / path).parent / file if file else root / path
            if not to.exists():
                bad.append(f"{path}:{number}: no file {file}")
            elif anchor and to.suffix == ".md" and anchor not in anchors(to.read_text()):
                bad.append(f"{path}:{number}: no heading #{anchor} in {file or path}")
    return bad


def title(text: str, otherwise: str) -> str:
    heading = re.search(r"^#\s+(.*)$", text, re.M)
    return heading[1] if heading else otherwise


def verbs(program: str) -> list[str]:
    """Verbs and groups that have a page, as they are typed."""
    return subprocess.run([program, "man", "--list"], check=True, capture_output=True, text=True).stdout.splitlines()


def commands(program: str, src: pathlib.Path) -> list[tuple[str, str]]:
    """Writes a page for each verb: titles and paths."""
    pages = []
    for verb in verbs(program):
        text = subprocess.run([program, *verb.split(), "--help"], check=True, capture_output=True, text=True).stdout
        path = f"commands/{verb.replace(' ', '-')}.md"
        page = src / path
        page.parent.mkdir(parents=True, exist_ok=True)
        page.write_text(f"# xylem {verb}\n\n```text\n{text.rstrip()}\n```\n")
        pages.append((f"xylem {verb}", path))
    return pages


def jobs(text: str, src: pathlib.Path) -> list[tuple[str, str]]:
    """Writes a page for each job of the guide beside the guide's own page: titles and paths."""
    pages = []
    for part in re.split(r"^(?=## )", text, flags=re.M)[1:]:
        name = re.sub(r"^\d+\.\s*", "", part.split("\n", 1)[0][3:]).strip()
        page = src / f"docs/guide-{slug(name)}.md"
        page.write_text("#" + part.split("\n", 1)[0][2:] + "\n" + part.split("\n", 1)[1])
        pages.append((name, page.relative_to(src).as_posix()))
    return pages


def copied(root: pathlib.Path, path: str, src: pathlib.Path, inside: set[str]) -> str:
    """Copies a document; links to files that are no part of the site become plain text, pictures come along."""
    here = (root / path).parent
    text = (root / path).read_text()

    def replaced(match: re.Match[str]) -> str:
        target, mark, anchor = match[3].partition("#")
        if not target or re.match(r"[a-z+]+:", match[3]):
            return match[0]
        to = (here / target).resolve()
        if not to.is_relative_to(root):
            return match[2]
        inner = to.relative_to(root).as_posix()
        if to.is_dir() and f"{inner}/README.md" in inside:
            to, inner, target = to / "README.md", f"{inner}/README.md", f"{target.rstrip('/')}/README.md"
        if inner in inside:
            # mdBook renders README.md as index.html.
            target = re.sub(r"(^|/)README\.md$", r"\1index.md", target)
            return f"{match[1]}[{match[2]}]({target}{mark}{anchor})"
        if to.suffix in (".svg", ".png") and to.is_file():
            (src / inner).parent.mkdir(parents=True, exist_ok=True)
            (src / inner).write_bytes(to.read_bytes())
            return match[0]
        return match[2]

    text = LINK.sub(replaced, text)
    (src / path).parent.mkdir(parents=True, exist_ok=True)
    (src / path).write_text(text)
    return text


def sources(root: pathlib.Path, program: str, into: pathlib.Path) -> None:
    """Writes the sources of the site."""
    src = into / "src"
    named = {page for _, pages in PARTS for page in pages if "*" not in page}
    every = [p for p in tracked(root) if p.startswith("docs/") or "/" not in p or p in named]
    listed: set[str] = set()
    summary = ["# Summary", ""]
    plan = []
    for part, pages in PARTS:
        chosen: list[str] = []
        for page in pages:
            if "*" in page:
                chosen += [p for p in every if pathlib.PurePath(p).match(page) and p not in named and p not in listed and p not in chosen]
            elif page in every or page == "(commands)":
                chosen.append(page)
        listed.update(chosen)
        plan.append((part, chosen))
    forgotten = [p for p in every if p not in listed]
    if forgotten:
        sys.exit(f"book: no part of the book lists {', '.join(forgotten)}; add them to docs/book.py")
    inside = listed - {"(commands)"}
    for part, chosen in plan:
        summary += [f"# {part}", ""]
        for page in chosen:
            if page == "(commands)":
                summary += [f"- [{name}]({path})" for name, path in commands(program, src)]
                continue
            text = copied(root, page, src, inside)
            summary.append(f"- [{title(text, page)}]({page})")
            if page == "docs/guide.md":
                summary += [f"  - [{name}]({path})" for name, path in jobs(text, src)]
        summary.append("")
    (src / "SUMMARY.md").write_text("\n".join(summary))
    (into / "book.toml").write_text(
        '[book]\ntitle = "xylem"\nlanguage = "en"\nsrc = "src"\n\n[build]\nbuild-dir = "html"\ncreate-missing = false\n'
        "\n[output.html]\nsmart-punctuation = false\n\n[output.html.search]\nenable = true\n"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--sources", metavar="PROGRAM")
    parser.add_argument("--build", metavar="PROGRAM")
    parser.add_argument("--into", type=pathlib.Path)
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent.parent)
    options = parser.parse_args()
    root = options.root.resolve()
    if options.check:
        bad = broken(root)
        print("\n".join(bad) if bad else f"book: every link of {len(tracked(root))} documents has a target")
        sys.exit(1 if bad else 0)
    program = options.sources or options.build
    if not program:
        parser.error("give --check, --sources PROGRAM or --build PROGRAM")
    into = (options.into or root / "target/book").resolve()
    sources(root, str(pathlib.Path(program).resolve()), into)
    if options.build:
        subprocess.run(["mdbook", "build", str(into)], check=True)


if __name__ == "__main__":
    main()
