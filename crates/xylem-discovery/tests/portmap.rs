//! Port mapping, with miniupnpd as the router of a network namespace: each protocol maps, renews and removes. Needs
//! root, `ip netns`, nft and miniupnpd, and reports it if they are missing.
#![cfg(target_os = "linux")]

mod namespaces;

use std::fs;
use std::net::{Ipv4Addr, UdpSocket};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use namespaces::{Namespace, inside, role};
use xylem_discovery::{MapEvent, PortMap, PortMapOptions, Protocol, default_gateway};

const RULES: &str = "
table inet filter {
    chain miniupnpd { }
    chain prerouting_miniupnpd { }
    chain postrouting_miniupnpd { }
    chain forward { type filter hook forward priority 0; policy accept; jump miniupnpd; }
    chain prerouting { type nat hook prerouting priority -100; policy accept; jump prerouting_miniupnpd; }
    chain postrouting { type nat hook postrouting priority 100; policy accept; jump postrouting_miniupnpd; }
}";

/// A router and a machine behind it.
struct Lan {
    router: Namespace,
    machine: Namespace,
    daemon: Option<Child>,
    dir: tempfile::TempDir,
}

impl Lan {
    /// `None` if the system lacks what the test needs.
    fn new(tag: &str) -> Option<Self> {
        let (router, machine) =
            (Namespace::new(&format!("{tag}r"))?, Namespace::new(&format!("{tag}m"))?);
        let (r, m) = (router.name(), machine.name());
        let made = [
            format!("ip link add lan netns {r} type veth peer name eth netns {m}"),
            format!("ip -n {r} link add wan type veth peer name far"),
            format!("ip -n {r} addr add 192.168.77.1/24 dev lan"),
            format!("ip -n {r} addr add 11.22.33.44/24 dev wan"),
            format!("ip -n {m} addr add 192.168.77.7/24 dev eth"),
            format!("ip -n {r} link set lan up"),
            format!("ip -n {r} link set wan up"),
            format!("ip -n {r} link set far up"),
            format!("ip -n {m} link set eth up"),
            format!("ip -n {m} route add default via 192.168.77.1"),
        ];
        let all = made.iter().all(|command| namespaces::sh(command));
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("rules"), RULES).unwrap();
        let rules = format!("ip netns exec {r} nft -f {}", dir.path().join("rules").display());
        let found = Command::new("miniupnpd").arg("--version").output().is_ok();
        (all && found && namespaces::sh(&rules)).then_some(Self {
            router,
            machine,
            daemon: None,
            dir,
        })
    }

    /// Starts the router's daemon, or restarts it, whereupon it has forgotten its mappings.
    fn start(&mut self, natpmp: bool, upnp: bool) {
        self.stop();
        let yes = |on: bool| if on { "yes" } else { "no" };
        let config = format!(
            "ext_ifname=wan\nlistening_ip=lan\nenable_natpmp={}\nenable_upnp={}\next_ip=11.22.33.44\n\
             min_lifetime=2\nmax_lifetime=86400\nsecure_mode=yes\n\
             uuid=f4af2abe-9b64-4be9-83e1-f27063636246\nallow 1024-65535 0.0.0.0/0 1024-65535\n",
            yes(natpmp),
            yes(upnp)
        );
        let path = self.dir.path().join("config");
        fs::write(&path, config).unwrap();
        let mut command = Command::new("ip");
        command.args(["netns", "exec", self.router.name(), "miniupnpd", "-d", "-f"]).arg(path);
        command.arg("-P").arg(self.dir.path().join("pid")).stdin(Stdio::null());
        command.stdout(Stdio::null()).stderr(Stdio::null());
        self.daemon = Some(command.spawn().unwrap());
        let port = if natpmp { "5351" } else { "1900" };
        until("the router listens", || self.in_router("ss -lun").contains(&format!(":{port} ")));
    }

    fn stop(&mut self) {
        if let Some(mut daemon) = self.daemon.take() {
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
        for chain in ["miniupnpd", "prerouting_miniupnpd", "postrouting_miniupnpd"] {
            self.in_router(&format!("nft flush chain inet filter {chain}"));
        }
    }

    fn in_router(&self, command: &str) -> String {
        let mut run = Command::new("ip");
        run.args(["netns", "exec", self.router.name(), "sh", "-c", command]);
        String::from_utf8(run.output().unwrap().stdout).unwrap()
    }

    /// Whether the router forwards the port.
    fn forwards(&self, port: u16) -> bool {
        self.in_router("nft list ruleset").contains(&format!("192.168.77.7:{port}"))
    }
}

impl Drop for Lan {
    fn drop(&mut self) {
        self.stop();
    }
}

fn until(what: &str, mut done: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(30);
    while !done() {
        assert!(Instant::now() < end, "{what} never happened");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The machine behind the router: maps a port, prints events, and ends with its standard input.
#[test]
#[ignore = "run by the others, within a namespace"]
fn machine() {
    let Some(role) = role() else { return };
    let gateway = (role != "no-gateway").then(|| default_gateway().expect("a default route"));
    let options = PortMapOptions {
        gateway,
        own: Ipv4Addr::new(192, 168, 77, 7),
        port: 7348.try_into().unwrap(),
        life: Duration::from_secs(4),
    };
    let (sender, woken) = std::sync::mpsc::channel();
    let mut map = PortMap::start(options, Arc::new(move || sender.send(()).unwrap_or(()))).unwrap();
    let input = namespaces::input();
    while input.try_recv().is_err() {
        let _ = woken.recv_timeout(Duration::from_millis(50));
        while let Some(event) = map.poll() {
            match event {
                MapEvent::Mapped(mapped) => println!("mapped {} {}", mapped.external, mapped.by),
                MapEvent::Lost => println!("lost"),
                MapEvent::Failed(why) => println!("failed {why}"),
            }
        }
    }
    drop(map);
    println!("ended");
}

/// The mapping is made, renewed past its lifetime, made again by a restarted router, and removed at the end.
fn maps(tag: &str, natpmp: bool, upnp: bool, role: &str, by: Protocol) {
    let Some(mut lan) = Lan::new(tag) else {
        eprintln!("SKIPPED: no right to make network namespaces, no nft, or no miniupnpd");
        return;
    };
    lan.start(natpmp, upnp);
    let mut machine = inside(&lan.machine, "machine", role);
    assert_eq!(machine.line(), format!("mapped 11.22.33.44:7348 {by}"));
    assert!(lan.forwards(7348));
    // The daemon forgets a mapping 4 s after its last renewal.
    let end = Instant::now() + Duration::from_secs(7);
    while Instant::now() < end {
        std::thread::sleep(Duration::from_millis(200));
    }
    assert!(lan.forwards(7348), "it is renewed");
    lan.start(natpmp, upnp);
    until("it is mapped again", || lan.forwards(7348));
    machine.end();
    assert_eq!(machine.line(), "ended");
    until("it is removed", || !lan.forwards(7348));
}

#[test]
fn pcp_maps_renews_and_removes() {
    maps("dpcp", true, true, "pcp", Protocol::Pcp);
}

#[test]
fn upnp_maps_renews_and_removes() {
    maps("dupnp", false, true, "upnp", Protocol::Upnp);
}

#[test]
fn upnp_finds_a_router_that_the_routing_table_does_not_name() {
    maps("dfind", false, true, "no-gateway", Protocol::Upnp);
}

/// A router that speaks only NAT-PMP. It answers PCP with its own version, as RFC 6886 states, and does not answer
/// UPnP. Prints the mappings that are requested of it.
#[test]
#[ignore = "run by the others, within a namespace"]
fn nat_pmp_router() {
    if role().is_none() {
        return;
    }
    let socket = UdpSocket::bind("192.168.77.1:5351").unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
    let input = namespaces::input();
    let began = Instant::now();
    println!("ready");
    while input.try_recv().is_err() {
        let mut asked = [0; 1_100];
        let Ok((len, from)) = socket.recv_from(&mut asked) else { continue };
        let seconds = (began.elapsed().as_secs() as u32).to_be_bytes();
        let head = |op: u8, result: u8| [&[0, op | 128, 0, result][..], &seconds].concat();
        let answer = match asked[..len] {
            [0, 0] => [&head(0, 0)[..], &[11, 22, 33, 44]].concat(),
            [0, 1, _, _, a, b, c, d, w, x, y, z] => {
                println!("map {} {}", u16::from_be_bytes([a, b]), u32::from_be_bytes([w, x, y, z]));
                [&head(1, 0)[..], &[a, b, c, d, w, x, y, z]].concat()
            }
            [version, op, ..] if version != 0 => head(op & 127, 1),
            _ => continue,
        };
        socket.send_to(&answer, from).unwrap();
    }
}

#[test]
fn nat_pmp_alone_maps_renews_and_removes() {
    let Some(mut lan) = Lan::new("dpmp") else {
        eprintln!("SKIPPED: no right to make network namespaces, no nft, or no miniupnpd");
        return;
    };
    lan.stop();
    let mut router = inside(&lan.router, "nat_pmp_router", "nat-pmp");
    assert_eq!(router.line(), "ready");
    let mut machine = inside(&lan.machine, "machine", "nat-pmp");
    assert_eq!(machine.line(), "mapped 11.22.33.44:7348 NAT-PMP");
    assert_eq!(router.line(), "map 7348 4");
    assert_eq!(router.line(), "map 7348 4", "it is renewed");
    machine.end();
    assert_eq!(machine.line(), "ended");
    let mut last = router.line();
    while last == "map 7348 4" {
        last = router.line();
    }
    assert_eq!(last, "map 7348 0", "it is removed");
    router.end();
}

/// A router that maps nothing is reported, and nothing hangs.
#[test]
fn a_missing_router_is_reported() {
    let Some(mut lan) = Lan::new("dnone") else {
        eprintln!("SKIPPED: no right to make network namespaces, no nft, or no miniupnpd");
        return;
    };
    lan.stop();
    let mut machine = inside(&lan.machine, "machine", "none");
    let line = machine.line();
    assert!(line.starts_with("failed ") && line.contains("UPnP"), "{line}");
    machine.end();
    assert_eq!(machine.line(), "ended");
}
