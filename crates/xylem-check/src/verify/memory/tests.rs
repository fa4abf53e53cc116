//! Bytes in memory against trees, with a peer that sends real proofs.

use bytes::Bytes;
use xylem_object::PublisherId;
use xylem_tree::{Outboard, Tile, TreeVerifier, segment_signature, tile_content, tile_signature};

use super::*;
use crate::Keep;
use crate::verify::Damage;

/// A peer with one file.
struct Peer {
    content: Vec<u8>,
    outboard: Outboard,
    /// Segments sent.
    sent: u64,
}

impl Peer {
    fn new(content: Vec<u8>) -> Self {
        let outboard = Outboard::of(&content, SegmentSize::DEFAULT);
        Self { content, outboard, sent: 0 }
    }
}

impl Remote for Peer {
    fn target(&mut self, _: &[Ticket], _: usize) {}

    fn connect(
        &mut self,
        _: &mut Option<Box<dyn Failure>>,
        _: &Stop,
    ) -> Result<Option<Geometry>, Box<dyn Failure>> {
        Ok(Some(*self.outboard.geometry()))
    }

    fn fetch(
        &mut self,
        wanted: Vec<Wanted>,
        keep: &mut Keep<'_>,
        _: &Stop,
    ) -> Result<Option<Box<dyn Failure>>, Box<dyn Failure>> {
        for Wanted { object, root, geometry, segments, .. } in wanted {
            assert_eq!((geometry, root), (*self.outboard.geometry(), self.outboard.root()));
            let mut verifier = TreeVerifier::new(geometry, root);
            for i in segments.into_iter().flatten().map(SegmentIndex) {
                let mut nodes = self.outboard.as_bytes();
                if let Some(tile) = geometry.tile_of_segment(i) {
                    assert_eq!(tile, Tile { tier: 0, ..tile });
                    let (mut content, mut proof) = (vec![], vec![]);
                    tile_content(&geometry, tile, &mut nodes, &mut content).expect("a tile");
                    tile_signature(&geometry, tile, &mut nodes, &mut proof).expect("a proof");
                    verifier.tile(tile, &content, &proof).expect("proven");
                }
                let mut proof = vec![];
                segment_signature(&geometry, i, &mut nodes, &mut proof).expect("a proof");
                let range = geometry.segment_range(i);
                let bytes = &self.content[range.start as usize..range.end as usize];
                let bytes = Bytes::copy_from_slice(bytes);
                let segment = verifier.segment(i, bytes, &proof).expect("proven");
                let nodes = verifier.take_proven();
                keep(TransferEvent::Nodes { object, nodes }).expect("kept");
                keep(TransferEvent::Segment { object, segment }).expect("kept");
                self.sent += 1;
            }
        }
        Ok(None)
    }

    fn leave(&mut self) {}

    fn give_up_source(&mut self) {}

    fn misbehaved(&self) -> bool {
        false
    }
}

fn ticket(peer: &Peer) -> Ticket {
    Ticket {
        publisher: PublisherId([1; 32]),
        root: peer.outboard.root(),
        name: None,
        link_key: None,
        size: Some(peer.content.len() as u64),
        kind: Some(PublicationKind::File),
        addresses: vec![],
        relays: vec![],
    }
}

/// Compares `memory` with the peer's file from `offset` on.
fn compared(
    peer: &mut Peer,
    memory: &[u8],
    offset: u64,
) -> Result<VerifySummary, VerificationError> {
    let dir = tempfile::tempdir().expect("a directory");
    let store = Store::open(xylem_base::disk(), dir.path()).expect("a store");
    let mut memory = CopiedMemory::new(memory.len() as u64, |offset, out| {
        out.copy_from_slice(&memory[offset as usize..][..out.len()]);
        Ok(())
    });
    let place = MemoryPlace { path: None, offset };
    verify_memory(&store, &mut memory, &ticket(peer), &place, peer, &Stop::new())
}

fn content(len: usize, seed: u64) -> Vec<u8> {
    let mut out = vec![0; len];
    xylem_hash::Hasher::new().update(&seed.to_le_bytes()).finalize_xof().fill(&mut out);
    out
}

/// A number below `below` that follows from `seed`.
fn pick(seed: &mut u64, below: u64) -> u64 {
    *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*seed >> 24) % below
}

const SEGMENT: u64 = 8_192;

#[test]
fn any_range_of_any_file_is_right() {
    let mut seed = 7;
    let mut sizes = vec![0, 1, 63, 64, 65, 1_023, 1_024, 1_025, 8_191, 8_192, 8_193, 16_384];
    sizes.extend([24_577, 4 << 20, (4 << 20) + 1, (8 << 20) + 8_192, (21 << 20) + 77]);
    for size in sizes {
        let mut peer = Peer::new(content(size, size as u64));
        let content = peer.content.clone();
        for _ in 0..12 {
            let mut start = pick(&mut seed, size as u64 + 1);
            let mut len = pick(&mut seed, size as u64 - start + 1);
            match pick(&mut seed, 4) {
                0 => (start, len) = (0, size as u64),
                1 => {
                    start = start / SEGMENT * SEGMENT;
                    len = size as u64 - start;
                }
                2 => len = len.min(5),
                _ => {}
            }
            peer.sent = 0;
            let memory = &content[start as usize..(start + len) as usize];
            let summary = compared(&mut peer, memory, start).expect("compared");
            assert!(summary.is_right(), "{size} {start} {len}: {:?}", summary.damage);
            assert_eq!((summary.bytes, summary.files), (len, 1));
            // What is right needs no more than both ends, and a whole file nothing.
            assert!(peer.sent <= if len == size as u64 { 0 } else { 2 }, "{size} {start} {len}");
        }
    }
}

#[test]
fn damage_is_located_to_the_segment() {
    let mut seed = 3;
    let size = (21 << 20) + 77;
    let mut peer = Peer::new(content(size, 1));
    for round in 0..60 {
        let (mut start, mut end) = (pick(&mut seed, size as u64), pick(&mut seed, size as u64));
        if end <= start {
            (start, end) = (end, start + 1);
        }
        if round % 3 == 0 {
            (start, end) = (0, size as u64);
        }
        let mut memory = peer.content[start as usize..end as usize].to_vec();
        // At an end in some rounds.
        let at = match round % 5 {
            0 => start,
            1 => end - 1,
            _ => start + pick(&mut seed, end - start),
        };
        memory[(at - start) as usize] ^= 1 << (round % 8);
        let summary = compared(&mut peer, &memory, start).expect("compared");
        let first = (at / SEGMENT * SEGMENT).max(start);
        let last = (at / SEGMENT * SEGMENT + SEGMENT).min(end);
        assert!(summary.located);
        let damage =
            Damage { path: PathBuf::new(), start: first, end: last, what: DamageKind::Mismatch };
        assert_eq!(summary.damage, [damage], "{start}..{end}, byte {at}");
    }
}

#[test]
fn other_content_is_reported_with_few_questions() {
    let size = 21 << 20;
    let mut peer = Peer::new(content(size, 1));
    let other = content(size - 9, 2);
    let summary = compared(&mut peer, &other, 9).expect("compared");
    let damaged: u64 = summary.damage.iter().map(|damage| damage.end - damage.start).sum();
    assert_eq!(damaged, size as u64 - 9);
    assert!(peer.sent < 300, "{}", peer.sent);
}

#[test]
fn memory_that_is_elsewhere_in_the_file_differs() {
    let mut peer = Peer::new(vec![0; 40 << 10]);
    // The same bytes, as all are zeros; only the chunk numbers differ.
    let whole = vec![0; 16 << 10];
    assert!(compared(&mut peer, &whole, 8 << 10).expect("compared").is_right());
    let mut peer = Peer::new(content(40 << 10, 1));
    let memory = peer.content[8 << 10..24 << 10].to_vec();
    assert!(compared(&mut peer, &memory, 8 << 10).expect("compared").is_right());
    assert!(!compared(&mut peer, &memory, 16 << 10).expect("compared").is_right());
}

#[test]
fn ranges_beyond_the_file_are_refused() {
    let mut peer = Peer::new(content(10_000, 1));
    for (len, offset) in [(10_001, 0), (1, 10_000), (2, u64::MAX), (0, 10_001)] {
        let refused = compared(&mut peer, &vec![0; len], offset);
        assert!(matches!(refused, Err(VerificationError::BeyondFile { .. })), "{len} {offset}");
    }
}
