//! Both ends of a segment: any Interest to a publication, and any Data to a getter.
#![no_main]
use std::cell::RefCell;
use std::convert::Infallible;

use xylem_object::naming::{self, PublicationRequest};
use xylem_object::{
    Manifest, ObjectId, ObjectSource, Publication, PublicationKind, PublisherKey, ServeOutcome,
    packets, sign_manifest,
};
use xylem_packet::{Data, InterestBuilder, Name, NameRef, Packet};
use xylem_tree::{Geometry, NodeSource, Outboard, SegmentSize, TreeKind, TreeVerifier};

const SEGMENT: SegmentSize = match SegmentSize::from_log2_chunks(0) {
    Some(segment) => segment,
    None => unreachable!(),
};

struct Memory(Vec<u8>, Outboard);

impl ObjectSource for Memory {
    type Error = Infallible;
    fn geometry(&mut self, object: ObjectId) -> Option<Geometry> {
        (object == ObjectId::File(1)).then_some(*self.1.geometry())
    }
    fn read_content(&mut self, _: ObjectId, at: u64, out: &mut [u8]) -> Result<(), Infallible> {
        out.copy_from_slice(&self.0[at as usize..][..out.len()]);
        Ok(())
    }
    fn read_nodes(&mut self, _: ObjectId, slot: u64, out: &mut [u8]) -> Result<(), Infallible> {
        self.1.as_bytes().read_nodes(slot, out).expect("only slots that exist are asked for");
        Ok(())
    }
}

/// Asserts that a verified packet has the object's own content at that place.
fn judge(packet: &[u8], prefix: NameRef<'_>, source: &Memory) {
    let Ok(data) = Data::decode(packet) else { return };
    let geometry = *source.1.geometry();
    let Ok(read) = packets::open(prefix, &data, |_| Some(geometry)) else { return };
    let mut verifier = TreeVerifier::new(geometry, source.1.root());
    match read.request {
        PublicationRequest::Tile { tile, .. } => {
            let _ = verifier.tile(tile, read.content, read.proof);
        }
        PublicationRequest::Segment { index, .. } => {
            if let Ok(segment) = verifier.segment(index, read.content, read.proof) {
                let range = geometry.segment_range(index);
                let place = range.start as usize..range.end as usize;
                assert_eq!(segment.content, &source.0[place]);
            }
        }
        _ => unreachable!("open gives proofs only"),
    }
}

/// A publication and its source; made once, as signing and hashing are slow here.
fn set_up(tree: TreeKind) -> (Name, Publication, Memory) {
    let content = vec![5; 20 * 1024 + 1];
    let outboard = Outboard::of_kind(&content, SEGMENT, tree);
    let (root, size) = (outboard.root(), content.len() as u64);
    let key = PublisherKey::from_bytes(&[7; 32]);
    let prefix = Name::from_uri("/o/v=1").expect("a name");
    let file = Manifest { tree, segment: SEGMENT, ..Manifest::file(root, size, b"f") };
    let manifest = Manifest { kind: PublicationKind::Directory, file_count: 2, ..file };
    let packet = sign_manifest(&manifest, prefix.as_ref(), &key).expect("within its limits");
    let publication = Publication::new(prefix.clone(), packet, &key.public());
    let publication = publication.expect("just signed").with_metadata(&key);
    (prefix, publication, Memory(content, outboard))
}

thread_local! {
    static PUBLISHED: RefCell<[(Name, Publication, Memory); 2]> =
        RefCell::new(TreeKind::ALL.map(set_up));
}

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    PUBLISHED.with_borrow_mut(|published| {
        for (prefix, publication, source) in published {
            fuzz(input, prefix.as_ref(), publication, source);
        }
    });
});

fn fuzz(input: &[u8], prefix: NameRef<'_>, publication: &mut Publication, source: &mut Memory) {
    judge(input, prefix, source);
    // The input as an Interest, and as the rest of an Interest's name after the prefix.
    let mut wires = vec![input.to_vec()];
    let longer = [prefix.value(), input].concat();
    if let Ok(name) = NameRef::from_value(&longer) {
        let mut wire = Vec::new();
        if InterestBuilder::new(name).can_be_prefix(true).encode(&mut wire).is_ok() {
            wires.push(wire);
        }
        if let Some(request) = naming::parse(prefix, name) {
            assert_eq!(naming::encode(prefix, &request), name);
        }
    }
    for wire in wires {
        let Ok(Packet::Interest(interest)) = Packet::decode(&wire) else { continue };
        let mut out = Vec::new();
        let Ok(answer) = publication.answer(&interest, source, &mut out);
        assert_eq!(answer == ServeOutcome::Data, !out.is_empty());
        if answer == ServeOutcome::Data {
            let name = Data::decode(&out).expect("a Data packet").name();
            assert!(interest.name().is_prefix_of(name));
            assert!(interest.can_be_prefix() || interest.name() == name);
            judge(&out, prefix, source);
        }
    }
}
