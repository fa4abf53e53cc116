//! The packets that `produce` makes at once equal those with which a publication answers one by one.

mod common;

use common::{Memory, ask, directory, key, name};
use xylem_object::naming::{self, PublicationRequest};
use xylem_object::packets;
use xylem_object::{
    Manifest, ManifestError, ObjectId, Packets, Publication, SegmentTemplate, ServeOutcome, produce,
};
use xylem_packet::{Component, Data, DataBuilder, EncodeError, KeyLocator};
use xylem_sim::noise;
use xylem_tree::{Geometry, SegmentIndex, SegmentSize, Tile, TreeKind};

#[test]
fn produced_packets_are_those_that_are_served() {
    let mut packets = Packets::default();
    for (log2, size) in [
        (3, 0),
        (3, 1),
        (3, 8192),
        (3, 8193),
        (3, 65_536),
        (3, 65_537),
        (3, 4 << 20),
        (3, (4 << 20) + 70_000),
        (2, 300_000),
        (1, 20_000),
        (0, 1025),
        (0, 2049 * 1024 + 1),
    ] {
        for tree in TreeKind::ALL {
            let (bytes, segment) = (noise(size, 1), SegmentSize::from_log2_chunks(log2).unwrap());
            let prefix = name("/p/o/v=9");
            let mut source = Memory::default();
            let root = source.add_kind(ObjectId::Root, &bytes, segment, tree);
            let like = Manifest { tree, segment, ..Manifest::file(root, 0, b"f") };
            let manifest =
                produce(&like, prefix.as_ref(), &bytes, key().signer(), &mut packets).unwrap();
            assert_eq!((manifest.root, manifest.size), (root, size as u64));
            let geometry = manifest.geometry();

            let packet = packets.iter().last().unwrap().to_vec();
            let mut publication =
                Publication::new(prefix.clone(), packet, &key().public()).unwrap();
            let object = ObjectId::Root;
            let segments = (0..geometry.segments())
                .map(|i| PublicationRequest::Segment { object, index: SegmentIndex(i) });
            let tiles = (0..3)
                .flat_map(|tier| (0..geometry.tiles(tier)).map(move |index| Tile { tier, index }))
                .map(|tile| PublicationRequest::Tile { object, tile });
            let all: Vec<_> = segments.chain(tiles).chain([PublicationRequest::Manifest]).collect();
            assert_eq!(packets.len(), all.len());
            for (packet, request) in packets.iter().zip(&all) {
                let asked = naming::encode(prefix.as_ref(), request);
                let (answer, served) =
                    ask(&mut publication, &mut source, asked.as_ref(), false).unwrap();
                assert_eq!(answer, ServeOutcome::Data);
                assert!(served == packet, "{asked} of {size} bytes");
            }
        }
    }
}

/// The template writes what the builder writes, for numbers of every width.
#[test]
fn templates_write_what_the_builder_writes() {
    let prefix = name("/a/bc/v=12");
    let segment = SegmentSize::from_log2_chunks(0).unwrap();
    for tree in TreeKind::ALL {
        for (object, under) in [
            (ObjectId::Root, "/a/bc/v=12"),
            (ObjectId::File(7), "/a/bc/v=12/32=file/seq=7"),
            (ObjectId::File(70_000), "/a/bc/v=12/32=file/seq=70000"),
        ] {
            for n in [1u64, 200, 256, 257, 65_536, 65_537, 1 << 31] {
                let geometry = Geometry::new(n * 1024, segment).with_kind(tree);
                let template = SegmentTemplate::new(prefix.as_ref(), object, geometry);
                for (len, proof) in [(1024, 128), (0, 32), (1, 32), (252, 96), (253, 128)] {
                    let (bytes, proof) = (noise(len, 1), noise(proof, 1));
                    let mut written = b"before".to_vec();
                    let fill = |out: &mut Vec<u8>| {
                        out.extend(&bytes);
                        Ok::<(), ()>(())
                    };
                    let index = SegmentIndex(n - 1);
                    template.write(index, len, &proof, &mut written, fill).unwrap();
                    let segment_name = name(under).child(Component::segment(index.0));
                    let manifest_name = name("/a/bc/v=12/_root");
                    let mut built = b"before".to_vec();
                    DataBuilder::new(segment_name.as_ref())
                        .freshness_ms(packets::FRESHNESS_MS)
                        .final_block_id(Component::segment(n - 1))
                        .signature(
                            packets::signature_type(tree),
                            KeyLocator::Name(manifest_name.as_ref()),
                        )
                        .encode(&mut built, &bytes, |_, value| value.extend(&proof))
                        .unwrap();
                    assert_eq!(written, built);
                }
            }
        }
    }
}

#[test]
fn a_template_leaves_nothing_half_written() {
    let prefix = name("/o/v=1");
    let geometry = Geometry::new(100_000, SegmentSize::DEFAULT);
    let template = SegmentTemplate::new(prefix.as_ref(), ObjectId::Root, geometry);
    let mut out = b"before".to_vec();
    let fails = template.write(SegmentIndex(0), 9, &[0; 32], &mut out, |out| {
        out.push(1);
        Err("disk")
    });
    assert_eq!(fails, Err(EncodeError::Content("disk")));
    let too_long = template.write(SegmentIndex(0), 8_800, &[0; 32], &mut out, |_| Ok::<(), ()>(()));
    assert!(matches!(too_long, Err(EncodeError::TooLong(len)) if len > 8_800));
    assert_eq!(out, b"before");
}

#[test]
fn only_files_are_produced_from_one_slice() {
    let mut packets = Packets::default();
    let prefix = name("/o/v=1");
    let like = directory(xylem_hash::hash(b""), 0, SegmentSize::DEFAULT);
    let got = produce(&like, prefix.as_ref(), b"", key().signer(), &mut packets);
    assert!(matches!(got, Err(ManifestError::BadValue(_))));
    let like = Manifest::file(xylem_hash::hash(b""), 0, b"");
    let got = produce(&like, name("/o").as_ref(), b"", key().signer(), &mut packets);
    assert!(matches!(got, Err(ManifestError::Prefix(_))));
    assert!(packets.is_empty() && packets.get(0).is_none());
    let manifest = produce(&like, prefix.as_ref(), b"x", key().signer(), &mut packets).unwrap();
    assert_eq!(manifest.root, xylem_hash::hash(b"x"));
    let data = Data::decode(packets.get(0).unwrap()).unwrap();
    assert_eq!(data.content(), b"x");
}
