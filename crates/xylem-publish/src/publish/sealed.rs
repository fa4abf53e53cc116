//! A private publication: a virtual directory of ciphertext, encrypted from the plaintext as it is read.
//! docs/spec/sealed.md.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use xylem_base::{Stop, UnixTime, os_bytes, os_path};
use xylem_files::LibraryEvent;
use xylem_files::overlay::{
    Ciphered, FILES, KEYS, LIST, Overlay, PlaintextCheck, Virtual, shared_nodes,
};
use xylem_files::record::{self, PathRecord};
use xylem_files::walk::{Selection, WalkRules};
use xylem_link::PeerKey;
use xylem_mail::sealed::{FileKey, MAX_LIST, Master, SealedList, SealedListError, padded, seal};
use xylem_object::listing::EntryKind;
use xylem_object::naming;
use xylem_object::witness::WitnessSubject;
use xylem_object::{Manifest, PublisherId};
use xylem_packet::Name;
use xylem_store::{Medium, Store};
use xylem_tree::SegmentSize;

use super::error::PublishError;
use super::serving::{Published, SharedFiles};
use super::{directory, next_version, publish};

/// Recipients of a private publication, and whether its sizes are hidden.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recipients {
    /// The recipients' link keys, apart from the publisher's.
    pub keys: Vec<PeerKey>,
    /// Files are padded, so that sizes reveal less about the content.
    pub padded: bool,
}

/// Keys of a private publication.
#[derive(Clone, Copy)]
pub struct Sealing<'a> {
    /// A secret of the publisher. File keys are derived from it, so that unchanged files keep their keys.
    pub secret: &'a [u8; 32],
    /// The publisher that signs.
    pub publisher: PublisherId,
    /// All recipients.
    pub recipients: &'a Recipients,
}

/// The publication to serve, its versioned prefix, and the medium that encrypts.
pub(crate) type Sealed = (Published, Name, Arc<dyn Medium>);

/// Publishes the content of the canonical `path` for the recipients alone. It runs [`publish`] first; `name` receives a
/// pseudonym that reveals nothing about the path.
///
/// # Errors
/// Those of [`publish`]; too many recipients or files.
#[expect(clippy::too_many_arguments, reason = "publish's, and who may read")]
pub fn publish_sealed(
    store: &Store,
    path: &Path,
    name: &dyn Fn(&[u8]) -> Name,
    asked: &Selection,
    sealing: &Sealing<'_>,
    now: UnixTime,
    stop: &Stop,
    on_event: &mut dyn FnMut(LibraryEvent),
) -> Result<Sealed, PublishError> {
    let key = os_bytes(path.as_os_str());
    let before = PathRecord::recall(store, &key).and_then(|record| record.note.sealed);
    let (plain, _) = publish(store, path, name, asked, now, stop, on_event)?;
    let master = Master::new(sealing.secret, &key);
    let object = name(master.name().as_bytes());
    let (list, mut files) = inside(&plain, &master, sealing.recipients.padded)?;
    let subject = WitnessSubject::new(sealing.publisher, object.as_ref());
    let sealed = seal(&master, &list, &sealing.recipients.keys, &subject)?;
    drop(list);
    files.insert(PathBuf::from(KEYS), Virtual::Bytes(sealed.keys.into()));
    files.insert(PathBuf::from(LIST), Virtual::Bytes(sealed.list.into()));

    let mut root = path.file_name().unwrap_or_default().to_os_string();
    root.push(".xylem-sealed");
    let root = path.with_file_name(root);
    let medium: Arc<dyn Medium> =
        Arc::new(Overlay::new(store.medium().clone(), root.clone(), files));
    let store_of_it = store.with_medium(medium.clone());
    let rules = WalkRules::new(&Selection::default(), &[])?;
    let (known, segment) = (before.map(|(root, _)| root), SegmentSize::DEFAULT);
    let mut published =
        directory::publish(&store_of_it, &root, known, segment, &rules, stop, on_event)?;
    published.manifest.sealed = true;
    // A sharer that stores the ciphertext replaces each version by the next.
    published.manifest.file_name = master.name().into_bytes();
    // A search in an old copy of ciphertext finds whole files or nothing.
    (published.manifest.sums, published.sums) = (None, None);

    let root = published.manifest.root;
    let version = next_version(before, root, now, on_event);
    record::sealed(store, &key, (root, version))?;
    match naming::versioned(object.as_ref(), version) {
        Ok(prefix) => Ok((published, prefix, medium)),
        Err(source) => Err(PublishError::Name { name: object, source }),
    }
}

/// Returns the list that recipients decrypt, and the files in their encrypted form.
fn inside(
    plain: &Published,
    master: &Master,
    is_padded: bool,
) -> Result<(SealedList, BTreeMap<PathBuf, Virtual>), PublishError> {
    let nodes = plain.outboards.as_ref().map(shared_nodes);
    let (mut keys, mut files) = (Vec::new(), BTreeMap::new());
    let mut add = |path: PathBuf, size, root, slot| {
        let key = master.file(&root);
        if size > 0 {
            let check = Some(PlaintextCheck { root, nodes: nodes.clone(), slot });
            let shown = if is_padded { padded(size) } else { size };
            let file = Ciphered { path, source: size, size: shown, key: key.clone(), check };
            files.insert(name_of(&key), Virtual::Ciphered(Arc::new(file)));
        }
        keys.push(key);
    };
    match &plain.files {
        SharedFiles::One(served) => {
            add(served.file.path.clone(), served.file.state.size, served.root, served.slot);
        }
        SharedFiles::Many(members) => {
            if members.listed.totals().files > (MAX_LIST / 32) as u64 {
                return Err(SealedListError::TooLong.into());
            }
            for found in members.listed.entries() {
                let found = found?;
                if let EntryKind::File { size, root } = found.entry.kind {
                    add(members.root().join(os_path(&found.entry.path)), size, root, found.slot);
                }
            }
        }
    }
    let mut listing = Vec::new();
    if let Some((file, _)) = &plain.listing {
        let len = usize::try_from(plain.manifest.size).ok().filter(|len| *len <= MAX_LIST);
        listing.resize(len.ok_or(SealedListError::TooLong)?, 0);
        let got = file.read_full(&mut listing, 0)?;
        listing.truncate(got);
    }
    let manifest = Manifest { sums: None, ..plain.manifest.clone() };
    Ok((SealedList { manifest, listing, keys, padded: is_padded }, files))
}

/// Returns where an encrypted file lies in the publication.
fn name_of(key: &FileKey) -> PathBuf {
    Path::new(FILES).join(key.name())
}
