//! Publications: making packets, parsing manifest, ticket and listing, and fetching a MiB.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::time::Duration;

use bytes::Bytes;
use xylem_hash::Hash;
use xylem_object::listing::{Entry, EntryKind, ListingWriter, entries};
use xylem_object::{
    Manifest, ObjectId, Packets, PublisherKey, Ticket, naming, produce, sign_manifest,
    verify_manifest,
};
use xylem_packet::{Data, Interest, Name};
use xylem_svs::{GroupMember, StateVector, SyncVersion};
use xylem_transfer::{PeerId, Transfer, TransferConfig, TransferEvent, TransferSpec};

use super::path::{Operation, Path, path};
use crate::input;

pub(super) const PATHS: &[Path] = &[
    path("object: the packets of 1 MiB", 1, packets),
    path("object: a manifest signed", 10, manifest_signed),
    path("object: a manifest verified", 10, manifest_verified),
    path("object: a ticket read", 100, ticket_read),
    path("object: a listing of 1,000 files written", 1, listing_written),
    path("object: a listing of 1,000 files read", 1, listing_read),
    path("sync: a vector of 100 members read and merged", 10, vector_merged),
    path("transfer: 1 MiB fetched of one peer, from manifest to last segment", 1, fetched),
];

const BYTES: usize = 1 << 20;
/// Interests sent before the first is answered.
const BATCH: usize = 64;

struct Publication {
    key: PublisherKey,
    prefix: Name,
    packets: Packets,
    manifest: Manifest,
}

impl Publication {
    fn new() -> Self {
        let key = PublisherKey::from_bytes(&[7; 32]);
        let object = naming::default_name(&key.public(), b"object.bin");
        let prefix = naming::versioned(object.as_ref(), 1_700_000_000_000_000).expect("short");
        let like = Manifest::file(Hash::from_bytes([0; 32]), 0, b"object.bin");
        let (content, mut packets) = (input::bytes(BYTES), Packets::default());
        let manifest = produce(&like, prefix.as_ref(), &content, key.signer(), &mut packets);
        Self { key, prefix, packets, manifest: manifest.expect("within all limits") }
    }
}

fn packets() -> Operation {
    let Publication { key, prefix, mut packets, manifest } = Publication::new();
    let content = input::bytes(BYTES);
    Box::new(move || {
        let content = black_box(&content);
        produce(&manifest, prefix.as_ref(), content, key.signer(), &mut packets)
            .expect("as before");
        black_box(&packets);
    })
}

fn manifest_signed() -> Operation {
    let Publication { key, prefix, manifest, .. } = Publication::new();
    Box::new(move || {
        black_box(sign_manifest(black_box(&manifest), prefix.as_ref(), &key).expect("as before"));
    })
}

fn manifest_verified() -> Operation {
    let Publication { key, prefix, packets, .. } = Publication::new();
    let (wire, publisher) =
        (packets.iter().next_back().expect("it is last").to_vec(), key.public());
    Box::new(move || {
        let data = Data::decode(black_box(&wire)).expect("a Data");
        black_box(verify_manifest(&data, prefix.as_ref(), &publisher).expect("signed above"));
    })
}

fn ticket_read() -> Operation {
    let Publication { key, prefix, manifest, .. } = Publication::new();
    let addresses = ["192.0.2.7:4000", "[2001:db8::7]:4000"].map(|at| at.parse().expect("one"));
    let ticket = Ticket {
        publisher: key.public(),
        root: manifest.root,
        name: Some(prefix),
        link_key: Some([5; 32]),
        size: Some(manifest.size),
        kind: Some(manifest.kind),
        addresses: addresses.to_vec(),
        relays: Vec::new(),
    };
    let text = ticket.to_string();
    Box::new(move || {
        black_box(black_box(&text).parse::<Ticket>().expect("written above"));
    })
}

/// In two folders, one in the other.
fn files() -> Vec<Entry> {
    let entry = |path: String, kind| Entry {
        path: path.into_bytes(),
        kind,
        mode: 0o644,
        mtime_s: 1_700_000_000,
        mtime_ns: 0,
    };
    let folders = ["a folder", "a folder/of files"];
    let folders = folders.map(|path| entry(path.to_owned(), EntryKind::Directory));
    let file = |n: u64| {
        let kind = EntryKind::File { size: n, root: Hash::from_bytes([7; 32]) };
        entry(format!("a folder/of files/number {n:06}, with a name.bin"), kind)
    };
    folders.into_iter().chain((0..1_000).map(file)).collect()
}

fn listing_of(files: &[Entry]) -> Vec<u8> {
    let mut listing = Vec::new();
    let mut writer = ListingWriter::new(|piece: &[u8]| listing.extend_from_slice(piece));
    files.iter().for_each(|file| writer.push(file).expect("in order"));
    writer.finish();
    listing
}

fn listing_written() -> Operation {
    let files = files();
    Box::new(move || {
        black_box(listing_of(black_box(&files)));
    })
}

fn listing_read() -> Operation {
    let listing = listing_of(&files());
    Box::new(move || {
        let read =
            entries(black_box(&listing)).map(|entry| entry.expect("written above").path.len());
        black_box(read.sum::<usize>());
    })
}

fn vector_merged() -> Operation {
    let mut vector = StateVector::new();
    for n in 0..100 {
        let name = Name::from_uri(&format!("/group/of/members/number-{n}")).expect("a name");
        vector.raise(GroupMember::new(name, 1_700_000_000), n + 1);
    }
    let mut wire = Vec::new();
    vector.encode(SyncVersion::V3, &mut wire);
    Box::new(move || {
        let read = StateVector::decode(black_box(&wire), SyncVersion::V3).expect("written above");
        vector.merge(&read);
    })
}

fn fetched() -> Operation {
    let Publication { key, prefix, packets, .. } = Publication::new();
    let by_name: BTreeMap<Vec<u8>, Bytes> = packets
        .iter()
        .map(|wire| {
            let name = Data::decode(wire).expect("a Data").name().value().to_vec();
            (name, Bytes::copy_from_slice(wire))
        })
        .collect();
    let spec = TransferSpec { prefix, publisher: key.public(), root: None, size: None };
    Box::new(move || fetch(&spec, &by_name))
}

fn fetch(spec: &TransferSpec, by_name: &BTreeMap<Vec<u8>, Bytes>) {
    let (peer, mut now) = (PeerId(0), Duration::ZERO);
    let mut transfer = Transfer::new(spec.clone(), TransferConfig::default(), 1);
    transfer.add_peer(now, peer);
    let (mut wire, mut answers) = (Vec::new(), Vec::with_capacity(BATCH));
    loop {
        while answers.len() < BATCH && transfer.poll_transmit(now, &mut wire).is_some() {
            let asked = Interest::decode(&wire).expect("an Interest");
            answers.push(by_name[asked.name().value()].clone());
        }
        now += Duration::from_micros(500);
        for answer in answers.drain(..) {
            transfer.handle_data(now, peer, answer);
        }
        while let Some(event) = transfer.poll_event() {
            match event {
                TransferEvent::Manifest { manifest, .. } => {
                    let (root, geometry, all) = (manifest.root, manifest.geometry(), 0..u64::MAX);
                    let added =
                        transfer.add_object(ObjectId::Root, root, geometry, Some(all), [], None);
                    added.expect("the first");
                }
                TransferEvent::ObjectComplete(_) => return,
                TransferEvent::Failed(reason) => panic!("{reason}"),
                other => {
                    black_box(other);
                }
            }
        }
        transfer.handle_timeout(now);
    }
}
