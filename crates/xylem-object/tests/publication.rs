//! Publications: all valid requests, invalid ones, and the largest packets.

mod common;

use common::{Broken, Memory, ask, directory, key, name, publish};
use proptest::prelude::*;
use xylem_hash::{Hash, hash};
use xylem_object::naming::{self, MAX_PREFIX, PublicationRequest};
use xylem_object::packets::{self, PacketError};
use xylem_object::{
    MAX_SEGMENTS, MAX_SIZE, Manifest, ManifestError, ObjectId, ObjectSource, Publication,
    PublicationError, PublisherKey, ServeOutcome, sign_manifest,
};
use xylem_packet::{
    Component, Data, DataBuilder, KeyLocator, MAX_PACKET, Name, NameRef, SignatureType,
};
use xylem_sim::noise;
use xylem_tree::{Geometry, SegmentIndex, SegmentSize, Tile, TreeKind, TreeVerifier};

const FILE: ObjectId = ObjectId::File(3);

/// Fetches a whole object by names alone, with tiles when needed.
fn fetch(publication: &mut Publication, source: &mut Memory, object: ObjectId) -> Vec<u8> {
    let (geometry, root) = match object {
        ObjectId::Root => (publication.manifest().geometry(), publication.manifest().root),
        file => (source.geometry(file).unwrap(), source.objects[&file].1.root()),
    };
    let prefix: Name = publication.prefix().into();
    let mut verifier = TreeVerifier::new(geometry, root);
    let mut get = |request: PublicationRequest| {
        let name = naming::encode(prefix.as_ref(), &request);
        let (answer, packet) = ask(publication, source, name.as_ref(), false).unwrap();
        assert_eq!(answer, ServeOutcome::Data, "{name}");
        let data = Data::decode(&packet).unwrap();
        assert_eq!(data.meta().freshness_ms, packets::FRESHNESS_MS);
        let locator = naming::encode(prefix.as_ref(), &PublicationRequest::Manifest);
        let named = data.signature_info().key_locator;
        assert_eq!(named, Some(KeyLocator::Name(locator.as_ref())));
        let read = packets::open(prefix.as_ref(), &data, |asked| {
            assert_eq!(asked, object);
            Some(geometry)
        })
        .unwrap();
        assert_eq!(read.request, request);
        assert_eq!(packet[read.content_range.clone()], *read.content);
        (read.content.to_vec(), read.proof.to_vec())
    };
    for tier in (0..3).rev() {
        for index in 0..geometry.tiles(tier) {
            let tile = Tile { tier, index };
            let (content, proof) = get(PublicationRequest::Tile { object, tile });
            verifier.tile(tile, &content, &proof).unwrap();
        }
    }
    let mut whole = Vec::new();
    for index in (0..geometry.segments()).map(SegmentIndex) {
        let (content, proof) = get(PublicationRequest::Segment { object, index });
        verifier.segment(index, &content[..], &proof).unwrap();
        whole.extend_from_slice(&content);
    }
    whole
}

#[test]
fn whole_objects_come_out_verified() {
    let kib = SegmentSize::from_log2_chunks(0).unwrap();
    for (segment, sizes) in [
        (SegmentSize::DEFAULT, &[0, 1, 8191, 8192, 8193, 65535, 65536, 65537, 150_000][..]),
        (kib, &[0, 1024, 1025, 8193, 300 * 1024 + 1, (2 * 2048 + 9) * 1024 - 5]),
    ] {
        for (&size, tree) in sizes.iter().flat_map(|s| TreeKind::ALL.map(|kind| (s, kind))) {
            let bytes = noise(size, 1);
            let mut source = Memory::default();
            let root = source.add_kind(ObjectId::Root, &bytes, segment, tree);
            let manifest =
                Manifest { segment, tree, ..Manifest::file(root, size as u64, b"content.bin") };
            let mut publication = publish(&name("/p/o/v=9"), &manifest);
            assert_eq!(fetch(&mut publication, &mut source, ObjectId::Root), bytes, "{size}");

            source.add_kind(FILE, &bytes, segment, tree);
            let manifest = Manifest { tree, ..directory(root, size as u64, segment) };
            let mut publication = publish(&name("/p/o/v=9"), &manifest);
            assert_eq!(fetch(&mut publication, &mut source, FILE), bytes, "{size}");
        }
    }
}

/// The vectors of docs/spec/object.md, made by another program (Python's cryptography and blake3).
#[test]
fn the_specification_s_vectors() {
    let prefix = name("/xylem/0871f3aabc26e458/hello.txt/v=1700000000000000");
    let mut source = Memory::default();
    let root = source.add(ObjectId::Root, b"hello", SegmentSize::DEFAULT);
    let mut publication =
        publish(&prefix, &Manifest::file(root, 5, b"hello.txt")).with_metadata(&key());
    let mut packet = |uri: &str| -> String {
        let (_, packet) = ask(&mut publication, &mut source, name(uri).as_ref(), false).unwrap();
        packet.iter().map(|byte| format!("{byte:02x}")).collect()
    };
    assert_eq!(
        packet("/xylem/0871f3aabc26e458/hello.txt/v=1700000000000000/seg=0"),
        concat!(
            "06a50731080578796c656d081030383731663361616263323665343538080968656c6c6f2e74",
            "7874360800060a24181e4000320100140919020fa01a03320100150568656c6c6f163c1b0108",
            "1c370735080578796c656d081030383731663361616263323665343538080968656c6c6f2e74",
            "7874360800060a24181e400008055f726f6f741720ea8f163db38682925e4491c5e58d4bb350",
            "6ef8c14eb78a86e908c5624a67200f",
        )
    );
    assert_eq!(
        packet("/xylem/0871f3aabc26e458/hello.txt/32=metadata/v=1700000000000000/seg=0"),
        concat!(
            "06e2073b080578796c656d081030383731663361616263323665343538080968656c6c6f2e74",
            "787420086d65746164617461360800060a24181e4000320100140819010a1a03320100153007",
            "2e080578796c656d081030383731663361616263323665343538080968656c6c6f2e74787436",
            "0800060a24181e400016251b01051c20071e080578796c656d08103038373166336161626332",
            "366534353808034b45591740c38dc43e060335660e149312dba3168d396873cc158166b862b0",
            "6fd2684be8e6dbe1e5eadfa5861e2e744f6b7c164596214502f8616c1569d84b5b4bda777f04",
        )
    );
}

/// The same for a SHA-256 tree: the packet that stands in the document.
#[test]
fn the_specification_s_sha256_segment() {
    const SPEC: &str = include_str!("../../../docs/spec/object.md");
    let prefix = name("/xylem/0871f3aabc26e458/hello.txt/v=1700000000000000");
    let (mut source, tree) = (Memory::default(), TreeKind::Sha256);
    let root = source.add_kind(ObjectId::Root, b"hello", SegmentSize::DEFAULT, tree);
    assert!(SPEC.contains(&format!("`{}`", root.to_hex())));
    let manifest = Manifest { tree, ..Manifest::file(root, 5, b"hello.txt") };
    let mut publication = publish(&prefix, &manifest);
    let asked = prefix.child(Component::segment(0));
    let (_, packet) = ask(&mut publication, &mut source, asked.as_ref(), false).unwrap();
    let packet: String = packet.iter().map(|byte| format!("{byte:02x}")).collect();
    let stands = SPEC.split("with a SHA-256 tree").nth(1).and_then(|s| s.split("```").nth(1));
    let stands: String = stands.unwrap().trim_start_matches("text").split_whitespace().collect();
    assert_eq!(packet, stands);
}

#[test]
fn groups_of_nodes_are_read_once() {
    let bytes = noise(100 * 8192, 1);
    let mut source = Memory::default();
    let root = source.add(ObjectId::Root, &bytes, SegmentSize::DEFAULT);
    let manifest = Manifest::file(root, bytes.len() as u64, b"f");
    let mut publication = publish(&name("/o/v=1"), &manifest);
    for n in 0..100 {
        let name = name(&format!("/o/v=1/seg={n}"));
        ask(&mut publication, &mut source, name.as_ref(), false).unwrap();
    }
    assert_eq!((source.node_reads, source.content_reads), (13, 100), "ceil(100 / 8) groups");
}

#[test]
fn one_segment_needs_no_outboard_where_the_root_is_known() {
    let mut source = Memory { gives_roots: true, ..Memory::default() };
    let root = source.add(ObjectId::Root, b"hello", SegmentSize::DEFAULT);
    source.add(FILE, b"hello", SegmentSize::DEFAULT);
    let mut publication = publish(&name("/o/v=1"), &directory(root, 5, SegmentSize::DEFAULT));
    for uri in ["/o/v=1/seg=0", "/o/v=1/32=file/seq=3/seg=0"] {
        let name = name(uri);
        let (_, packet) = ask(&mut publication, &mut source, name.as_ref(), false).unwrap();
        assert_eq!(Data::decode(&packet).unwrap().signature_value(), root.as_bytes());
    }
    assert_eq!(source.node_reads, 0);
}

#[test]
fn missing_parts_are_answered_with_no_such() {
    let mut source = Memory::default();
    let bytes = noise(20 * 8192, 1);
    let root = source.add(ObjectId::Root, &bytes, SegmentSize::DEFAULT);
    source.add(FILE, b"hello", SegmentSize::DEFAULT);
    let manifest = directory(root, bytes.len() as u64, SegmentSize::DEFAULT);
    let mut publication = publish(&name("/p/o/v=9"), &manifest);
    for (uri, can_be_prefix, expected) in [
        ("/p/o/v=9/_root", false, ServeOutcome::Data),
        ("/p/o/v=9/seg=19", false, ServeOutcome::Data),
        ("/p/o/v=9/seg=20", false, ServeOutcome::NoSuch),
        ("/p/o/v=9/seg=18446744073709551615", false, ServeOutcome::NoSuch),
        ("/p/o/v=9/32=tree/seq=0/seq=0", false, ServeOutcome::Data),
        ("/p/o/v=9/32=tree/seq=0/seq=1", false, ServeOutcome::NoSuch),
        ("/p/o/v=9/32=tree/seq=1/seq=0", false, ServeOutcome::NoSuch),
        ("/p/o/v=9/32=tree/seq=255/seq=18446744073709551615", false, ServeOutcome::NoSuch),
        ("/p/o/v=9/32=tree/seq=256/seq=0", false, ServeOutcome::NoSuch),
        ("/p/o/v=9/32=file/seq=3/seg=0", false, ServeOutcome::Data),
        ("/p/o/v=9/32=file/seq=3/seg=1", false, ServeOutcome::NoSuch),
        ("/p/o/v=9/32=file/seq=4/seg=0", false, ServeOutcome::NoSuch),
        ("/p/o/v=9/32=file/seq=3/_root", false, ServeOutcome::NoSuch),
        ("/p/o/v=9/32=file/seq=3", false, ServeOutcome::NoSuch),
        ("/p/o/v=9/seg=0/more", false, ServeOutcome::NoSuch),
        ("/p/o/v=9/seg", false, ServeOutcome::NoSuch),
        ("/p/o/v=9", false, ServeOutcome::NoSuch),
        ("/p/o/32=metadata", true, ServeOutcome::NoSuch), // no signed metadata
        ("/p/o/v=8/_root", false, ServeOutcome::OtherPublication),
        ("/p/o", false, ServeOutcome::OtherPublication),
        ("/p", true, ServeOutcome::OtherPublication),
        ("/q", false, ServeOutcome::OtherPublication),
        // Discovery by prefix, as NDN programs do it.
        ("/p/o", true, ServeOutcome::Data),
        ("/p/o/v=9", true, ServeOutcome::Data),
        ("/p/o/v=9/seg=0", true, ServeOutcome::Data),
    ] {
        let asked = name(uri);
        let (answer, _) =
            ask(&mut publication, &mut source, asked.as_ref(), can_be_prefix).unwrap();
        assert_eq!(answer, expected, "{uri} {can_be_prefix}");
    }
    let (_, packet) = ask(&mut publication, &mut source, name("/p/o").as_ref(), true).unwrap();
    assert_eq!(packet, publication.manifest_packet());

    source.missing = Some(SegmentIndex(7));
    let seventh = name("/p/o/v=9/seg=7");
    let (answer, _) = ask(&mut publication, &mut source, seventh.as_ref(), false).unwrap();
    assert_eq!(answer, ServeOutcome::NoSuch);
    let mut plain = publish(&name("/p/o/v=9"), &Manifest::file(root, bytes.len() as u64, b""));
    let in_a_file = name("/p/o/v=9/32=file/seq=3/seg=0");
    let (answer, _) = ask(&mut plain, &mut source, in_a_file.as_ref(), false).unwrap();
    assert_eq!(answer, ServeOutcome::NoSuch, "a file has no files");
}

/// A fetch in progress has zeros for missing nodes. They must neither be sent nor cached.
#[test]
fn missing_nodes_are_not_served() {
    struct Partial(Memory, bool);
    impl ObjectSource for Partial {
        type Error = Broken;
        fn geometry(&mut self, object: ObjectId) -> Option<Geometry> {
            self.0.geometry(object)
        }
        fn read_content(
            &mut self,
            object: ObjectId,
            at: u64,
            out: &mut [u8],
        ) -> Result<(), Broken> {
            self.0.read_content(object, at, out)
        }
        fn read_nodes(&mut self, object: ObjectId, at: u64, out: &mut [u8]) -> Result<(), Broken> {
            self.0.read_nodes(object, at, out)?;
            if self.1 && at == 0 {
                out[2 * 32..3 * 32].fill(0); // segment 1's leaf
            }
            Ok(())
        }
    }
    let bytes = noise(20 * 8192, 1);
    let mut memory = Memory::default();
    let root = memory.add(ObjectId::Root, &bytes, SegmentSize::DEFAULT);
    let mut source = Partial(memory, true);
    let mut publication = publish(&name("/o/v=1"), &Manifest::file(root, bytes.len() as u64, b"f"));
    let mut answer = |source: &mut Partial, n| {
        let name = name(&format!("/o/v=1/seg={n}"));
        ask(&mut publication, source, name.as_ref(), false).unwrap().0
    };
    let before: Vec<_> = (0..4).map(|n| answer(&mut source, n)).collect();
    assert_eq!(
        before,
        [ServeOutcome::NoSuch, ServeOutcome::NoSuch, ServeOutcome::Data, ServeOutcome::Data]
    );
    source.1 = false;
    assert_eq!(answer(&mut source, 1), ServeOutcome::Data, "what was missing was not remembered");
}

#[test]
fn a_failing_disk_leaves_no_half_packet() {
    let mut source = Memory { broken: true, ..Memory::default() };
    let root = source.add(ObjectId::Root, b"hello", SegmentSize::DEFAULT);
    let mut publication = publish(&name("/o/v=1"), &Manifest::file(root, 5, b"f"));
    let mut wire = Vec::new();
    let asked = name("/o/v=1/seg=0");
    xylem_packet::InterestBuilder::new(asked.as_ref()).encode(&mut wire).unwrap();
    let interest = xylem_packet::Interest::decode(&wire).unwrap();
    let mut out = b"before".to_vec();
    assert_eq!(publication.answer(&interest, &mut source, &mut out), Err(Broken));
    assert_eq!(out, b"before");
}

#[test]
fn metadata_points_to_this_version() {
    let mut source = Memory::default();
    let root = source.add(ObjectId::Root, b"hello", SegmentSize::DEFAULT);
    let prefix = name("/p/o/v=9");
    let mut publication = publish(&prefix, &Manifest::file(root, 5, b"f")).with_metadata(&key());
    let full = name("/p/o/32=metadata/v=9/seg=0");
    for (asked, can_be_prefix, expected) in [
        ("/p/o", true, ServeOutcome::Data),
        ("/p/o/32=metadata", true, ServeOutcome::Data),
        ("/p/o/32=metadata/v=9", true, ServeOutcome::Data),
        ("/p/o/32=metadata/v=9/seg=0", false, ServeOutcome::Data),
        ("/p/o/32=metadata", false, ServeOutcome::NoSuch),
        ("/p/o/32=metadata/v=10", true, ServeOutcome::OtherPublication),
    ] {
        let asked = name(asked);
        let (answer, packet) =
            ask(&mut publication, &mut source, asked.as_ref(), can_be_prefix).unwrap();
        assert_eq!(answer, expected, "{asked}");
        if answer == ServeOutcome::Data {
            let data = Data::decode(&packet).unwrap();
            assert_eq!(data.name(), full.as_ref());
            assert_eq!(NameRef::decode(data.content()).unwrap(), prefix.as_ref());
            assert_eq!(data.meta().freshness_ms, packets::METADATA_FRESHNESS_MS);
            assert_eq!(data.meta().final_block_id, Some(Component::segment(0)));
            assert!(key().public().verifies(data.signed_portion(), data.signature_value()));
        }
    }
}

#[test]
fn only_the_publisher_s_manifest_is_served() {
    let prefix = name("/p/o/v=9");
    let manifest = Manifest::file(hash(b"hello"), 5, b"f");
    let packet = sign_manifest(&manifest, prefix.as_ref(), &key()).unwrap();
    let other = PublisherKey::from_bytes(&[8; 32]).public();
    let publisher = key().public();
    let new = |prefix: &str, packet: &[u8], publisher| {
        Publication::new(name(prefix), packet.to_vec(), publisher).map(|_| ()).unwrap_err()
    };
    assert_eq!(
        new("/p/o/v=9", &packet, &other),
        PublicationError::Manifest(ManifestError::BadSignature)
    );
    assert_eq!(
        new("/p/o/v=8", &packet, &publisher),
        PublicationError::Manifest(ManifestError::WrongName)
    );
    assert_eq!(new("/p/o/v=9", &packet[1..], &publisher), PublicationError::NotData);
    assert!(matches!(new("/p/o", &packet, &publisher), PublicationError::Prefix(_)));
}

/// A tree of any size; all bytes of its nodes are ones.
struct Huge(Geometry);

impl ObjectSource for Huge {
    type Error = Broken;
    fn geometry(&mut self, _: ObjectId) -> Option<Geometry> {
        Some(self.0)
    }
    fn read_content(&mut self, _: ObjectId, _: u64, out: &mut [u8]) -> Result<(), Broken> {
        out.fill(1);
        Ok(())
    }
    fn read_nodes(&mut self, _: ObjectId, slot: u64, out: &mut [u8]) -> Result<(), Broken> {
        assert!(slot + (out.len() / 32) as u64 <= self.0.slots());
        out.fill(1);
        Ok(())
    }
}

/// Every packet of the largest publications under the longest prefix is an NDN packet, and the
/// prefix could not be much longer.
#[test]
fn every_packet_is_within_the_limit() {
    // The component has 5 bytes of types and lengths around it, and the version has 8.
    let object = Name::from_iter([Component::generic(&[b'n'; MAX_PREFIX - 12])]);
    let prefix = naming::versioned(object.as_ref(), u64::MAX).unwrap();
    assert_eq!(prefix.as_ref().value().len(), MAX_PREFIX);
    let mut largest = 0;
    for log2 in 0..=SegmentSize::MAX_LOG2_CHUNKS {
        let segment = SegmentSize::from_log2_chunks(log2).unwrap();
        for less in [0, 1, 12345 * 1024 + 7] {
            let size = MAX_SEGMENTS * segment.bytes() as u64 - less;
            let geometry = Geometry::new(size, segment);
            let manifest = directory(Hash::from_bytes([1; 32]), size, segment);
            let mut publication = publish(&prefix, &manifest);
            let mut source = Huge(geometry);
            let last = geometry.segments() - 1;
            let mut requests = vec![];
            for object in [ObjectId::Root, ObjectId::File(u64::MAX)] {
                requests.extend([0, 1, 255, 256, 65535, 65536, last / 2, last - 1, last].map(
                    |index| PublicationRequest::Segment { object, index: SegmentIndex(index) },
                ));
                for tier in 0..2 {
                    let last = geometry.tiles(tier) - 1;
                    requests.extend([0, 255.min(last), 256.min(last), 65536.min(last), last].map(
                        |index| PublicationRequest::Tile { object, tile: Tile { tier, index } },
                    ));
                }
                assert_eq!(geometry.tiles(2), 0, "the manifest and two tiles are enough");
            }
            for request in requests {
                let name = naming::encode(prefix.as_ref(), &request);
                let (answer, packet) =
                    ask(&mut publication, &mut source, name.as_ref(), false).unwrap();
                assert_eq!(answer, ServeOutcome::Data, "{request:?}");
                largest = largest.max(packet.len());
            }
        }
    }
    assert!(largest <= MAX_PACKET, "{largest}");
    assert!(largest > MAX_PACKET - 16, "the limit on prefixes is tighter than need be: {largest}");
    assert_eq!(MAX_SEGMENTS * SegmentSize::DEFAULT.bytes() as u64, MAX_SIZE);
}

#[test]
fn packets_of_other_publications_are_refused() {
    let prefix = name("/o/v=1");
    let manifest_name = name("/o/v=1/_root");
    let geometry = Geometry::new(20 * 8192, SegmentSize::DEFAULT);
    let open = |uri: &str, typ, last: Option<u64>| {
        let name = name(uri);
        let mut builder = DataBuilder::new(name.as_ref())
            .signature(typ, KeyLocator::Name(manifest_name.as_ref()));
        if let Some(last) = last {
            builder = builder.final_block_id(Component::segment(last));
        }
        let mut packet = Vec::new();
        builder.encode(&mut packet, b"content", |_, out| out.extend([0; 32])).unwrap();
        let data = Data::decode(&packet).unwrap();
        packets::open(prefix.as_ref(), &data, |object| {
            (object == ObjectId::Root).then_some(geometry)
        })
        .map(|read| read.request)
    };
    let merkle = SignatureType::BLAKE3_MERKLE;
    let first = PublicationRequest::Segment { object: ObjectId::Root, index: SegmentIndex(0) };
    assert_eq!(open("/o/v=1/seg=0", merkle, Some(19)), Ok(first));
    assert_eq!(open("/o/v=1/seg=0", merkle, None), Ok(first));
    assert_eq!(open("/o/v=1/seg=0", merkle, Some(18)), Err(PacketError::FinalBlock));
    assert_eq!(
        open("/o/v=1/seg=0", SignatureType::DIGEST_SHA256, Some(19)),
        Err(PacketError::SignatureType(0))
    );
    for uri in ["/o/v=2/seg=0", "/o/v=1/_root", "/o/v=1/x", "/o/v=1/32=file/seq=0/seg=0"] {
        assert_eq!(open(uri, merkle, None), Err(PacketError::Name), "{uri}");
    }
}

/// After any flipped bit in a packet, the name is another, or the proof fails, or the change is in a part that no
/// getter trusts (MetaInfo, KeyLocator).
#[test]
fn flipped_bits_never_verify_as_other_content() {
    let bytes = noise(3 * 1024, 1);
    let segment = SegmentSize::from_log2_chunks(0).unwrap();
    let mut source = Memory::default();
    let root = source.add(ObjectId::Root, &bytes, segment);
    let manifest = Manifest { segment, ..Manifest::file(root, bytes.len() as u64, b"f") };
    let mut publication = publish(&name("/o/v=1"), &manifest);
    let asked = name("/o/v=1/seg=1");
    let (_, packet) = ask(&mut publication, &mut source, asked.as_ref(), false).unwrap();
    for bit in 0..packet.len() * 8 {
        let mut packet = packet.clone();
        packet[bit / 8] ^= 1 << (bit % 8);
        let Ok(data) = Data::decode(&packet) else { continue };
        let geometry = manifest.geometry();
        let Ok(read) = packets::open(name("/o/v=1").as_ref(), &data, |_| Some(geometry)) else {
            continue;
        };
        let PublicationRequest::Segment { index, .. } = read.request else { continue };
        if TreeVerifier::new(geometry, root).segment(index, read.content, read.proof).is_ok() {
            assert_eq!((index, read.content), (SegmentIndex(1), &bytes[1024..2048]), "bit {bit}");
        }
    }
}

const VALUES: &[&[u8]] = &[
    b"_root",
    b"tree",
    b"file",
    b"have",
    b"8 octets",
    b"metadata",
    b"\0",
    b"\x01",
    b"\0\0",
    b"\x01\0",
];

fn object_id() -> impl Strategy<Value = ObjectId> {
    prop_oneof![Just(ObjectId::Root), any::<u64>().prop_map(ObjectId::File)]
}

fn request() -> impl Strategy<Value = PublicationRequest> {
    prop_oneof![
        Just(PublicationRequest::Manifest),
        Just(PublicationRequest::Metadata),
        any::<[u8; 8]>().prop_map(|nonce| PublicationRequest::Have { nonce }),
        (object_id(), any::<u64>())
            .prop_map(|(object, n)| PublicationRequest::Segment { object, index: SegmentIndex(n) }),
        (object_id(), any::<u8>(), any::<u64>()).prop_map(|(object, tier, index)| {
            PublicationRequest::Tile { object, tile: Tile { tier, index } }
        }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn names_and_requests_are_each_other_s_inverse(request in request(), shift in 0u32..64, version in any::<u64>()) {
        // Smaller numbers take fewer bytes.
        let request = match request {
            PublicationRequest::Segment { object, index } => PublicationRequest::Segment { object, index: SegmentIndex(index.0 >> shift) },
            other => other,
        };
        let prefix = naming::versioned(name("/a/b").as_ref(), version >> shift).unwrap();
        let encoded = naming::encode(prefix.as_ref(), &request);
        prop_assert_eq!(naming::parse(prefix.as_ref(), encoded.as_ref()), Some(request));
        let longer = encoded.child(Component::segment(0));
        prop_assert_eq!(naming::parse(prefix.as_ref(), longer.as_ref()), None);
    }

    /// A parsed name is the only name of its request.
    #[test]
    fn parsed_names_are_canonical(tail in prop::collection::vec(
        (prop::sample::select(&[8u32, 32, 50, 58, 54][..]),
         prop::sample::select(VALUES)),
        0..6,
    )) {
        let prefix = name("/a/v=3");
        let mut asked = prefix.clone();
        for (typ, value) in tail {
            asked.push(Component::new(typ, value).unwrap());
        }
        if let Some(request) = naming::parse(prefix.as_ref(), asked.as_ref()) {
            prop_assert_eq!(naming::encode(prefix.as_ref(), &request), asked);
        }
    }

    #[test]
    fn default_names_are_short_enough(file_name in prop::collection::vec(any::<u8>(), 0..400)) {
        let object = naming::default_name(&key().public(), &file_name);
        prop_assert!(naming::versioned(object.as_ref(), u64::MAX).is_ok());
        let kept = object.as_ref().last().unwrap();
        let text = core::str::from_utf8(kept.value()).unwrap();
        prop_assert!(!text.is_empty() && !text.contains(|c: char| c.is_control() || c == '/'));
    }
}

#[test]
fn default_names_keep_valid_characters() {
    let id = key().public();
    for (file_name, kept) in [
        ("größe 1.tar.gz", "größe 1.tar.gz"),
        ("a/b\nc", "a_b_c"),
        ("", "_"),
        (&"ä".repeat(60), &"ä".repeat(48)),
    ] {
        let object = naming::default_name(&id, file_name.as_bytes());
        let uri = format!("/xylem/{}", id.key_id());
        assert_eq!(object, name(&uri).child(Component::generic(kept.as_bytes())));
    }
    assert_eq!(
        naming::default_name(&id, b"a\xffb").as_ref().last(),
        Some(Component::generic(b"a_b"))
    );
}
