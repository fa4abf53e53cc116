//! NDN over Ethernet between two machines without IP: network namespaces with one cable. Needs root and `ip`; else the
//! tests report that they were skipped.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use crate::common::serving::Serving;
use crate::common::{
    Node, assert_exit, file, finish, noise, skipped, stderr, text, under, until, xylem,
};

/// Ethernet addresses of both ends.
const ADDRESSES: [&str; 2] = ["02:00:00:00:0a:01", "02:00:00:00:0a:02"];
const GROUP: &str = "01:00:5e:00:17:aa";

/// Two machines, `eth` of one plugged into `eth` of the other.
struct Cable {
    names: [String; 2],
    dir: tempfile::TempDir,
}

impl Cable {
    fn new(tag: &str) -> Option<Self> {
        let names = ["a", "b"].map(|which| format!("xylem-{tag}-{which}-{}", std::process::id()));
        let dir = tempfile::tempdir().unwrap();
        let cable = Self { names, dir };
        let [a, b] = &cable.names;
        let made = cable.sh(&format!("ip netns add {a} && ip netns add {b}"));
        if !made || !cable.plug() {
            skipped("no right to make network namespaces, or no ip");
            return None;
        }
        Some(cable)
    }

    fn sh(&self, script: &str) -> bool {
        Command::new("sh").args(["-c", script]).output().is_ok_and(|made| made.status.success())
    }

    /// Makes the interfaces, always with the same addresses.
    fn plug(&self) -> bool {
        let ([a, b], [at_a, at_b]) = (&self.names, ADDRESSES);
        self.sh(&format!(
            "ip -n {a} link add eth address {at_a} type veth peer name eth address {at_b} netns {b} \
             && ip -n {a} link set eth up && ip -n {b} link set eth up"
        ))
    }

    fn unplug(&self) {
        assert!(self.sh(&format!("ip -n {} link del eth", self.names[0])));
    }

    fn home(&self, machine: usize) -> PathBuf {
        let home = self.dir.path().join(["a", "b"][machine]);
        fs::create_dir_all(&home).unwrap();
        home
    }

    fn at(&self, machine: usize) -> String {
        format!("unix://{}", self.home(machine).join("node.sock").display())
    }

    fn node(&self, machine: usize, settings: &str) -> Node {
        let home = self.home(machine);
        let exec = ["netns", "exec", &self.names[machine]];
        let settings = format!("[node]\nlisten = [\"{}\"]\n{settings}", self.at(machine));
        Node::run(under("ip", &exec, &xylem(&home.join("node-store"))), &home, &settings)
    }

    /// Publishes content by the node of this machine.
    fn put(&self, machine: usize, name: &str, content: &[u8]) -> Serving {
        let home = self.home(machine);
        let source = file(&home, "source", content);
        let put =
            Serving::start(&home, &["ndn", "put", name, text(&source), "--at", &self.at(machine)]);
        until("the registration", || self.ctl(machine, &["route", "list"]).contains(name));
        put
    }

    /// Fetches by the node of this machine.
    fn get(&self, machine: usize, name: &str) -> Vec<u8> {
        let home = self.home(machine);
        let (out, at) = (home.join("out"), self.at(machine));
        let mut command = xylem(&home.join("store"));
        command.args(["get", name, "--insecure", "--overwrite", "--from", &at, "-o", text(&out)]);
        assert_exit(&finish(command), 0);
        fs::read(&out).unwrap()
    }

    fn try_ctl(&self, machine: usize, args: &[&str]) -> Output {
        let mut command = xylem(&self.home(machine).join("store"));
        command.args(["ndn", "ctl"]).args(args).args(["--at", &self.at(machine)]);
        finish(command)
    }

    fn ctl(&self, machine: usize, args: &[&str]) -> String {
        let output = self.try_ctl(machine, args);
        assert_exit(&output, 0);
        String::from_utf8(output.stdout).unwrap()
    }
}

impl Drop for Cable {
    fn drop(&mut self) {
        for name in &self.names {
            let _ = Command::new("ip").args(["netns", "del", name]).output();
        }
    }
}

fn settings(more: &str) -> String {
    format!("[node.ethernet]\ndevices = [\"eth\"]\n{more}")
}

fn ether(address: &str) -> String {
    format!("ether://[{address}]")
}

#[test]
fn an_object_crosses_a_cable_without_ip_to_one_address() {
    let Some(cable) = Cable::new("unicast") else { return };
    let _near = cable.node(0, "");
    let _far = cable.node(1, &settings(""));
    let content = noise(1_000_000, 1);
    let _put = cable.put(1, "/far/film", &content);
    let uri = ether(ADDRESSES[1]);
    let made = cable.ctl(0, &["face", "create", &uri, "--local", "dev://eth"]);
    assert!(made.contains("face-created"), "{made}");
    let again = cable.ctl(0, &["face", "create", &uri, "--local", "dev://eth"]);
    assert!(again.contains("face-exists"), "{again}");
    cable.ctl(0, &["route", "add", "/far", &format!("ether://[{}%eth]", ADDRESSES[1])]);
    assert!(cable.get(0, "/far/film") == content);
    let mut faces = (0..2).map(|i| cable.ctl(i, &["face", "list", "--scheme", "ether"]));
    let (near, far) = (faces.next().unwrap(), faces.next().unwrap());
    assert!(near.contains(&format!("remote {uri} local dev://eth")), "{near}");
    assert!(near.contains("mtu 1500"), "{near}");
    // The other end accepted a face for the Interests.
    let accepted = format!("remote {} local dev://eth", ether(ADDRESSES[0]));
    assert!(far.contains(&accepted) && far.contains("on-demand"), "{far}");
    assert!(far.contains(&format!("remote {} local dev://eth", ether(GROUP))), "{far}");
    assert!(cable.ctl(1, &["channel", "list"]).contains("dev://eth"));
}

#[test]
fn two_nodes_reach_each_other_by_the_ethernet_group() {
    let Some(cable) = Cable::new("group") else { return };
    let route = format!("[[node.route]]\nprefix = \"/\"\nto = \"ether://[{GROUP}%eth]\"\n");
    let near = cable.node(0, &settings(&route));
    let _far = cable.node(1, &settings(""));
    let content = noise(300_000, 2);
    let _put = cable.put(1, "/far/film", &content);
    assert!(cable.get(0, "/far/film") == content);
    let faces = cable.ctl(0, &["face", "list"]);
    assert!(faces.contains("multi-access"), "{faces}");
    until("the report", || {
        near.told("listening")
            .iter()
            .any(|event| event["uri"] == format!("ether://[{GROUP}] on eth"))
    });
}

#[test]
fn an_interface_that_goes_and_comes_takes_its_faces_with_it() {
    let Some(cable) = Cable::new("replug") else { return };
    let near = cable.node(0, "");
    let far = cable.node(1, &settings(""));
    let content = noise(50_000, 3);
    let _put = cable.put(1, "/far/film", &content);
    let uri = ether(ADDRESSES[1]);
    let create = ["face", "create", &uri, "--local", "dev://eth"];
    let made = cable.ctl(0, &[&create[..], &["--persistency", "permanent"]].concat());
    let number = made.split_whitespace().skip_while(|word| *word != "face").nth(1).unwrap();
    cable.ctl(0, &["route", "add", "/far", number]);
    assert!(cable.get(0, "/far/film") == content);

    cable.unplug();
    let gone = |node: &Node| {
        let down = |event: &serde_json::Value| event["why"] == "eth is down or gone";
        node.told("peer_gone").iter().filter(|event| down(event)).count()
    };
    // The permanent face here; there the group's and the one of our Interests, which ends.
    until("both ends to notice", || gone(&near) == 1 && gone(&far) == 2);
    assert!(!cable.ctl(1, &["face", "list"]).contains(&ether(ADDRESSES[0])));
    assert!(cable.ctl(0, &["face", "list"]).contains(&uri));
    let refused =
        cable.try_ctl(1, &["face", "create", &ether(ADDRESSES[0]), "--local", "dev://eth"]);
    assert_exit(&refused, 3);
    assert!(stderr(&refused).contains("there is no interface eth"), "{}", stderr(&refused));

    assert!(cable.plug());
    cable.ctl(0, &["cs", "erase", "/far"]);
    until("both ends to come back", || {
        let up = |node: &Node| node.told("peer_connected").len();
        (up(&near), up(&far)) >= (3, 3) && cable.ctl(1, &["channel", "list"]).contains("dev://eth")
    });
    assert!(cable.get(0, "/far/film") == content);
    let faces = cable.ctl(0, &["face", "list", "--scheme", "ether"]);
    assert!(faces.starts_with(&format!("face {number} ")), "it kept its number: {faces}");
}

#[test]
fn a_node_waits_for_an_interface_that_is_not_here_yet() {
    let Some(cable) = Cable::new("later") else { return };
    cable.unplug();
    let near = cable.node(0, &settings(""));
    until("the report", || {
        near.told("peer_gone").iter().any(|event| event["why"] == "there is no interface eth")
    });
    assert!(cable.plug());
    until("the face", || {
        near.told("peer_connected")
            .iter()
            .any(|event| event["peer"] == format!("ether://[{GROUP}] on eth"))
    });
    assert_eq!(near.told("peer_gone").len(), 1, "a face that stays down is reported once");
}

/// A command for the same address makes no second face, which would take the place of this one with its routes.
#[test]
fn a_face_that_waits_for_its_interface_is_found_and_keeps_its_route() {
    let Some(cable) = Cable::new("waiting") else { return };
    cable.unplug();
    let uri = ether(ADDRESSES[1]);
    let to = format!("ether://[{}%eth]", ADDRESSES[1]);
    let near = cable.node(0, &format!("[[node.route]]\nprefix = \"/far\"\nto = \"{to}\"\n"));
    let _far = cable.node(1, &settings(""));
    let create = ["face", "create", &uri, "--local", "dev://eth", "--persistency", "permanent"];
    let known = cable.ctl(0, &create);
    assert!(known.contains("face-updated"), "{known}");
    let faces = cable.ctl(0, &["face", "list", "--scheme", "ether"]);
    assert_eq!(faces.lines().count(), 1, "{faces}");
    assert!(faces.contains(&format!("remote {uri} local dev://eth")), "{faces}");

    assert!(cable.plug());
    until("both ends to come up", || {
        let up = |event: &serde_json::Value| event["peer"] == format!("{uri} on eth");
        near.told("peer_connected").iter().any(up)
            && cable.ctl(1, &["channel", "list"]).contains("dev://eth")
    });
    let _put = cable.put(1, "/far/note", b"a note");
    assert!(cable.get(0, "/far/note") == b"a note");
}

/// Frames that another program makes: the least ones of Ethernet, with padding, and damaged ones.
const FRAMES: &str = r#"
import os, random, socket, sys
node, mine = (bytes.fromhex(a.replace(":", "")) for a in sys.argv[1:3])
link = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x8624))
link.bind(("eth", 0))
link.settimeout(10)
random.seed(7)
name = b"\x07\x05\x08\x03far"
interest = lambda: b"\x05\x0f" + name + b"\x21\x00\x0a\x04" + os.urandom(4)

def send(payload, to=node, kind=b"\x86\x24"):
    link.send(to + mine + kind + payload)

def answer():
    while True:
        frame = link.recv(2000)
        if frame[14] in (0x06, 0x64):
            return frame

# What is no packet, and a packet for others, makes no face and no answer.
for others in ("020000000aff", "ffffffffffff", "01005e000001"):
    send(interest(), to=bytes.fromhex(others))
for length in list(range(0, 60)) + [random.randrange(60, 1500) for _ in range(200)]:
    send(random.randbytes(length))
for cut in range(len(interest())):
    send(interest()[:cut])
link.settimeout(0.5)
try:
    sys.exit(f"an answer: {answer().hex()}")
except socket.timeout:
    link.settimeout(10)
for padding in (b"", b"\0" * 29, b"\xff" * 300):
    send(interest() + padding)
    frame = answer()
    assert frame[:14] == mine + node + b"\x86\x24", frame.hex()
    assert len(frame) >= 60 and name[2:] in frame, frame.hex()
# In two fragments of NDNLPv2, each with padding.
whole = interest()
for index, part in enumerate((whole[:5], whole[5:])):
    lp = b"\x51\x08" + (77 + index).to_bytes(8, "big") + b"\x52\x01" + bytes([index]) + b"\x53\x01\x02"
    lp += b"\x50" + bytes([len(part)]) + part
    send(b"\x64" + bytes([len(lp)]) + lp + b"\0" * 30)
answer()
print("done")
"#;

#[test]
fn padded_and_damaged_frames_of_other_programs() {
    let Some(cable) = Cable::new("frames") else { return };
    let _node = cable.node(1, &settings(""));
    let home = cable.home(1);
    let source = file(&home, "source", b"a packet");
    let _put =
        Serving::start(&home, &["ndn", "put", "/far/note", text(&source), "--at", &cable.at(1)]);
    until("the registration", || cable.ctl(1, &["route", "list"]).contains("/far/note"));
    let script = file(cable.dir.path(), "frames.py", FRAMES.as_bytes());
    let mut frames = Command::new("ip");
    frames.args(["netns", "exec", &cable.names[0], "python3"]).arg(&script);
    frames.args([ADDRESSES[1], ADDRESSES[0]]).stdin(Stdio::null());
    let Ok(output) = frames.output() else { return skipped("no python3") };
    assert!(output.status.success() && output.stdout == b"done\n", "{}", stderr(&output));
}

#[test]
fn without_the_right_the_advice_is_one_line() {
    let Some(cable) = Cable::new("right") else { return };
    let home = cable.home(0);
    let without = |command: &Command| {
        let exec = ["netns", "exec", &cable.names[0], "setpriv", "--bounding-set", "-net_raw"];
        under("ip", &exec, command)
    };
    if !without(&Command::new("true")).status().is_ok_and(|status| status.success()) {
        return skipped("no setpriv");
    }
    let config = file(&home, "wanted.toml", settings("").as_bytes());
    let mut command = xylem(&home.join("node-store"));
    command.args(["--config", text(&config), "ndn", "node", "--listen", &cable.at(0)]);
    let output = finish(without(&command));
    assert_exit(&output, 4);
    let said = stderr(&output);
    assert!(said.contains("cannot use eth") && said.contains("setcap cap_net_raw+ep"), "{said}");
    assert_eq!(said.lines().filter(|line| line.starts_with("xylem:")).count(), 1, "{said}");

    let listen = format!("[node]\nlisten = [\"{}\"]\n", cable.at(0));
    let _node = Node::run(without(&xylem(&home.join("node-store"))), &home, &listen);
    let create = ["face", "create", &ether(ADDRESSES[1]), "--local", "dev://eth"];
    let refused = cable.try_ctl(0, &create);
    assert_exit(&refused, 3);
    assert!(stderr(&refused).contains("setcap cap_net_raw+ep"), "{}", stderr(&refused));
}

/// Needs no right: the command is refused before any socket is opened.
#[test]
fn an_ethernet_face_needs_an_interface_and_one_address() {
    let dir = tempfile::tempdir().unwrap();
    let node = Node::start(dir.path(), "");
    let group = ether(GROUP);
    let one = ether(ADDRESSES[0]);
    for (args, says) in [
        (vec![&one[..]], "--local dev://eth0"),
        (vec![&one, "--local", "udp4://127.0.0.1:1"], "dev://eth0"),
        (vec![&group, "--local", "dev://eth"], "not a unicast address"),
        (vec!["ether://[02:00:00:00:00:00%eth/x]"], "Uri"),
    ] {
        let mut command = xylem(dir.path());
        command.args(["ndn", "ctl", "face", "create"]).args(&args).args(["--at", node.at("unix")]);
        let output = finish(command);
        assert_exit(&output, 2);
        assert!(stderr(&output).contains(says), "{args:?}: {}", stderr(&output));
    }
    let faces = {
        let mut command = xylem(dir.path());
        command.args(["ndn", "ctl", "face", "list", "--at", node.at("unix")]);
        String::from_utf8(finish(command).stdout).unwrap()
    };
    assert!(!faces.contains("ether"), "{faces}");
}
