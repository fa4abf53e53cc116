//! Attacks of a hostile peer on a publication's packets. A getter then accepts nothing, or the publisher's own bytes.
//! The first test is an attack that succeeded against another program: its FinalBlockId cuts a file short, under a
//! manifest without a signature.

mod common;

use common::{Memory, ask, key, name};
use xylem_object::naming::{self, PublicationRequest};
use xylem_object::packets::{self, PacketError, signature_type};
use xylem_object::{
    Manifest, ManifestError, ObjectId, Publication, PublisherKey, ServeOutcome, sign_manifest,
    sign_manifest_with, verify_manifest, verify_manifest_with,
};
use xylem_packet::tlv::types::{CONTENT, DATA, META_INFO, SIGNATURE_INFO, SIGNATURE_VALUE};
use xylem_packet::tlv::{TlvReader, write_element};
use xylem_packet::{Component, Data, DataBuilder, KeyLocator, Name, SignatureType};
use xylem_sim::noise;
use xylem_tree::{ProofError, SegmentIndex, SegmentSize, Tile, TreeKind, TreeVerifier};
use xylem_trust::{Signer, TrustError, generate_ecdsa_p256};

const KIB: SegmentSize = match SegmentSize::from_log2_chunks(0) {
    Some(size) => size,
    None => unreachable!(),
};

/// Why a fetch ended.
#[derive(Debug, PartialEq, Eq)]
enum Refused {
    Manifest(ManifestError),
    Packet(PacketError),
    Proof(ProofError),
    Missing,
}

/// A publication and all packets that an honest sharer sends.
struct Published {
    prefix: Name,
    manifest: Manifest,
    content: Vec<u8>,
    manifest_packet: Vec<u8>,
    tile: Option<Vec<u8>>,
    segments: Vec<Vec<u8>>,
}

impl Published {
    fn new(uri: &str, tree: TreeKind, content: Vec<u8>) -> Self {
        let prefix = name(uri);
        let mut source = Memory::default();
        let root = source.add_kind(ObjectId::Root, &content, KIB, tree);
        let size = content.len() as u64;
        let manifest = Manifest { tree, segment: KIB, ..Manifest::file(root, size, b"f") };
        let manifest_packet = sign_manifest(&manifest, prefix.as_ref(), &key()).unwrap();
        let publication =
            Publication::new(prefix.clone(), manifest_packet.clone(), &key().public());
        let mut publication = publication.unwrap();
        let mut get = |request| {
            let asked = naming::encode(prefix.as_ref(), &request);
            let (answer, packet) =
                ask(&mut publication, &mut source, asked.as_ref(), false).unwrap();
            (answer == ServeOutcome::Data).then_some(packet)
        };
        let object = ObjectId::Root;
        let tile = get(PublicationRequest::Tile { object, tile: Tile { tier: 0, index: 0 } });
        let segments = (0..manifest.geometry().segments())
            .map(|i| get(PublicationRequest::Segment { object, index: SegmentIndex(i) }).unwrap())
            .collect();
        Self { prefix, manifest, content, manifest_packet, tile, segments }
    }

    /// Fetches the object as docs/spec/object.md specifies, from `segments`, however many there are.
    fn fetch(&self, manifest: &[u8], segments: &[Vec<u8>]) -> Result<Vec<u8>, Refused> {
        let prefix = self.prefix.as_ref();
        let data = Data::decode(manifest).unwrap();
        let manifest =
            verify_manifest(&data, prefix, &key().public()).map_err(Refused::Manifest)?;
        let geometry = manifest.geometry();
        let mut verifier = TreeVerifier::new(geometry, manifest.root);
        let mut open = |packet: &[u8]| {
            let data = Data::decode(packet).unwrap();
            let read = packets::open(prefix, &data, |_| Some(geometry)).map_err(Refused::Packet)?;
            match read.request {
                PublicationRequest::Tile { tile, .. } => {
                    verifier.tile(tile, read.content, read.proof).map_err(Refused::Proof)?;
                    Ok((None, vec![]))
                }
                PublicationRequest::Segment { index, .. } => {
                    let segment = verifier.segment(index, read.content, read.proof);
                    let segment = segment.map_err(Refused::Proof)?;
                    Ok((Some(index.0), segment.content.to_vec()))
                }
                other => unreachable!("{other:?} is not opened here"),
            }
        };
        if let Some(tile) = &self.tile {
            open(tile)?;
        }
        let mut whole = Vec::new();
        for (i, packet) in segments.iter().enumerate() {
            let (index, content) = open(packet)?;
            assert_eq!(index, Some(i as u64));
            whole.extend(content);
        }
        // The signed size determines the number of segments, whatever the packets claim.
        if whole.len() as u64 == manifest.size { Ok(whole) } else { Err(Refused::Missing) }
    }
}

fn publications() -> impl Iterator<Item = Published> {
    let content = noise(100_000, 1);
    TreeKind::ALL.into_iter().map(move |tree| Published::new("/p/o/v=9", tree, content.clone()))
}

/// A packet with one of its elements replaced by another of the same type.
fn with(packet: &[u8], element: u32, value: &[u8]) -> Vec<u8> {
    let mut outer = TlvReader::new(packet);
    let mut reader = TlvReader::new(outer.next_element().unwrap().unwrap().value);
    let mut inside = Vec::new();
    let mut found = false;
    while let Some(old) = reader.next_element().unwrap() {
        found |= old.typ == element;
        write_element(&mut inside, old.typ, if old.typ == element { value } else { old.value });
    }
    assert!(found, "there is such an element to replace");
    let mut out = Vec::new();
    write_element(&mut out, DATA, &inside);
    out
}

fn with_final_block(packet: &[u8], last: u64) -> Vec<u8> {
    let mut component = Vec::new();
    Component::segment(last).encode(&mut component);
    let mut meta = Vec::new();
    write_element(&mut meta, xylem_packet::tlv::types::FINAL_BLOCK_ID, &component);
    with(packet, META_INFO, &meta)
}

#[test]
fn a_file_cut_short_by_its_final_block_id_is_refused() {
    for honest in publications() {
        assert_eq!(
            honest.fetch(&honest.manifest_packet, &honest.segments).unwrap(),
            honest.content
        );
        let last = 7; // 8 of 98 segments
        let cut: Vec<_> =
            honest.segments[..8].iter().map(|packet| with_final_block(packet, last)).collect();

        let mut broken = honest.manifest_packet.clone();
        *broken.last_mut().unwrap() ^= 1;
        let nothing = Err(Refused::Manifest(ManifestError::BadSignature));
        assert_eq!(honest.fetch(&broken, &cut), nothing, "the seen attack");
        assert_eq!(honest.fetch(&broken, &honest.segments), nothing);
        let got = honest.fetch(&honest.manifest_packet, &cut);
        assert_eq!(got, Err(Refused::Packet(PacketError::FinalBlock)));
        // A getter that ignores FinalBlockId and stops early does not have the file either.
        let got = honest.fetch(&honest.manifest_packet, &honest.segments[..8]);
        assert_eq!(got, Err(Refused::Missing));
    }
}

#[test]
fn a_smaller_size_needs_the_publishers_signature() {
    for honest in publications() {
        let size = 8 * 1024;
        let smaller = Manifest { size, total_size: size, ..honest.manifest.clone() };
        let encoded = smaller.encode();
        let altered = with(&honest.manifest_packet, CONTENT, &encoded);
        let bad = Err(Refused::Manifest(ManifestError::BadSignature));
        assert_eq!(honest.fetch(&altered, &honest.segments[..8]), bad);
        let other = PublisherKey::from_bytes(&[8; 32]);
        let signed = sign_manifest(&smaller, honest.prefix.as_ref(), &other).unwrap();
        assert_eq!(honest.fetch(&signed, &honest.segments[..8]), bad);
    }
}

#[test]
fn every_final_block_id_but_the_signed_one_is_refused() {
    for honest in publications() {
        let geometry = honest.manifest.geometry();
        for last in [0, 1, 50, 96, 97, 98, 99, u64::MAX] {
            let packet = with_final_block(&honest.segments[50], last);
            let data = Data::decode(&packet).unwrap();
            let got = packets::open(honest.prefix.as_ref(), &data, |_| Some(geometry));
            assert_eq!(got.is_ok(), last == 97, "{last}");
        }
        // A FinalBlockId that is no segment number is refused too.
        let mut meta = Vec::new();
        let mut component = Vec::new();
        Component::generic(b"97").encode(&mut component);
        write_element(&mut meta, xylem_packet::tlv::types::FINAL_BLOCK_ID, &component);
        let packet = with(&honest.segments[50], META_INFO, &meta);
        let got = packets::open(honest.prefix.as_ref(), &Data::decode(&packet).unwrap(), |_| {
            Some(geometry)
        });
        assert_eq!(got, Err(PacketError::FinalBlock));
    }
}

#[test]
fn a_segment_under_another_number_or_name_is_refused() {
    for honest in publications() {
        let swap = |a: usize, b: usize| {
            let mut segments = honest.segments.clone();
            let renamed = |to: usize, from: usize| {
                let data = Data::decode(&honest.segments[to]).unwrap();
                with(&honest.segments[from], xylem_packet::tlv::types::NAME, data.name().value())
            };
            (segments[a], segments[b]) = (renamed(a, b), renamed(b, a));
            honest.fetch(&honest.manifest_packet, &segments)
        };
        for (a, b) in [(0, 1), (0, 8), (3, 50), (6, 7), (90, 96)] {
            assert!(matches!(swap(a, b), Err(Refused::Proof(_))), "{a} and {b}");
        }
        assert!(matches!(swap(0, 97), Err(Refused::Proof(ProofError::WrongLength { .. }))));
        // The same segment of another publication, under this one's name.
        let mut content = honest.content.clone();
        content[0] ^= 1;
        let other = Published::new("/p/o/v=9", honest.manifest.tree, content);
        let got = honest.fetch(&honest.manifest_packet, &other.segments);
        assert!(matches!(got, Err(Refused::Proof(_))));
        let elsewhere = Published::new("/p/o/v=8", honest.manifest.tree, honest.content.clone());
        let got = honest.fetch(&honest.manifest_packet, &elsewhere.segments);
        assert_eq!(got, Err(Refused::Packet(PacketError::Name)));
        let got = honest.fetch(&elsewhere.manifest_packet, &honest.segments);
        assert_eq!(got, Err(Refused::Manifest(ManifestError::WrongName)));
    }
}

#[test]
fn a_proof_of_any_but_the_right_length_is_refused() {
    for honest in publications() {
        for i in [0, 50, 97] {
            let data = Data::decode(&honest.segments[i]).unwrap();
            let proof = data.signature_value();
            for len in (0..=proof.len() + 65).filter(|len| *len != proof.len()) {
                let mut wrong = proof.to_vec();
                wrong.resize(len, 0);
                let mut segments = honest.segments.clone();
                segments[i] = with(&honest.segments[i], SIGNATURE_VALUE, &wrong);
                let expected = ProofError::ProofLength { expected: proof.len(), got: len };
                let got = honest.fetch(&honest.manifest_packet, &segments);
                assert_eq!(got, Err(Refused::Proof(expected)));
            }
        }
    }
}

/// A packet with a signature type other than that of the signed kind of tree, and every value that the type could have.
#[test]
fn only_the_trees_own_signature_type_is_accepted() {
    for honest in publications() {
        let own = signature_type(honest.manifest.tree);
        let data = Data::decode(&honest.segments[3]).unwrap();
        let manifest_name = name("/p/o/v=9/_root");
        for typ in (0..=10).map(SignatureType).filter(|typ| *typ != own) {
            let builder = DataBuilder::new(data.name())
                .signature(typ, KeyLocator::Name(manifest_name.as_ref()));
            for value in [data.signature_value().to_vec(), vec![], vec![0; 32]] {
                let mut packet = Vec::new();
                builder.encode(&mut packet, data.content(), |_, out| out.extend(&value)).unwrap();
                let mut segments = honest.segments.clone();
                segments[3] = packet;
                let got = honest.fetch(&honest.manifest_packet, &segments);
                assert_eq!(got, Err(Refused::Packet(PacketError::SignatureType(typ.0))));
            }
            // A valid digest of the packet proves nothing about the publication.
            for digest in [Signer::digest_sha256(), Signer::digest_blake3()] {
                let mut segments = honest.segments.clone();
                segments[3] = Vec::new();
                let builder = DataBuilder::new(data.name());
                digest.data(builder, data.content(), &mut segments[3]).unwrap();
                let got = honest.fetch(&honest.manifest_packet, &segments);
                let expected = PacketError::SignatureType(digest.typ().0);
                assert_eq!(got, Err(Refused::Packet(expected)));
            }
        }
    }
}

/// Conversely, a verifier of digests or keys accepts no segment or tile.
#[test]
fn a_proof_is_never_taken_for_a_digest() {
    for honest in publications() {
        let own = signature_type(honest.manifest.tree);
        let one = Published::new("/p/o/v=9", honest.manifest.tree, b"short".to_vec());
        for packet in [&honest.segments[0], honest.tile.as_ref().unwrap(), &one.segments[0]] {
            let data = Data::decode(packet).unwrap();
            for verifier in [
                xylem_trust::Verifier::digest_sha256(),
                xylem_trust::Verifier::digest_blake3(),
                xylem_trust::Verifier::blake3_keyed([0; 32]),
                xylem_trust::Verifier::hmac(b""),
                key().public().verifier().unwrap(),
            ] {
                let expected = TrustError::WrongType { expected: verifier.typ(), found: own };
                assert_eq!(verifier.data(&data), Err(expected));
            }
        }
    }
}

/// Neither a proof nor a digest can stand for the manifest's signature.
#[test]
fn a_manifest_needs_a_key() {
    for honest in publications() {
        let prefix = honest.prefix.as_ref();
        for digest in [Signer::digest_sha256(), Signer::digest_blake3()] {
            let typ = digest.typ().0;
            let got = sign_manifest_with(&honest.manifest, prefix, &digest);
            assert_eq!(got, Err(ManifestError::SignatureType(typ)));
            let root = name("/p/o/v=9/_root");
            let mut packet = Vec::new();
            digest
                .data(DataBuilder::new(root.as_ref()), &honest.manifest.encode(), &mut packet)
                .unwrap();
            let got = honest.fetch(&packet, &honest.segments);
            assert_eq!(got, Err(Refused::Manifest(ManifestError::SignatureType(typ))));
            let data = Data::decode(&packet).unwrap();
            for verifier in
                [xylem_trust::Verifier::digest_sha256(), xylem_trust::Verifier::digest_blake3()]
            {
                let got = verify_manifest_with(&data, prefix, &verifier);
                assert_eq!(got, Err(ManifestError::SignatureType(verifier.typ().0)));
            }
        }
        for typ in [8u8, 9] {
            let info = [0x1b, 1, typ];
            let packet = with(&honest.manifest_packet, SIGNATURE_INFO, &info);
            let expected = ManifestError::SignatureType(u64::from(typ));
            assert_eq!(honest.fetch(&packet, &honest.segments), Err(Refused::Manifest(expected)));
        }
    }
}

/// Every kind of key can sign a manifest. Its own verifier accepts it and no other does.
#[test]
fn manifests_are_signed_by_any_key_and_verified_by_that_one() {
    let locator = || name("/alice/KEY/1");
    let pkcs8 = generate_ecdsa_p256().unwrap();
    let public = |signer: &Signer| xylem_trust::Verifier::of(&signer.public().unwrap()).unwrap();
    let ed25519 = Signer::ed25519(&[3; 32], locator());
    let other = Signer::ed25519(&[4; 32], locator());
    let ecdsa = Signer::ecdsa_p256(&pkcs8, locator()).unwrap();
    let signers = [
        (public(&ed25519), ed25519),
        (public(&ecdsa), ecdsa),
        (public(&other), other),
        (xylem_trust::Verifier::hmac(b"shared"), Signer::hmac(b"shared", locator())),
        (xylem_trust::Verifier::blake3_keyed([5; 32]), Signer::blake3_keyed([5; 32], locator())),
    ];
    for honest in publications() {
        let prefix = honest.prefix.as_ref();
        for (n, (own, signer)) in signers.iter().enumerate() {
            let packet = sign_manifest_with(&honest.manifest, prefix, signer).unwrap();
            let data = Data::decode(&packet).unwrap();
            assert_eq!(data.signature_info().typ, own.typ());
            for (m, (verifier, _)) in signers.iter().enumerate() {
                let got = verify_manifest_with(&data, prefix, verifier);
                let expected = match (n == m, own.typ() == verifier.typ()) {
                    (true, _) => Ok(honest.manifest.clone()),
                    (false, true) => Err(ManifestError::BadSignature),
                    (false, false) => Err(ManifestError::SignatureType(own.typ().0)),
                };
                assert_eq!(got, expected, "{signer:?} held against {verifier:?}");
            }
            let served = Publication::verified_by(honest.prefix.clone(), packet, own).unwrap();
            let mut served = served.with_metadata_by(signer);
            let asked = name("/p/o/32=metadata");
            let (answer, packet) =
                ask(&mut served, &mut Memory::default(), asked.as_ref(), true).unwrap();
            assert_eq!(answer, ServeOutcome::Data);
            assert_eq!(own.data(&Data::decode(&packet).unwrap()), Ok(()));
        }
    }
}
