#!/usr/bin/env python3
"""Gives each package and manifest of a release to the tool that it is for, in a clean place: run by `packaging/dist --check`.

Usage: packaging/check_packages.py DIR

DIR is a signed release with what `packaging/manifests.py --write` adds. On Debian missing tools are installed; what can't
be had is SKIPPED. DIR/apt/key.gpg, if it is there, is the key that signed the apt repository.
"""

import sys; sys.dont_write_bytecode = True
import contextlib
import functools
import hashlib
import http.server
import json
import os
import pathlib
import shutil
import subprocess
import tarfile
import tempfile
import threading
from collections.abc import Iterator

import manifests

NOBODY = 65534


def say(line: str) -> None:
    print(f"packaging: {line}", flush=True)


@functools.cache
def update() -> None:
    """Has apt read what Debian has now."""
    subprocess.run(["apt-get", "update", "-q"], capture_output=True, check=False)


def have(program: str, package: str) -> bool:
    """Whether a program is there, or can be installed as a Debian package."""
    if shutil.which(program) is None and os.getuid() == 0 and shutil.which("apt-get") is not None:
        update()
        command = ["apt-get", "install", "-qy", "--no-install-recommends", package]
        subprocess.run(command, env=os.environ | {"DEBIAN_FRONTEND": "noninteractive"}, capture_output=True, check=False)
    return shutil.which(program) is not None


def run(
    *command: str | pathlib.Path,
    cwd: pathlib.Path | None = None,
    env: dict[str, str] | None = None,
    user: int | None = None,
) -> str:
    """What a command prints; it has to succeed."""
    groups: list[str | int] | None = None if user is None else []
    ended = subprocess.run(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        cwd=cwd,
        env=env,
        user=user,
        group=user,
        extra_groups=groups,
    )
    if ended.returncode != 0:
        raise SystemExit(f"packaging: {' '.join(map(str, command))} ends with {ended.returncode}:\n{ended.stdout}")
    return ended.stdout


class Packages:
    """A release, and a folder for each tool."""

    def __init__(self, release: manifests.Release, folder: pathlib.Path, work: pathlib.Path) -> None:
        self.release, self.folder, self.work = release, folder, work

    def clean(self, name: str) -> pathlib.Path:
        made = self.work / name
        made.mkdir()
        return made

    def is_this(self, what: str, output: str) -> None:
        """That a program which was installed prints its version."""
        if output.strip().splitlines()[-1].split()[:2] != ["xylem", self.release.version]:
            raise SystemExit(f"packaging: {what}: the program prints {output!r}")
        say(f"{what}: installed; the program runs")

    def npm(self) -> None:
        if shutil.which("npm") is None:
            return say("no npm, the npm package was not installed; SKIPPED")
        home = self.clean("npm")
        env = os.environ | {"HOME": str(home), "npm_config_update_notifier": "false"}
        package = self.folder / self.release.files["npm"]
        run("npm", "install", "--offline", "--no-audit", "--no-fund", package, cwd=home, env=env)
        self.is_this("npm package", run("npx", "--offline", "xylem", "--version", cwd=home, env=env))
        # As a user calls it, from a registry with this one package.
        registry = self.clean("registry")
        with self.served(registry) as url:
            shutil.copy(package, registry)
            stated = json.loads((home / "node_modules" / self.release.npm / "package.json").read_text())
            stated["dist"] = {"tarball": f"{url}/{package.name}", "shasum": hashlib.sha1(package.read_bytes()).hexdigest()}
            versions = {"name": self.release.npm, "dist-tags": {"latest": self.release.version}, "versions": {self.release.version: stated}}
            (registry / self.release.npm).parent.mkdir()
            (registry / self.release.npm).write_text(json.dumps(versions))
            env |= {"npm_config_registry": url}
            self.is_this(f"npx {self.release.npm}", run("npx", "--yes", self.release.npm, "--version", cwd=registry, env=env))
        # The folder of the package, packed by npm itself, has the same files.
        installed = home / "node_modules" / self.release.npm
        packed = json.loads(run("npm", "pack", "--json", "--dry-run", installed, cwd=home, env=env))
        with tarfile.open(package) as archive:
            if {f"package/{file['path']}" for file in packed[0]["files"]} != set(archive.getnames()):
                raise SystemExit("packaging: npm pack makes a package of other files")

    def wheel(self) -> None:
        found = sorted(self.folder.glob("*.whl"))
        if not found:
            return say("the release has no wheel, none was installed; SKIPPED")
        venv = self.work / "venv"
        run(sys.executable, "-m", "venv", venv)
        run(venv / "bin/pip", "--disable-pip-version-check", "install", "--no-index", found[0])
        self.is_this("wheel", run(venv / "bin/xylem", "--version"))
        # From another directory than one with a package of this name.
        run(venv / "bin/python", "-c", "import xylem; xylem.get, xylem.share", cwd=self.work)
        run(venv / "bin/pip", "--disable-pip-version-check", "uninstall", "--yes", "xylem")
        if (venv / "bin/xylem").exists():
            raise SystemExit("packaging: pip uninstall leaves the command")
        pip = [str(venv / "bin/pip"), "--quiet", "--disable-pip-version-check", "install", "uv"]
        if subprocess.run(pip, capture_output=True, check=False).returncode != 0:
            return say("uv can't be had, uvx was not run; SKIPPED")
        self.is_this("uvx", run(venv / "bin/uvx", "--quiet", "--offline", "--no-cache", "--from", found[0], "xylem", "--version"))

    def apt(self) -> None:
        if os.getuid() != 0 or not have("mmdebstrap", "mmdebstrap"):
            return say("no root or no mmdebstrap, apt installed nothing from the repository; SKIPPED")
        key = self.folder / "apt/key.gpg"
        trust = "signed-by=/tmp/apt/key.gpg" if key.exists() else "trusted=yes"
        output, made, inside = (self.work / name for name in ("apt-says", "apt-made", "apt-inside"))
        inside.write_text(f"""set -eu
echo 'deb [{trust}] file:/tmp/apt stable main' >/etc/apt/sources.list
apt-get -q update
apt-get -qy install xylem
apt-get -qy purge xylem >/dev/null
apt-get -qy install xylem >/dev/null
xylem --version
""")
        hooks = [
            f"touch {made}",
            f'cp -r {self.folder}/apt {inside} "$1/tmp"',
            f'env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive chroot "$1" sh /tmp/{inside.name} >{output} 2>&1',
        ]
        options = ["--quiet", "--mode=root", "--variant=apt", *(f"--customize-hook={hook}" for hook in hooks)]
        command = ["mmdebstrap", *options, "bookworm", "/dev/null"]
        ended = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        if not made.exists():
            return say("mmdebstrap made no Debian root, apt installed nothing from the repository; SKIPPED")
        if ended.returncode != 0:
            says = output.read_text() if output.exists() else ended.stdout
            raise SystemExit(f"packaging: apt installs nothing from the repository:\n{says}")
        self.is_this(f"apt repository, {'signed' if key.exists() else 'unsigned'}", output.read_text())

    def image(self) -> None:
        if not have("skopeo", "skopeo"):
            return say("no skopeo, the image was not read; SKIPPED")
        source, copy = f"oci:{self.folder}/oci:{self.release.version}", self.work / "image"
        found = json.loads(run("skopeo", "inspect", source))
        if found["Labels"]["org.opencontainers.image.version"] != self.release.version:
            raise SystemExit("packaging: the image has another version")
        run("skopeo", "copy", "--insecure-policy", source, f"dir:{copy}")
        root = self.clean("root")
        with tarfile.open(copy / found["Layers"][0].removeprefix("sha256:")) as layer:
            layer.extractall(root, filter="fully_trusted")
        if os.getuid() != 0:
            return say("image: skopeo reads and copies it; no root, so it was not run; SKIPPED")
        config = json.loads(run("skopeo", "inspect", "--config", source))["config"]
        owner = (root / "data").stat()
        if f"{owner.st_uid}:{owner.st_gid}" != config["User"]:
            raise SystemExit("packaging: the image's user does not own /data")
        self.work.chmod(0o755)
        entry = config["Entrypoint"][0]
        env = dict(pair.split("=", 1) for pair in config["Env"]) | {"PATH": os.environ["PATH"]}
        self.is_this("image", run("chroot", f"--userspec={config['User']}", root, entry, "--version", env=env))

    def aur(self) -> None:
        recipe = self.folder / "manifests/aur"
        run("bash", "-n", recipe / "PKGBUILD")
        needed = {"makepkg": "makepkg", "bsdtar": "libarchive-tools", "fakeroot": "fakeroot"}
        if os.getuid() != 0 or not all(have(program, package) for program, package in needed.items()):
            return say("no root or no makepkg, the PKGBUILD was only parsed; SKIPPED")
        place = self.clean("aur")
        shutil.copy(recipe / "PKGBUILD", place)
        # As it lies here, it is not downloaded; the checksum is compared.
        shutil.copy(self.folder / self.release.files["linux"], place)
        self.work.chmod(0o755)
        for path in (place, *place.iterdir()):
            os.chown(path, NOBODY, NOBODY)
        # It asks pacman what is installed, which here is nothing.
        env = os.environ | {"HOME": str(place), "PACMAN": "true"}
        printed = run("makepkg", "--printsrcinfo", cwd=place, env=env, user=NOBODY)
        if printed != (recipe / ".SRCINFO").read_text():
            raise SystemExit(f"packaging: makepkg prints another .SRCINFO:\n{printed}")
        run("makepkg", "--nodeps", cwd=place, env=env, user=NOBODY)
        made = sorted(place.glob("xylem-bin-*.pkg.tar.*"))
        root = self.clean("aur-root")
        run("tar", "-xf", made[0], "-C", root)
        self.is_this("PKGBUILD", run(root / "usr/bin/xylem", "--version"))

    def parsed(self) -> None:
        """Manifests whose tool runs elsewhere."""
        written = self.folder / "manifests"
        if have("ruby", "ruby"):
            run("ruby", "-c", written / "homebrew/xylem.rb")
            say("Homebrew formula: Ruby reads it; brew was not run")
            for path in sorted(written.glob("winget/*.yaml")):
                run("ruby", "-ryaml", "-e", "YAML.safe_load(File.read(ARGV[0])).fetch('ManifestType')", path)
                say(f"winget {path.name}: read as YAML; winget was not run")
        else:
            say("no Ruby, the Homebrew formula and winget's files were not read; SKIPPED")
        for path in sorted(written.glob("scoop/*.json")):
            json.loads(path.read_text())
            say("Scoop manifest: read as JSON; Scoop was not run")
        if have("nix-instantiate", "nix-bin"):
            store = {"NIX_STORE_DIR": f"{self.work}/nix/store", "NIX_STATE_DIR": f"{self.work}/nix/var", "NIX_LOG_DIR": f"{self.work}/nix/log"}
            run("nix-instantiate", "--parse", written / "nix/flake.nix", env=os.environ | store)
            say("Nix flake: Nix parses it; nothing was built by it")
        else:
            say("no Nix, the flake was not read; SKIPPED")

    @contextlib.contextmanager
    def served(self, folder: pathlib.Path) -> Iterator[str]:
        """A web server on this machine for the files of a folder."""

        class Quiet(http.server.SimpleHTTPRequestHandler):
            def log_message(self, format: str, *arguments: object) -> None:
                pass

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(folder)))
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            server.server_close()

    def script(self) -> None:
        """install.sh: what was changed on its way is refused, and nothing of it is installed."""
        if shutil.which("curl") is None and shutil.which("wget") is None:
            return say("no curl and no wget, install.sh was not run; SKIPPED")
        place, home = self.clean("served"), self.clean("home")
        tar, program = self.release.files["linux"], home / ".local/bin/xylem"
        names = [tar, "BLAKE3SUMS", "BLAKE3SUMS.sig"]
        env = {"HOME": str(home), "PATH": os.environ["PATH"]}

        def installs(url: str, *arguments: str, **changed: str) -> bool:
            command = ["sh", str(self.folder / "install.sh"), *arguments]
            ended = subprocess.run(command, env=env | {"XYLEM_URL": url} | changed, capture_output=True, check=False)
            if ended.returncode != 0 and list(home.rglob("*")):
                raise SystemExit("packaging: install.sh fails and leaves something")
            return ended.returncode == 0

        def restore() -> None:
            for name in names:
                shutil.copy(self.folder / name, place)

        def flip(name: str) -> None:
            content = bytearray((place / name).read_bytes())
            content[len(content) // 2] ^= 1
            (place / name).write_bytes(content)

        with self.served(place) as url:
            for name in names:
                restore()
                flip(name)
                if installs(url):
                    raise SystemExit(f"packaging: install.sh accepts a changed {name}")
                (place / name).unlink()
                if installs(url):
                    raise SystemExit(f"packaging: install.sh does without {name}")
            # An attacker's tarball with its own checksums, beside the signature of ours.
            restore()
            flip(tar)
            own = manifests.sha256((place / tar).read_bytes())
            (place / "SHA256SUMS").write_text(f"{own}  {tar}\n")
            (place / "BLAKE3SUMS").write_text(f"{own}  {tar}\n")
            if installs(url):
                raise SystemExit("packaging: install.sh accepts another tarball with its checksums")
            restore()
            if not installs(url, "--dry-run") or program.exists():
                raise SystemExit("packaging: install.sh --dry-run fails, or installs")
            if not installs(url):
                raise SystemExit("packaging: install.sh does not install the release")
            self.is_this("install.sh", run(program, "--version"))
            if shutil.which("wget") is not None:
                bare = self.clean("bare")
                for name in "sh uname mktemp rm wget sha256sum tar gzip grep mkdir cp mv".split():
                    (bare / name).symlink_to(shutil.which(name) or f"/bin/{name}")
                if not installs(url, PATH=str(bare), XYLEM_BIN=str(home / "by-wget")):
                    raise SystemExit("packaging: install.sh does not install with wget")
        say("install.sh: refuses a changed tarball, changed checksums and a changed signature")


def main() -> None:
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    release = manifests.described(manifests.ROOT, int(os.environ["SOURCE_DATE_EPOCH"]))
    with tempfile.TemporaryDirectory() as work:
        packages = Packages(release, pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(work).resolve())
        packages.npm()
        packages.wheel()
        packages.script()
        packages.image()
        packages.aur()
        packages.parsed()
        packages.apt()


if __name__ == "__main__":
    main()
