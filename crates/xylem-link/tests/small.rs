//! Datagrams of the link's own frames: their lengths reveal nothing (docs/spec/link.md, "Small datagrams").

mod sim;

use std::collections::HashMap;

use sim::{FAIR, MS, Net, S, addr};
use xylem_link::{BASE_DATAGRAM, LinkConfig, purpose};
use xylem_sim::Conditions;

/// The path of most links.
const ETHERNET: Conditions = Conditions { mtu: 1_472, ..FAIR };
/// Bytes of a close: 28 beside the frames, and 2 for the frame.
const CLOSE: usize = 30;

/// Chi-square with 63 degrees of freedom: 118 is passed once in 30,000 times.
fn is_uniform(counts: &[u32; 64]) -> bool {
    let expected = f64::from(counts.iter().sum::<u32>()) / 64.0;
    let squares = counts.iter().map(|n| (f64::from(*n) - expected).powi(2) / expected);
    squares.sum::<f64>() < 118.0
}

/// A datagram that is always alone (the close), of 1,000 sessions.
#[test]
fn the_lengths_of_small_datagrams_are_uniform() {
    let mut counts = [0; 64];
    for seed in 0..1_000 {
        let mut net = Net::pair(seed, &LinkConfig::default(), ETHERNET);
        let (a, _) = net.connect();
        net.run(100 * MS);
        net.record = true;
        net.nodes[0].endpoint.close(a);
        net.flush();
        let (_, _, close) = net.tap.pop().unwrap();
        counts[close.len() - CLOSE] += 1;
    }
    assert!(is_uniform(&counts), "{counts:?}");
}

/// The first datagrams of each side, short ones of the handshake included, over 100 sessions. Datagrams of 1,200 bytes
/// and more are first messages, responses, and MTU probes, which have lengths of their own.
#[test]
fn the_first_ten_datagrams_have_no_constant_length() {
    const SESSIONS: usize = 100;
    let config = LinkConfig { keep_alive: Some(S), ..LinkConfig::default() };
    let mut lengths = vec![HashMap::<usize, usize>::new(); 20];
    for seed in 0..SESSIONS {
        let mut net = Net::pair(seed as u64, &config, ETHERNET);
        net.record = true;
        net.connect();
        net.run(20 * S);
        for side in [0, 1] {
            let sent = net.tap.iter().filter(|(from, ..)| *from == addr(side));
            let short: Vec<_> = sent.map(|(.., d)| d.len()).filter(|len| *len < 1_200).collect();
            assert!(short.len() >= 10);
            for (i, len) in short[..10].iter().enumerate() {
                *lengths[10 * usize::from(side) + i].entry(*len).or_default() += 1;
            }
        }
    }
    for (i, lengths) in lengths.iter().enumerate() {
        let most = lengths.values().max().unwrap();
        assert!(*most < SESSIONS / 8 && lengths.len() > 30, "the {i}th: {lengths:?}");
    }
}

/// Acknowledgements of streams too. Without loss they need one length, and without a reader nothing else is sent.
#[test]
fn acknowledgements_have_no_constant_length() {
    const ACK: usize = 28 + 26;
    // No search for a larger size.
    let config =
        LinkConfig { keep_alive: None, max_datagram: BASE_DATAGRAM, ..LinkConfig::default() };
    let mut counts = [0; 64];
    for seed in 0..100 {
        let mut net = Net::pair(seed, &config, FAIR);
        let (a, _) = net.connect();
        net.run(5 * S);
        net.record = true;
        let stream = net.nodes[0].endpoint.open_stream(a, purpose::BENCH).unwrap();
        net.nodes[0].endpoint.write_stream(a, stream, &[0; 60_000]).unwrap();
        net.run(S);
        for (.., ack) in net.tap.iter().filter(|(from, ..)| *from == addr(1)) {
            counts[ack.len() - ACK] += 1;
        }
    }
    assert!(counts.iter().sum::<u32>() > 500 && is_uniform(&counts), "{counts:?}");
}
