//! A client of the DHT and nodes that answer its queries with any bytes, with the right transaction where the input has
//! `TTTT`: lookups end, send few datagrams, and report signed items and bounded numbers of peers alone.
#![no_main]
use std::net::SocketAddr;
use std::time::Duration;

use xylem_dht::{
    AnnouncedPorts, DhtClient, DhtConfig, DhtEvent, DhtId, LookupKind, MAX_PEERS, MutableItem,
};

/// The transaction of a query: its encoding ends in `1:t4:....1:y1:qe`.
fn transaction(query: &[u8]) -> [u8; 4] {
    let at = query.len() - 11;
    query[at..at + 4].try_into().expect("four bytes")
}

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    let Some((&what, answers)) = input.split_first() else { return };
    let bootstrap: Vec<SocketAddr> = vec![
        "23.0.0.1:6881".parse().expect("an address"),
        "[2a00::1]:6881".parse().expect("an address"),
    ];
    let mut dht = DhtClient::new(DhtConfig { bootstrap, ipv4: true, ipv6: true }, [what; 32]);
    let mut now = Duration::ZERO;
    let hash = DhtId([what; 20]);
    let signature = [what; 64];
    let item = MutableItem { key: [1; 32], salt: vec![2], seq: 3, value: vec![4; 40], signature };
    let kind = match what & 3 {
        0 => LookupKind::Peers(hash),
        1 => LookupKind::Announce(hash, AnnouncedPorts::IMPLIED),
        2 => LookupKind::Item { key: item.key, salt: item.salt.clone() },
        _ => LookupKind::Put(item, None),
    };
    dht.lookup(now, kind).expect("there is room");
    let all: Vec<&[u8]> = answers.split(|byte| *byte == 0xff).collect();
    let mut next = all.iter().cycle();
    let (mut sent, mut done) = (0, 0);
    for _ in 0..1_000 {
        while let Some(query) = dht.poll_transmit(now) {
            sent += 1;
            assert!(sent < 700, "it sends on and on");
            assert!(query.to.port() != 0 && query.bytes.len() < 1_400);
            let mut answer = next.next().expect("there is one").to_vec();
            if let Some(at) = answer.windows(4).position(|w| w == b"TTTT") {
                answer[at..at + 4].copy_from_slice(&transaction(&query.bytes));
            }
            dht.handle_datagram(now, query.to, &answer);
        }
        while let Some(event) = dht.poll_event() {
            match event {
                DhtEvent::Peers(_, peers) => assert!(peers.new.len() <= MAX_PEERS),
                DhtEvent::Item(_, item) => assert!(item.is_signed()),
                DhtEvent::Done(..) => done += 1,
                _ => {}
            }
        }
        let Some(due) = dht.poll_timeout() else { break };
        now = now.max(due);
        dht.handle_timeout(now);
    }
    assert_eq!((done, dht.lookups()), (1, 0), "the lookup ends");
    let _ = dht.poll_peers(hash);
});
