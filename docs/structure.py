#!/usr/bin/env python3
"""Draws the crates and their arrows from the code, and holds the code to the shape of the house.

Usage: docs/structure.py [--check] [--draw] [--circles] [--root DIR]

Without a flag: production lines, files, lines of the longest one and dependencies of each crate,
and the structs of the product with the most fields.

  --check     one line for each rule that is broken, and exit status 1 if there is one
  --draw      writes docs/pictures/crates.svg
  --circles   every circle of files, with the names that close it
  --root DIR  another checkout

The rules. Members of Cargo.toml, rows of ARCHITECTURE.md's table and of the boundaries test stand
in one order, and a crate depends only on those before it. No more than four files of a crate import
each other in a circle across modules, but for the hash, whose kernels and scalar code give each
other their odd ends; a module and what lies below it may know each other. Only files in RENAMES
rename files. A link in a module's documentation names something that is in scope there; rustdoc
checks only the modules that it shows. docs/pictures/crates.svg is what --draw would write. A crate
of the product with more than 12,000 lines is named in ARCHITECTURE.md, with the reason. No function
takes two values as one parameter `(a, b): (A, B)`. A type has a name of its own in the product, but
for those in SHARED_NAMES, which are old, to which none is added. Lengths and fields are
printed and not limited: a limit on lines was met by moving lines to other rooms.

Production lines are those of src/**/*.rs that a build without `cfg(test)` reads, with comments.
An arrow between two files is a path (`use`, or inline) that begins with `crate`, `self`, `super` or
a name in scope, followed through re-exports to the file that defines what it names (rust_crate.py).
"""

import argparse
import pathlib
import re
import sys
import tomllib

from rust_crate import Arrows, Crate

CIRCLE = 4
LARGE = 12_000
KERNELS = "crates/xylem-hash/src/"
PICTURE = "docs/pictures/crates.svg"

# The files that rename files, each with its reason. Finished fetches and the store's files get
# their names in atomic.rs, which makes content and name durable in the right order.
RENAMES = {
    "crates/xylem-store/src/atomic.rs": "the routine itself",
    "crates/xylem-store/src/disk/unix.rs": "the system call below it",
    "crates/xylem-store/src/disk/portable.rs": "the system call below it",
    "crates/xylem-store/src/partial.rs": "takes a name back from a file that was changed meanwhile",
    "crates/xylem-bucket/src/medium.rs": "a medium that passes the call to the disk",
    "crates/xylem-files/src/overlay.rs": "a medium that passes the call to the disk",
    "crates/xylem-files/src/reads/view.rs": "a medium that passes the call to the disk",
    "crates/xylem-folder/src/apply.rs": "must not replace a concurrent change",
    "crates/xylem-folder/src/place.rs": "must not replace a concurrent change",
    "crates/xylem-folder/src/trash.rs": "puts a version back, and must not replace a concurrent change",
    "crates/xylem-mailbox/src/folder.rs": "flushes the folder of a file that is on the device",
    "crates/xylem-cli/src/running.rs": "the note of a running process, of no use after it",
    "crates/xylem-cli/src/service/unit.rs": "units of systemd, which `service install` can write again",
    "crates/xylem-sync/src/staged.rs": "content that is verified again before it is used",
}
# Names that types of two crates have. The list may only become shorter.
SHARED_NAMES = set(
    "Answer Candidate Candidates Contents DhtEvent Entries Entry Frame Lookup MailJob Manager Names "
    "Node Output PortSearch Prefix RateLimit Reader Response Sealed Segment Store SyncError Transmit "
    "Value Wake Work Written".split()
)
TYPE = re.compile(r"^(?: *(?:pub(?:\([^)]*\))? )?(?:struct|enum|trait|union)|(?:pub(?:\([^)]*\))? )?type) (\w+)", re.MULTILINE)
TUPLE_PARAMETER = re.compile(r"^\((?:mut )?\w+(?:, (?:mut )?\w+)+\):")
STRUCT = re.compile(r"^ *(?:pub(?:\([^)]*\))? )?struct (\w+)[^;{(]*\{\n(.*?)^ *\}", re.MULTILINE | re.DOTALL)
FIELD = re.compile(r"^ *(?:pub(?:\([^)]*\))? )?(?:r#)?[a-z]\w*:(?!:)", re.MULTILINE)
# Structs in the report: those with the most fields.
MOST_STRUCTS = 12
TESTS = "\n#[cfg(test)]\nmod tests {"
LINK = re.compile(r"\[`([\w:]+)(?:!|\(\))?`\](?:\(([\w:]+)\))?")
TARGET = re.compile(r"^//! \[`([\w:]+)`\]: ([\w:]+)$", re.MULTILINE)
OUTSIDE = {"std", "core", "alloc"}


def circles(arrows: Arrows) -> list[list[pathlib.Path]]:
    """Files that reach each other: strongly connected components of two and more (Tarjan)."""
    index: dict[pathlib.Path, int] = {}
    low: dict[pathlib.Path, int] = {}
    stack: list[pathlib.Path] = []
    found = []

    def visit(file: pathlib.Path) -> None:
        index[file] = low[file] = len(index)
        stack.append(file)
        for to in arrows[file]:
            if to not in index:
                visit(to)
                low[file] = min(low[file], low[to])
            elif to in stack:
                low[file] = min(low[file], index[to])
        if low[file] == index[file]:
            at = stack.index(file)
            if len(stack) - at > 1:
                found.append(sorted(stack[at:]))
            del stack[at:]

    for file in arrows:
        if file not in index:
            visit(file)
    return found


def module(file: pathlib.Path) -> pathlib.Path:
    """The folder in which a file's submodules lie: `a/b.rs` and `a/b/mod.rs` are both `a/b`."""
    at_top = file.stem in ("mod", "lib", "main")
    return file.parent if at_top else file.with_suffix("")


def across(arrows: Arrows) -> Arrows:
    """Without those between a module and one that lies below it."""
    return {
        file: {
            to: names
            for to, names in found.items()
            if not module(to).is_relative_to(module(file))
            and not module(file).is_relative_to(module(to))
        }
        for file, found in arrows.items()
    }


def workspace(root: pathlib.Path) -> list[Crate]:
    """The members, in the order of Cargo.toml, each with the comment behind it."""
    text = (root / "Cargo.toml").read_text()
    captions = dict(re.findall(r'^ *"([^"]+)", *# *(.*)$', text, re.MULTILINE))
    members: list[str] = tomllib.loads(text)["workspace"]["members"]
    crates = [Crate(root, member, captions.get(member, "")) for member in members]
    named = {crate.name for crate in crates}
    for crate in crates:
        crate.uses = [name for name in crate.uses if name in named]
    return crates


def product(root: pathlib.Path, crates: list[Crate]) -> list[Crate]:
    """What is installed, and all that it needs: not bench/, nor what only tests use."""
    used = {name for crate in crates for name in [*crate.uses, *crate.tests_with]}
    shipped = [c for c in crates if c.dir.parent == root / "crates" and c.name not in used]
    wanted = {crate.name for crate in shipped}
    for crate in reversed(crates):
        if crate.name in wanted:
            wanted |= set(crate.uses) - crate.optional
    return [crate for crate in crates if crate.name in wanted]


def renames(crate: Crate) -> set[pathlib.Path]:
    """Files that rename files: by std's `fs`, by a system call, or by a medium."""
    calls = {"renameat", "renameat_with", "Medium.rename"}
    return {
        module.file
        for module in crate.modules.values()
        for used in [*module.paths, *module.imported.values(), *([word] for word in module.words)]
        if used[-2:] == ["fs", "rename"] or used[-1] in calls
    }


def unresolved(crate: Crate) -> list[tuple[pathlib.Path, str]]:
    """Links in the documentation of modules that lead nowhere: each file and the name in it."""
    outside = OUTSIDE | {name.replace("-", "_") for name in crate.needs}
    files: set[pathlib.Path] = set()
    found = []
    for path, module in crate.modules.items():
        # The first module of a file is the file's own.
        if module.file in files:
            continue
        files.add(module.file)
        lines = module.file.read_text().splitlines()
        doc = "\n".join(line for line in lines if line.startswith("//!"))
        targets = dict(TARGET.findall(doc))
        for name, target in LINK.findall(doc):
            names = (target or targets.get(name, name)).split("::")
            # A macro may make a function; no token tells its name apart from others.
            made = len(names) == 1 and name[0].islower() and name in module.words
            known = names[0] in outside or names[0] in module.imported or made
            if not known and not crate.find(path, names, set()):
                found.append((module.file, name))
    return found


def parameters(text: str, start: int) -> list[str]:
    """The parameters of the function whose generics or parentheses begin at `start` or after it."""
    found, depth, angle, begin = [], 0, 0, 0
    for at in range(start, len(text)):
        char = text[at]
        if char == "<":
            angle += 1
        elif char == ">" and text[at - 1] not in "-=":
            angle -= 1
        elif char in "([{" and (depth or not angle):
            depth, begin = depth + 1, begin or at + 1
        elif char in ")]}" and depth:
            depth -= 1
        if depth == 1 and char == "," and not angle or begin and not depth:
            found.append(text[begin:at].strip())
            begin = at + 1
        if begin and not depth:
            break
    return [part for part in found if part]


def tuple_parameters(crate: Crate) -> list[tuple[pathlib.Path, str]]:
    """Functions that take several values as one parameter: each file and the function."""
    found = []
    for file in crate.lines:
        text = file.read_text().split(TESTS)[0]
        for function in re.finditer(r"\bfn (\w+)(?=[<(])", text):
            if any(map(TUPLE_PARAMETER.match, parameters(text, function.end()))):
                found.append((file, function[1]))
    return found


def largest_structs(crates: list[Crate]) -> list[tuple[int, str, pathlib.Path]]:
    """The structs with the most fields: how many, name and file."""
    found = []
    for crate in crates:
        for file in crate.lines:
            for name, body in STRUCT.findall(file.read_text().split(TESTS)[0]):
                found.append((len(FIELD.findall(body)), name, file))
    return sorted(found, key=lambda one: (-one[0], one[1]))[:MOST_STRUCTS]


def shared_names(crates: list[Crate]) -> dict[str, list[str]]:
    """The names that types of several crates have, and these crates."""
    names: dict[str, list[str]] = {}
    for crate in crates:
        texts = [file.read_text().split(TESTS)[0] for file in crate.lines]
        for name in sorted({name for text in texts for name in TYPE.findall(text)}):
            names.setdefault(name, []).append(crate.name)
    return {name: found for name, found in names.items() if len(found) > 1}


def broken(root: pathlib.Path, crates: list[Crate]) -> list[str]:
    """One line for each rule that does not hold."""
    order = [crate.name for crate in crates]
    shipped = product(root, crates)
    architecture = (root / "ARCHITECTURE.md").read_text()
    wrong = []
    for crate in crates:
        up = [name for name in crate.uses if order.index(name) >= order.index(crate.name)]
        wrong += [
            f"Cargo.toml: {crate.name} depends on {name}, which is listed after it" for name in up
        ]
        for circle in circles(across(crate.arrows())):
            files = [str(file.relative_to(root)) for file in circle]
            if len(files) > CIRCLE and not all(file.startswith(KERNELS) for file in files):
                wrong.append(f"{crate.name}: a circle of {len(files)} files: {' '.join(files)}")
    renaming = {str(f.relative_to(root)) for crate in shipped for f in renames(crate)}
    wrong += [
        f"{file}: renames files; atomic.rs of xylem-store does, or RENAMES gives the reason"
        for file in sorted(renaming - set(RENAMES))
    ]
    wrong += [
        f"{file}: does not rename files, but RENAMES lists it"
        for file in sorted(set(RENAMES) - renaming)
    ]
    named = re.search(r"^- \*\*[^\n]*12,000 lines.*?(?=\n- |\n\n|\Z)", architecture, re.DOTALL | re.MULTILINE)
    wrong += [
        f"{crate.name}: {sum(crate.lines.values()):,} lines; split it, or give ARCHITECTURE.md the reason"
        for crate in shipped
        if sum(crate.lines.values()) > LARGE and f"`{crate.name}`" not in (named[0] if named else "")
    ]
    wrong += [
        f"{file.relative_to(root)}: its documentation links `{name}`, which is not in scope there"
        for crate in crates
        for file, name in unresolved(crate)
    ]
    wrong += [
        f"{file.relative_to(root)}: {name} takes several values as one parameter"
        for crate in crates
        for file, name in tuple_parameters(crate)
    ]
    wrong += [
        f"{' and '.join(found)} both have a type {name}: a name of its own lets a search find it"
        for name, found in shared_names(shipped).items()
        if name not in SHARED_NAMES
    ]
    for place, row in [
        ("ARCHITECTURE.md", r"^\| `(xylem[\w-]*)` \|"),
        ("crates/xylem-cli/tests/boundaries.rs", r'^ *\(\s*"(xylem[\w-]*)", *(?:$|&)'),
    ]:
        rows = re.findall(row, (root / place).read_text(), re.MULTILINE)
        if rows != [name for name in order if name in rows]:
            wrong.append(f"{place}: its rows are not in the order of Cargo.toml's members")
        if place.endswith(".md"):
            wrong += [f"{place}: no row for {c.name}" for c in shipped if c.name not in rows]
    drawn = root / PICTURE
    if not drawn.exists() or drawn.read_text() != picture(root, crates):
        wrong.append(f"{PICTURE} is out of date; docs/structure.py --draw writes it")
    return wrong


def picture(root: pathlib.Path, crates: list[Crate]) -> str:
    """The crates from top to bottom in the order of Cargo.toml, and an arc for each dependency.

    Dark: those that no other path implies; dashed: with a feature only. On the right: to a crate
    further up, as it should be; on the left, red: to one further down.
    """
    place = {crate.name: at for at, crate in enumerate(crates)}
    below = {crate.name: set(crate.uses) for crate in crates}
    for crate in crates:
        below[crate.name] |= {far for near in crate.uses for far in below[near]}
    ours = {crate.name for crate in product(root, crates)}
    # What only a feature brings implies nothing.
    needs = {c.name: [name for name in c.uses if name not in c.optional] for c in crates}
    lines = [
        '<svg xmlns="http://www.w3.org/2000/svg" width="960" '
        f'height="{44 * len(crates) + 20}" font-family="sans-serif" font-size="13">',
        '<rect width="100%" height="100%" fill="#fff"/>',
    ]
    arcs = [(crate, to) for crate in crates for to in crate.uses]
    arcs.sort(key=lambda arc: any(arc[1] in below[via] for via in needs[arc[0].name]), reverse=True)
    for crate, to in arcs:
        start, end = 44 * place[crate.name] + 24, 44 * place[to] + 36
        implied = any(to in below[via] for via in needs[crate.name])
        color = "#ddd" if implied else "#456"
        x = 740
        out = x + 16 + 270 * abs(place[crate.name] - place[to]) / len(crates)
        dash = ' stroke-dasharray="4 3"' if to in crate.optional else ""
        if place[to] >= place[crate.name]:
            color, x, out = "#c00", 560, 500
        lines.append(
            f'<path d="M{x} {start} C{out:.0f} {start} {out:.0f} {end} {x} {end}" fill="none" '
            f'stroke="{color}"{dash}/><circle cx="{x}" cy="{end}" r="2.5" fill="{color}"/>'
        )
    for at, crate in enumerate(crates):
        y, fill = 44 * at + 14, "#eef4fa" if crate.name in ours else "#f6f6f6"
        caption = crate.caption.replace("&", "&amp;").replace("<", "&lt;")
        lines += [
            f'<rect x="560" y="{y}" width="180" height="32" rx="4" fill="{fill}" stroke="#456"/>',
            f'<text x="572" y="{y + 21}">{crate.name}</text>',
            f'<text x="544" y="{y + 21}" text-anchor="end" font-size="11">{caption}</text>',
        ]
    return "\n".join([*lines, "</svg>", ""])


def main() -> int:
    """Reads the flags and does what they ask."""
    parser = argparse.ArgumentParser(description="The shape of the workspace, from its code.")
    for flag in ("--check", "--draw", "--circles"):
        parser.add_argument(flag, action="store_true")
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).parents[1])
    args = parser.parse_args()
    root = args.root.resolve()
    crates = workspace(root)
    if args.draw:
        (root / PICTURE).write_text(picture(root, crates))
    if args.circles:
        for crate in crates:
            arrows = crate.arrows()
            for circle in circles(arrows):
                print(f"{crate.name}: {len(circle)} files")
                for file, to in [(f, t) for f in circle for t in sorted(arrows[f]) if t in circle]:
                    ends = [str(end.relative_to(crate.dir / "src")) for end in (file, to)]
                    print(f"  {ends[0]} -> {ends[1]}: {', '.join(sorted(arrows[file][to]))}")
    if args.check:
        wrong = broken(root, crates)
        print("\n".join(wrong or ["structure: every rule holds"]))
        return 1 if wrong else 0
    if not args.draw and not args.circles:
        for crate in crates:
            lines = sum(crate.lines.values())
            longest = max(crate.lines.values(), default=0)
            counts = f"{lines:7}{len(crate.lines):5}{longest:6}"
            print(f"{crate.name:18}{counts}  {' '.join(crate.uses)}")
        shipped = product(root, crates)
        whole = sum(sum(crate.lines.values()) for crate in shipped)
        print(f"{'the product':18}{whole:7}")
        print("\nfields of the largest structs, arguments and rows among them:")
        for fields, name, file in largest_structs(shipped):
            print(f"{fields:4} {name:18}{file.relative_to(root)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
