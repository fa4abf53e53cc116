//! A producer and a consumer, with a path between them that damages packets.

use super::*;
use crate::Connection;
use crate::put::{Producer, PutSettings};
use std::io::Write;
use xylem_packet::{MAX_FRAME, frame_len};
use xylem_trust::{Signer, TrustPolicy};

struct Sink {
    at_once: usize,
    /// The most packets verified together.
    together: usize,
    content: Vec<u8>,
    bad: usize,
}

impl SegmentReceiver for Sink {
    fn check(&mut self, data: &Data<'_>) -> Result<(), CheckError> {
        Ok(TrustPolicy::Nobody.judge(data, 0).map(drop)?)
    }

    fn at_once(&self) -> usize {
        self.at_once
    }

    fn check_many(&mut self, packets: &[Data<'_>]) -> Vec<Result<(), CheckError>> {
        self.together = self.together.max(packets.len());
        let judged = TrustPolicy::Nobody.judge_many(packets, 0);
        judged.into_iter().map(|judged| Ok(judged.map(drop)?)).collect()
    }

    fn content(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.content.extend_from_slice(bytes);
        Ok(())
    }

    fn progress(&mut self, _bytes: u64, _total: u64) {}

    fn bad(&mut self, _what: &str) {
        self.bad += 1;
    }
}

/// Passes on the waiting frames of `from`, one by one.
fn each_frame(from: &mut Connection, mut each: impl FnMut(usize, Vec<u8>)) {
    let bytes = from.queue().waiting().to_vec();
    from.queue().written(bytes.len());
    let (mut rest, mut count) = (&bytes[..], 0);
    while let Ok(Some(len)) = frame_len(rest) {
        each(count, rest[..len].to_vec());
        (rest, count) = (&rest[len..], count + 1);
    }
}

/// Fetches a file of `size` bytes. Within the first 300 Data, each `damaged`th is changed in transit.
fn fetch(
    size: usize,
    at_once: usize,
    damaged: Option<usize>,
) -> (Result<(u64, u64), ClientError>, Sink, usize) {
    let content: Vec<u8> = (0..size).map(|i| (i ^ (i >> 8)) as u8).collect();
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(&content).unwrap();
    let settings = PutSettings {
        segments: Some(true),
        segment_size: 8_000,
        freshness: Duration::from_secs(1),
        count: None,
    };
    let signer = Signer::digest_sha256();
    let name: Name = "/o".parse().unwrap();
    let mut producer = Producer::new(&name, &settings, signer, file, size as u64, 7).unwrap();
    let mut sink = Sink { at_once, together: 0, content: Vec::new(), bad: 0 };
    let prefix = "/o/v=7".parse().unwrap();
    let expected = Expected::default();
    let mut fetch =
        SegmentFetch::new(prefix, expected, Duration::from_secs(4), 1, &mut sink).unwrap();
    let (mut here, mut there) =
        (Connection::new(MAX_FRAME, false, 1), Connection::new(MAX_FRAME, false, 2));
    let (mut now, mut sent, mut changed) = (Duration::ZERO, 0, 0);
    let outcome = loop {
        if let Err(e) = fetch.transmit(now, &mut here.outbox(now)) {
            break Err(e);
        }
        if fetch.is_done() {
            break Ok(());
        }
        each_frame(&mut here, |_, frame| {
            there.handle_frame(now, &frame, &mut |message, outbox| {
                producer.handle_message(now, message, outbox).unwrap();
            });
        });
        now += Duration::from_millis(5);
        let mut outcome = Ok(());
        each_frame(&mut there, |_, mut frame| {
            sent += 1;
            if sent <= 300 && damaged.is_some_and(|nth| sent % nth == 0) {
                frame[100] ^= 1;
                changed += 1;
            }
            here.handle_frame(now, &frame, &mut |message, outbox| {
                if outcome.is_ok() {
                    outcome = fetch.handle_message(now, message, outbox);
                }
            });
        });
        if let Err(e) = outcome {
            break Err(e);
        }
    };
    let outcome = outcome.and_then(|()| fetch.finish());
    if outcome.is_ok() {
        assert!(sink.content == content, "{size} bytes, {at_once} at once");
    }
    (outcome, sink, changed)
}

/// The result does not depend on how many packets are verified at once. The segments, signed ahead of time, make up the
/// file; each damaged packet is refused and requested again.
#[test]
fn verifying_packets_together_gives_the_same_result() {
    for size in [0, 1, 8_000, 8_001, 100_000, 3_000_000] {
        for at_once in [1, 2, 16] {
            for damaged in [None, Some(50)] {
                let (outcome, sink, changed) = fetch(size, at_once, damaged);
                let segments = (size as u64).div_ceil(8_000).max(1);
                assert_eq!(outcome.unwrap(), (size as u64, segments));
                assert_eq!(sink.bad, changed);
                assert!(sink.together <= at_once);
                assert!(size < 3_000_000 || at_once == 1 || sink.together == at_once);
            }
        }
    }
}

#[test]
fn too_many_damaged_packets_end_a_batched_fetch() {
    for at_once in [1, 16] {
        let (outcome, sink, _) = fetch(3_000_000, at_once, Some(2));
        assert!(matches!(outcome, Err(ClientError::NotBelieved { .. })), "{outcome:?}");
        assert_eq!(sink.bad, MAX_BAD as usize + 1);
    }
}
