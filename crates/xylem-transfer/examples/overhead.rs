//! Prints the cost of a transfer per segment besides hashing: the same packets through the verifier alone and through a
//! whole transfer. `cargo run --release -p xylem-transfer --example overhead`

#[path = "../tests/sim/mod.rs"]
mod sim;

use std::collections::HashMap;
use std::time::{Duration, Instant};

use bytes::Bytes;
use sim::{Behaviour, Original, Producer, Reply};
use xylem_object::ObjectId;
use xylem_packet::{Data, Packet};
use xylem_transfer::{PeerId, Transfer, TransferConfig, TransferEvent, TransferSpec};
use xylem_tree::{SegmentIndex, TreeVerifier};

/// Number of Interests sent before the first is answered, as on a busy path.
const BATCH: usize = 256;

/// Number of rounds; the best counts, because other programs on the machine only ever add time.
const ROUNDS: usize = 20;

fn main() {
    let original = Original::file(16_000_000);
    let (mut whole, mut alone, mut count) = (Duration::MAX, Duration::MAX, 0);
    for _ in 0..ROUNDS {
        let (spent, packets) = transfer(&original);
        whole = whole.min(spent);
        alone = alone.min(verifier(&original, &packets));
        count = packets.len();
    }
    let each = |time: Duration| time.as_secs_f64() * 1e6 / count as f64;
    println!(
        "transfer {:.2} us, verifier alone {:.2} us, overhead {:.2} us a segment",
        each(whole),
        each(alone),
        each(whole) - each(alone)
    );
}

/// Runs a whole transfer. Returns the time spent in it, and the packets that it asked for.
fn transfer(original: &Original) -> (Duration, Vec<Bytes>) {
    let spec = TransferSpec {
        prefix: original.prefix.clone(),
        publisher: original.key.public(),
        root: None,
        size: None,
    };
    let mut transfer = Transfer::new(spec, TransferConfig::default(), 1);
    let mut producer = Producer::new(original.clone(), Behaviour::Honest);
    transfer.add_peer(Duration::ZERO, PeerId(0));
    let (mut spent, mut packets, mut buffer) = (Duration::ZERO, Vec::new(), Vec::new());
    let mut now = Duration::ZERO;
    loop {
        let mut interests = Vec::with_capacity(BATCH);
        let start = Instant::now();
        while interests.len() < BATCH && transfer.poll_transmit(now, &mut buffer).is_some() {
            interests.push(buffer.clone());
        }
        spent += start.elapsed();
        let mut answers = Vec::with_capacity(BATCH);
        for interest in &interests {
            let Some(Reply::Data(data)) = producer.reply(interest).pop() else { panic!("honest") };
            answers.push(Bytes::from(data));
        }
        packets.extend(answers.iter().cloned());
        now += Duration::from_micros(500);
        let start = Instant::now();
        for answer in answers {
            transfer.handle_data(now, PeerId(0), answer);
            while let Some(event) = transfer.poll_event() {
                match event {
                    TransferEvent::Manifest { manifest, .. } => {
                        let (root, geometry) = (manifest.root, manifest.geometry());
                        transfer
                            .add_object(ObjectId::Root, root, geometry, Some(0..u64::MAX), [], None)
                            .expect("the first");
                    }
                    TransferEvent::ObjectComplete(_) => return (spent + start.elapsed(), packets),
                    TransferEvent::Failed(reason) => panic!("{reason}"),
                    _ => {}
                }
            }
        }
        transfer.handle_timeout(now);
        spent += start.elapsed();
    }
}

/// Decodes and proves the same packets, and does nothing else.
fn verifier(original: &Original, packets: &[Bytes]) -> Duration {
    let truth = &original.objects[&ObjectId::Root];
    let mut verifier = TreeVerifier::new(truth.geometry, truth.root);
    let mut order: HashMap<u64, usize> = HashMap::new();
    for (at, packet) in packets.iter().enumerate() {
        let Ok(Packet::Data(data)) = Packet::decode(packet) else { panic!("a Data") };
        let name = data.name().to_string();
        if let Some((_, number)) = name.rsplit_once("/seg=") {
            order.insert(number.parse().expect("a number"), at);
        } else if let Some((_, number)) = name.rsplit_once("32=tree/seq=0/seq=") {
            let tile = xylem_tree::Tile { tier: 0, index: number.parse().expect("a number") };
            verifier.tile(tile, data.content(), data.signature_value()).expect("good");
        }
    }
    let mut spent = Duration::ZERO;
    for first in (0..truth.geometry.segments()).step_by(BATCH) {
        let batch = first..(first + BATCH as u64).min(truth.geometry.segments());
        // The packets are copied first, like packets that have just arrived, so that both runs find them in the cache.
        let fresh: Vec<(u64, Bytes)> =
            batch.map(|i| (i, Bytes::copy_from_slice(&packets[order[&i]]))).collect();
        let start = Instant::now();
        for (i, packet) in fresh {
            let data = Data::decode(&packet).expect("good");
            let content = packet.slice(data.content_range());
            verifier.segment(SegmentIndex(i), content, data.signature_value()).expect("good");
            verifier.forget_complete(i..i + 1);
        }
        drop(verifier.take_proven());
        spent += start.elapsed();
    }
    spent
}
