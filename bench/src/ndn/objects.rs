//! Objects in segments, their packets and their keys, as all tables of this subject use them.

use xylem_object::naming::{self, ObjectId, PublicationRequest};
use xylem_object::{
    Manifest, Packets, PublicationKind, PublisherKey, packets, produce, verify_manifest,
};
use xylem_packet::{Component, Data, DataBuilder, Name};
use xylem_tree::{
    ProofError, Recording, Segment, SegmentIndex, SegmentSize, TreeKind, TreeVerifier, Verified,
};

use crate::input;
use crate::race::Answer;

/// Column names of the three ways of signing segments.
pub(super) const ED25519: &str = "Ed25519 each";
pub(super) const SHA256: &str = "SHA-256 tree";
pub(super) const BLAKE3: &str = "BLAKE3 tree";

/// An object, and the document's figures for a similar one.
pub(super) struct Case {
    pub what: &'static str,
    pub segments: u64,
    pub log2_chunks: u8,
    /// Number of segments that a consumer fetches, in an order of its own.
    pub fetched: usize,
    /// Microseconds of the document's producers: Ed25519, SHA-256, BLAKE3.
    pub producer: [f64; 3],
    /// Microseconds of the document's consumers.
    pub consumer: [f64; 3],
}

pub(super) const CASES: [Case; 3] = [
    Case {
        what: "1 MB / 256",
        segments: 256,
        log2_chunks: 2,
        fetched: 25,
        producer: [4_420.0, 920.0, 1_050.0],
        consumer: [619.0, 112.0, 123.0],
    },
    Case {
        what: "4 MB / 1024",
        segments: 1024,
        log2_chunks: 2,
        fetched: 102,
        producer: [18_380.0, 3_710.0, 4_280.0],
        consumer: [2_560.0, 407.0, 464.0],
    },
    Case {
        what: "16 MB / 2048",
        segments: 2048,
        log2_chunks: 3,
        fetched: 204,
        producer: [55_590.0, 13_890.0, 15_950.0],
        consumer: [6_000.0, 1_390.0, 1_570.0],
    },
];

impl Case {
    pub(super) fn segment(&self) -> SegmentSize {
        SegmentSize::from_log2_chunks(self.log2_chunks).expect("0 to 3 in the table above")
    }

    pub(super) fn bytes(&self) -> usize {
        self.segments as usize * self.segment().bytes()
    }

    /// The segments that are fetched: spread over the object, out of order, each once.
    pub(super) fn order(&self) -> Vec<u64> {
        // An odd step visits each residue of a power of two once.
        (0..self.fetched as u64).map(|n| (n * 619 + 7) % self.segments).collect()
    }
}

/// A publisher and its prefix.
pub(super) struct Publisher {
    pub key: PublisherKey,
    pub prefix: Name,
}

impl Publisher {
    pub(super) fn new() -> Self {
        let key = PublisherKey::from_bytes(&[7; 32]);
        let object = naming::default_name(&key.public(), b"object.bin");
        let prefix = naming::versioned(object.as_ref(), 1_700_000_000_000_000);
        Self { key, prefix: prefix.expect("a short name") }
    }

    /// All packets of `content` in a tree of this kind.
    pub(super) fn tree(
        &self,
        kind: TreeKind,
        segment: SegmentSize,
        content: &[u8],
        out: &mut Packets,
    ) {
        let like = Manifest { tree: kind, segment, ..Manifest::file(NO_ROOT, 0, b"object.bin") };
        debug_assert_eq!(like.kind, PublicationKind::File);
        produce(&like, self.prefix.as_ref(), content, self.key.signer(), out)
            .expect("within all limits");
    }

    /// The name of a segment.
    pub(super) fn segment_name(&self, index: u64) -> Name {
        let request =
            PublicationRequest::Segment { object: ObjectId::Root, index: SegmentIndex(index) };
        naming::encode(self.prefix.as_ref(), &request)
    }

    /// All segments of `content`, each with its own signature.
    pub(super) fn each(&self, segment: SegmentSize, content: &[u8], out: &mut Each) {
        out.bytes.clear();
        out.ends.clear();
        let last = Component::segment(content.len().div_ceil(segment.bytes()) as u64 - 1);
        for (segment, index) in content.chunks(segment.bytes()).zip(0..) {
            let name = self.segment_name(index);
            let builder = DataBuilder::new(name.as_ref())
                .freshness_ms(packets::FRESHNESS_MS)
                .final_block_id(last);
            self.key.signer().data(builder, segment, &mut out.bytes).expect("within the limit");
            out.ends.push(out.bytes.len());
        }
    }
}

const NO_ROOT: xylem_hash::Hash = xylem_hash::Hash::from_bytes([0; 32]);

/// Packets of segments that are signed each.
#[derive(Default)]
pub(super) struct Each {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Each {
    pub(super) fn get(&self, n: usize) -> &[u8] {
        let start = if n == 0 { 0 } else { self.ends[n - 1] };
        &self.bytes[start..self.ends[n]]
    }

    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    pub(super) fn last(&self) -> &[u8] {
        self.get(self.len() - 1)
    }
}

/// Packets that a consumer handles together: those that arrive between two polls of the network.
pub(super) const BURST: usize = 32;

/// Totals of the segments that a consumer has accepted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Accepted {
    pub segments: u64,
    pub bytes: u64,
    /// A sum that distinguishes sets of segments.
    sum: u64,
}

impl Accepted {
    pub(super) fn add(&mut self, index: u64, content: &[u8]) {
        self.segments += 1;
        self.bytes += content.len() as u64;
        let first = content.first().copied().unwrap_or_default();
        self.sum = self.sum.wrapping_add((index + 1).wrapping_mul(u64::from(first) + 1));
    }

    pub(super) fn join(&mut self, other: Self) {
        self.segments += other.segments;
        self.bytes += other.bytes;
        self.sum = self.sum.wrapping_add(other.sum);
    }

    pub(super) fn answer(self) -> Answer {
        let mut answer = [0; 32];
        for (place, number) in answer.chunks_exact_mut(8).zip([self.segments, self.bytes, self.sum])
        {
            place.copy_from_slice(&number.to_be_bytes());
        }
        answer
    }
}

/// Verifies segments with a signature each: name, FinalBlockId, signature.
pub(super) struct EachConsumer<'p> {
    publisher: &'p Publisher,
    verifier: xylem_trust::Verifier,
    last: Component<'static>,
    pub accepted: Accepted,
}

impl<'p> EachConsumer<'p> {
    pub(super) fn new(publisher: &'p Publisher, segments: u64) -> Self {
        let verifier = publisher.key.public().verifier().expect("a key");
        let last = Component::segment(segments - 1);
        Self { publisher, verifier, last, accepted: Accepted::default() }
    }

    pub(super) fn take(&mut self, packet: &[u8]) {
        let data = Data::decode(packet).expect("a Data packet");
        let request = naming::parse(self.publisher.prefix.as_ref(), data.name());
        let Some(PublicationRequest::Segment { object: ObjectId::Root, index }) = request else {
            panic!("a segment")
        };
        assert_eq!(data.meta().final_block_id, Some(self.last));
        self.verifier.data(&data).expect("signed by the publisher");
        self.accepted.add(index.0, data.content());
    }
}

type Outcome<'a> = Result<Verified<Segment<&'a [u8]>>, ProofError>;

/// Verifies a manifest, tiles, and bursts of segments with proofs.
pub(super) struct TreeConsumer<'p> {
    publisher: &'p Publisher,
    pub verifier: TreeVerifier,
    pub accepted: Accepted,
}

impl<'p> TreeConsumer<'p> {
    /// Begins with the manifest's packet.
    pub(super) fn new(publisher: &'p Publisher, manifest: &[u8]) -> Self {
        let data = Data::decode(manifest).expect("a Data packet");
        let manifest = verify_manifest(&data, publisher.prefix.as_ref(), &publisher.key.public())
            .expect("signed by the publisher");
        let mut verifier = TreeVerifier::new(manifest.geometry(), manifest.root);
        verifier.set_recording(Recording::Off); // nothing goes to disk here
        Self { publisher, verifier, accepted: Accepted::default() }
    }

    /// A copy for another thread, with the same proven nodes.
    pub(super) fn fork(&self) -> Self {
        let (publisher, mut verifier) = (self.publisher, self.verifier.fork());
        verifier.set_recording(Recording::Off);
        Self { publisher, verifier, accepted: Accepted::default() }
    }

    pub(super) fn tile(&mut self, packet: &[u8]) {
        let data = Data::decode(packet).expect("a Data packet");
        let geometry = *self.verifier.geometry();
        let read = packets::open(self.publisher.prefix.as_ref(), &data, |_| Some(geometry))
            .expect("of this publication");
        let PublicationRequest::Tile { tile, .. } = read.request else { panic!("a tile") };
        self.verifier.tile(tile, read.content, read.proof).expect("the publisher's");
    }

    pub(super) fn burst<'a>(&mut self, wires: impl Iterator<Item = &'a [u8]>) {
        let geometry = *self.verifier.geometry();
        let opened = wires.map(|packet| {
            let data = Data::decode(packet).expect("a Data packet");
            let read = packets::open(self.publisher.prefix.as_ref(), &data, |_| Some(geometry))
                .expect("of this publication");
            let PublicationRequest::Segment { index, .. } = read.request else {
                panic!("a segment")
            };
            (index, read.content, read.proof)
        });
        let mut outcomes: Vec<Outcome<'a>> = Vec::with_capacity(BURST);
        self.verifier.segments(opened, &mut outcomes);
        for segment in outcomes {
            let segment = segment.expect("the publisher's");
            self.accepted.add(segment.index.0, segment.content);
        }
    }
}

/// Bytes enough for every case that `longest` allows.
pub(super) fn contents(longest: usize) -> Vec<u8> {
    let most = CASES.iter().map(Case::bytes).filter(|bytes| *bytes <= longest).max();
    input::bytes(most.unwrap_or_default())
}
