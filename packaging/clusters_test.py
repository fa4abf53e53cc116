#!/usr/bin/env python3
"""Tests of packaging/kubernetes, packaging/slurm and packaging/grafana: run by packaging/manifests_test.py.

The containers' commands are taken from the manifests and typed, with other paths and ports, into the real program: several
processes on loopback. It is $XYLEM_PROGRAM, or target/debug/xylem. If there is none, or a tool is not installed (helm,
kubeconform, promtool, the Python packages kubernetes-validate and PyYAML), the test of it prints SKIPPED.
"""

import sys; sys.dont_write_bytecode = True
import importlib.util
import json
import os
import pathlib
import queue
import random
import re
import shutil
import socket
import subprocess
import tempfile
import threading
import time
import tomllib
import unittest
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent
KUBERNETES = ROOT / "packaging/kubernetes"
SLURM = ROOT / "packaging/slurm"
BOARD = ROOT / "packaging/grafana/xylem.json"
PROGRAM = pathlib.Path(os.environ.get("XYLEM_PROGRAM", ROOT / "target/debug/xylem"))
# Ample for a machine that does much else.
PATIENCE_S = 300
# Kubernetes versions whose schemas the manifests have to fit: the oldest and the newest of kubernetes-validate.
SCHEMAS = ["1.25", "1.37"]
# So slow that a fetch asks twice for other peers.
SIZE, RATE = 6_000_000, "600K"


def skipped(test: unittest.TestCase, why: str) -> None:
    print(f"clusters: {why}; SKIPPED", flush=True)
    test.skipTest(why)


def installed(test: unittest.TestCase, tool: str) -> None:
    if shutil.which(tool) is None:
        skipped(test, f"no {tool}")


def module(test: unittest.TestCase, name: str) -> None:
    if importlib.util.find_spec(name) is None:
        skipped(test, f"no Python package {name}")


def commands(text: str) -> list[list[str]]:
    """The arguments of each container of a manifest, in order."""
    return [json.loads(found) for found in re.findall(r"^ *args: (\[.*\])$", text, re.M)]


def version() -> str:
    return tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["version"]


class Files(unittest.TestCase):
    def test_manifests_name_the_image_of_the_release(self) -> None:
        image = tomllib.loads((ROOT / "packaging/release.toml").read_text())["image"]
        for name in ("nodes.yaml", "pod.yaml"):
            images = re.findall(r"image: (\S+xylem\S*)", (KUBERNETES / name).read_text())
            self.assertEqual(set(images), {f"{image}:{version()}"}, name)
        chart = (KUBERNETES / "chart/Chart.yaml").read_text()
        self.assertEqual(set(re.findall(r'^(?:version|appVersion): "?([^"\n]+)', chart, re.M)), {version()})
        self.assertIn(f"\nimage: {image}\n", (KUBERNETES / "chart/values.yaml").read_text())

    def test_the_chart_and_the_manifest_run_the_same_commands(self) -> None:
        chart = (KUBERNETES / "chart/templates/daemonset.yaml").read_text()
        for key, value in re.findall(r"^(\w+): (\S+)$", (KUBERNETES / "chart/values.yaml").read_text(), re.M):
            chart = chart.replace(f"{{{{ .Values.{key} }}}}", value)
        chart = re.sub(r"\{\{ with .*? end \}\}", "", chart)
        self.assertEqual(commands(chart), commands((KUBERNETES / "nodes.yaml").read_text()))
        self.assertEqual([command[0] for command in commands(chart)], ["get", "get"])

    def test_schemas_of_kubernetes_accept_the_manifests(self) -> None:
        module(self, "kubernetes_validate")
        for schema in SCHEMAS:
            check = [sys.executable, "-m", "kubernetes_validate", "--strict", "-k", schema]
            subprocess.run([*check, *sorted(KUBERNETES.glob("*.yaml"))], check=True, capture_output=True)

    def test_kubeconform_accepts_the_manifests(self) -> None:
        installed(self, "kubeconform")
        module(self, "kubernetes_validate")
        package = pathlib.Path(importlib.util.find_spec("kubernetes_validate").origin).parent / "kubernetes-json-schema"
        with tempfile.TemporaryDirectory() as folder:
            for schema in SCHEMAS:
                # Their own addresses lead elsewhere.
                for kind in ("pod-v1", "daemonset-apps-v1", "_definitions"):
                    text = (package / f"v{schema}.0-local-strict/{kind}.json").read_text()
                    stated = json.loads(text.replace('"/api/_definitions.json', '"_definitions.json'))
                    stated.pop("$id", None)
                    pathlib.Path(folder, f"{kind}.json").write_text(json.dumps(stated))
                at = f"{folder}/{{{{.ResourceKind}}}}{{{{.KindSuffix}}}}.json"
                check = ["kubeconform", "-strict", "-schema-location", at]
                subprocess.run([*check, *sorted(KUBERNETES.glob("*.yaml"))], check=True)

    def test_helm_renders_the_manifest(self) -> None:
        installed(self, "helm")
        module(self, "yaml")
        import yaml

        chart, ticket = str(KUBERNETES / "chart"), ["--set", "ticket=xylem:it"]
        subprocess.run(["helm", "lint", "--strict", chart, *ticket], check=True, capture_output=True)
        refused = subprocess.run(["helm", "template", "xylem", chart], capture_output=True, text=True, check=False)
        self.assertIn("a ticket is needed", refused.stderr)

        def rendered(*options: str) -> list[dict]:
            made = subprocess.run(["helm", "template", "xylem", chart, *ticket, *options], check=True, capture_output=True, text=True)
            return sorted(yaml.safe_load_all(made.stdout), key=lambda resource: resource["kind"])

        nodes, secret = rendered()
        self.assertEqual(secret["stringData"], {"ticket": "xylem:it"})
        del nodes["spec"]["template"]["metadata"]["annotations"]
        self.assertEqual(nodes, yaml.safe_load((KUBERNETES / "nodes.yaml").read_text()))
        other = rendered("--set", "folder=,port=7400,into=b,like=a/it,nodeSelector.disk=ssd,tolerations[0].operator=Exists")[0]["spec"]["template"]["spec"]
        self.assertEqual((other["nodeSelector"], other["tolerations"]), ({"disk": "ssd"}, [{"operator": "Exists"}]))
        self.assertIn({"name": "data", "emptyDir": {}}, other["volumes"])
        (fetch,), (serve,) = other["initContainers"], other["containers"]
        self.assertEqual(fetch["args"][2:], ["-o", "/data/b/", "--listen", "7400", "--no-lan", "--like", "/data/a/it"])
        self.assertEqual(serve["args"][2:], ["-o", "/data/b/", "--listen", "7400", "--no-lan", "--no-map", "--seed"])


class Process:
    """The program in the background, with its events."""

    def __init__(self, arguments: list[object], store: pathlib.Path) -> None:
        command = [str(PROGRAM), "--json", "--store", str(store), *map(str, arguments)]
        self.child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=clean(), stdin=subprocess.DEVNULL)
        self.lines: queue.Queue[str] = queue.Queue()
        threading.Thread(target=self.read, daemon=True).start()

    def read(self) -> None:
        for line in self.child.stdout:
            self.lines.put(line)
        self.lines.put("")

    def event(self, kind: str) -> dict:
        """Waits for an event."""
        while line := self.lines.get(timeout=PATIENCE_S):
            event = json.loads(line)
            if event["event"] == kind:
                return event
        raise AssertionError(f"the program ended without {kind}: {self.child.args}")

    def ended(self) -> int:
        return self.child.wait(timeout=PATIENCE_S)

    def kill(self) -> None:
        self.child.kill()
        self.child.wait()
        self.child.stdout.close()


def clean() -> dict[str, str]:
    """The environment without variables of the program."""
    return {name: value for name, value in os.environ.items() if not name.startswith("XYLEM_")}


def free_port() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


class Running(unittest.TestCase):
    """Processes of the real program in a temporary folder."""

    def setUp(self) -> None:
        if not PROGRAM.exists():
            skipped(self, f"no {PROGRAM}")
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.work = pathlib.Path(folder.name)
        (self.work / "source").mkdir()
        for name in ("a", "b", "c"):
            (self.work / "source" / name).write_bytes(random.Random(name).randbytes(SIZE // 3))

    def start(self, arguments: list[object], store: str) -> Process:
        process = Process(arguments, self.work / store)
        self.addCleanup(process.kill)
        return process

    def share(self) -> tuple[Process, str]:
        """The source, with its ticket in the file that a secret or a user has."""
        process = self.start(["share", self.work / "source", "--listen", "127.0.0.1:0", "--no-lan"], "store")
        ticket = process.event("shared")["ticket"]
        (self.work / "ticket").write_text(ticket + "\n")
        return process, ticket

    def is_right(self, folder: pathlib.Path) -> None:
        for path in (self.work / "source").iterdir():
            self.assertEqual((folder / "source" / path.name).read_bytes(), path.read_bytes(), path.name)


class Nodes(Running):
    """The containers of a cluster's nodes."""

    def typed(self, command: list[str], node: str, port: int) -> list[object]:
        """A container's command, as it stands but for paths and addresses of this machine."""
        at = {"@/ticket/ticket": f"@{self.work}/ticket", "/data/files/": f"{self.work}/{node}/files/", "7348": f"127.0.0.1:{port}", "$(NODE):7348": f"127.0.0.1:{port}"}
        return [at.get(word, word) for word in command]

    def test_nodes_fetch_from_each_other_and_serve_their_pods(self) -> None:
        fetch, serve = commands((KUBERNETES / "nodes.yaml").read_text())
        (pod,) = commands((KUBERNETES / "pod.yaml").read_text())
        source, _ = self.share()
        ports = [free_port(), free_port()]
        first = self.typed(fetch, "first", ports[0])
        self.assertEqual(self.start(first, "first/store").ended(), 0)
        self.is_right(self.work / "first/files")
        serving = self.start(self.typed(serve, "first", ports[0]), "first/store")
        self.assertTrue(serving.event("done")["already_complete"])

        # The source introduces the first node to the second.
        second = self.start([*self.typed(fetch, "second", ports[1]), "--limit", RATE], "second/store")
        peers = {peer["peer"]: peer["bytes"] for peer in second.event("done")["peers"]}
        self.assertEqual(second.ended(), 0)
        self.assertGreater(peers.get(f"127.0.0.1:{ports[0]}", 0), 0, peers)
        self.is_right(self.work / "second/files")

        source.kill()
        self.assertEqual(self.start(self.typed(pod, "pod", ports[0]), "pod/store").ended(), 0)
        self.is_right(self.work / "pod/files")
        # The pod of a node starts again after the source has gone.
        serving.kill()
        self.assertEqual(self.start(first, "first/store").ended(), 0)
        self.start(self.typed(serve, "first", ports[0]), "first/store").event("done")

    def test_a_new_version_moves_what_has_changed(self) -> None:
        fetch, _ = commands((KUBERNETES / "nodes.yaml").read_text())
        source, _ = self.share()
        self.assertEqual(self.start(self.typed(fetch, "node", free_port()), "node/store").ended(), 0)
        source.kill()
        (self.work / "source/a").write_bytes(random.Random("new").randbytes(100_000))
        self.share()
        # What the chart's values `into` and `like` add.
        newer = [word.replace("/data/files/", f"{self.work}/node/newer/") for word in fetch]
        again = self.start([*self.typed(newer, "node", free_port()), "--like", self.work / "node/files/source"], "node/store")
        self.assertLess(again.event("done")["fetched"], SIZE // 3)
        self.assertEqual(again.ended(), 0)
        self.is_right(self.work / "node/newer")


# What the scripts need of Slurm: four nodes, each with a disk of its own in place of the folder `disk`.
SRUN = """#!/bin/bash
first=1
while [[ $1 == --* ]]; do
    case $1 in --exclude=node1) first=2 ;; --nodes=3 | --ntasks=3) ;; *) echo "srun: $1" >&2; exit 1 ;; esac
    shift
done
for ((node = first; node <= 4; node++)); do "${@//disk/disk-$node}" & done
for ((node = first; node <= 4; node++)); do wait -n || exit; done
"""
ON_FIRST = '#!/bin/bash\nexec "$PROGRAM" "${@//\\/disk\\//\\/disk-1\\/}"\n'


class Jobs(Running):
    def run_script(self, name: str) -> None:
        self.share()
        bin = self.work / "bin"
        bin.mkdir()
        for tool, text in {"srun": SRUN, "xylem": ON_FIRST}.items():
            (bin / tool).write_text(text)
            (bin / tool).chmod(0o755)
        env = clean() | {"PATH": f"{bin}:{os.environ['PATH']}", "PROGRAM": str(PROGRAM), "SLURM_NNODES": "4", "SLURMD_NODENAME": "node1", "TMPDIR": str(self.work)}
        script = ["bash", str(SLURM / name), str(self.work / "ticket"), str(self.work / "disk")]
        done = subprocess.run(script, env=env, check=False, timeout=PATIENCE_S, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        for node in range(1, 5):
            self.is_right(self.work / f"disk-{node}/files")

    def test_each_node_of_a_job_fetches(self) -> None:
        self.run_script("each.sbatch")

    def test_the_first_node_of_a_job_serves_the_others(self) -> None:
        self.run_script("first.sbatch")


class Board(Running):
    def page(self, arguments: list[object], needed: str) -> str:
        """The page for Prometheus of a program, once it has a metric."""
        with socket.socket() as one:
            one.bind(("127.0.0.1", 0))
            port = one.getsockname()[1]
        self.start([*arguments, "--metrics", f"127.0.0.1:{port}"], "store")
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
                    text = answer.read().decode()
                if needed in text:
                    return text
            except OSError:
                pass
            time.sleep(0.1)
        raise AssertionError(f"no {needed} of {arguments}")

    def pages(self) -> list[str]:
        relay = self.page(["relay", "--listen", "xylem://127.0.0.1:0"], "xylem_relay_registrations")
        node = self.page(["service", "run", "--listen", "127.0.0.1:0", "--no-lan", "--no-map"], "xylem_shares")
        listen = f"unix://{self.work}/node.sock"
        forwarder = self.page(["ndn", "node", "--listen", listen], "xylem_ndn_faces")
        return [relay, node, forwarder]

    def test_the_board_shows_metrics_that_exist(self) -> None:
        board = json.loads(BOARD.read_text())
        for key in ("uid", "title", "schemaVersion", "panels", "templating", "time"):
            self.assertIn(key, board)
        panels = board["panels"]
        self.assertEqual(len({panel["id"] for panel in panels}), len(panels))
        self.assertIn("datasource", [variable["type"] for variable in board["templating"]["list"]])
        drawn = [panel for panel in panels if panel["type"] != "row"]
        for panel in drawn:
            for key in ("title", "gridPos", "targets", "fieldConfig", "datasource"):
                self.assertIn(key, panel, panel["title"])
        shown = set(re.findall(r"\bxylem_\w+", json.dumps(board)))
        given = {line.split()[2]: line.split()[3] for page in self.pages() for line in page.splitlines() if line.startswith("# TYPE ")}
        self.assertLessEqual(shown, set(given))
        for expression in (target["expr"] for panel in drawn for target in panel["targets"]):
            name = re.search(r"\bxylem_\w+", expression)[0]
            self.assertEqual(given[name] == "counter", "rate(" in expression or "increase(" in expression, expression)

    def test_each_metric_states_what_it_counts(self) -> None:
        for page in self.pages():
            named = {kind: set(re.findall(rf"^# {kind} (\w+) \S+", page, re.M)) for kind in ("HELP", "TYPE")}
            self.assertEqual(named["HELP"], named["TYPE"])

    def test_documents_list_the_metrics(self) -> None:
        listed = (ROOT / "docs/service.md").read_text() + (ROOT / "docs/node.md").read_text()
        events = (ROOT / "docs/spec/json-events.md").read_text()
        for name in set(re.findall(r"\bxylem_\w+", BOARD.read_text())):
            count = name.removeprefix("xylem_relay_").removesuffix("_total")
            self.assertTrue(f"`{name}`" in listed or f"`{count}`" in events, name)

    def test_promtool_reads_the_pages(self) -> None:
        installed(self, "promtool")
        for page in self.pages():
            checked = subprocess.run(["promtool", "check", "metrics"], input=page, text=True, capture_output=True, check=False)
            self.assertEqual((checked.returncode, checked.stderr), (0, ""))


if __name__ == "__main__":
    unittest.main()
