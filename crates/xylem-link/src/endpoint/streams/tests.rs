//! A peer that seals stream frames that no honest sender writes, and the memory of an idle link.

use core::time::Duration;

use crate::endpoint::tests::{connected, drain, feed, next_event, up};
use crate::frame::{AckRanges, Frame, WHOLE_LINK};
use crate::internals::LooseStreams;
use crate::kdf::LinkRng;
use crate::stream::{INITIAL_LINK_WINDOW, INITIAL_STREAM_WINDOW, MAX_STREAMS};
use crate::{CloseReason, LinkEvent, LinkStats, StreamError, StreamId, StreamRead};

fn frames(all: &[Frame<'_>]) -> Vec<u8> {
    let mut out = Vec::new();
    all.iter().for_each(|frame| frame.write(&mut out));
    out
}

/// A peer that overruns a window, or contradicts itself, has broken the protocol.
#[test]
fn contradictions_and_overruns_end_the_link() {
    let data = |stream, offset, piece| Frame::StreamData { stream, offset, piece };
    let close = |stream, size| Frame::StreamClose { stream, size };
    let reset = |stream, size| Frame::StreamReset { stream, code: 1, size };
    let open = |stream| Frame::StreamOpen { stream, purpose: 7 };
    let window = |stream, limit| Frame::WindowUpdate { stream, limit };
    let many: Vec<_> = (1..8).map(|n| data(2 * n, INITIAL_STREAM_WINDOW - 1, b"x")).collect();
    assert!(many.len() as u64 * INITIAL_STREAM_WINDOW > INITIAL_LINK_WINDOW);
    let mut ranges = AckRanges::default();
    ranges.push(1_000..=1_000);
    // The sender of these frames has dialled: its streams are even.
    let cases: [(&str, Vec<Frame<'_>>); 17] = [
        ("beyond the stream's window", vec![data(2, INITIAL_STREAM_WINDOW, b"x")]),
        ("beyond it at the far end", vec![data(2, u64::MAX - 1, b"x")]),
        ("a size beyond it", vec![close(2, INITIAL_STREAM_WINDOW + 1)]),
        ("a reset's size beyond it", vec![reset(2, u64::MAX)]),
        ("beyond the link's window", many),
        ("two sizes", vec![close(2, 5), close(2, 6)]),
        ("a reset of another size", vec![close(2, 5), reset(2, 4)]),
        ("data beyond the end", vec![close(2, 5), data(2, 5, b"x")]),
        ("a size below what came", vec![data(2, 0, b"abc"), close(2, 2)]),
        ("two purposes", vec![open(2), Frame::StreamOpen { stream: 2, purpose: 8 }]),
        ("opening a stream of ours", vec![open(1)]),
        ("data of ours that we have not opened", vec![data(1, 0, b"x")]),
        ("no stream at all", vec![data(0, 0, b"x")]),
        (
            "the link's number as a stream's",
            vec![Frame::StreamStop { stream: WHOLE_LINK, code: 0 }],
        ),
        ("more streams than may be", vec![open(8 * MAX_STREAMS as u32 + 4)]),
        ("a window below the first", vec![window(2, INITIAL_STREAM_WINDOW - 1)]),
        ("a window beyond all", vec![window(WHOLE_LINK, u64::MAX)]),
    ];
    for (what, case) in cases {
        let (mut a, mut b, [link, theirs], _) = connected();
        let datagram = up(&mut a, link).seal_frames(&frames(&case));
        feed(&mut b, 1, &[datagram]);
        let mut last = None;
        while let Some(event) = next_event(&mut b) {
            last = Some(event);
        }
        let reason = CloseReason::PeerMisbehaved;
        assert_eq!(last, Some(LinkEvent::Closed { link: theirs, reason }), "{what}");
    }
    // An ack of a number that was never sent.
    let (mut a, mut b, [link, theirs], _) = connected();
    b.open_stream(theirs, 1).unwrap();
    let ack = Frame::Ack(ranges.ack(0, 0).unwrap());
    let datagram = up(&mut a, link).seal_frames(&frames(&[ack]));
    feed(&mut b, 1, &[datagram]);
    let reason = CloseReason::PeerMisbehaved;
    assert_eq!(next_event(&mut b), Some(LinkEvent::Closed { link: theirs, reason }));
}

/// Ids near 2^32, after which a side's next id would not fit 32 bits: any frame that names them breaks the protocol and
/// makes no stream.
#[test]
fn ids_near_the_limit_break_the_protocol() {
    for (we_dialled, id) in (0..8).flat_map(|n| [(true, u32::MAX - n), (false, u32::MAX - n)]) {
        for frame in [
            Frame::StreamOpen { stream: id, purpose: 7 },
            Frame::StreamData { stream: id, offset: 0, piece: b"x" },
            Frame::StreamClose { stream: id, size: 0 },
            Frame::StreamReset { stream: id, code: 1, size: 0 },
            Frame::StreamStop { stream: id, code: 1 },
        ] {
            let mut side = LooseStreams::new(we_dialled);
            assert!(!side.receive(Duration::ZERO, None, &frames(&[frame])), "{frame:?}");
            assert_eq!(side.events(), 0);
            assert!(side.fill(Duration::ZERO, 1_232).is_empty(), "nothing to refuse");
        }
    }
}

/// After the peer's go away this side opens no stream; open ones go on.
#[test]
fn no_stream_opens_after_the_peers_go_away() {
    let (mut a, mut b, [link, theirs], _) = connected();
    let stream = b.open_stream(theirs, 7).unwrap();
    let datagram = up(&mut a, link).seal_frames(&frames(&[Frame::GoAway(1)]));
    feed(&mut b, 1, &[datagram]);
    assert_eq!(b.open_stream(theirs, 7), Err(StreamError::GoingAway));
    assert_eq!(b.write_stream(theirs, stream, b"x"), Ok(1));
    let out = drain(&mut b);
    feed(&mut a, 2, &out);
    assert_eq!(next_event(&mut a), Some(LinkEvent::StreamOpened { link, stream, purpose: 7 }));
}

/// Frames of ended streams may come late; neither side is at fault.
#[test]
fn late_frames_of_ended_streams_are_ignored() {
    let (mut a, mut b, [link, theirs], _) = connected();
    let all = [
        Frame::StreamData { stream: 2, offset: 0, piece: b"hi" },
        Frame::StreamClose { stream: 2, size: 2 },
        Frame::StreamOpen { stream: 2, purpose: 7 },
    ];
    let datagram = up(&mut a, link).seal_frames(&frames(&all));
    feed(&mut b, 1, &[datagram]);
    let stream = StreamId(2);
    assert_eq!(
        next_event(&mut b),
        Some(LinkEvent::StreamOpened { link: theirs, stream, purpose: 7 })
    );
    assert_eq!(next_event(&mut b), Some(LinkEvent::StreamReadable { link: theirs, stream }));
    assert_eq!(b.read_stream(theirs, stream), Ok(StreamRead::Data("hi".into())));
    assert_eq!(b.read_stream(theirs, stream), Ok(StreamRead::Finished));
    b.reset_stream(theirs, stream, 3).unwrap();
    // The reset is acknowledged by the other endpoint, to which the stream is unknown.
    let sent = drain(&mut b);
    let number = sent.len() as u64;
    assert!(number > 0);
    let mut ranges = AckRanges::default();
    let last = up(&mut b, theirs).next_number() - 1;
    ranges.push(0..=last);
    let ack = frames(&[Frame::Ack(ranges.ack(0, 0).unwrap())]);
    let datagram = up(&mut a, link).seal_frames(&ack);
    feed(&mut b, 1, &[datagram]);
    assert_eq!(b.read_stream(theirs, stream), Err(StreamError::NoStream));
    let mut late = all.to_vec();
    late.push(Frame::StreamStop { stream: 2, code: 1 });
    late.push(Frame::WindowUpdate { stream: 2, limit: INITIAL_STREAM_WINDOW });
    late.push(Frame::StreamReset { stream: 2, code: 1, size: 2 });
    let datagram = up(&mut a, link).seal_frames(&frames(&late));
    feed(&mut b, 1, &[datagram]);
    assert_eq!(next_event(&mut b), None);
}

/// A link without streams holds one pointer for them.
#[test]
fn streams_are_made_on_first_use() {
    let (mut a, mut b, [link, theirs], _) = connected();
    assert!(!up(&mut a, link).has_stream_state() && !up(&mut b, theirs).has_stream_state());
    a.send(link, b"a packet").unwrap();
    let out = drain(&mut a);
    feed(&mut b, 1, &out);
    let stats: LinkStats = b.stats(theirs).unwrap();
    assert_eq!(stats.packets_received, 1);
    assert!(!up(&mut b, theirs).has_stream_state());
    let stream = a.open_stream(link, 5).unwrap();
    assert_eq!(a.write_stream(link, stream, b"x"), Ok(1));
    let out = drain(&mut a);
    feed(&mut b, 1, &out);
    assert!(up(&mut b, theirs).has_stream_state());
    let sent = !drain(&mut b).is_empty();
    assert!(sent || b.poll_timeout().is_some_and(|at| at <= Duration::from_millis(25)));
}

/// The last sent frame needs no repetition, and its acknowledgement is lost. A probe still draws an answer, and then
/// the link is quiet.
#[test]
fn a_probe_with_nothing_to_repeat_draws_an_answer() {
    const FINISH: u8 = 2;
    const STOP: u8 = 4;
    let at = Duration::from_secs;
    let mut side = LooseStreams::new(true);
    let ack = |numbers: core::ops::RangeInclusive<u64>| {
        let mut ranges = AckRanges::default();
        ranges.push(numbers);
        frames(&[Frame::Ack(ranges.ack(0, 0).unwrap())])
    };
    assert!(side.receive(at(0), None, &frames(&[Frame::StreamOpen { stream: 1, purpose: 7 }])));
    side.call(FINISH, 1, &[]);
    assert_eq!(side.fill(at(0), 1_232).len(), 1);
    assert!(side.receive(at(0), None, &ack(0..=0)));
    side.call(STOP, 1, &[]);
    assert_eq!(side.fill(at(0), 1_232).len(), 1);
    let reset = Frame::StreamReset { stream: 1, code: 0, size: 0 };
    assert!(side.receive(at(0), None, &frames(&[reset])));
    side.fill(at(1), 1_232);
    side.pass(at(10));
    let probe = side.fill(at(10), 1_232);
    assert!(!probe.is_empty(), "both halves have ended and the stop may be lost for all we know");
    let last = probe.last().map_or(0, |(number, _)| *number);
    assert!(side.receive(at(11), None, &ack(0..=last)));
    side.pass(at(100));
    assert!(side.fill(at(100), 1_232).is_empty());
}

/// Two sides make arbitrary calls over a network that loses and reorders: neither reports a protocol violation. With
/// random frames in between nothing panics (fuzz/fuzz_targets/streams.rs goes further).
#[test]
fn any_calls_and_any_frames_are_handled() {
    let mut rng = LinkRng::new(&[9; 32]);
    for round in 0..400 {
        let hostile = round % 2 == 1;
        let mut sides = [LooseStreams::new(true), LooseStreams::new(false)];
        let (mut now, mut flying) = (Duration::ZERO, Vec::new());
        for _ in 0..300 {
            let side = rng.below(2);
            match rng.below(8) {
                0 if hostile => {
                    let mut bytes = vec![0; rng.below(40)];
                    rng.fill(&mut bytes);
                    if let Some(first) = bytes.first_mut() {
                        *first = 0x0c + *first % 8;
                    }
                    if !sides[side].receive(now, None, &bytes) {
                        break;
                    }
                }
                0..=2 => {
                    let (what, stream) = (rng.below(6) as u8, 1 + rng.below(8) as u32);
                    sides[side].call(what, stream, &vec![1; rng.below(9_000)]);
                }
                3 => {
                    now += Duration::from_millis(rng.below(200) as u64);
                    sides[side].pass(now);
                }
                4 if !flying.is_empty() => drop(flying.swap_remove(rng.below(flying.len()))),
                5 | 6 if !flying.is_empty() => {
                    let (to, (number, datagram)): (usize, (u64, Vec<u8>)) =
                        flying.swap_remove(rng.below(flying.len()));
                    let honest = sides[to].receive(now, Some(number), &datagram);
                    assert!(honest || hostile, "round {round}");
                    if !honest {
                        break;
                    }
                }
                _ => {
                    let size = [1_200, 65_507][rng.below(2)];
                    let sent = sides[side].fill(now, size);
                    flying.extend(sent.into_iter().map(|datagram| (1 - side, datagram)));
                }
            }
            sides.iter_mut().for_each(|side| {
                let _ = side.events();
            });
        }
    }
}
