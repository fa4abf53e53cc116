//! What idle clients cost a relay: memory, and processor time for their registrations and keep-alives, under virtual time.
//!
//! `cargo run --release -p xylem-reach --example idle_clients -- 1000000`. Each client has an address of its own, 256 in a
//! site, and sends a keep-alive every 20 s of virtual time. The client's side is made anew for each message and is not
//! counted. Sockets, links and handshakes are not part of it: `bench/relay.py` measures the whole program with fewer.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use xylem_reach::relay::{
    ControlSession, RelayClient, RelayConfig, RelayPeer, RelayPort, RelayServer,
};

/// Virtual time between two keep-alives of a client.
const BETWEEN: Duration = Duration::from_secs(20);
const ROUNDS: u32 = 4;

/// Bytes of resident memory.
fn resident() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    Some(line.split_whitespace().next()?.parse::<u64>().ok()? * 1024)
}

fn key(client: u32) -> [u8; 32] {
    let mut key = [7; 32];
    key[..4].copy_from_slice(&client.to_be_bytes());
    key
}

fn peer(client: u32) -> RelayPeer {
    let host = IpAddr::V4(Ipv4Addr::from_bits(0x0a00_0000 + client));
    RelayPeer { key: key(client), at: SocketAddr::new(host, 7_000), host }
}

fn main() {
    let clients: u32 =
        std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(100_000);
    let mut config = RelayConfig::default();
    config.set_memory(1_536 * clients as usize);
    // All register at one moment here.
    config.registrations_per_second = None;
    let mut relay = RelayServer::new(config, [1; 32]);
    relay.enable_resets([2; 32]);
    let (before, mut spent) = (resident().unwrap_or(0), Duration::ZERO);

    let mut answer = Vec::new();
    for client in 0..clients {
        let request = RelayClient::new(key(client), true, vec![]).request();
        let (mut session, peer) = (ControlSession::default(), peer(client));
        answer.clear();
        let began = Instant::now();
        relay
            .handle_request(Duration::ZERO, &mut session, &peer, &request, &mut answer)
            .expect("valid");
        spent += began.elapsed();
    }
    let (registering, memory) = (spent, resident().unwrap_or(0).saturating_sub(before));

    spent = Duration::ZERO;
    let mut longest = Duration::ZERO;
    for round in 1..=ROUNDS {
        for client in 0..clients {
            let now = BETWEEN * (round - 1) + BETWEEN * client / clients;
            let mut side = RelayClient::new(key(client), true, vec![]);
            let _ = side.request();
            side.handle_control(now, &answer).expect("the answer of any client");
            let mut datagram = None;
            for _ in 0..round {
                side.refresh(now);
                while let Some((_, one)) = side.poll_transmit(now) {
                    datagram = Some(one);
                }
            }
            let mut datagram = datagram.expect("a keep-alive");
            let began = Instant::now();
            relay.handle_datagram(now, RelayPort::First, peer(client).at, &mut datagram);
            while relay.poll_transmit().is_some() {}
            if relay.poll_timeout().is_some_and(|due| due <= now) {
                relay.handle_timeout(now);
            }
            let took = began.elapsed();
            spent += took;
            longest = longest.max(took);
        }
    }
    let counters = relay.metrics();
    assert_eq!(counters.registrations, clients as usize, "none is lost");
    let virtual_time = BETWEEN * ROUNDS;
    println!(
        "clients {clients}, memory {:.0} MB ({} bytes each), keep-alives answered {}, registering {:.2} s, \
         {:.3} of a core, longest turn {:.1} ms",
        memory as f64 / 1e6,
        memory / u64::from(clients),
        counters.keeps,
        registering.as_secs_f64(),
        spent.as_secs_f64() / virtual_time.as_secs_f64(),
        longest.as_secs_f64() * 1e3,
    );
}
