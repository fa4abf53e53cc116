//! Signed manifests of fetched content. With them this node can serve the content as its publisher's own publication
//! when the publisher is gone.
//!
//! `objects/<root>.manifest` in the store contains Data packets, one after the other, the latest first: one root may
//! have been published more than once. A packet is trusted only after its signature is verified with the key of a
//! ticket. This module does not know where content lies.

use xylem_hash::Hash;
use xylem_object::naming::key_name;
use xylem_object::{Manifest, PublisherId, Ticket, verify_manifest};
use xylem_packet::tlv::TlvReader;
use xylem_packet::{Data, KeyLocator, MAX_PACKET, Name};
use xylem_store::{ObjectPart, Objects, Store, StoreError};

/// Most publications of one root stored.
const MOST: usize = 8;
/// Longest file, bytes: that many packets.
const MAX_BYTES: u64 = (MOST * MAX_PACKET) as u64;

/// A publication with its publisher's signature.
#[derive(Clone, Debug)]
pub struct SignedPublication {
    /// The versioned prefix.
    pub prefix: Name,
    /// The signed packet.
    pub packet: Vec<u8>,
    /// The manifest in it.
    pub manifest: Manifest,
    /// The publisher that signed it.
    pub publisher: PublisherId,
}

/// Stores the signed manifest of the content with this root.
///
/// # Errors
/// The store's.
pub fn keep(store: &Store, root: &Hash, packet: &[u8]) -> Result<(), StoreError> {
    // An unreadable file is replaced.
    let old = store.object_bytes(root, ObjectPart::Manifest, MAX_BYTES).ok().flatten();
    let old = old.unwrap_or_default();
    let mut all = vec![packet];
    all.extend(packets(&old).filter(|known| *known != packet).take(MOST - 1));
    let all = all.concat();
    if all == old { Ok(()) } else { store.put(root, ObjectPart::Manifest, &all) }
}

/// Returns the stored manifest of `root` by `publisher`: the one under `name` if a ticket gives it, otherwise the one
/// stored last.
pub fn find(
    store: &Store,
    root: &Hash,
    publisher: &PublisherId,
    name: Option<&Name>,
) -> Option<SignedPublication> {
    let bytes = store.object_bytes(root, ObjectPart::Manifest, MAX_BYTES).ok().flatten()?;
    find_in(&bytes, root, publisher, name)
}

/// Like [`find`], in the bytes of a file stored elsewhere.
pub fn find_in(
    bytes: &[u8],
    root: &Hash,
    publisher: &PublisherId,
    name: Option<&Name>,
) -> Option<SignedPublication> {
    packets(bytes).find_map(|packet| {
        let data = Data::decode(packet).ok()?;
        let prefix = data.name().parent();
        if name.is_some_and(|name| name.as_ref() != prefix) {
            return None;
        }
        let manifest = verify_manifest(&data, prefix, publisher).ok()?;
        let prefix = prefix.to_name();
        let (packet, publisher) = (packet.to_vec(), *publisher);
        (manifest.root == *root).then_some(SignedPublication {
            prefix,
            packet,
            manifest,
            publisher,
        })
    })
}

/// Splits a file into packets, as far as it is well-formed.
fn packets(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut reader = TlvReader::new(bytes);
    std::iter::from_fn(move || {
        let start = reader.position();
        reader.next_element().ok().flatten()?;
        bytes.get(start..reader.position())
    })
}

/// Returns what is wrong with the stored manifests of `root`. A signature is verified if a ticket of its publisher is
/// given; otherwise only the content is checked.
///
/// # Errors
/// The disk's; a wrong manifest is no error.
pub fn flaw(store: &Store, root: &Hash, tickets: &[Ticket]) -> Result<Option<String>, StoreError> {
    let Some(bytes) = store.object_bytes(root, ObjectPart::Manifest, MAX_BYTES)? else {
        return Ok(None);
    };
    let mut read = 0;
    for packet in packets(&bytes) {
        let Ok(data) = Data::decode(packet) else { break };
        read += packet.len();
        let signer = data.signature_info().key_locator;
        let of = |publisher: &PublisherId| {
            let name = key_name(&publisher.key_id());
            signer == Some(KeyLocator::Name(name.as_ref()))
        };
        let publisher = tickets.iter().map(|ticket| ticket.publisher).find(of);
        let manifest = match publisher {
            Some(publisher) => verify_manifest(&data, data.name().parent(), &publisher),
            None => Manifest::decode(data.content()),
        };
        match manifest {
            Ok(manifest) if manifest.root == *root => {}
            Ok(_) => return Ok(Some("it names another root".to_owned())),
            Err(e) => return Ok(Some(e.to_string())),
        }
    }
    let whole = read == bytes.len() && read > 0;
    Ok((!whole).then(|| "it is not a Data packet".to_owned()))
}
