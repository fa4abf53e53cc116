//! Streams between two endpoints over bad networks, under virtual time.

mod sim;

use core::time::Duration;
use std::collections::BTreeMap;

use sim::{Dice, FAIR, MS, Net, S, Weather};
use xylem_link::{Algorithm, Config, Event, LinkId, StreamError, StreamId, StreamRead, purpose};

/// What a program has read of each stream, and which have ended.
#[derive(Default)]
struct Reader {
    got: BTreeMap<StreamId, Vec<u8>>,
    finished: Vec<StreamId>,
    opened: Vec<(StreamId, u16)>,
    delivered: Vec<StreamId>,
}

impl Reader {
    fn turn(&mut self, net: &mut Net, i: usize) {
        let node = &mut net.nodes[i];
        for event in node.stream_events.drain(..) {
            match event {
                Event::StreamOpened { stream, purpose, .. } => self.opened.push((stream, purpose)),
                Event::StreamDelivered { stream, .. } => self.delivered.push(stream),
                Event::StreamReadable { link, stream } => loop {
                    match node.endpoint.read_stream(link, stream).unwrap() {
                        StreamRead::Data(bytes) => {
                            self.got.entry(stream).or_default().extend_from_slice(&bytes);
                        }
                        StreamRead::Pending => break,
                        StreamRead::Finished => {
                            self.finished.push(stream);
                            break;
                        }
                    }
                },
                _ => {}
            }
        }
    }
}

/// Writes what is left of `data` as far as the stream takes it; finishes after the last byte.
fn write_on(net: &mut Net, i: usize, link: LinkId, stream: StreamId, data: &mut &[u8]) {
    while !data.is_empty() {
        let some = data.len().min(8 << 10);
        let taken = net.nodes[i].endpoint.write_stream(link, stream, &data[..some]).unwrap();
        *data = &data[taken..];
        if data.is_empty() {
            net.nodes[i].endpoint.finish_stream(link, stream).unwrap();
        }
        if taken < some {
            break;
        }
    }
}

fn bytes(len: usize, seed: u64) -> Vec<u8> {
    let mut dice = Dice::new(seed);
    let mut bytes = vec![0; len];
    bytes.chunks_mut(8).for_each(|c| c.copy_from_slice(&dice.next().to_be_bytes()[..c.len()]));
    bytes
}

/// Moves `data` from node 0 to node 1 over one stream; gives the time that it took.
fn transfer(net: &mut Net, link: LinkId, data: &[u8], limit: Duration) -> Duration {
    let begun = net.now;
    let stream = net.nodes[0].endpoint.open_stream(link, purpose::BENCH).unwrap();
    let mut rest = data;
    let mut reader = Reader::default();
    while reader.finished.is_empty() {
        assert!(
            net.now < begun + limit,
            "{:?} after {limit:?}",
            reader.got.get(&stream).map(Vec::len)
        );
        net.run_with(50 * MS, |net| {
            write_on(net, 0, link, stream, &mut rest);
            net.nodes[0].stream_events.clear();
            reader.turn(net, 1);
        });
    }
    assert_eq!(reader.opened, [(stream, purpose::BENCH)]);
    assert!(reader.got[&stream] == data, "every byte, in order");
    net.now - begun
}

#[test]
fn a_stream_carries_bytes_both_ways() {
    let mut net = Net::pair(1, &Config::default(), FAIR);
    let (a, b) = net.connect();
    net.run(S);
    let stream = net.nodes[0].endpoint.open_stream(a, purpose::MAIL).unwrap();
    assert_eq!(net.nodes[0].endpoint.write_stream(a, stream, b"question"), Ok(8));
    net.nodes[0].endpoint.finish_stream(a, stream).unwrap();
    let mut reader = Reader::default();
    net.run_with(S, |net| reader.turn(net, 1));
    assert_eq!(reader.opened, [(stream, purpose::MAIL)]);
    assert_eq!(reader.got[&stream], b"question");
    assert_eq!(reader.finished, [stream]);
    assert_eq!(net.nodes[1].endpoint.write_stream(b, stream, b"answer"), Ok(6));
    net.nodes[1].endpoint.finish_stream(b, stream).unwrap();
    let mut reader = Reader::default();
    net.run_with(S, |net| reader.turn(net, 0));
    assert_eq!(reader.got[&stream], b"answer");
    assert_eq!((reader.finished, reader.delivered), (vec![stream], vec![stream]));
    assert_eq!(net.nodes[0].endpoint.read_stream(a, stream), Err(StreamError::NoStream));
}

/// Issue 5: loss × delay × reordering and duplication; every stream arrives whole and in order.
#[test]
fn every_stream_arrives_whole_over_any_network() {
    let data = bytes(300_000, 1);
    for permille in [0, 1, 10, 50, 200] {
        for delay in [1, 20, 100, 300] {
            for bad in [false, true] {
                let jitter = if bad { MS * delay as u32 / 3 } else { Duration::ZERO };
                let duplicate = if bad { 5 } else { 0 };
                let delay = MS * delay as u32 / 2;
                let weather = Weather { permille, delay, jitter, duplicate, path: 1_472, ..FAIR };
                let mut net = Net::pair(permille + 1, &Config::default(), weather);
                let (a, _) = net.connect();
                net.run(3 * S);
                transfer(&mut net, a, &data, 600 * S);
                assert!(net.nodes.iter().all(|n| n.closed.is_empty()));
            }
        }
    }
}

/// Printed with `--nocapture`; docs/benchmarks.md has the figures.
#[test]
#[ignore = "a table, not a check: run with --release --ignored --nocapture"]
fn goodput_table() {
    for algorithm in [Algorithm::Cubic, Algorithm::Bbr] {
        for late in [0, 20] {
            println!("{algorithm}, 100 Mbit/s, {late} % of the datagrams late");
            for permille in [0, 1, 10, 50, 200] {
                let mut row = format!("| {} % |", permille as f64 / 10.0);
                for delay in [1, 20, 100, 300] {
                    let rate = 100_000_000 / 8;
                    let bdp = rate * delay / 1_000;
                    let weather = Weather {
                        permille,
                        late,
                        delay: MS * delay as u32 / 2,
                        path: 1_472,
                        rate,
                        buffer: bdp.max(64 << 10),
                        ..FAIR
                    };
                    let config = Config { congestion: algorithm, ..Config::default() };
                    let mut net = Net::pair(7, &config, weather);
                    let (a, _) = net.connect();
                    net.run(3 * S);
                    let got = pump(&mut net, a, 20 * S);
                    row += &format!(" {:.1} |", got as f64 * 8.0 / 20.0 / 1e6);
                }
                println!("{row}");
            }
        }
    }
}

/// Writes as much as is taken for a while; gives the bytes that were read.
fn pump(net: &mut Net, link: LinkId, time: Duration) -> u64 {
    let stream = net.nodes[0].endpoint.open_stream(link, purpose::BENCH).unwrap();
    let chunk = vec![7; 8 << 10];
    let mut got = 0;
    net.run_with(time, |net| {
        while net.nodes[0].endpoint.write_stream(link, stream, &chunk).unwrap() > 0 {}
        net.nodes[0].stream_events.clear();
        let node = &mut net.nodes[1];
        for event in node.stream_events.drain(..) {
            let Event::StreamReadable { link, stream } = event else { continue };
            while let StreamRead::Data(bytes) = node.endpoint.read_stream(link, stream).unwrap() {
                got += bytes.len() as u64;
            }
        }
    });
    got
}
