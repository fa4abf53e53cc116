//! `xylem ndn node` between two others, in processes of their own: a file shared on one side of it is fetched on the other,
//! over each kind of face.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::time::Duration;

use crate::common::{
    Node, Share, assert_exit, file, finish, get, listen_in, noise, stderr, text, until, xylem,
};

/// A node that routes all Interests to a share with this plain address.
fn in_front_of(dir: &Path, upstream: &str) -> Node {
    Node::start(dir, &format!("[[node.route]]\nprefix = \"/\"\nto = \"{upstream}\""))
}

#[test]
fn a_share_is_fetched_through_a_node_over_every_transport() {
    let dir = tempfile::tempdir().unwrap();
    let content = noise(3_000_000, 1);
    let source = file(dir.path(), "source", &content);
    let share = Share::plain(&source, &dir.path().join("store"));
    let upstream = format!("tcp4://{}", share.plain.clone().unwrap());
    let node = in_front_of(dir.path(), &upstream);
    for scheme in ["unix", "udp4", "tcp4", "ws"] {
        let out = dir.path().join(format!("{scheme}.out"));
        let store = dir.path().join(scheme);
        let output = get(&store, &[&share.ticket, "--from", node.at(scheme), "-o", text(&out)]);
        assert_exit(&output, 0);
        assert!(fs::read(&out).unwrap() == content, "{scheme}");
    }
}

#[test]
fn a_node_reaches_others_over_every_transport() {
    let dir = tempfile::tempdir().unwrap();
    let content = noise(2_000_000, 2);
    let source = file(dir.path(), "source", &content);
    let share = Share::plain(&source, &dir.path().join("store"));
    let inner_dir = dir.path().join("inner");
    fs::create_dir_all(&inner_dir).unwrap();
    let inner = in_front_of(&inner_dir, &format!("udp4://{}", share.plain.clone().unwrap()));
    for scheme in ["unix", "udp4", "tcp4", "ws", "xylem"] {
        let outer_dir = dir.path().join(format!("outer-{scheme}"));
        fs::create_dir_all(&outer_dir).unwrap();
        let outer = in_front_of(&outer_dir, inner.at(scheme));
        let out = outer_dir.join("out");
        let from = outer.at("unix");
        let output = get(&outer_dir.join("s"), &[&share.ticket, "--from", from, "-o", text(&out)]);
        assert_exit(&output, 0);
        assert!(fs::read(&out).unwrap() == content, "{scheme}");
    }
}

#[test]
fn two_nodes_find_each_other_by_multicast() {
    let dir = tempfile::tempdir().unwrap();
    let content = noise(300_000, 3);
    let source = file(dir.path(), "source", &content);
    let share = Share::plain(&source, &dir.path().join("store"));
    // A multicast group of this process alone, so that tests beside it do not interfere.
    let group =
        format!("239.255.{}.{}:0", std::process::id() % 250, std::process::id() / 250 % 250);
    let port = 20_000 + std::process::id() % 20_000;
    let group = group.replace(":0", &format!(":{port}"));
    let multicast =
        format!("[node.multicast]\ngroup = \"{group}\"\ninterfaces = [\"127.0.0.1\"]\n");
    let near_dir = dir.path().join("near");
    let far_dir = dir.path().join("far");
    fs::create_dir_all(&near_dir).unwrap();
    fs::create_dir_all(&far_dir).unwrap();
    let upstream = format!("tcp4://{}", share.plain.clone().unwrap());
    let route = |to: &str| format!("[[node.route]]\nprefix = \"/\"\nto = \"{to}\"\n");
    let _far = Node::start(&far_dir, &(multicast.clone() + &route(&upstream)));
    let near = Node::start(&near_dir, &(multicast + &route(&format!("udp4://{group}"))));
    let out = dir.path().join("out");
    let output =
        get(&dir.path().join("s"), &[&share.ticket, "--from", near.at("unix"), "-o", text(&out)]);
    assert_exit(&output, 0);
    assert!(fs::read(&out).unwrap() == content);
}

/// Over IPv6 a group needs an interface with a link-local address; where there is none nothing is tested.
#[test]
fn two_nodes_find_each_other_by_multicast_over_ipv6() {
    // Address, number, length of the prefix, scope (20: one link), flags and name.
    let all = fs::read_to_string("/proc/net/if_inet6").unwrap_or_default();
    let fields = all.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let Some(interface) = fields.into_iter().find(|fields| fields[3] == "20") else { return };
    let address = std::net::Ipv6Addr::from(u128::from_str_radix(interface[0], 16).unwrap());
    let name = interface[5];
    let dir = tempfile::tempdir().unwrap();
    let content = noise(300_000, 3);
    let source = file(dir.path(), "source", &content);
    let share = Share::plain(&source, &dir.path().join("store"));
    let (group, port) = (format!("ff02::{:x}", std::process::id() % 60_000), 20_001);
    let multicast = format!(
        "[node.multicast]\nipv6 = true\ngroup_v6 = \"[{group}]:{port}\"\ninterfaces = [\"{address}\"]\n\
         ad_hoc = true\n"
    );
    let upstream = format!("tcp4://{}", share.plain.clone().unwrap());
    let route = |to: &str| format!("[[node.route]]\nprefix = \"/\"\nto = \"{to}\"\n");
    let home = |name: &str| {
        let home = dir.path().join(name);
        fs::create_dir_all(&home).unwrap();
        home
    };
    let _far = Node::start(&home("far"), &(multicast.clone() + &route(&upstream)));
    let uri = format!("udp6://[{group}%25{name}]:{port}");
    let near = Node::start(&home("near"), &(multicast + &route(&uri)));
    let out = dir.path().join("out");
    let output =
        get(&dir.path().join("s"), &[&share.ticket, "--from", near.at("unix"), "-o", text(&out)]);
    assert_exit(&output, 0);
    assert!(fs::read(&out).unwrap() == content);
    let mut list = xylem(&dir.path().join("s"));
    list.args(["ndn", "ctl", "face", "list", "--at", near.at("unix")]);
    let faces = String::from_utf8(finish(list).stdout).unwrap();
    let shown = uri.replace("%25", "%");
    let face =
        faces.lines().find(|face| face.contains(&shown)).unwrap_or_else(|| panic!("{faces}"));
    assert!(face.contains("ad-hoc"), "{face}");
}

#[test]
fn a_node_ends_in_order_and_takes_its_socket_with_it() {
    let dir = tempfile::tempdir().unwrap();
    for signal in ["-INT", "-TERM"] {
        let node = Node::start(dir.path(), "");
        let socket = dir.path().join("node.sock");
        assert!(socket.exists());
        assert_eq!(node.signal(signal), Some(0), "{signal}");
        assert!(!socket.exists(), "{signal}");
    }
}

#[test]
fn a_killed_node_is_replaced_and_a_live_one_is_not() {
    let dir = tempfile::tempdir().unwrap();
    Node::start(dir.path(), "").kill();
    let socket = dir.path().join("node.sock");
    assert!(socket.exists(), "a killed node leaves its socket");
    let _live = Node::start(dir.path(), "");
    let mut second = xylem(&dir.path().join("other"));
    second.args(["ndn", "node", "--listen", &format!("unix://{}", socket.display())]);
    let output = finish(second);
    assert_exit(&output, 4);
    assert_eq!(stderr(&output).trim().lines().count(), 1, "{}", stderr(&output));
    assert!(socket.exists(), "the live node keeps its socket");
}

#[test]
fn settings_that_can_not_be_used_are_one_line_and_exit_2() {
    let dir = tempfile::tempdir().unwrap();
    for settings in [
        "[node]\nlisten = [\"carrier-pigeon://x\"]",
        "[node]\nlistne = []",
        "[node\n",
        "[[node.route]]\nprefix = \"relative\"\nto = \"udp://127.0.0.1\"",
        "\u{0}",
    ] {
        let config = file(dir.path(), "bad.toml", settings.as_bytes());
        let mut command = xylem(&dir.path().join("store"));
        command.arg("--config").arg(config).args(["ndn", "node"]);
        let output = finish(command);
        assert_exit(&output, 2);
        assert_eq!(stderr(&output).trim().lines().count(), 1, "{settings}: {}", stderr(&output));
    }
}

#[test]
fn a_fetch_goes_on_when_the_node_comes_back() {
    let dir = tempfile::tempdir().unwrap();
    let content = noise(30_000_000, 4);
    let source = file(dir.path(), "source", &content);
    let share = Share::plain(&source, &dir.path().join("store"));
    let upstream = format!("tcp4://{}", share.plain.clone().unwrap());
    let node = in_front_of(dir.path(), &upstream);
    let out = dir.path().join("out");
    let from = node.at("unix").to_owned();
    let mut command = xylem(&dir.path().join("s"));
    command.args(["get", &share.ticket, "--limit", "10M", "--from", &from, "-o", text(&out)]);
    let fetching = std::thread::spawn(move || finish(command));
    let part = dir.path().join(".out.xylem-part");
    until("the fetch begins", || part.exists());
    node.kill();
    let _node = in_front_of(dir.path(), &upstream);
    assert_exit(&fetching.join().unwrap(), 0);
    assert!(fs::read(&out).unwrap() == content);
}

#[test]
fn connections_that_end_leave_nothing_open() {
    use std::os::unix::net::UnixStream;
    let dir = tempfile::tempdir().unwrap();
    let node = Node::start(dir.path(), "");
    let open = || fs::read_dir(format!("/proc/{}/fd", node.pid())).unwrap().count();
    let before = open();
    let name = xylem_packet::Name::from_uri("/a").unwrap();
    let mut interest = Vec::new();
    xylem_packet::InterestBuilder::new(name.as_ref()).encode(&mut interest).unwrap();
    for _ in 0..200 {
        let path = node.at("unix").strip_prefix("unix://").unwrap();
        UnixStream::connect(path).unwrap().write_all(&interest).unwrap();
        let address = node.at("tcp4").strip_prefix("tcp4://").unwrap();
        TcpStream::connect(address).unwrap().write_all(&interest).unwrap();
        let address = node.at("ws").strip_prefix("ws://").unwrap();
        TcpStream::connect(address).unwrap().write_all(b"GET / HTTP/1.1\r\n").unwrap();
    }
    until("the last connection's end", || open() <= before);
}

/// `ctl` makes a face that is an encrypted link, by the URI that the other node prints.
#[test]
fn a_command_makes_a_face_over_an_encrypted_link() {
    let dir = tempfile::tempdir().unwrap();
    let content = noise(300_000, 5);
    let source = file(dir.path(), "source", &content);
    let share = Share::plain(&source, &dir.path().join("store"));
    let inner_dir = dir.path().join("inner");
    fs::create_dir_all(&inner_dir).unwrap();
    let inner = in_front_of(&inner_dir, &format!("tcp4://{}", share.plain.clone().unwrap()));
    let outer = Node::start(dir.path(), "");
    let ctl = |args: &[&str]| {
        let mut command = xylem(&dir.path().join("ctl"));
        command.args(["ndn", "ctl", "--at", outer.at("unix")]).args(args);
        let output = finish(command);
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        (output, said)
    };
    let uri = inner.at("xylem");
    let (key, address) = uri.strip_prefix("xylem://").unwrap().split_once('@').unwrap();
    let (made, said) = ctl(&["face", "create", uri]);
    assert_exit(&made, 0);
    assert!(said.contains(&format!("uri xylem://{address}")) && !said.contains(key), "{said}");
    assert_exit(&ctl(&["route", "add", "/", uri]).0, 0);
    let out = dir.path().join("out");
    let from = outer.at("unix");
    let output = get(&dir.path().join("s"), &[&share.ticket, "--from", from, "-o", text(&out)]);
    assert_exit(&output, 0);
    assert!(fs::read(&out).unwrap() == content);
    assert_exit(&ctl(&["face", "show", uri]).0, 0);
    assert_exit(&ctl(&["face", "destroy", uri]).0, 0);
    let (refused, _) = ctl(&["face", "create", &format!("xylem://nokey@{address}")]);
    assert_exit(&refused, 2);
    assert_eq!(stderr(&refused).lines().count(), 1, "{}", stderr(&refused));
}

/// Lists show no keys, so an accepted link from the address could look like the one that the command names.
#[test]
fn a_link_of_another_key_is_not_the_named_face() {
    let dir = tempfile::tempdir().unwrap();
    let other_dir = dir.path().join("other");
    fs::create_dir_all(&other_dir).unwrap();
    let (node, other) = (Node::start(dir.path(), ""), Node::start(&other_dir, ""));
    let ctl = |at: &Node, args: &[&str]| {
        let mut command = xylem(&dir.path().join("ctl"));
        command.args(["ndn", "ctl", "--at", at.at("unix")]).args(args);
        String::from_utf8_lossy(&finish(command).stdout).into_owned()
    };
    let (own, theirs) = (node.at("xylem"), other.at("xylem"));
    ctl(&other, &["face", "create", own]);
    let (key, _) = own.strip_prefix("xylem://").unwrap().split_once('@').unwrap();
    let (_, address) = theirs.split_once('@').unwrap();
    let accepted = format!("remote xylem://{address} ");
    until("the other node's link", || ctl(&node, &["face", "list"]).contains(&accepted));
    let same = ctl(&node, &["face", "create", theirs]);
    assert!(same.contains("face-exists"), "{same}");
    let another = ctl(&node, &["face", "create", &format!("xylem://{key}@{address}")]);
    assert!(another.contains("face-created"), "{another}");
}

/// Each address of a free port is shown with its number, by the node and by `ctl`.
#[test]
fn free_ports_of_a_node_are_shown() {
    let dir = tempfile::tempdir().unwrap();
    let node = Node::start(dir.path(), "interests_per_second = \"none\"");
    let mut command = xylem(&dir.path().join("ctl"));
    command.args(["ndn", "ctl", "--at", node.at("unix"), "channel", "list"]);
    let channels = finish(command);
    assert_exit(&channels, 0);
    let channels = String::from_utf8_lossy(&channels.stdout).into_owned();
    for uri in node.listens.iter().filter(|uri| !uri.starts_with("unix://")) {
        let (scheme, at) = uri.split_once("://").unwrap();
        let address = at.rsplit('@').next().unwrap();
        assert!(!address.ends_with(":0"), "{uri}");
        let line = format!("{scheme}://{address}");
        assert!(channels.lines().any(|channel| channel == line), "{line} of {channels}");
    }
}

/// Connections that a command may open: the client may have fewer rights than the node.
#[test]
fn a_command_reaches_no_unix_socket_that_the_settings_do_not_name() {
    use std::os::unix::net::UnixListener;
    let dir = tempfile::tempdir().unwrap();
    let socket = |name: &str| {
        let listener = UnixListener::bind(dir.path().join(name)).unwrap();
        listener.set_nonblocking(true).unwrap();
        listener
    };
    let (secret, named) = (socket("secret"), socket("named"));
    let uri = |name: &str| format!("unix://{}", dir.path().join(name).display());
    let allowed = format!("[node.management]\nunix_sockets = [{:?}]", dir.path().join("named"));
    let node = Node::start(dir.path(), &allowed);
    let create = |to: &str| {
        let mut command = xylem(&dir.path().join("store"));
        command.args(["ndn", "ctl", "--at", node.at("unix"), "face", "create", to]);
        finish(command)
    };
    let refused = create(&uri("secret"));
    assert_exit(&refused, 2);
    assert!(stderr(&refused).contains("406") && stderr(&refused).contains("unix_sockets"));
    // The same path, spelt otherwise.
    assert_exit(&create(&uri("./secret")), 2);
    assert!(secret.accept().is_err(), "it was connected to");
    assert_exit(&create(&uri("named")), 0);
    until("the allowed connection", || named.accept().is_ok());
}

#[test]
fn an_address_of_no_interface_is_refused_by_name() {
    let dir = tempfile::tempdir().unwrap();
    for (ipv6, address) in [("false", "2001:db8::77"), ("true", "fe80::77")] {
        let settings = format!(
            "[node]\n{}\n[node.multicast]\nipv6 = {ipv6}\ninterfaces = [\"127.0.0.1\", \"{address}\"]\n",
            listen_in(dir.path())
        );
        let config = file(dir.path(), "node.toml", settings.as_bytes());
        let mut command = xylem(&dir.path().join("store"));
        command.arg("--config").arg(config).args(["ndn", "node"]);
        let output = finish(command);
        assert_exit(&output, 2);
        assert!(stderr(&output).contains(address), "{}", stderr(&output));
    }
}

#[cfg(unix)]
#[test]
fn unsolicited_data_of_programs_is_cached_where_the_settings_admit_it() {
    use std::io::Write;
    use xylem_packet::{DataBuilder, Name};

    for (policy, is_cached) in [("drop-all", false), ("admit-local", true)] {
        let dir = tempfile::tempdir().unwrap();
        let settings =
            format!("[node]\n{}\nunsolicited_data = \"{policy}\"\n", listen_in(dir.path()));
        let node = Node::with(dir.path(), &settings);
        let mut program =
            std::os::unix::net::UnixStream::connect(dir.path().join("node.sock")).unwrap();
        let name = Name::from_uri("/pushed").unwrap();
        let mut packet = Vec::new();
        let signer = xylem_trust::Signer::digest_sha256();
        signer.data(DataBuilder::new(name.as_ref()), b"pushed", &mut packet).unwrap();
        program.write_all(&packet).unwrap();
        let peeked = || {
            let mut command = xylem(&dir.path().join("store"));
            command.args(["ndn", "peek", "/pushed", "-p", "--lifetime", "0.3"]);
            command.args(["--at", node.at("unix")]);
            finish(command).stdout == b"pushed"
        };
        match is_cached {
            true => until("it is cached", peeked),
            false => assert!(!peeked()),
        }
    }
}

/// A WebSocket to this machine, opened as by a page of `origin`.
fn web_socket(address: &str, origin: Option<&str>) -> TcpStream {
    let mut socket = TcpStream::connect(address).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let origin = origin.map_or_else(String::new, |origin| format!("Origin: {origin}\r\n"));
    let request = format!(
        "GET / HTTP/1.1\r\nHost: {address}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n{origin}\
         Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n\r\n"
    );
    socket.write_all(request.as_bytes()).unwrap();
    let mut answer = Vec::new();
    while !answer.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        socket.read_exact(&mut byte).unwrap();
        answer.push(byte[0]);
    }
    assert!(answer.starts_with(b"HTTP/1.1 101 "), "{}", String::from_utf8_lossy(&answer));
    socket
}

/// Sends an Interest in a message.
fn ask_by_web_socket(socket: &mut TcpStream, name: &str) {
    let name = xylem_packet::Name::from_uri(name).unwrap();
    let mut interest = Vec::new();
    let builder = xylem_packet::InterestBuilder::new(name.as_ref());
    builder.can_be_prefix(true).must_be_fresh(true).encode(&mut interest).unwrap();
    // A binary message, masked by zeros.
    let len = u8::try_from(interest.len()).unwrap();
    assert!(len < 126);
    socket.write_all(&[&[0x82, 0x80 | len, 0, 0, 0, 0][..], &interest].concat()).unwrap();
}

/// The first byte of the packet in the next message.
fn next_by_web_socket(socket: &mut TcpStream) -> u8 {
    let mut head = [0; 2];
    socket.read_exact(&mut head).unwrap();
    let len = match head[1] {
        126 => {
            let mut len = [0; 2];
            socket.read_exact(&mut len).unwrap();
            u16::from_be_bytes(len)
        }
        len => len.into(),
    };
    let mut packet = vec![0; len.into()];
    socket.read_exact(&mut packet).unwrap();
    packet[0]
}

/// Any page can make a browser connect to this machine. It is no program of this machine for that.
#[test]
fn a_page_from_elsewhere_does_not_command_the_node() {
    const DATA: u8 = 0x06;
    const LINK_PACKET: u8 = 0x64;
    let dir = tempfile::tempdir().unwrap();
    let node = Node::start(dir.path(), "");
    let address = node.at("ws").strip_prefix("ws://").unwrap();
    let status = "/localhost/nfd/status/general";
    for ours in [None, Some("http://localhost:8080"), Some("http://[::1]")] {
        let mut socket = web_socket(address, ours);
        ask_by_web_socket(&mut socket, status);
        assert_eq!(next_by_web_socket(&mut socket), DATA, "{ours:?}");
    }
    for theirs in ["https://example.org", "http://localhost.example.org", "null"] {
        let mut socket = web_socket(address, Some(theirs));
        // The node refuses a name that it has no route for, and nothing has come before that.
        ask_by_web_socket(&mut socket, status);
        ask_by_web_socket(&mut socket, "/nowhere");
        assert_eq!(next_by_web_socket(&mut socket), LINK_PACKET, "{theirs}");
    }
}
