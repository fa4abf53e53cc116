"""Reads the sources of one crate as far as its modules, its names and the arrows between its files.

For structure.py, which see. Nothing is read but tokens: calls of methods, and of macros by their
bare names, are no arrows.
"""

import dataclasses
import pathlib
import re
import tomllib

TOKEN = re.compile(
    r"//[^\n]*|/\*.*?\*/"
    r'|b?r(?P<hash>#*)".*?"(?P=hash)|[bc]?"(?:\\.|[^"\\])*"'
    r"|b?'(?:\\.[^']*|[^\\'])'|'\w+|r#\w+|\w+|::|\s+|.",
    re.DOTALL,
)
TEST = re.compile(r"cfg\((all\((?!.*(any|not)\().*)?\btest\b|test$")
ITEM = set(
    "pub fn struct enum impl mod use const static type trait unsafe extern let async".split()
)
NAMED = set("fn struct enum union trait type const static macro_rules".split())
STATEMENT = re.compile(r"(pub (\( .*? \) )?)?(use|static|let|type|const(?! (fn|unsafe|extern))) ")


@dataclasses.dataclass
class Module:
    """One module: the file in which it stands, and what its names mean."""

    file: pathlib.Path
    defined: set[str] = dataclasses.field(default_factory=set)
    imported: dict[str, list[str]] = dataclasses.field(default_factory=dict)
    handed_on: set[str] = dataclasses.field(default_factory=set)
    globs: list[list[str]] = dataclasses.field(default_factory=list)
    paths: list[list[str]] = dataclasses.field(default_factory=list)
    words: set[str] = dataclasses.field(default_factory=set)


Path = tuple[str, ...]
Arrows = dict[pathlib.Path, dict[pathlib.Path, set[str]]]


def by_default(features: dict[str, list[str]]) -> set[str]:
    """Optional dependencies that the default features turn on."""
    on, more = set(), ["default"]
    while more:
        name = more.pop()
        if name not in on:
            on.add(name)
            more += features.get(name, [])
    return {name.removeprefix("dep:") for name in on if name.startswith("dep:")}


class Crate:
    """One member of the workspace: its dependencies, and the files that a release reads."""

    def __init__(self, root: pathlib.Path, member: str, caption: str) -> None:
        self.dir, self.caption = root / member, caption
        manifest = tomllib.loads((self.dir / "Cargo.toml").read_text())
        self.name: str = manifest["package"]["name"]
        tables = [manifest, *manifest.get("target", {}).values()]
        needs = {k: v for table in tables for k, v in table.get("dependencies", {}).items()}
        self.needs = set(needs)
        self.uses = sorted(needs)
        self.optional = {k for k, v in needs.items() if isinstance(v, dict) and v.get("optional")}
        self.optional -= by_default(manifest.get("features", {}))
        self.tests_with = set(manifest.get("dev-dependencies", {}))
        self.modules: dict[Path, Module] = {}
        self.lines: dict[pathlib.Path, int] = {}
        source = self.dir / "src"
        programs = [source / "main.rs", *sorted(source.glob("bin/*.rs"))]
        for file in [source / "lib.rs", *programs]:
            if file.exists():
                self.read(file, (file.stem,), source)

    def read(self, file: pathlib.Path, path: Path, children: pathlib.Path) -> None:
        """Reads one file as the module `path`, and the files of its child modules below it."""
        text = file.read_text()
        tokens, line = [], 1
        for match in TOKEN.finditer(text):
            token = match.group()
            if not token.isspace() and not token.startswith(("//", "/*")):
                tokens.append((token, line))
            line += token.count("\n")
        self.modules[path] = Module(file)
        left_out = self.scan(tokens, file, path, children)
        self.lines[file] = len(text.splitlines()) - left_out

    def scan(
        self, tokens: list[tuple[str, int]], file: pathlib.Path, path: Path, children: pathlib.Path
    ) -> int:
        """Fills the modules of one file; the number of its lines that only tests read."""
        word = [token for token, _ in tokens] + [""] * 4
        left_out, scopes, at = 0, [(path, children)], 0
        named_path = None
        while at < len(tokens):
            (path, children), token = scopes[-1], word[at]
            module = self.modules[path]
            if token == "#" and (word[at + 1] == "[" or word[at + 1 : at + 3] == ["!", "["]):
                opened = at + 1 if word[at + 1] == "[" else at + 2
                end = closing(word, opened)
                attribute = "".join(word[opened + 1 : end - 1])
                if TEST.match(attribute):
                    after = len(tokens) if word[at + 1] == "!" else item_end(word, end)
                    left_out += tokens[after - 1][1] - tokens[at][1] + 1
                    at = after
                    continue
                if attribute.startswith("path="):
                    named_path = attribute[6:-1]
                at = end
                continue
            if token == "mod" and word[at + 2] in (";", "{"):
                child, below = (*path, word[at + 1]), children / word[at + 1]
                module.defined.discard(word[at + 1])
                if word[at + 2] == "{":
                    self.modules[child] = Module(file)
                    scopes.append((child, below))
                elif named_path:
                    elsewhere = file.parent / named_path
                    self.read(elsewhere, child, elsewhere.parent)
                elif (flat := children / f"{word[at + 1]}.rs").exists():
                    self.read(flat, child, below)
                else:
                    self.read(below / "mod.rs", child, below)
                named_path, at = None, at + 3
            elif token == "use" and word[at - 1] != "+":
                end = word.index(";", at)
                known = set(module.imported)
                take_uses(module, word[at + 1 : end], [])
                if word[at - 1] in ("pub", ")"):
                    module.handed_on |= set(module.imported) - known
                at = end + 1
            else:
                if token in "{}":
                    scopes.append(scopes[-1]) if token == "{" else scopes.pop()
                elif token in NAMED and word[at + 1] != "fn":
                    skip = 2 if word[at + 1] in ("!", "mut") else 1
                    module.defined.add(word[at + skip])
                    if token == "macro_rules":
                        self.modules[path[:1]].defined.add(word[at + skip])
                module.words.add(token)
                if word[at : at + 3] == [".", "rename", "("] and arguments(word, at + 2) == 3:
                    # Only a medium's takes three: from, to and whether to replace.
                    module.words.add("Medium.rename")
                start = at
                while word[at + 1] == "::" and re.match(r"\w", word[at + 2]):
                    at += 2
                if at > start and word[start - 1] != "::":
                    module.paths.append(word[start : at + 1 : 2])
                at += 1
        return left_out

    def find(self, path: Path, names: list[str], seen: set[object]) -> tuple[Path, str] | None:
        """Where `names`, said in the module `path`, are defined: the module, and the name in it.

        The name is empty where `names` are a module themselves.
        """
        key = (path, tuple(names))
        if not names or key in seen:
            return None if names else (path, "")
        seen.add(key)
        first, rest = names[0], names[1:]
        module = self.modules[path]
        if first in ("crate", "self", "super"):
            to = {"crate": path[:1], "self": path, "super": path[:-1]}[first]
            return self.find(to, rest, seen) if to else None
        if (*path, first) in self.modules and (rest or first not in module.defined):
            return self.find((*path, first), rest, seen)
        if first in module.defined:
            return path, first
        if first in module.imported:
            return self.find(path, module.imported[first] + rest, seen)
        for glob in module.globs:
            among = self.find(path, glob, seen)
            if among and not among[1] and (found := self.find(among[0], names, seen)):
                return found
        return None

    def arrows(self) -> Arrows:
        """Which file names which others of its crate, and by what names."""
        arrows: Arrows = {file: {} for file in self.lines}
        for path, module in self.modules.items():
            used = list(module.paths)
            for name, names in module.imported.items():
                if name not in module.handed_on or name in module.words:
                    used.append(names)
            used += [[*glob, word] for glob in module.globs for word in module.words]
            for names in used:
                found = self.find(path, names, set())
                if not found and names[:-1] not in module.globs:
                    # A name that only a macro makes: its module is as far as tokens tell.
                    found = self.find(path, names[:-1], set())
                    found = (found[0], names[-1]) if found and not found[1] else None
                if found and found[1] and self.modules[found[0]].file != module.file:
                    to = self.modules[found[0]].file
                    arrows[module.file].setdefault(to, set()).add(found[1])
        return arrows


def closing(word: list[str], opened: int) -> int:
    """The place after the bracket that closes the one at `opened`."""
    depth, at = 0, opened
    while True:
        depth += (word[at] in "([{") - (word[at] in ")]}") if word[at] else 0
        at += 1
        if depth == 0 or at >= len(word):
            return at


def arguments(word: list[str], opened: int) -> int:
    """The number of arguments between the bracket at `opened` and the one that closes it."""
    end, at, count = closing(word, opened) - 1, opened + 1, 0
    while at < end:
        count += word[at - 1] in "(,"
        at = closing(word, at) if word[at] in "([{" else at + 1
    return count


def item_end(word: list[str], at: int) -> int:
    """The place after the item, statement, field or arm that begins at `at`."""
    while word[at] == "#":
        at = closing(word, at + 1)
    is_item = word[at] in ITEM
    semicolon = STATEMENT.match(" ".join(word[at : at + 8]))
    while at < len(word) - 4:
        if word[at] in ")]}":
            return at
        if word[at] in "([{":
            brace, at = word[at] == "{", closing(word, at)
            if brace and not semicolon and word[at] != "=":
                return at
            continue
        at += 1
        if word[at - 1] == ";" or (word[at - 1] == "," and not is_item):
            return at
    return at


def take_uses(module: Module, tree: list[str], before: list[str]) -> None:
    """Takes one `use` tree apart into names and globs."""
    at, path = 0, list(before)
    while at < len(tree):
        if tree[at] == "{":
            end, part, depth = closing(tree, at), at + 1, 0
            for i in range(at + 1, end):
                depth += (tree[i] == "{") - (tree[i] == "}")
                if (tree[i] == "," and depth == 0) or i == end - 1:
                    take_uses(module, tree[part:i], path)
                    part = i + 1
            return
        if tree[at] == "*":
            module.globs.append(path)
            return
        if tree[at] == "as":
            module.imported[tree[at + 1]] = path
            return
        if tree[at] != "::" and not (tree[at] == "self" and path):
            path.append(tree[at])
        at += 1
    if path and tree:
        module.imported[path[-1]] = path
