#!/usr/bin/env python3
"""The licences of everything that is linked into xylem for TARGET, each text once: what goes with a static
program. Texts come from the crates as cargo fetched them.

Usage: packaging/licences.py TARGET
"""

import collections
import json
import pathlib
import subprocess
import sys


def cargo(*arguments):
    return subprocess.run(["cargo", *arguments], check=True, capture_output=True, text=True).stdout


target = sys.argv[1]
metadata = json.loads(cargo("metadata", "--format-version=1", "--locked", "--filter-platform", target))
packages = {(p["name"], p["version"]): p for p in metadata["packages"]}
tree = cargo("tree", "--locked", "-p", "xylem-cli", "--target", target, "-e", "normal", "--prefix=none",
             "--format={p}", "--no-dedupe")
linked = sorted({(name, version.lstrip("v")) for name, version, *_ in map(str.split, tree.splitlines())})

texts = collections.defaultdict(list)
print("xylem contains these third-party packages, parts of the Rust standard library (MIT or Apache-2.0),")
print("and parts of musl libc (MIT). The texts of the licences follow the list.\n")
for key in linked:
    package = packages[key]
    if package["source"] is None:
        continue
    print(f"{key[0]} {key[1]}: {package['license'] or package['license_file']}")
    folder = pathlib.Path(package["manifest_path"]).parent
    found = [f for f in sorted(folder.iterdir()) if f.is_file()
             and f.name.upper().startswith(("LICENSE", "LICENCE", "COPYING", "UNLICENSE", "NOTICE"))]
    for file in found:
        texts[file.read_text(errors="replace").strip()].append(f"{key[0]} {key[1]}")
for text, users in sorted(texts.items(), key=lambda item: item[1]):
    print("\n" + "=" * 78 + "\n" + ", ".join(users) + "\n")
    print(text)
