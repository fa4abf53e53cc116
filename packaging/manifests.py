#!/usr/bin/env python3
"""Makes of one release the packages and manifests of other package managers.

Usage: packaging/manifests.py --check
       packaging/manifests.py --pack DIR [--wheel WHEEL] [--windows EXE]
       packaging/manifests.py --write DIR

  --check  compares `cargo binstall`'s entry in crates/xylem-cli/Cargo.toml with packaging/release.toml
  --pack   into DIR, which has the tarball of a release: the npm package; of a WHEEL of the library one that has the
           command, too; of a program for Windows the .zip. They get into the checksums of the release
  --write  of DIR, which has all files of a release and SHA256SUMS: DIR/manifests (Homebrew, AUR, Nix, winget, Scoop),
           DIR/apt (a repository), DIR/oci (an image), and DIR/install.sh if DIR has the release.cert that it checks

The same files and SOURCE_DATE_EPOCH give the same bytes. packaging/release.toml is the description. DIR/SHA256SUMS gives
the checksums, which are compared with the files.
"""

import sys; sys.dont_write_bytecode = True
import argparse
import base64
import csv
import dataclasses
import datetime
import email.utils
import gzip
import hashlib
import io
import json
import os
import pathlib
import re
import shlex
import shutil
import tarfile
import tomllib
import zipfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
WINGET_SCHEMA = "1.12.0"
# A zip file knows no earlier time.
FIRST_ZIP_TIME = 315532800
# In the tarball, below xylem-VERSION: what has to travel with a program.
LICENCES = {"LICENSE-MIT": "LICENSE-MIT", "LICENSE-APACHE": "LICENSE-APACHE", "licences.gz": "share/doc/xylem/licences.gz"}


@dataclasses.dataclass(frozen=True)
class Release:
    """What all manifests state."""

    version: str
    licence: str
    summary: str
    homepage: str
    download: str
    publisher: str
    winget: str
    npm: str
    files: dict[str, str]
    time: int

    def url(self, name: str) -> str:
        """Where a file of the release is downloaded."""
        return f"{self.download}/{name}"

    @property
    def brief(self) -> str:
        """The summary up to its colon: Homebrew takes at most 80 characters."""
        return self.summary.split(":")[0]

    @property
    def folder(self) -> str:
        """The one directory in each archive."""
        return f"xylem-{self.version}"


@dataclasses.dataclass(frozen=True)
class Entry:
    """A file or directory of a tarball."""

    name: str
    content: bytes | None
    mode: int = 0o644
    owner: int = 0


def described(root: pathlib.Path, time: int) -> Release:
    """The release that the checkout `root` describes."""
    package = tomllib.loads((root / "Cargo.toml").read_text())["workspace"]["package"]
    stated = tomllib.loads((root / "packaging/release.toml").read_text())
    version = package["version"]
    return Release(
        version=version,
        licence=package["license"],
        summary=package["description"],
        homepage=stated["homepage"],
        download=stated["download"].replace("{version}", version),
        publisher=stated["publisher"],
        winget=stated["winget"],
        npm=stated["npm"],
        files={kind: name.replace("{version}", version) for kind, name in stated["files"].items()},
        time=time,
    )


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def as_json(value: object) -> str:
    return json.dumps(value, indent=2) + "\n"


def tarball(entries: list[Entry], time: int) -> bytes:
    """A tar archive whose bytes depend on nothing else."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for entry in entries:
            member = tarfile.TarInfo(entry.name)
            member.mode, member.mtime, member.uid, member.gid = entry.mode, time, entry.owner, entry.owner
            if entry.content is None:
                member.type = tarfile.DIRTYPE
            else:
                member.size = len(entry.content)
            archive.addfile(member, None if entry.content is None else io.BytesIO(entry.content))
    return out.getvalue()


def zipped(content: bytes) -> bytes:
    """`content` compressed by gzip, without name and time."""
    return gzip.compress(content, compresslevel=6, mtime=0)


def unpacked(release: Release, tar: pathlib.Path) -> dict[str, bytes]:
    """The program and the licences of a release's tarball."""
    wanted = {"xylem": "bin/xylem"} | LICENCES
    found: dict[str, bytes] = {}
    with tarfile.open(tar, "r:gz") as archive:
        for name, path in wanted.items():
            file = archive.extractfile(f"{release.folder}/{path}")
            if file is None:
                raise SystemExit(f"manifests: {tar}: {path} is not a file")
            found[name] = file.read()
    return found


# Packages that hold the program.


def npm(release: Release, parts: dict[str, bytes]) -> bytes:
    """The package that `npm publish` takes, with the program in it."""
    package = {
        "name": release.npm,
        "version": release.version,
        "description": release.summary,
        "homepage": release.homepage,
        "license": f"({release.licence})",
        "bin": {"xylem": "bin/xylem"},
        "os": ["linux"],
        "cpu": ["x64"],
        "files": ["bin", *LICENCES],
        "publishConfig": {"access": "public"},
    }
    readme = (
        f"# xylem\n\n{release.summary}.\n\n    npx {release.npm} get TICKET\n\n"
        f"This package holds the command for Linux on x86-64: a static program, nothing else is downloaded. {release.homepage}\n"
    )
    entries = [
        Entry("package/package.json", as_json(package).encode()),
        Entry("package/README.md", readme.encode()),
        Entry("package/bin/xylem", parts["xylem"], 0o755),
        *(Entry(f"package/{name}", parts[name]) for name in LICENCES),
    ]
    return zipped(tarball(entries, release.time))


def zip_archive(files: list[tuple[str, bytes, int]], time: int) -> bytes:
    """A zip archive whose bytes depend on nothing else: names, contents and modes, in this order."""
    moment = datetime.datetime.fromtimestamp(max(time, FIRST_ZIP_TIME), datetime.timezone.utc)
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, content, mode in files:
            member = zipfile.ZipInfo(name, moment.timetuple()[:6])
            member.create_system, member.external_attr = 3, (0o100000 | mode) << 16
            archive.writestr(member, content, zipfile.ZIP_DEFLATED, 6)
    return out.getvalue()


def windows(release: Release, program: bytes, parts: dict[str, bytes]) -> bytes:
    """The .zip for Windows."""
    files = [("xylem.exe", program, 0o755), *((name, parts[name], 0o644) for name in LICENCES)]
    return zip_archive([(f"{release.folder}/{name}", content, mode) for name, content, mode in files], release.time)


def wheel(release: Release, library: bytes, parts: dict[str, bytes]) -> bytes:
    """A wheel of the library, and in it the command: pip puts `*.data/scripts` where programs lie."""
    information = f"{release.folder}.dist-info"
    record = f"{information}/RECORD"
    added = [(f"{release.folder}.data/scripts/xylem", parts["xylem"], 0o755)]
    added += [(f"{information}/licenses/{name}", parts[name], 0o644) for name in LICENCES]
    names = {name for name, _, _ in added}
    with zipfile.ZipFile(io.BytesIO(library)) as archive:
        members = [member for member in archive.infolist() if not member.is_dir()]
        if record not in {member.filename for member in members}:
            raise SystemExit(f"manifests: the wheel has no {record}: it is of another version")
        files = [
            (member.filename, archive.read(member), member.external_attr >> 16 & 0o777)
            for member in members
            if member.filename not in names | {record}
        ]
    lines = io.StringIO()
    writer = csv.writer(lines, lineterminator="\n")
    for name, content, _ in files + added:
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        writer.writerow([name, f"sha256={digest}", len(content)])
    writer.writerow([record, "", ""])
    return zip_archive([*files, *added, (record, lines.getvalue().encode(), 0o644)], release.time)


def image(release: Release, parts: dict[str, bytes]) -> dict[str, bytes]:
    """The files of an OCI layout: the image of packaging/Dockerfile, as one layer."""
    nobody = 65534
    layer = tarball(
        [
            Entry("data/", None, 0o755, nobody),
            *(Entry(name, parts[name]) for name in LICENCES),
            Entry("xylem", parts["xylem"], 0o755),
        ],
        release.time,
    )
    created = datetime.datetime.fromtimestamp(release.time, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    labels = {
        "org.opencontainers.image.title": "xylem",
        "org.opencontainers.image.description": release.summary,
        "org.opencontainers.image.version": release.version,
        "org.opencontainers.image.licenses": release.licence,
        "org.opencontainers.image.url": release.homepage,
        "org.opencontainers.image.created": created,
    }
    config = {
        "created": created,
        "architecture": "amd64",
        "os": "linux",
        "config": {
            "User": f"{nobody}:{nobody}",
            "ExposedPorts": {"7348/udp": {}},
            "Env": ["XYLEM_STORE=/data/store", "TMPDIR=/data", "HOME=/data"],
            "Entrypoint": ["/xylem"],
            "Cmd": ["--help"],
            "Volumes": {"/data": {}},
            "StopSignal": "SIGINT",
            "Labels": labels,
        },
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{sha256(layer)}"]},
        "history": [{"created": created, "created_by": "packaging/manifests.py"}],
    }
    files: dict[str, bytes] = {}

    def blob(kind: str, content: bytes) -> dict[str, object]:
        files[f"blobs/sha256/{sha256(content)}"] = content
        return {"mediaType": f"application/vnd.oci.image.{kind}", "digest": f"sha256:{sha256(content)}", "size": len(content)}

    manifest = {
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": blob("config.v1+json", as_json(config).encode()),
        "layers": [blob("layer.v1.tar+gzip", zipped(layer))],
        "annotations": labels,
    }
    descriptor = blob("manifest.v1+json", as_json(manifest).encode()) | {
        "annotations": {"org.opencontainers.image.ref.name": release.version},
        "platform": {"architecture": "amd64", "os": "linux"},
    }
    index = {"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": [descriptor]}
    return files | {"index.json": as_json(index).encode(), "oci-layout": as_json({"imageLayoutVersion": "1.0.0"}).encode()}


def control(deb: bytes) -> str:
    """The control file of a .deb, which is an ar archive with a tarball for it."""
    if not deb.startswith(b"!<arch>\n"):
        raise SystemExit("manifests: the .deb is no ar archive")
    at = 8
    while at + 60 <= len(deb):
        name, size = deb[at : at + 16].decode().strip().rstrip("/"), int(deb[at + 48 : at + 58])
        if name.startswith("control.tar"):
            with tarfile.open(fileobj=io.BytesIO(deb[at + 60 : at + 60 + size])) as archive:
                file = archive.extractfile("./control")
                if file is not None:
                    return file.read().decode().rstrip("\n") + "\n"
        at += 60 + size + size % 2
    raise SystemExit("manifests: the .deb has no control file")


def apt(release: Release, deb: bytes) -> dict[str, bytes]:
    """The files of an apt repository with one package, unsigned."""
    pool = f"pool/main/x/xylem/{release.files['deb']}"
    packages = f"{control(deb)}Filename: {pool}\nSize: {len(deb)}\nSHA256: {sha256(deb)}\n\n".encode()
    lists = {"main/binary-amd64/Packages": packages, "main/binary-amd64/Packages.gz": zipped(packages)}
    date = email.utils.format_datetime(datetime.datetime.fromtimestamp(release.time, datetime.timezone.utc))
    head = {
        "Origin": "xylem",
        "Label": "xylem",
        "Suite": "stable",
        "Codename": "stable",
        "Version": release.version,
        "Date": date.replace("+0000", "UTC"),
        "Architectures": "amd64",
        "Components": "main",
        "Description": release.brief,
    }
    text = "".join(f"{key}: {value}\n" for key, value in head.items()) + "SHA256:\n"
    text += "".join(f" {sha256(content)} {len(content)} {name}\n" for name, content in lists.items())
    files = {f"dists/stable/{name}": content for name, content in lists.items()}
    return files | {"dists/stable/Release": text.encode(), pool: deb}


# Manifests: text that names a file of the release and its checksum.


def homebrew(release: Release, sums: dict[str, str]) -> dict[str, str]:
    name = release.files["linux"]
    licences = ", ".join(f'"{licence}"' for licence in release.licence.split(" OR "))
    return {
        "homebrew/xylem.rb": f"""class Xylem < Formula
  desc "{release.brief}"
  homepage "{release.homepage}"
  url "{release.url(name)}"
  version "{release.version}"
  sha256 "{sums[name]}"
  license any_of: [{licences}]

  depends_on arch: :x86_64
  depends_on :linux

  def install
    bin.install "bin/xylem"
    man1.install Dir["share/man/man1/*"]
    bash_completion.install "share/bash-completion/completions/xylem"
    zsh_completion.install "share/zsh/vendor-completions/_xylem"
    fish_completion.install "share/fish/vendor_completions.d/xylem.fish"
  end

  test do
    assert_match version.to_s, shell_output("#{{bin}}/xylem --version")
  end
end
"""
    }


def aur(release: Release, sums: dict[str, str]) -> dict[str, str]:
    name = release.files["linux"]
    fields: dict[str, str | list[str]] = {
        "pkgdesc": release.summary,
        "pkgver": release.version,
        "pkgrel": "1",
        "url": release.homepage,
        "arch": ["x86_64"],
        "license": [release.licence],
        "provides": ["xylem"],
        "conflicts": ["xylem"],
        "options": ["!strip"],
        "source_x86_64": [release.url(name)],
        "sha256sums_x86_64": [sums[name]],
    }
    build = f"# Maintainer: {release.publisher}\npkgname=xylem-bin\n"
    listed = "pkgbase = xylem-bin\n"
    for key, value in fields.items():
        if isinstance(value, list):
            build += f"{key}=({' '.join(map(shlex.quote, value))})\n"
            listed += "".join(f"\t{key} = {item}\n" for item in value)
        else:
            build += f"{key}={shlex.quote(value)}\n"
            listed += f"\t{key} = {value}\n"
    build += f"""
package() {{
    cd {release.folder}
    install -Dm755 bin/xylem "$pkgdir/usr/bin/xylem"
    install -Dm644 -t "$pkgdir/usr/share/man/man1" share/man/man1/*
    install -Dm644 -t "$pkgdir/usr/share/bash-completion/completions" share/bash-completion/completions/xylem
    install -Dm644 -t "$pkgdir/usr/share/zsh/site-functions" share/zsh/vendor-completions/_xylem
    install -Dm644 -t "$pkgdir/usr/share/fish/vendor_completions.d" share/fish/vendor_completions.d/xylem.fish
    install -Dm644 -t "$pkgdir/usr/lib/systemd/system" lib/systemd/system/xylem.service lib/systemd/system/xylem-relay.service
    install -Dm644 -t "$pkgdir/usr/share/doc/xylem/examples" share/doc/xylem/examples/config.toml
    install -Dm644 -t "$pkgdir/usr/share/licenses/xylem-bin" {' '.join(LICENCES.values())}
}}
"""
    return {"aur/PKGBUILD": build, "aur/.SRCINFO": listed + "\npkgname = xylem-bin\n"}


def nix(release: Release, sums: dict[str, str]) -> dict[str, str]:
    name = release.files["linux"]
    digest = base64.b64encode(bytes.fromhex(sums[name])).decode()
    known = {"MIT": "mit", "Apache-2.0": "asl20"}
    licences = " ".join(f"licenses.{known[licence]}" for licence in release.licence.split(" OR "))
    return {
        "nix/flake.nix": f"""{{
  description = "{release.summary}";

  inputs.nixpkgs.url = "github:NixOS/nixpkgs/nixos-unstable";

  outputs = {{ self, nixpkgs }}:
    let
      pkgs = nixpkgs.legacyPackages.x86_64-linux;
    in
    {{
      packages.x86_64-linux.default = pkgs.stdenvNoCC.mkDerivation {{
        pname = "xylem";
        version = "{release.version}";
        src = pkgs.fetchurl {{
          url = "{release.url(name)}";
          hash = "sha256-{digest}";
        }};
        # The program is static and stripped.
        dontPatchELF = true;
        dontStrip = true;
        installPhase = ''
          runHook preInstall
          mkdir -p $out/share/zsh/site-functions
          cp -r bin share lib $out/
          mv $out/share/zsh/vendor-completions/_xylem $out/share/zsh/site-functions/
          rmdir $out/share/zsh/vendor-completions
          runHook postInstall
        '';
        meta = with pkgs.lib; {{
          description = "{release.summary}";
          homepage = "{release.homepage}";
          license = [ {licences} ];
          mainProgram = "xylem";
          platforms = [ "x86_64-linux" ];
        }};
      }};
    }};
}}
"""
    }


def yaml(kind: str, fields: dict[str, object]) -> str:
    """One of winget's files. Each value is JSON, which YAML contains."""
    lines = "".join(f"{key}: {json.dumps(value)}\n" for key, value in fields.items())
    return f"# yaml-language-server: $schema=https://aka.ms/winget-manifest.{kind}.{WINGET_SCHEMA}.schema.json\n{lines}"


def winget(release: Release, sums: dict[str, str]) -> dict[str, str]:
    name = release.files["windows"]
    head: dict[str, object] = {"PackageIdentifier": release.winget, "PackageVersion": release.version}

    def file(kind: str, **fields: object) -> str:
        return yaml(kind, head | fields | {"ManifestType": kind, "ManifestVersion": WINGET_SCHEMA})

    program = {"RelativeFilePath": f"{release.folder}\\xylem.exe", "PortableCommandAlias": "xylem"}
    installer = {"Architecture": "x64", "InstallerUrl": release.url(name), "InstallerSha256": sums[name].upper()}
    return {
        f"winget/{release.winget}.yaml": file("version", DefaultLocale="en-US"),
        f"winget/{release.winget}.installer.yaml": file(
            "installer",
            InstallerType="zip",
            NestedInstallerType="portable",
            NestedInstallerFiles=[program],
            Commands=["xylem"],
            Installers=[installer],
        ),
        f"winget/{release.winget}.locale.en-US.yaml": file(
            "defaultLocale",
            PackageLocale="en-US",
            Publisher=release.publisher,
            PackageName="xylem",
            PackageUrl=release.homepage,
            License=release.licence,
            ShortDescription=release.summary,
            Moniker="xylem",
        ),
    }


def scoop(release: Release, sums: dict[str, str]) -> dict[str, str]:
    name = release.files["windows"]
    manifest = {
        "version": release.version,
        "description": release.summary,
        "homepage": release.homepage,
        "license": release.licence.replace(" OR ", "|"),
        "architecture": {"64bit": {"url": release.url(name), "hash": sums[name], "extract_dir": release.folder}},
        "bin": "xylem.exe",
    }
    return {"scoop/xylem.json": as_json(manifest)}


NEEDS = [(homebrew, "linux"), (aur, "linux"), (nix, "linux"), (winget, "windows"), (scoop, "windows")]


def manifests(release: Release, sums: dict[str, str]) -> tuple[dict[str, str], list[str]]:
    """All manifests whose file the release has, and a line for each other."""
    files: dict[str, str] = {}
    missing = []
    for make, kind in NEEDS:
        if release.files[kind] in sums:
            files |= make(release, sums)
        else:
            missing.append(f"the release has no {release.files[kind]}, so there is no manifest for {make.__name__}")
    return files, missing


def install_script(release: Release, sums: dict[str, str], certificate: str) -> str:
    """The script that downloads, verifies and installs. A program can't vouch for itself: the script has the checksum of
    the tarball, and runs nothing of it before that is compared."""
    name = release.files["linux"]
    return f"""#!/bin/sh
# Installs xylem {release.version} into ~/.local/bin, or into $XYLEM_BIN: sh install.sh [--dry-run]
# $XYLEM_URL: where the files of the release lie. --dry-run downloads and verifies, and installs nothing.
set -eu
main() {{
    url=${{XYLEM_URL:-{release.download}}} to=${{XYLEM_BIN:-$HOME/.local/bin}}
    case "$to" in /*) ;; *) to=$PWD/$to ;; esac
    case "$(uname -sm)" in
    "Linux x86_64") file={name} sum={sums[name]} ;;
    *) echo "install: there is no program for $(uname -sm)" >&2; exit 1 ;;
    esac
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    for name in "$file" BLAKE3SUMS BLAKE3SUMS.sig; do
        if command -v curl >/dev/null; then curl -fsSL -o "$work/$name" "$url/$name"; else wget -qO "$work/$name" "$url/$name"; fi
    done
    cd "$work"
    echo "$sum  $file" | sha256sum -c >/dev/null
    tar -xzf "$file"
    xylem=$work/{release.folder}/bin/xylem
    echo "$certificate" >release.cert
    "$xylem" --store "$work/store" key check BLAKE3SUMS BLAKE3SUMS.sig --trust release.cert
    grep " $file\$" BLAKE3SUMS >sums
    "$xylem" sum --check sums
    if [ "${{1-}}" = --dry-run ]; then echo "install: verified; it would be $to/xylem"; exit; fi
    mkdir -p "$to"
    cp "$xylem" "$to/.xylem.new"
    mv "$to/.xylem.new" "$to/xylem"
    echo "install: $to/xylem"
}}
certificate={shlex.quote(certificate.strip())}
main "$@"
"""


def binstall(release: Release) -> dict[str, str]:
    """What crates/xylem-cli/Cargo.toml has to have for `cargo binstall`, which fills in version and processor."""
    name = release.files["linux"].replace(release.version, "{ version }").replace("x86_64", "{ target-arch }")
    return {
        "pkg-url": f"{release.download.replace(release.version, '{ version }')}/{name}",
        "pkg-fmt": "tgz",
        "bin-dir": "xylem-{ version }/bin/{ bin }",
    }


def wrong(root: pathlib.Path) -> list[str]:
    """A line for each key of Cargo.toml that differs from the description."""
    release = described(root, 0)
    package = tomllib.loads((root / "crates/xylem-cli/Cargo.toml").read_text())["package"]
    present = package.get("metadata", {}).get("binstall", {})
    return [
        f"crates/xylem-cli/Cargo.toml: [package.metadata.binstall] {key} is {present.get(key)!r}, not {value!r}"
        for key, value in binstall(release).items()
        if present.get(key) != value
    ]


def read_sums(folder: pathlib.Path) -> dict[str, str]:
    """The checksums of a release, each compared with its file."""
    sums: dict[str, str] = {}
    for line in (folder / "SHA256SUMS").read_text().splitlines():
        parts = re.fullmatch(r"([0-9a-f]{64}) [ *]([^/]+)", line)
        if parts is None:
            raise SystemExit(f"manifests: SHA256SUMS: no checksum in {line!r}")
        sums[parts[2]] = parts[1]
    for name, stated in sums.items():
        if sha256((folder / name).read_bytes()) != stated:
            raise SystemExit(f"manifests: {name} is not what SHA256SUMS states")
    return sums


def put(folder: pathlib.Path, files: dict[str, bytes]) -> None:
    """Writes files into a folder, which is emptied first."""
    shutil.rmtree(folder, ignore_errors=True)
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)


def pack(release: Release, folder: pathlib.Path, library: pathlib.Path | None, program: pathlib.Path | None) -> None:
    parts = unpacked(release, folder / release.files["linux"])
    (folder / release.files["npm"]).write_bytes(npm(release, parts))
    if library is not None:
        if re.search(r"linux\w*_x86_64\.whl$", library.name) is None:
            raise SystemExit(f"manifests: {library.name} is not for Linux on x86-64, as the program is")
        (folder / library.name).write_bytes(wheel(release, library.read_bytes(), parts))
    if program is not None:
        (folder / release.files["windows"]).write_bytes(windows(release, program.read_bytes(), parts))


def write(release: Release, folder: pathlib.Path) -> list[str]:
    """Writes what goes beside the files of a release; a line for each thing that it lacks."""
    sums = read_sums(folder)
    texts, missing = manifests(release, sums)
    put(folder / "manifests", {name: text.encode() for name, text in texts.items()})
    put(folder / "oci", image(release, unpacked(release, folder / release.files["linux"])))
    if release.files["deb"] in sums:
        put(folder / "apt", apt(release, (folder / release.files["deb"]).read_bytes()))
    else:
        missing.append("the release has no .deb, so there is no apt repository")
    if (folder / "release.cert").exists():
        (folder / "install.sh").write_text(install_script(release, sums, (folder / "release.cert").read_text()))
        (folder / "install.sh").chmod(0o755)
    else:
        missing.append("the release is not signed, so there is no install.sh")
    return missing


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    mode = parser.add_mutually_exclusive_group(required=True)
    mode.add_argument("--check", action="store_true")
    mode.add_argument("--pack", type=pathlib.Path, metavar="DIR")
    mode.add_argument("--write", type=pathlib.Path, metavar="DIR")
    parser.add_argument("--wheel", type=pathlib.Path)
    parser.add_argument("--windows", type=pathlib.Path, metavar="EXE")
    arguments = parser.parse_args()
    if arguments.check:
        raise SystemExit("\n".join(wrong(ROOT)) or None)
    release = described(ROOT, int(os.environ["SOURCE_DATE_EPOCH"]))
    if arguments.pack:
        pack(release, arguments.pack, arguments.wheel, arguments.windows)
    else:
        for line in write(release, arguments.write):
            print(f"packaging: {line}; SKIPPED")


if __name__ == "__main__":
    main()
