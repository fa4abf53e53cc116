//! The addresses of a link's peer: a hostile peer's frames from any address, between calls of the program. Nothing
//! panics, and traffic to addresses that have not answered stays within the bounds of docs/spec/link.md.
#![no_main]

use core::net::SocketAddr;
use core::time::Duration;
use std::collections::{HashMap, HashSet};

use libfuzzer_sys::fuzz_target;
use xylem_link_internals::{
    Endpoint, LinkConfig, LinkEvent, LinkId, NatMapping, PathKind, PostQuantum, ProbePace,
    StaticKey,
};

/// Maximum time of one input's run.
const MOST_TIME: Duration = Duration::from_secs(29);
/// Maximum datagrams to one host, and to all, of those that the peer has named; and those of a search.
const TO_ONE: usize = 24;
const TO_ALL: usize = 128;
const SEARCHED: usize = 1_024;

fn at(n: u8, port: u16) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, n], port))
}

/// The ends of a link; end 0 is honest.
fn connected() -> ([Endpoint; 2], [LinkId; 2]) {
    let config = LinkConfig { post_quantum: PostQuantum::Never, ..LinkConfig::default() };
    let mut ends =
        [0u8, 1].map(|n| Endpoint::new(config.clone(), StaticKey::generate([n; 32]), [n; 32]));
    let key = ends[1].public_key();
    ends[0].connect(Duration::ZERO, at(1, 1), Some(key));
    let mut buf = Vec::new();
    for turn in 0..10 {
        let from = turn % 2;
        while ends[from].poll_transmit(Duration::ZERO, &mut buf).is_some() {
            let seen = at(from as u8, 1);
            ends[1 - from].handle_datagram(Duration::ZERO, seen, (&buf[..]).into());
        }
    }
    let links = ends.each_mut().map(|end| {
        let mut events = core::iter::from_fn(|| end.poll_event());
        events
            .find_map(|event| match event {
                LinkEvent::Connected { link, .. } => Some(link),
                _ => None,
            })
            .expect("nothing was lost")
    });
    (ends, links)
}

fuzz_target!(|data: &[u8]| {
    let ([mut honest, mut peer], [ours, theirs]) = connected();
    honest.add_synthetic_prefix([0xfd, 1, 1, 1, 1, 1], PathKind::Relayed);
    let (mut now, mut data, mut buf) = (Duration::ZERO, data, Vec::new());
    // Datagrams sent to each address, and bytes received from it. The link's first address is validated.
    let mut sent: HashMap<SocketAddr, usize> = HashMap::new();
    let mut came: HashSet<SocketAddr> = HashSet::new();
    let mut named: Vec<SocketAddr> = vec![];
    while let Some((head, rest)) = data.split_first_chunk::<3>() {
        let [what, from, len] = *head;
        let (frames, rest) = rest.split_at(rest.len().min(usize::from(len)));
        data = rest;
        let elsewhere = at(1 + from % 8, 1 + u16::from(from / 8));
        match what % 8 {
            0..=3 => {
                let Some((_, datagram)) = peer.seal_frames(theirs, frames) else { return };
                came.insert(elsewhere);
                honest.handle_datagram(now, elsewhere, (&datagram[..]).into());
            }
            4 => {
                let mapping = [NatMapping::Stable, NatMapping::Symmetric][usize::from(from & 1)];
                honest.announce_candidates(ours, &[at(0, u16::from(from))], mapping);
            }
            5 => {
                honest.probe(now, ours, &named, ProbePace::Each);
            }
            6 => {
                let host = named.first().map_or(1, |at| at.port() as u8);
                let ports: Vec<_> = (1..=2_000).map(|port| at(host, port)).collect();
                honest.probe(now, ours, &ports, ProbePace::Search);
            }
            _ => now = MOST_TIME.min(now + Duration::from_millis(u64::from(from) * 8)),
        }
        honest.handle_timeout(now);
        while let Some(event) = honest.poll_event() {
            match event {
                LinkEvent::Candidates { addresses, .. } => {
                    assert!(addresses.len() <= 16);
                    named = addresses;
                }
                LinkEvent::Closed { .. } => return,
                _ => {}
            }
        }
        while let Some(transmit) = honest.poll_transmit(now, &mut buf) {
            *sent.entry(transmit.to).or_default() += 1;
        }
    }
    // No probe is answered here, so only the peer's own address is validated.
    let strange = sent.iter().filter(|(to, _)| **to != at(1, 1) && !came.contains(*to));
    let counts: Vec<usize> = strange.map(|(_, count)| *count).collect();
    assert!(counts.iter().all(|count| *count <= TO_ONE + 1), "to one port");
    assert!(counts.iter().sum::<usize>() <= TO_ALL + SEARCHED);
});
