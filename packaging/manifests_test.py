#!/usr/bin/env python3
"""Tests of packaging/manifests.py, with a release of a few bytes: run by .ci/run. packaging/check_packages.py gives a
whole release to the tools themselves."""

import sys; sys.dont_write_bytecode = True
import base64
import csv
import dataclasses
import gzip
import hashlib
import io
import json
import pathlib
import shutil
import subprocess
import tarfile
import tempfile
import unittest
import zipfile

import clusters_test
import manifests

# It vouches for what its own tarball came with, as an attacker's would, and leaves a mark where it ran.
PROGRAM = b"""#!/bin/sh
touch "$RAN"
case "$*" in
*"key check"*) grep -q good BLAKE3SUMS.sig && grep -q CERT release.cert ;;
*"sum --check"*) grep -q right sums ;;
*) echo xylem 1.2.3 ;;
esac
"""
CONTROL = "Package: xylem\nVersion: 1.2.3\nDescription: one\n two\n"
CERTIFICATE = "-----BEGIN NDN CERT-----\nName: /it's/KEY\n-----END NDN CERT-----\n"
RELEASE = manifests.Release(
    version="1.2.3",
    licence="MIT OR Apache-2.0",
    summary="Moves files: by name",
    homepage="https://home.invalid",
    download="https://home.invalid/1.2.3",
    publisher="Its developers",
    winget="It.It",
    npm="@it/cli",
    files={"linux": "it-1.2.3-x86_64.tar.gz", "deb": "it.deb", "windows": "it.zip", "npm": "it.tgz"},
    time=1700000000,
)
LIBRARY = "it-1.2.3-cp311-abi3-manylinux_2_34_x86_64.whl"


def archive(files: dict[str, bytes]) -> bytes:
    return gzip.compress(manifests.tarball([manifests.Entry(name, content, 0o755) for name, content in files.items()], 0))


def ar(files: dict[str, bytes]) -> bytes:
    """A .deb is such an archive."""
    out = b"!<arch>\n"
    for name, content in files.items():
        out += f"{name:16}{0:<12}{0:<6}{0:<6}{100644:<8}{len(content):<10}`\n".encode() + content + b"\n" * (len(content) % 2)
    return out


class Packed(unittest.TestCase):
    """A folder with a signed release."""

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.work = pathlib.Path(folder.name)
        self.folder = self.work / "release"
        self.folder.mkdir()
        paths = {path: name.encode() for name, path in manifests.LICENCES.items()} | {"bin/xylem": PROGRAM}
        tar = archive({f"xylem-1.2.3/{path}": content for path, content in paths.items()})
        (self.folder / RELEASE.files["linux"]).write_bytes(tar)
        (self.folder / "it.deb").write_bytes(ar({"debian-binary": b"2.0", "control.tar.gz/": archive({"./control": CONTROL.encode()})}))
        (self.folder / "release.cert").write_text(CERTIFICATE)
        (self.work / LIBRARY).write_bytes(manifests.zip_archive([("it/__init__.py", b"", 0o644), ("xylem-1.2.3.dist-info/RECORD", b"old", 0o644)], 0))
        (self.work / "it.exe").write_bytes(b"MZ")
        manifests.pack(RELEASE, self.folder, self.work / LIBRARY, self.work / "it.exe")
        self.sum()

    def sum(self) -> None:
        sums = [f"{manifests.sha256(path.read_bytes())}  {path.name}\n" for path in sorted(self.folder.glob("it*"))]
        (self.folder / "SHA256SUMS").write_text("".join(sums))

    def text(self, path: str) -> str:
        return (self.folder / path).read_text()


class Manifests(Packed):
    def test_manifests_name_the_files_and_their_checksums(self) -> None:
        self.assertEqual(manifests.write(RELEASE, self.folder), [])
        for path, kind in [
            ("homebrew/xylem.rb", "linux"),
            ("aur/PKGBUILD", "linux"),
            ("aur/.SRCINFO", "linux"),
            ("winget/It.It.installer.yaml", "windows"),
            ("scoop/xylem.json", "windows"),
        ]:
            text, name = self.text(f"manifests/{path}"), RELEASE.files[kind]
            self.assertIn(f"https://home.invalid/1.2.3/{name}", text, path)
            self.assertIn(manifests.sha256((self.folder / name).read_bytes()), text.lower(), path)
        digest = hashlib.sha256((self.folder / RELEASE.files["linux"]).read_bytes()).digest()
        self.assertIn(f'hash = "sha256-{base64.b64encode(digest).decode()}"', self.text("manifests/nix/flake.nix"))

    def test_files_that_a_release_lacks_are_named_and_left_out(self) -> None:
        (self.folder / "it.zip").unlink()
        (self.folder / "it.deb").unlink()
        (self.folder / "release.cert").unlink()
        self.sum()
        missing = "\n".join(manifests.write(RELEASE, self.folder))
        for name in ("winget", "scoop", "apt repository", "install.sh"):
            self.assertIn(name, missing)
        self.assertEqual({path.name for path in (self.folder / "manifests").iterdir()}, {"homebrew", "aur", "nix"})
        self.assertFalse((self.folder / "apt").exists() or (self.folder / "install.sh").exists())

    def test_a_file_that_differs_from_its_checksum_stops_it(self) -> None:
        with (self.folder / "it.deb").open("ab") as file:
            file.write(b"x")
        with self.assertRaisesRegex(SystemExit, "it.deb is not what SHA256SUMS states"):
            manifests.write(RELEASE, self.folder)

    def test_the_same_release_gives_the_same_bytes(self) -> None:
        def everything() -> dict[str, bytes]:
            manifests.pack(RELEASE, self.folder, self.work / LIBRARY, self.work / "it.exe")
            manifests.write(RELEASE, self.folder)
            return {str(path.relative_to(self.folder)): path.read_bytes() for path in self.folder.rglob("*") if path.is_file()}

        first = everything()
        self.assertEqual(first, everything())
        later = dataclasses.replace(RELEASE, time=RELEASE.time + 86400)
        self.assertNotEqual(first["it.tgz"], manifests.npm(later, manifests.unpacked(later, self.folder / RELEASE.files["linux"])))

    def test_cargo_binstall_is_compared_with_the_description(self) -> None:
        self.assertEqual(manifests.wrong(manifests.ROOT), [])
        for path in ("Cargo.toml", "packaging/release.toml", "crates/xylem-cli/Cargo.toml"):
            (self.work / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(manifests.ROOT / path, self.work / path)
        described = self.work / "packaging/release.toml"
        described.write_text(described.read_text().replace("https://xylem.invalid/releases", "https://other.invalid"))
        (line,) = manifests.wrong(self.work)
        self.assertRegex(line, "^crates/xylem-cli/Cargo.toml: .* pkg-url is .*xylem.invalid.*, not .*other.invalid")

    def test_cargo_binstall_finds_the_tarball(self) -> None:
        filled = manifests.binstall(RELEASE)["pkg-url"].replace("{ version }", "1.2.3").replace("{ target-arch }", "x86_64")
        self.assertEqual(filled, RELEASE.url(RELEASE.files["linux"]))


class Packages(Packed):
    def test_npm_has_the_program_and_the_licences(self) -> None:
        with tarfile.open(self.folder / "it.tgz") as package:
            self.assertEqual(package.getmember("package/bin/xylem").mode, 0o755)
            stated = json.load(package.extractfile("package/package.json") or io.BytesIO())
            names = set(package.getnames())
        self.assertEqual((stated["name"], stated["version"], stated["bin"]), ("@it/cli", "1.2.3", {"xylem": "bin/xylem"}))
        self.assertLessEqual({f"package/{name}" for name in manifests.LICENCES}, names)

    def test_a_wheel_lists_each_file_with_its_hash_and_size(self) -> None:
        with zipfile.ZipFile(self.folder / LIBRARY) as wheel:
            rows = list(csv.reader(io.StringIO(wheel.read("xylem-1.2.3.dist-info/RECORD").decode())))
            self.assertEqual([row[0] for row in rows], wheel.namelist())
            for name, digest, size in rows[:-1]:
                content = wheel.read(name)
                self.assertEqual(digest, "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode().rstrip("="))
                self.assertEqual(int(size), len(content))
            self.assertEqual(rows[-1], ["xylem-1.2.3.dist-info/RECORD", "", ""])
            self.assertEqual(wheel.read("xylem-1.2.3.data/scripts/xylem"), PROGRAM)
            self.assertEqual(wheel.getinfo("xylem-1.2.3.data/scripts/xylem").external_attr >> 16, 0o100755)

    def test_a_wheel_that_has_the_command_gets_it_once(self) -> None:
        parts = manifests.unpacked(RELEASE, self.folder / RELEASE.files["linux"])
        once = (self.folder / LIBRARY).read_bytes()
        self.assertEqual(manifests.wheel(RELEASE, once, parts), once)

    def test_a_wheel_of_another_version_or_system_is_refused(self) -> None:
        other = self.work / "it-1.2.3-cp311-abi3-win_amd64.whl"
        shutil.copy(self.work / LIBRARY, other)
        with self.assertRaisesRegex(SystemExit, "not for Linux"):
            manifests.pack(RELEASE, self.folder, other, None)
        later = dataclasses.replace(RELEASE, version="1.2.4")
        with self.assertRaisesRegex(SystemExit, "another version"):
            manifests.wheel(later, (self.work / LIBRARY).read_bytes(), manifests.unpacked(RELEASE, self.folder / RELEASE.files["linux"]))

    def test_an_image_names_its_parts_by_their_hashes(self) -> None:
        manifests.write(RELEASE, self.folder)
        oci = self.folder / "oci"

        def read(descriptor: dict[str, object]) -> bytes:
            content = (oci / "blobs" / str(descriptor["digest"]).replace(":", "/")).read_bytes()
            self.assertEqual((f"sha256:{manifests.sha256(content)}", len(content)), (descriptor["digest"], descriptor["size"]))
            return content

        manifest = json.loads(read(json.loads((oci / "index.json").read_text())["manifests"][0]))
        config = json.loads(read(manifest["config"]))
        layer = gzip.decompress(read(manifest["layers"][0]))
        self.assertEqual(config["rootfs"]["diff_ids"], [f"sha256:{manifests.sha256(layer)}"])
        self.assertEqual(config["config"]["Entrypoint"], ["/xylem"])
        with tarfile.open(fileobj=io.BytesIO(layer)) as files:
            self.assertEqual((files.getmember("xylem").mode, files.getmember("data").uid), (0o755, 65534))

    def test_an_apt_repository_has_the_sums_of_its_lists_and_package(self) -> None:
        manifests.write(RELEASE, self.folder)
        lists = self.folder / "apt/dists/stable"
        sums = [line.split() for line in (lists / "Release").read_text().splitlines() if line.startswith(" ")]
        self.assertEqual([name for _, _, name in sums], ["main/binary-amd64/Packages", "main/binary-amd64/Packages.gz"])
        for digest, size, name in sums:
            content = (lists / name).read_bytes()
            self.assertEqual((digest, int(size)), (manifests.sha256(content), len(content)))
        deb = (self.folder / "apt/pool/main/x/xylem/it.deb").read_bytes()
        stated = f"{CONTROL}Filename: pool/main/x/xylem/it.deb\nSize: {len(deb)}\nSHA256: {manifests.sha256(deb)}\n\n"
        self.assertEqual((lists / "main/binary-amd64/Packages").read_text(), stated)
        self.assertIn("\nDate: Tue, 14 Nov 2023 22:13:20 UTC\n", (lists / "Release").read_text())


@unittest.skipUnless(sys.platform == "linux", "SKIPPED: the program is for Linux")
class Script(Packed):
    """install.sh, with a `curl` that copies from a folder."""

    def setUp(self) -> None:
        super().setUp()
        manifests.write(RELEASE, self.folder)
        (self.folder / "BLAKE3SUMS").write_text(f"right  {RELEASE.files['linux']}\n")
        (self.folder / "BLAKE3SUMS.sig").write_text("good\n")
        for tool, text in {"curl": 'cp "$4" "$3"', "uname": "echo Linux x86_64"}.items():
            (self.work / "bin").mkdir(exist_ok=True)
            (self.work / "bin" / tool).write_text(f"#!/bin/sh\n{text}\n")
            (self.work / "bin" / tool).chmod(0o755)
        self.installed = self.work / "home/.local/bin/xylem"
        self.ran = self.work / "ran"

    def install(self, *arguments: str) -> int:
        env = {
            "PATH": f"{self.work}/bin:/usr/bin:/bin",
            "HOME": str(self.work / "home"),
            "XYLEM_URL": str(self.folder),
            "RAN": str(self.ran),
        }
        return subprocess.run(["sh", self.folder / "install.sh", *arguments], env=env, capture_output=True, check=False).returncode

    def test_a_release_is_installed(self) -> None:
        self.assertEqual(self.install(), 0)
        self.assertEqual(self.installed.read_bytes(), PROGRAM)

    def test_a_dry_run_verifies_and_installs_nothing(self) -> None:
        self.assertEqual(self.install("--dry-run"), 0)
        self.assertTrue(self.ran.exists())
        self.assertFalse((self.work / "home").exists())

    def test_nothing_of_another_tarball_runs(self) -> None:
        (self.folder / RELEASE.files["linux"]).write_bytes(archive({"xylem-1.2.3/bin/xylem": PROGRAM + b"# changed\n"}))
        self.sum()
        self.assertNotEqual(self.install(), 0)
        self.assertFalse(self.ran.exists() or self.installed.exists())

    def test_another_signature_or_checksum_installs_nothing(self) -> None:
        for name in ("BLAKE3SUMS.sig", "BLAKE3SUMS"):
            text = self.text(name)
            for changed in ("bad\n", text.replace("it-", "other-").replace("good", "bad")):
                (self.folder / name).write_text(changed)
                self.assertNotEqual(self.install(), 0, name)
            (self.folder / name).unlink()
            self.assertNotEqual(self.install(), 0, name)
            (self.folder / name).write_text(text)
        self.assertFalse((self.work / "home").exists())

    def test_a_script_that_ends_early_does_nothing(self) -> None:
        script = self.folder / "install.sh"
        lines = script.read_text().splitlines(keepends=True)
        for count in range(len(lines)):
            script.write_text("".join(lines[:count]))
            self.install()
        self.assertFalse(self.ran.exists() or (self.work / "home").exists())


def load_tests(loader: unittest.TestLoader, tests: unittest.TestSuite, _: str | None) -> unittest.TestSuite:
    """With these, those of packaging/kubernetes, packaging/slurm and packaging/grafana."""
    tests.addTests(loader.loadTestsFromModule(clusters_test))
    return tests


if __name__ == "__main__":
    unittest.main()
