//! Manifests: round trips, strict parsing, and which keys may sign.

mod common;

use common::{key, name};
use proptest::prelude::*;
use xylem_hash::{Hash, hash};
use xylem_object::listing::{PathError, Totals};
use xylem_object::manifest::{MAX_MANIFEST, types};
use xylem_object::{
    Growing, MAX_SIZE, Manifest, ManifestError, PublicationKind, PublisherKey, UpdateSums, naming,
    sign_manifest, verify_manifest,
};
use xylem_packet::{Data, DataBuilder, Name, SignatureType, tlv};
use xylem_tree::{SegmentSize, TreeKind};

fn manifest() -> Manifest {
    Manifest {
        mtime_s: 1_700_000_000,
        mtime_ns: 5,
        ..Manifest::file(hash(b"hello"), 5, b"hello.txt")
    }
}

fn directory() -> Manifest {
    Manifest {
        kind: PublicationKind::Directory,
        mode: 0o755,
        total_size: 70_000,
        file_count: 300,
        file_name: b"docs".to_vec(),
        ..manifest()
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The vectors of docs/spec/object.md.
#[test]
fn the_specification_s_vectors() {
    assert_eq!(
        hex(&manifest().encode()),
        concat!(
            "810101",
            "830108",
            "850101",
            "870100",
            "890105",
            "8b0103",
            "8d20ea8f163db38682925e4491c5e58d4bb3506ef8c14eb78a86e908c5624a67200f",
            "920968656c6c6f2e747874",
            "940201a4",
            "9608000000006553f100",
            "980105",
        )
    );
    assert_eq!(
        hex(&directory().encode()),
        concat!(
            "810101",
            "830108",
            "850101",
            "870101",
            "890105",
            "8b0103",
            "8d20ea8f163db38682925e4491c5e58d4bb3506ef8c14eb78a86e908c5624a67200f",
            "8f0400011170",
            "9102012c",
            "9204646f6373",
            "940201ed",
            "9608000000006553f100",
            "980105",
        )
    );
    let prefix = name("/xylem/0871f3aabc26e458/hello.txt/v=1700000000000000");
    let packet = sign_manifest(&manifest(), prefix.as_ref(), &key()).unwrap();
    assert_eq!(
        hex(&packet),
        concat!(
            "06f80735080578796c656d081030383731663361616263323665343538080968656c6c6f2e74",
            "7874360800060a24181e400008055f726f6f74140419020fa015508101018301088501018701",
            "008901058b01038d20ea8f163db38682925e4491c5e58d4bb3506ef8c14eb78a86e908c5624a",
            "67200f920968656c6c6f2e747874940201a49608000000006553f10098010516251b01051c20",
            "071e080578796c656d08103038373166336161626332366534353808034b4559174041259717",
            "212c6e672c74c86556f4b10df2b494adcef7f5de7ebc5ae0552bdf927d2cdebf0f3ceb5b40f1",
            "059e5e19244026ed2abed9b08f3b65f43accda0a3f03",
        )
    );
}

/// The fields of a manifest as (type, value), for reassembly in other ways.
fn fields(manifest: &Manifest) -> Vec<(u32, Vec<u8>)> {
    let content = manifest.encode();
    let mut reader = tlv::TlvReader::new(&content);
    let mut fields = vec![];
    while let Some(element) = reader.next_element().unwrap() {
        fields.push((element.typ, element.value.to_vec()));
    }
    fields
}

fn joined(fields: &[(u32, Vec<u8>)]) -> Vec<u8> {
    let mut out = vec![];
    for (typ, value) in fields {
        tlv::write_element(&mut out, *typ, value);
    }
    out
}

#[test]
fn fields_stand_once_and_in_order() {
    for manifest in [manifest(), directory()] {
        let good = fields(&manifest);
        assert_eq!(Manifest::decode(&joined(&good)), Ok(manifest.clone()));
        for at in 0..good.len() {
            let typ = good[at].0;
            let mut less = good.clone();
            less.remove(at);
            match typ {
                types::FILE_NAME => assert!(Manifest::decode(&joined(&less)).is_ok()),
                _ => assert_eq!(Manifest::decode(&joined(&less)), Err(ManifestError::Missing(typ))),
            }
            let mut twice = good.clone();
            twice.insert(at, good[at].clone());
            assert_eq!(Manifest::decode(&joined(&twice)), Err(ManifestError::Misplaced(typ)));
            if at > 0 {
                let mut swapped = good.clone();
                swapped.swap(at - 1, at);
                assert!(Manifest::decode(&joined(&swapped)).is_err());
            }
        }
        for (new, skipped) in [
            (0x1e, false),
            (0x1f, false),
            (0x20, true),
            (0x21, false),
            (0x80, true),
            (0x82, true),
            (0x90, true),
            (0x93, false),
            (0x97, false),
            (0x99, false),
            (0x9b, false),
            (0xa0, true),
            (0xffff, false),
        ] {
            let mut more = good.clone();
            more.insert(good.partition_point(|(typ, _)| *typ < new), (new, vec![1]));
            let expected = match skipped {
                true => Ok(manifest.clone()),
                false => Err(ManifestError::UnknownCritical(new)),
            };
            assert_eq!(Manifest::decode(&joined(&more)), expected);
        }
    }
    let mut mixed = fields(&manifest());
    mixed.insert(7, (types::TOTAL_SIZE, vec![5]));
    assert_eq!(
        Manifest::decode(&joined(&mixed)),
        Err(ManifestError::Misplaced(types::TOTAL_SIZE)),
        "a file has no total but its size"
    );
}

#[test]
fn values_are_checked() {
    use types::*;
    let name = |name: &[u8]| (FILE_NAME, name.to_vec());
    let too_large = ManifestError::TooLarge { size: MAX_SIZE + 1, max: MAX_SIZE };
    let unknown = |field, value| ManifestError::UnknownFormat { field, value };
    let table: &[((u32, Vec<u8>), ManifestError)] = &[
        ((FORMAT_VERSION, vec![2]), unknown(FORMAT_VERSION, 2)),
        ((TREE_KIND, vec![7]), unknown(TREE_KIND, 7)),
        ((TREE_KIND, vec![10]), unknown(TREE_KIND, 10)),
        ((PROOF_STYLE, vec![0]), unknown(PROOF_STYLE, 0)),
        ((KIND, vec![2]), ManifestError::BadValue(KIND)),
        ((KIND, vec![]), ManifestError::BadValue(KIND)),
        ((KIND, vec![0, 0]), ManifestError::BadValue(KIND)),
        ((SIZE, vec![0; 3]), ManifestError::BadValue(SIZE)),
        ((SIZE, vec![0, 5]), ManifestError::BadValue(SIZE)),
        ((SIZE, (MAX_SIZE + 1).to_be_bytes().to_vec()), too_large),
        ((SEGMENT_LOG2, vec![4]), ManifestError::BadValue(SEGMENT_LOG2)),
        ((SEGMENT_LOG2, vec![1, 3]), ManifestError::BadValue(SEGMENT_LOG2)),
        ((ROOT, vec![0; 31]), ManifestError::BadValue(ROOT)),
        ((ROOT, vec![0; 33]), ManifestError::BadValue(ROOT)),
        (name(b"../x"), ManifestError::FileName(PathError::EmptyComponent)),
        (name(b".."), ManifestError::FileName(PathError::DotDot)),
        (name(b"."), ManifestError::FileName(PathError::Dot)),
        (name(b"a\0"), ManifestError::FileName(PathError::Nul)),
        (name(b".x.xylem-part"), ManifestError::FileName(PathError::Reserved)),
        (name(&[b'x'; 256]), ManifestError::FileName(PathError::ComponentTooLong)),
        ((MODE, vec![2, 0]), ManifestError::BadValue(MODE)),
        ((MTIME_S, vec![0; 7]), ManifestError::BadValue(MTIME_S)),
        ((MTIME_NS, 1_000_000_000u32.to_be_bytes().to_vec()), ManifestError::BadValue(MTIME_NS)),
    ];
    for (field, error) in table {
        let mut fields = fields(&directory());
        *fields.iter_mut().find(|(typ, _)| typ == &field.0).unwrap() = field.clone();
        assert_eq!(Manifest::decode(&joined(&fields)).as_ref(), Err(error), "{field:02x?}");
    }
    let mut empty_name = fields(&manifest());
    empty_name.iter_mut().find(|(typ, _)| *typ == FILE_NAME).unwrap().1.clear();
    assert_eq!(
        Manifest::decode(&joined(&empty_name)),
        Err(ManifestError::BadValue(FILE_NAME)),
        "no name is said by leaving the field out"
    );
    assert_eq!(Manifest::decode(&vec![0; MAX_MANIFEST + 1]), Err(ManifestError::TooLong));
    assert_eq!(Manifest::decode(b""), Err(ManifestError::Missing(FORMAT_VERSION)));
    assert_eq!(Manifest::decode(&[0x81, 2, 1]), Err(ManifestError::BadTlv));
    assert_eq!(Manifest::decode(&[0xfd, 0, 0x81, 1, 1]), Err(ManifestError::BadTlv));
}

#[test]
fn the_largest_object_depends_on_the_segment() {
    let kib = SegmentSize::from_log2_chunks(0).unwrap();
    for (segment, max) in [(SegmentSize::DEFAULT, MAX_SIZE), (kib, MAX_SIZE / 8)] {
        let of = |size| Manifest { segment, ..Manifest::file(hash(b""), size, b"") };
        assert_eq!(of(max).check(), Ok(()));
        let error = ManifestError::TooLarge { size: max + 1, max };
        assert_eq!(of(max + 1).check(), Err(error));
        assert_eq!(sign_manifest(&of(max + 1), name("/o/v=1").as_ref(), &key()), Err(error));
    }
}

#[test]
fn only_the_publisher_s_signature_counts() {
    let prefix = name("/p/o/v=9");
    let packet = sign_manifest(&manifest(), prefix.as_ref(), &key()).unwrap();
    let verify = |packet: &[u8], prefix: &Name, key: &PublisherKey| {
        let data = Data::decode(packet).unwrap();
        verify_manifest(&data, prefix.as_ref(), &key.public())
    };
    assert_eq!(verify(&packet, &prefix, &key()), Ok(manifest()));
    let other = PublisherKey::from_bytes(&[8; 32]);
    assert_eq!(verify(&packet, &prefix, &other), Err(ManifestError::BadSignature));
    assert_eq!(verify(&packet, &name("/p/o/v=8"), &key()), Err(ManifestError::WrongName));

    let root = naming::encode(prefix.as_ref(), &naming::PublicationRequest::Manifest);
    let forge = |typ, sign: &dyn Fn(&[u8]) -> Vec<u8>| {
        let mut packet = vec![];
        DataBuilder::new(root.as_ref())
            .signature(typ, None)
            .encode(&mut packet, &manifest().encode(), |signed, out| out.extend(sign(signed)))
            .unwrap();
        verify(&packet, &prefix, &key())
    };
    let ed25519 = SignatureType::ED25519;
    let sign = |key: &PublisherKey, signed: &[u8]| key.signer().sign(&[signed]).as_ref().to_vec();
    assert_eq!(
        forge(SignatureType::DIGEST_SHA256, &|signed| xylem_packet::sha256(signed).to_vec()),
        Err(ManifestError::SignatureType(0))
    );
    assert_eq!(forge(ed25519, &|_| vec![]), Err(ManifestError::BadSignature));
    assert_eq!(forge(ed25519, &|_| vec![0; 64]), Err(ManifestError::BadSignature));
    assert_eq!(forge(ed25519, &|s| sign(&other, s)), Err(ManifestError::BadSignature));
    let overlong = |s: &[u8]| [&sign(&key(), s)[..], &[0]].concat();
    assert_eq!(forge(ed25519, &overlong), Err(ManifestError::BadSignature));
    assert_eq!(forge(ed25519, &|s| sign(&key(), s)), Ok(manifest()), "any KeyLocator");
}

#[test]
fn every_flipped_bit_is_noticed() {
    let prefix = name("/p/o/v=9");
    let packet = sign_manifest(&directory(), prefix.as_ref(), &key()).unwrap();
    for bit in 0..packet.len() * 8 {
        let mut packet = packet.clone();
        packet[bit / 8] ^= 1 << (bit % 8);
        let Ok(data) = Data::decode(&packet) else { continue };
        assert!(verify_manifest(&data, prefix.as_ref(), &key().public()).is_err(), "bit {bit}");
    }
}

#[test]
fn manifests_out_of_range_cannot_be_signed() {
    let sign = |manifest: Manifest, prefix: &str| {
        sign_manifest(&manifest, name(prefix).as_ref(), &key()).map(|_| ())
    };
    assert_eq!(sign(manifest(), "/o/v=1"), Ok(()));
    let mode = Manifest { mode: 0o1000, ..manifest() };
    assert_eq!(sign(mode, "/o/v=1"), Err(ManifestError::BadValue(types::MODE)));
    let nanos = Manifest { mtime_ns: 1_000_000_000, ..manifest() };
    assert_eq!(sign(nanos, "/o/v=1"), Err(ManifestError::BadValue(types::MTIME_NS)));
    let total = Manifest { total_size: 6, ..manifest() };
    assert_eq!(sign(total, "/o/v=1"), Err(ManifestError::BadValue(types::TOTAL_SIZE)));
    let count = Manifest { file_count: 2, ..manifest() };
    assert_eq!(sign(count, "/o/v=1"), Err(ManifestError::BadValue(types::FILE_COUNT)));
    let path = Manifest { file_name: b"a/b".to_vec(), ..manifest() };
    assert!(matches!(sign(path, "/o/v=1"), Err(ManifestError::FileName(_))));
    assert_eq!(sign(manifest(), "/o"), Err(ManifestError::Prefix(naming::PrefixError::NoVersion)));
}

#[test]
fn only_files_grow() {
    let growing = Some(Growing { number: 3, last: true });
    let file = Manifest { growing, ..manifest() };
    let plain = manifest().encode();
    let added = file.encode().split_off(plain.len());
    assert_eq!(hex(&added), "9a09010000000000000003");
    assert_eq!(Manifest::decode(&file.encode()), Ok(file));
    for value in [&[][..], &[0; 8], &[2, 0, 0, 0, 0, 0, 0, 0, 3]] {
        let mut content = plain.clone();
        tlv::write_element(&mut content, types::GROWING, value);
        assert_eq!(Manifest::decode(&content), Err(ManifestError::BadValue(types::GROWING)));
    }
    let directory = Manifest { growing, ..directory() };
    let misplaced = Err(ManifestError::Misplaced(types::GROWING));
    assert_eq!(Manifest::decode(&directory.encode()), misplaced);
}

/// Root and size of the list of sums, in 40 bytes; there is no empty one.
#[test]
fn sums_are_a_field_of_their_own() {
    let root = hash(b"a list");
    let plain = directory().encode();
    let with = Manifest { sums: Some(UpdateSums { root, size: 258 }), ..directory() };
    let added = with.encode().split_off(plain.len());
    assert_eq!(hex(&added), format!("9c28{root}0000000000000102"));
    assert_eq!(Manifest::decode(&with.encode()), Ok(with));
    for value in [&[][..], &[7; 39], &[7; 41], &[0; 40]] {
        let mut content = plain.clone();
        tlv::write_element(&mut content, types::SUMS, value);
        assert_eq!(Manifest::decode(&content), Err(ManifestError::BadValue(types::SUMS)));
    }
}

#[test]
fn a_listing_must_hold_what_was_signed() {
    let totals = Totals { entries: 400, files: 300, bytes: 70_000 };
    let of = Manifest::directory(hash(b""), 9, totals, b"docs");
    assert_eq!(of.check_totals(totals), Ok(()));
    for other in [Totals { files: 301, ..totals }, Totals { bytes: 69_999, ..totals }] {
        assert_eq!(of.check_totals(other), Err(ManifestError::Totals));
    }
}

prop_compose! {
    fn any_manifest()(
        directory in any::<bool>(),
        sha256 in any::<bool>(),
        root in any::<[u8; 32]>(),
        size in 0..=MAX_SIZE / 8,
        shift in 0u32..42,
        log2 in 0u8..4,
        file_name in "[a-zäß .]{0,40}x",
        named in any::<bool>(),
        mode in 0u32..0o1000,
        mtime_s in any::<i64>(),
        mtime_ns in 0u32..1_000_000_000,
        totals in any::<(u64, u64)>(),
        growing in prop::option::of((any::<u64>(), any::<bool>())),
        sums in prop::option::of((any::<[u8; 32]>(), 1..MAX_SIZE)),
        sealed in any::<bool>(),
    ) -> Manifest {
        let size = size >> shift;
        let (total_size, file_count) = if directory { totals } else { (size, 1) };
        Manifest {
            kind: if directory { PublicationKind::Directory } else { PublicationKind::File },
            tree: TreeKind::ALL[usize::from(sha256)],
            root: Hash::from_bytes(root),
            size,
            segment: SegmentSize::from_log2_chunks(log2).unwrap(),
            file_name: if named { file_name.into_bytes() } else { vec![] },
            mode,
            mtime_s,
            mtime_ns,
            total_size,
            file_count,
            growing: growing
                .filter(|_| !directory)
                .map(|(number, last)| Growing { number, last }),
            sums: sums.map(|(root, size)| UpdateSums { root: Hash::from_bytes(root), size }),
            sealed: sealed && directory,
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn round_trips(manifest in any_manifest()) {
        prop_assert_eq!(Manifest::decode(&manifest.encode()), Ok(manifest));
    }

    /// An accepted encoding without skipped fields is the manifest's only encoding.
    #[test]
    fn accepted_manifests_are_canonical(manifest in any_manifest(), at in any::<prop::sample::Index>(), bit in 0u8..8) {
        let mut content = manifest.encode();
        let at = at.index(content.len());
        content[at] ^= 1 << bit;
        if let Ok(read) = Manifest::decode(&content) {
            let mut reader = tlv::TlvReader::new(&content);
            let mut known = true;
            while let Ok(Some(element)) = reader.next_element() {
                known &= element.typ % 2 == 1 || (types::FILE_NAME..=types::SEALED).contains(&element.typ);
            }
            if known {
                prop_assert_eq!(read.encode(), content);
            }
        }
    }
}
