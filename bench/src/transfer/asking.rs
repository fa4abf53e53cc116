//! `asking`: the transfer's state, driven as by a fetch: adding objects, choosing pieces and asking a peer for them,
//! adding peers.

use core::time::Duration;
use std::hint::black_box;

use bytes::Bytes;
use xylem_hash::Hash;
use xylem_object::{Manifest, ObjectId, PublisherKey, naming, sign_manifest};
use xylem_transfer::{PeerId, Transfer, TransferConfig, TransferEvent, TransferSpec};
use xylem_tree::{Geometry, SegmentSize};

use super::rows::{OURS, PLAIN, Quoted, heading, number, row};
use crate::Error;
use crate::input;
use crate::race::Contender;
use crate::series::Series;

const PIECES: u64 = 10_000;
/// Pieces of a session, and the document's time to make it.
const SESSIONS: [(u64, f64); 4] =
    [(100, 1_500.0), (1_000, 13_570.0), (10_000, 138_050.0), (100_000, 1_690_000.0)];
/// Pieces of the last one, and its target in nanoseconds.
const WANTED: (u64, f64) = (100_000, 100_000.0);
/// Number of objects at once: few, so that little is wasted between two runs.
const OBJECTS: usize = 64;
/// Number of peers in rows with several.
const PEERS: u32 = 10;
const TIMES: usize = 64;

/// Makes the table.
pub(super) fn run<E>(series: &mut Series<'_, E>) -> Result<(), Error<E>> {
    series.heading(heading(
        "asking",
        "the state of a transfer",
        "operation",
        &[
            "No plain library does this; of progress as a fraction it is the division alone, of two numbers \
             in memory, which one unit of the processor does in its time. The document's session is of chunks of 256 KiB, ours of segments \
             of 8 KiB.",
            "A session made: an object added to a transfer, its sets of missing and of unasked segments \
             and of tiles, its verifier; the goal beside 100,000 is this project's.",
            "The next piece: chosen among 10,000 and told to its peer's window, pacer and loss detector, \
             and the Interest for it encoded; the document only chooses. A peer whose window is full is \
             replaced, which counts too.",
            "The document's peer is an entry in a map; ours has round trips, windows, two congestion \
             controllers. A row of ten adds and removes ten.",
        ],
    ))?;
    for (pieces, document) in SESSIONS {
        let mut world = World::new();
        let quoted = match WANTED {
            (of, goal) if of == pieces => Quoted::with_goal(document, goal),
            _ => Quoted::of(document),
        };
        let mut contenders = [Contender::new(OURS, "create", || number(world.add(pieces)))];
        let label = format!("a session of {} made", input::thousands(pieces as usize));
        row(series, &label, 1, &mut contenders, quoted)?;
    }
    next(series)?;
    peers(series)
}

/// A transfer that has its manifest, and the inputs to make another one.
struct World {
    spec: TransferSpec,
    manifest: Bytes,
    transfer: Transfer,
    objects: u64,
    peers: u32,
}

impl World {
    fn new() -> Self {
        let key = PublisherKey::from_bytes(&[7; 32]);
        let object = naming::default_name(&key.public(), b"bench");
        let prefix = naming::versioned(object.as_ref(), 1).expect("a short name");
        let manifest = Manifest::file(Hash::from_bytes([1; 32]), 1 << 30, b"bench");
        let manifest = sign_manifest(&manifest, prefix.as_ref(), &key).expect("a valid manifest");
        let spec = TransferSpec { prefix, publisher: key.public(), root: None, size: None };
        let transfer = Transfer::new(spec.clone(), TransferConfig::default(), 1);
        let mut world = Self { spec, manifest: manifest.into(), transfer, objects: 0, peers: 0 };
        world.renew();
        world
    }

    /// Makes a new transfer, with the manifest.
    fn renew(&mut self) {
        let config = TransferConfig { max_objects: OBJECTS, ..TransferConfig::default() };
        self.transfer = Transfer::new(self.spec.clone(), config, 1);
        let peer = self.add_peer();
        let asked = self.transfer.poll_transmit(Duration::ZERO, &mut Vec::new());
        debug_assert_eq!(asked, Some(peer), "for the manifest");
        self.transfer.handle_data(Duration::ZERO, peer, self.manifest.clone());
        self.transfer.remove_peer(Duration::ZERO, peer);
        while let Some(event) = self.transfer.poll_event() {
            debug_assert!(matches!(event, TransferEvent::Manifest { .. }));
        }
        self.objects = 0;
    }

    /// Adds an object with this many segments; returns how many are wanted.
    fn add(&mut self, pieces: u64) -> u64 {
        if self.objects == OBJECTS as u64 {
            self.renew();
        }
        let geometry = Geometry::new(pieces * 8_192, SegmentSize::DEFAULT);
        let id = ObjectId::File(self.objects);
        let root = Hash::from_bytes([2; 32]);
        self.transfer
            .add_object(id, root, geometry, core::iter::once(0..pieces), [], None)
            .expect("a new object below the limits");
        self.objects += 1;
        pieces
    }

    fn add_peer(&mut self) -> PeerId {
        self.peers = self.peers.wrapping_add(1);
        self.transfer.add_peer(Duration::ZERO, PeerId(self.peers));
        PeerId(self.peers)
    }
}

fn next<E>(series: &mut Series<'_, E>) -> Result<(), Error<E>> {
    for (label, there) in
        [("next piece, none there", false), ("next piece, every other there", true)]
    {
        let mut world = World::new();
        let geometry = Geometry::new(PIECES * 8_192, SegmentSize::DEFAULT);
        let have: Vec<_> = (0..PIECES / 2).filter(|_| there).map(|i| 2 * i..2 * i + 1).collect();
        let whole = core::iter::once(0..PIECES);
        let root = Hash::from_bytes([2; 32]);
        world
            .transfer
            .add_object(ObjectId::Root, root, geometry, whole, have, None)
            .expect("a new object below the limits");
        let mut peer = world.add_peer();
        let mut packet = Vec::new();
        let mut contenders = [Contender::new(OURS, "ask", || {
            let mut bytes = 0;
            for _ in 0..TIMES {
                while world.transfer.poll_transmit(Duration::ZERO, &mut packet).is_none() {
                    world.transfer.remove_peer(Duration::ZERO, peer);
                    peer = world.add_peer();
                }
                bytes += packet.len() as u64;
            }
            number(bytes)
        })];
        let quoted = Quoted::with_goal(363_770.0 + 56.32, 5_000.0);
        row(series, label, TIMES, &mut contenders, quoted)?;
    }
    Ok(())
}

fn peers<E>(series: &mut Series<'_, E>) -> Result<(), Error<E>> {
    let mut world = World::new();
    let mut contenders = [Contender::new(OURS, "add", || {
        let added: Vec<PeerId> = (0..PEERS).map(|_| world.add_peer()).collect();
        for peer in &added {
            world.transfer.remove_peer(Duration::ZERO, *peer);
        }
        number(added.len() as u64)
    })];
    row(series, "ten peers added", 1, &mut contenders, Quoted::of(1_160.0))?;

    let mut world = World::new();
    world.add(PIECES);
    for _ in 0..PEERS {
        world.add_peer();
    }
    let mut packet = Vec::new();
    while world.transfer.poll_transmit(Duration::ZERO, &mut packet).is_some() {}
    let transfer = &world.transfer;
    let mut contenders = [Contender::new(OURS, "in flight", || {
        number(black_box(transfer).peers(Duration::ZERO).map(|peer| peer.in_flight).sum())
    })];
    let label = "bytes in flight, ten peers";
    row(series, label, 1, &mut contenders, Quoted::of(248_580.0))?;
    let fraction = |verified: u64, wanted: u64| verified as f64 / wanted as f64;
    let now = transfer.progress();
    let numbers = (now.verified_segments, now.wanted_segments);
    let mut contenders = [
        Contender::new(OURS, "progress", || {
            let progress = (0..TIMES).map(|_| black_box(transfer).progress());
            number(progress.map(|p| fraction(p.verified_segments, p.wanted_segments)).sum::<f64>()
                as u64)
        }),
        Contender::new(PLAIN, "progress", || {
            let numbers = (0..TIMES).map(|_| black_box(&numbers));
            number(
                numbers.map(|(verified, wanted)| fraction(*verified, *wanted)).sum::<f64>() as u64
            )
        }),
    ];
    let quoted = Quoted::of(0.544_70).bound_by_the_host();
    row(series, "progress, as a fraction", TIMES, &mut contenders, quoted)?;
    let mut contenders = [Contender::new(OURS, "verified", || {
        number((0..TIMES).map(|_| black_box(transfer).progress().verified_segments).sum())
    })];
    row(series, "verified segments", TIMES, &mut contenders, Quoted::of(0.419_71))?;
    let mut contenders = [Contender::new(OURS, "verified", || {
        number((0..TIMES).map(|_| black_box(transfer).progress().verified_bytes).sum())
    })];
    row(series, "verified bytes", TIMES, &mut contenders, Quoted::of(0.419_71))?;
    Ok(())
}
