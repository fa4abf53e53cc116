//! Streams between two endpoints over bad networks, under virtual time.

mod sim;

use core::time::Duration;
use std::collections::BTreeMap;

use sim::{FAIR, MS, Net, S};
use xylem_link::{
    Config, CongestionAlgorithm, LinkEvent, LinkId, MAX_STREAMS, REFUSED, StreamError, StreamId,
    StreamRead, purpose,
};
use xylem_sim::{Conditions, Rng, noise, percent};

/// The bytes that a program has read of each stream, and the streams that have ended.
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
                LinkEvent::StreamOpened { stream, purpose, .. } => {
                    self.opened.push((stream, purpose))
                }
                LinkEvent::StreamDelivered { stream, .. } => self.delivered.push(stream),
                LinkEvent::StreamReadable { link, stream } => loop {
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

/// Writes as much of `data` as the stream accepts; finishes after the last byte.
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

/// Moves `data` from node 0 to node 1 over one stream; returns the time taken.
fn transfer(net: &mut Net, link: LinkId, data: &[u8], limit: Duration) -> Duration {
    let begun = net.now();
    let stream = net.nodes[0].endpoint.open_stream(link, purpose::BENCH).unwrap();
    let mut rest = data;
    let mut reader = Reader::default();
    while reader.finished.is_empty() {
        assert!(
            net.now() < begun + limit,
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
    net.now() - begun
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

/// Loss × delay × reordering and duplication: every stream arrives whole and in order.
#[test]
fn every_stream_arrives_whole_over_any_network() {
    let data = noise(300_000, 1);
    for permille in [0, 1, 10, 50, 200] {
        for delay in [1, 20, 100, 300] {
            for bad in [false, true] {
                let jitter = if bad { MS * delay as u32 / 3 } else { Duration::ZERO };
                let duplicate = if bad { 5 } else { 0 };
                let delay = MS * delay as u32 / 2;
                let conditions = Conditions {
                    loss: permille as f64 / 1e3,
                    delay,
                    jitter,
                    duplicate: percent(duplicate),
                    mtu: 1_472,
                    ..FAIR
                };
                let mut net = Net::pair(permille + 1, &Config::default(), conditions);
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
    for algorithm in [CongestionAlgorithm::Cubic, CongestionAlgorithm::Bbr] {
        for late in [0, 20] {
            println!("{algorithm}, 100 Mbit/s, {late} % of the datagrams late");
            for permille in [0, 1, 10, 50, 200] {
                let mut row = format!("| {} % |", permille as f64 / 10.0);
                for delay in [1, 20, 100, 300] {
                    let rate = 100_000_000 / 8;
                    let bdp = rate * delay / 1_000;
                    let conditions = Conditions {
                        loss: permille as f64 / 1e3,
                        late: percent(late),
                        late_by: MS * delay as u32 / 2,
                        delay: MS * delay as u32 / 2,
                        mtu: 1_472,
                        rate: rate as f64,
                        queue: bdp.max(64 << 10),
                        ..FAIR
                    };
                    let config = Config { congestion: algorithm, ..Config::default() };
                    let mut net = Net::pair(7, &config, conditions);
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

/// Writes as much as is accepted for `time`; returns the number of bytes read.
fn pump(net: &mut Net, link: LinkId, time: Duration) -> u64 {
    let stream = net.nodes[0].endpoint.open_stream(link, purpose::BENCH).unwrap();
    let chunk = vec![7; 8 << 10];
    let mut got = 0;
    net.run_with(time, |net| {
        while net.nodes[0].endpoint.write_stream(link, stream, &chunk).unwrap() > 0 {}
        net.nodes[0].stream_events.clear();
        let node = &mut net.nodes[1];
        for event in node.stream_events.drain(..) {
            let LinkEvent::StreamReadable { link, stream } = event else { continue };
            while let StreamRead::Data(bytes) = node.endpoint.read_stream(link, stream).unwrap() {
                got += bytes.len() as u64;
            }
        }
    });
    got
}

/// The expected state of one direction of a stream: the bytes written, and the state of both ends.
#[derive(Default)]
struct Half {
    written: Vec<u8>,
    finished: bool,
    reset: Option<u32>,
    got: Vec<u8>,
    stopped: Option<u32>,
    /// The last result that the reader saw.
    seen: Option<Result<(), u32>>,
}

/// Both directions of every stream; node `i` writes `halves[i]`.
#[derive(Default)]
struct Model {
    streams: BTreeMap<StreamId, [Half; 2]>,
    known: [Vec<StreamId>; 2],
}

impl Model {
    fn events(&mut self, net: &mut Net) {
        for i in 0..2 {
            for event in net.nodes[i].stream_events.drain(..) {
                match event {
                    LinkEvent::StreamOpened { stream, purpose, .. } => {
                        assert_eq!(u32::from(purpose), stream.0);
                        assert!(!self.known[i].contains(&stream), "opened once");
                        self.known[i].push(stream);
                    }
                    LinkEvent::StreamReset { stream, code, .. } => {
                        let half = &mut self.streams.get_mut(&stream).unwrap()[1 - i];
                        assert_eq!(half.reset.or(half.stopped), Some(code));
                        half.seen = Some(Err(code));
                    }
                    LinkEvent::StreamStopped { stream, code, .. } => {
                        assert_eq!(self.streams[&stream][i].stopped, Some(code));
                    }
                    LinkEvent::StreamDelivered { stream, .. } => {
                        assert!(self.streams[&stream][i].finished);
                    }
                    _ => {}
                }
            }
        }
    }

    fn read(&mut self, net: &mut Net, i: usize, links: [LinkId; 2], stream: StreamId) {
        let half = &mut self.streams.get_mut(&stream).unwrap()[1 - i];
        loop {
            match net.nodes[i].endpoint.read_stream(links[i], stream) {
                Ok(StreamRead::Data(bytes)) => half.got.extend_from_slice(&bytes),
                Ok(StreamRead::Pending) => break,
                Ok(StreamRead::Finished) => break half.seen = Some(Ok(())),
                Err(StreamError::Reset(code)) => break half.seen = Some(Err(code)),
                Err(StreamError::Ended) => break assert!(half.stopped.is_some()),
                Err(error) => break assert_eq!(error, StreamError::NoStream),
            }
        }
        assert!(half.written.starts_with(&half.got), "a prefix of what was written");
    }

    fn act(&mut self, net: &mut Net, links: [LinkId; 2], rng: &mut Rng) {
        let i = rng.below(2) as usize;
        let endpoint = &mut net.nodes[i].endpoint;
        let pick = rng.below(self.known[i].len() as u64 + 1) as usize;
        let Some(stream) = self.known[i].get(pick).copied() else {
            if self.streams.len() < 12 {
                let next = [2, 1][i]
                    + 2 * self.streams.keys().filter(|s| s.0 % 2 == i as u32).count() as u32;
                let stream = endpoint.open_stream(links[i], next as u16).unwrap();
                assert_eq!(stream.0, next);
                self.known[i].push(stream);
                self.streams.insert(stream, Default::default());
            }
            return;
        };
        let halves = self.streams.get_mut(&stream).unwrap();
        let ended = halves[i].finished || halves[i].reset.is_some();
        match rng.below(20) {
            0..=9 => {
                let most = [3, 2_000, 60_000][rng.below(3) as usize];
                let data = noise(rng.below(most) as usize, rng.next_u64());
                match endpoint.write_stream(links[i], stream, &data) {
                    Ok(taken) => {
                        assert!(!ended);
                        halves[i].written.extend_from_slice(&data[..taken]);
                    }
                    Err(StreamError::Stopped(code)) => {
                        assert_eq!(halves[i].stopped, Some(code));
                    }
                    Err(error) => assert!(ended || halves[i].stopped.is_some(), "{error}"),
                }
            }
            10 => {
                let done = endpoint.finish_stream(links[i], stream);
                halves[i].finished |= done.is_ok();
                assert!(done.is_ok() || ended || halves[i].stopped.is_some());
            }
            11 if rng.below(4) == 0 => {
                let code = rng.below(100) as u32;
                if endpoint.reset_stream(links[i], stream, code).is_ok() {
                    halves[i].reset = Some(code);
                }
            }
            12 if rng.below(4) == 0 => {
                let code = 100 + rng.below(100) as u32;
                if endpoint.stop_stream(links[i], stream, code).is_ok() {
                    halves[1 - i].stopped = Some(code);
                }
            }
            _ => self.read(net, i, links, stream),
        }
    }

    /// Finishes: everything is read and as expected, and both sides have forgotten all of it.
    fn conclude(mut self, net: &mut Net, links: [LinkId; 2]) {
        for _ in 0..400 {
            net.run(100 * MS);
            self.events(net);
            for i in 0..2 {
                for stream in self.known[i].clone() {
                    let done = net.nodes[i].endpoint.finish_stream(links[i], stream);
                    self.streams.get_mut(&stream).unwrap()[i].finished |= done.is_ok();
                    self.read(net, i, links, stream);
                }
            }
        }
        for (stream, halves) in &self.streams {
            for (i, half) in halves.iter().enumerate() {
                assert!(half.finished || half.reset.is_some() || half.stopped.is_some());
                if half.stopped.is_none() {
                    match half.reset {
                        None => assert_eq!(half.seen, Some(Ok(())), "{stream} of {i}"),
                        Some(code) => {
                            let reset = half.seen == Some(Err(code));
                            assert!(reset || (half.finished && half.seen == Some(Ok(()))));
                        }
                    }
                    assert!(half.seen != Some(Ok(())) || half.got == half.written);
                }
                let gone = net.nodes[i].endpoint.read_stream(links[i], *stream);
                assert_eq!(gone, Err(StreamError::NoStream), "{stream} is forgotten by {i}");
            }
        }
    }
}

#[test]
fn any_calls_agree_with_a_simple_model() {
    for seed in 0..24 {
        let mut rng = Rng::new(seed + 100);
        let conditions = Conditions {
            loss: percent([0, 3, 10][seed as usize % 3]),
            duplicate: 0.03,
            jitter: 10 * MS,
            mtu: [1_472, 65_507][seed as usize % 2],
            ..FAIR
        };
        let mut net = Net::pair(seed, &Config::default(), conditions);
        let (a, b) = net.connect();
        net.run(2 * S);
        let (links, mut model) = ([a, b], Model::default());
        for _ in 0..400 {
            for _ in 0..rng.below(4) {
                model.act(&mut net, links, &mut rng);
            }
            net.run(MS * rng.below(30) as u32);
            model.events(&mut net);
        }
        model.conclude(&mut net, links);
        assert!(net.nodes.iter().all(|n| n.closed.is_empty()));
    }
}

/// A transfer over one stream; `interfere` is called every half millisecond.
fn stream_session(stateless_reset: bool, mut interfere: impl FnMut(&mut Net)) -> Net {
    let config = Config { stateless_reset, accept_open: true, ..Config::default() };
    let mut net = Net::pair(3, &config, Conditions { mtu: 1_472, delay: 10 * MS, ..FAIR });
    net.record = true;
    let (a, _) = net.connect();
    net.run(S);
    let (begun, data) = (net.tap.len(), noise(300_000, 9));
    let stream = net.nodes[0].endpoint.open_stream(a, purpose::BENCH).unwrap();
    let (mut rest, mut reader) = (&data[..], Reader::default());
    for _ in 0..300 {
        interfere(&mut net);
        net.run_with(MS / 2, |net| {
            write_on(net, 0, a, stream, &mut rest);
            reader.turn(net, 1);
        });
    }
    assert!(reader.got[&stream] == data && reader.finished == [stream]);
    assert!(net.tap.len() > begun + 200 && net.nodes.iter().all(|n| n.closed.is_empty()));
    net
}

/// The same with injected datagrams: damaged ones of any time, and repetitions of arrived ones.
fn hostile_stream_session(seed: u64, quiet: &Net, stateless_reset: bool) -> Net {
    let mut rng = Rng::new(seed);
    stream_session(stateless_reset, |net| {
        for _ in 0..5 {
            let damage = rng.below(4);
            // A datagram that has not arrived would not be a repetition but the first copy.
            let arrived = net.times.partition_point(|at| *at + net.conditions.delay < net.now());
            let among = if damage == 3 { &net.tap[..arrived] } else { &quiet.tap[..] };
            let (from, to, mut bytes) = among[rng.below(among.len() as u64) as usize].clone();
            let len = bytes.len() as u64;
            match damage {
                0 => bytes.truncate(rng.below(len) as usize),
                1 => bytes[rng.below(len) as usize] ^= 1 << rng.below(8),
                2 => bytes.push(0),
                _ => {}
            }
            net.inject(from, to, bytes);
        }
    })
}

/// Forged, truncated, replayed and bit-flipped datagrams do not change later datagrams, except that one of unknown id
/// may be answered with a stateless reset (docs/spec/link.md, Invariants, 1).
#[test]
fn damaged_and_repeated_datagrams_change_nothing() {
    for stateless_reset in [false, true] {
        let quiet = stream_session(stateless_reset, |_| {});
        for seed in 1..4 {
            let hostile = hostile_stream_session(seed, &quiet, stateless_reset);
            let sent = |net: &Net| {
                let when = net.times.iter().copied();
                when.zip(net.tap.iter().cloned()).collect::<Vec<_>>()
            };
            let (quiet, all) = (sent(&quiet), sent(&hostile));
            let mut genuine = quiet.iter().peekable();
            let others: Vec<_> =
                all.iter().filter(|one| genuine.next_if_eq(one).is_none()).collect();
            assert_eq!(genuine.next(), None, "something is missing, other, earlier or later");
            assert!(others.iter().all(|(_, (_, _, bytes))| bytes.len() < 64), "no reset");
            let resets = hostile.nodes.iter().map(|n| n.endpoint.endpoint_stats().resets_sent);
            assert_eq!(others.len() as u64, resets.sum::<u64>());
            assert_eq!(others.is_empty(), !stateless_reset, "{} resets", others.len());
            for node in &hostile.nodes {
                let stats = node.endpoint.stats(node.connected[0]).unwrap();
                assert!(stats.forged > 100 && stats.replayed > 50, "{stats:?}");
            }
        }
    }
}

#[test]
fn streams_share_a_link_fairly() {
    let conditions = Conditions { rate: 1_000_000.0, queue: 100_000, mtu: 1_472, ..FAIR };
    let mut net = Net::pair(1, &Config::default(), conditions);
    let (a, _) = net.connect();
    net.run(S);
    let open = |net: &mut Net| net.nodes[0].endpoint.open_stream(a, purpose::BENCH).unwrap();
    let streams: Vec<_> = (0..5).map(|_| open(&mut net)).collect();
    let chunk = vec![1; 10_000];
    let mut reader = Reader::default();
    net.run_with(5 * S, |net| {
        for stream in &streams {
            while net.nodes[0].endpoint.write_stream(a, *stream, &chunk).unwrap() > 0 {}
        }
        reader.turn(net, 1);
    });
    let got: Vec<usize> = streams.iter().map(|s| reader.got[s].len()).collect();
    let (least, most) = (got.iter().min().unwrap(), got.iter().max().unwrap());
    assert!(*least > 500_000 && most < &(least * 5 / 4), "{got:?}");
}

/// A stream that is not read gets no more than the windows allow, and holds up no other.
#[test]
fn an_unread_stream_stops_at_its_window_and_others_go_on() {
    let mut net = Net::pair(1, &Config::default(), FAIR);
    let (a, b) = net.connect();
    net.run(S);
    let [slow, fast] = [0; 2].map(|_| net.nodes[0].endpoint.open_stream(a, 9).unwrap());
    let chunk = vec![1; 1 << 20];
    net.nodes[0].endpoint.write_stream(a, slow, &chunk).unwrap();
    net.run(10 * S);
    assert_eq!(net.nodes[0].endpoint.write_stream(a, fast, &chunk[..100_000]), Ok(100_000));
    let mut got = 0;
    net.run_with(10 * S, |net| {
        while let Ok(StreamRead::Data(bytes)) = net.nodes[1].endpoint.read_stream(b, fast) {
            got += bytes.len();
        }
    });
    assert_eq!(got, 100_000);
    let mut got = 0;
    while let Ok(StreamRead::Data(bytes)) = net.nodes[1].endpoint.read_stream(b, slow) {
        got += bytes.len();
    }
    assert_eq!(got as u64, xylem_link::INITIAL_STREAM_WINDOW);
}

#[test]
fn too_many_streams_are_refused_and_going_away_lets_old_ones_end() {
    let few = Config { max_streams: 2, ..Config::default() };
    let mut net = Net::new(1, &[Config::default(), few], FAIR);
    let (a, _) = net.connect();
    net.run(S);
    let streams: Vec<_> =
        (0..MAX_STREAMS).map(|_| net.nodes[0].endpoint.open_stream(a, 9).unwrap()).collect();
    assert_eq!(net.nodes[0].endpoint.open_stream(a, 9), Err(StreamError::TooMany));
    for stream in &streams {
        net.nodes[0].endpoint.write_stream(a, *stream, b"hello").unwrap();
    }
    net.run(S);
    let opened = |e: &&LinkEvent| matches!(e, LinkEvent::StreamOpened { .. });
    assert_eq!(net.nodes[1].stream_events.iter().filter(opened).count(), 2);
    let refused = |e: &&LinkEvent| matches!(e, LinkEvent::StreamReset { code: REFUSED, .. });
    let events = core::mem::take(&mut net.nodes[0].stream_events);
    assert_eq!(events.iter().filter(refused).count(), MAX_STREAMS - 2);
    for stream in &streams[2..] {
        let gone = net.nodes[0].endpoint.read_stream(a, *stream);
        assert!(matches!(gone, Err(StreamError::NoStream)), "{gone:?}");
    }
    net.nodes[0].endpoint.write_stream(a, streams[0], b" there").unwrap();
    net.nodes[0].endpoint.finish_stream(a, streams[0]).unwrap();
    net.run(S);
    let mut reader = Reader::default();
    reader.turn(&mut net, 1);
    assert_eq!(reader.got[&streams[0]], b"hello there");
    assert!(net.nodes.iter().all(|n| n.closed.is_empty()));
}

/// Marks replace losses, where the path carries ECN-capable datagrams; where it drops them the link does without.
#[test]
fn explicit_congestion_notification_is_used_where_the_path_allows_it() {
    let data = noise(3_000_000, 4);
    let slow = Conditions { rate: 2_000_000.0, delay: 10 * MS, mtu: 1_472, queue: 400_000, ..FAIR };
    for algorithm in [CongestionAlgorithm::Cubic, CongestionAlgorithm::Bbr] {
        let config = Config { congestion: algorithm, ..Config::default() };
        let mut net = Net::pair(1, &config, Conditions { mark_above: 20_000, ..slow });
        let (a, _) = net.connect();
        net.run(3 * S);
        transfer(&mut net, a, &data, 60 * S);
        assert!(net.nodes[0].ecn_sent > 2_000 && net.nodes[1].marked > 0, "{algorithm}");

        let mut net = Net::pair(1, &config, Conditions { drops_ecn: true, ..slow });
        let (a, _) = net.connect();
        net.run(3 * S);
        transfer(&mut net, a, &data, 60 * S);
        assert!(net.nodes.iter().all(|n| n.ecn_sent < 5 && n.closed.is_empty()));
    }
}

/// The peer moves in the middle of a stream.
#[test]
fn streams_go_on_when_the_peer_moves() {
    let mut net =
        Net::pair(1, &Config::default(), Conditions { rate: 500_000.0, queue: 50_000, ..FAIR });
    let (a, b) = net.connect();
    net.run(S);
    let data = noise(2_000_000, 5);
    let stream = net.nodes[0].endpoint.open_stream(a, purpose::BENCH).unwrap();
    let (mut rest, mut reader) = (&data[..], Reader::default());
    for second in 0..30 {
        if second == 2 {
            net.nodes[0].at = sim::addr(77);
        }
        net.run_with(S, |net| {
            write_on(net, 0, a, stream, &mut rest);
            reader.turn(net, 1);
        });
    }
    assert_eq!(net.nodes[1].endpoint.link(b).unwrap().remote(), sim::addr(77));
    assert!(reader.got[&stream] == data && reader.finished == [stream]);
}
