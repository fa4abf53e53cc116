//! `xylem mirror`: keeps a publication and its newer versions in a bucket.
//!
//! The order of writes: first the content, below a name that contains its root. Then trees, lists and listing, which
//! are made from the content as it was read back from the bucket and compared with what was signed. Then the manifest.
//! Last the list of versions, where readers begin. So readers see the old version until the new one is complete.

use crate::MirrorError;
use crate::into::{BucketCopy, BucketTarget, MirrorContent};
use crate::mirrored::{self, MirroredVersion};
use bytes::Bytes;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;
use xylem_base::{Blame, Failure, Stop};
use xylem_bucket::{BucketPlace, Buckets, ListedObject, PARTS};
use xylem_check::verify::Extras;
use xylem_files::signed::SignedPublication;
use xylem_files::{Existing, LibraryEvent};
use xylem_node::{Event, VerifyOptions};
use xylem_object::listing::EntryKind;
use xylem_object::ticket::MirrorVersions;
use xylem_object::{Ticket, naming};
use xylem_packet::Name;
use xylem_publish::adopt::{part_name, parts};
use xylem_publish::rebuild;
use xylem_reader::{Options, Reader};
use xylem_sink::GetSummary;
use xylem_store::{FileRef, ObjectPart, Store};

/// The publication to keep, its place, and how many versions.
#[derive(Clone, Debug)]
pub struct MirrorOptions {
    /// The ticket, the peers and the limits. The reader keeps nothing on this machine.
    pub options: Options,
    /// Where the mirror is in the bucket.
    pub place: BucketPlace,
    /// Number of versions to retain.
    pub keep: usize,
    /// Whether to read all of it back even if nothing is new.
    pub repair: bool,
}

/// Updates the mirror. The summary is that of a fetch.
///
/// # Errors
/// See [`MirrorError`].
pub fn mirror(
    what: MirrorOptions,
    buckets: Arc<Buckets>,
    stop: &Stop,
    on_event: &mut dyn FnMut(Event),
) -> Result<GetSummary, MirrorError> {
    let (place, started) = (what.place, Instant::now());
    let at = |place: &BucketPlace, e| MirrorError::at(&place.path(), e);
    // Check access to the bucket before any peer is asked, so that a missing right is reported first.
    let below = buckets.below(&place).map_err(|e| at(&place, e))?;
    let known = unless_damaged(mirrored::versions(&buckets, &place), on_event)?.flatten();
    let store = Store::open(buckets.clone(), &what.options.store)?;
    let (from, give_up) = (what.options.from.clone(), what.options.timeout);
    let ticket = what.options.ticket.clone();
    let keep = what.keep.max(1);
    let options = Options { keep: false, ..what.options };
    let (reader, news) = Reader::open_shown(options, stop, on_event)?;
    let signed = reader.signed().clone();
    // For a growing publication the newest checkpoint is kept, whichever one the ticket names.
    let ticket = Ticket { root: signed.manifest.root, size: None, ..ticket };
    let ticket = Ticket { name: Some(signed.prefix.clone()), ..ticket };
    let is_listed = known.is_some();
    let known = match known {
        Some(known) => known,
        None => mirrored::found_again(&buckets, &place, &below, &signed)?,
    };
    let before = match known.tickets.first() {
        Some(newest) => {
            goes_on(&place, newest, &signed)?;
            let kept = mirrored::kept(&buckets, &store, &place, newest, on_event);
            unless_damaged(kept, on_event)?
        }
        None => None,
    };
    let content = mirrored::content_of(&place, &signed)?;
    let mirror = Mirror { buckets, store, place, signed, content };
    let older = mirror.older(before.as_ref(), &below)?;
    let is_newest = before.is_some_and(|before| before.signed.packet == mirror.signed.packet);
    let manifest = mirror.signed.manifest.clone();
    let mut summary = GetSummary::new(manifest.root);
    summary.path = Some(mirror.content.path());
    let state = mirror.store.dir().join("uploads");
    let mut asking = BucketTarget {
        buckets: mirror.buckets.clone(),
        existing: Existing::Refuse,
        state,
        older: Some(older),
    };
    let total = manifest.total_size;
    let mut transfer = BucketCopy { reader: &reader, news, stop, on_event, summary, total };
    let copied = transfer.all(&mut asking, &mirror.content);
    let BucketCopy { mut summary, news, .. } = transfer;
    copied?;
    if summary.files == 0 && is_newest && !what.repair && mirror.has_all_parts(&asking)? {
        // The list was damaged, or a run that was killed left it longer than `keep`.
        if !is_listed || known.tickets.len() > keep {
            mirror.write_list(&known, keep)?;
        }
        (summary.already_complete, summary.elapsed) = (true, started.elapsed());
        return Ok(summary);
    }
    if !mirror.is_right(&reader, stop, on_event)? {
        let damaged = mirror.remove_damaged(&ticket, from, give_up, stop, on_event)?;
        damaged.iter().for_each(|name| asking.forget(name));
        let mut transfer = BucketCopy { reader: &reader, news, stop, on_event, summary, total };
        let copied = transfer.all(&mut asking, &mirror.content);
        summary = transfer.summary;
        copied?;
        if !mirror.is_right(&reader, stop, on_event)? {
            return Err(MirrorError::ReadBack(mirror.content));
        }
    }
    mirror.write_parts()?;
    mirror.write_list(&known, keep)?;
    summary.elapsed = started.elapsed();
    Ok(summary)
}

/// Turns a damaged result into a missing one, which is then made anew, and prints a warning.
fn unless_damaged<T>(
    found: Result<T, MirrorError>,
    on_event: &mut dyn FnMut(Event),
) -> Result<Option<T>, MirrorError> {
    match found {
        Err(e) if e.blame() == Blame::Data => {
            on_event(Event::warning(format!("{e}; rebuilding it")));
            Ok(None)
        }
        found => found.map(Some),
    }
}

/// Refuses a version that is not newer than the one that is kept.
fn goes_on(
    place: &BucketPlace,
    before: &Ticket,
    now: &SignedPublication,
) -> Result<(), MirrorError> {
    let Some(kept) = &before.name else { return Ok(()) };
    let (was, is) = (kept.as_ref().parent(), now.prefix.as_ref().parent());
    if (before.publisher, was) != (now.publisher, is) {
        return Err(MirrorError::OtherPublication { place: place.clone(), kept: was.to_name() });
    }
    let version = |prefix: &Name| naming::version(prefix.as_ref()).unwrap_or(0);
    if version(&now.prefix) < version(kept) {
        return Err(MirrorError::Newer { place: place.clone(), kept: kept.clone() });
    }
    Ok(())
}

struct Mirror {
    buckets: Arc<Buckets>,
    store: Store,
    place: BucketPlace,
    signed: SignedPublication,
    /// Where the content of this version goes.
    content: BucketPlace,
}

impl Mirror {
    /// Collects what need not be sent: objects below the name of this root, and files of the version before.
    fn older(
        &self,
        before: Option<&MirroredVersion>,
        below: &[ListedObject],
    ) -> Result<MirrorContent, MirrorError> {
        let root = self.signed.manifest.root.to_hex().to_string();
        let there = mirrored::sizes(below, &root);
        let parts = mirrored::sizes(below, PARTS);
        let mut files = HashMap::new();
        let Some(before) = before else { return Ok(MirrorContent { there, parts, files }) };
        let top = mirrored::content_of(&self.place, &before.signed)?;
        match &before.listing {
            None => drop(files.insert(before.signed.manifest.root, top)),
            Some(listing) => {
                for found in listing.entries() {
                    let entry = found?.entry;
                    if let EntryKind::File { root, .. } = entry.kind
                        && let Ok(name) = String::from_utf8(entry.path)
                        && let Ok(place) = top.below(&name)
                    {
                        files.insert(root, place);
                    }
                }
            }
        }
        Ok(MirrorContent { there, parts, files })
    }

    /// Whether all parts of this version are in the bucket.
    fn has_all_parts(&self, asked: &BucketTarget) -> Result<bool, MirrorError> {
        let Some(older) = &asked.older else { return Ok(false) };
        let root = &self.signed.manifest.root;
        let all = parts(&self.store, root)?;
        for (name, file) in &all {
            let size = file.metadata()?.size;
            if older.parts.get(name.to_string_lossy().as_ref()) != Some(&size) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Reads all content back and builds its trees; returns whether the root is the signed one.
    fn is_right(
        &self,
        reader: &Reader,
        stop: &Stop,
        on_event: &mut dyn FnMut(Event),
    ) -> Result<bool, MirrorError> {
        if reader.is_directory() {
            let mut entries = Vec::new();
            let mut number = 0;
            while let Some(item) = reader.item(number)? {
                number += 1;
                entries.push(item.entry);
            }
            let shown = self.buckets.show(&self.content, entries.into_iter());
            shown.map_err(|e| MirrorError::at(&self.content.path(), e))?;
        }
        let path = self.content.path();
        let read = rebuild(&self.store, &path, stop, &mut |event| {
            if let LibraryEvent::Hashing { .. } = event {
                on_event(Event::Library(event));
            }
        });
        Ok(read? == self.signed.manifest.root)
    }

    /// Reports and removes objects that differ from what was signed, so that they are written anew. Returns their names
    /// below the content.
    fn remove_damaged(
        &self,
        ticket: &Ticket,
        from: Vec<xylem_node::PeerAddress>,
        give_up: std::time::Duration,
        stop: &Stop,
        on_event: &mut dyn FnMut(Event),
    ) -> Result<Vec<String>, MirrorError> {
        let (path, store) = (self.content.path(), self.store.dir().to_path_buf());
        // Ignore other objects beside the content.
        let (ticket, extras) = (ticket.clone(), Extras::Allow);
        let medium = self.buckets.clone().into();
        let options = VerifyOptions { path, ticket, from, give_up, extras, store, medium };
        let found = xylem_node::verify(&options, stop, &mut |_| {})?;
        let mut names = Vec::new();
        for damage in found.damage {
            let name = damage.path.to_string_lossy().into_owned();
            let place = match name.as_str() {
                "" => self.content.clone(),
                name => self.content.below(name)?,
            };
            let (start, end, what) = (damage.start, damage.end, damage.what);
            let what = format!("{place}: bytes {start}..{end}: {what}; uploading it again");
            on_event(Event::warning(what));
            self.buckets.remove(&place).map_err(|e| MirrorError::at(&place.path(), e))?;
            names.push(name);
        }
        Ok(names)
    }

    /// Writes trees, lists and listing, then the manifest.
    fn write_parts(&self) -> Result<(), MirrorError> {
        let (root, folder) = (self.signed.manifest.root, mirrored::parts_of(&self.place)?);
        for (name, file) in parts(&self.store, &root)? {
            let place = folder.below(&name.to_string_lossy())?;
            self.write_part(&place, &file)?;
        }
        let name = part_name(&self.store, &root, ObjectPart::Manifest);
        let place = folder.below(&name.to_string_lossy())?;
        let packet = Bytes::from(self.signed.packet.clone());
        self.buckets.put(&place, packet).map_err(|e| MirrorError::at(&place.path(), e))
    }

    fn write_part(&self, place: &BucketPlace, file: &FileRef) -> Result<(), MirrorError> {
        let size = file.metadata()?.size;
        let root = self.signed.manifest.root.to_hex().to_string();
        let at = |e| MirrorError::at(&place.path(), e);
        let mut upload = self.buckets.upload(place, size, &root, None).map_err(at)?;
        let missing: Vec<_> = upload.missing().collect();
        for part in missing {
            let mut content = vec![0; (part.bytes.end - part.bytes.start) as usize];
            file.read_full(&mut content, part.bytes.start)?;
            upload.put(&part, content.into()).map_err(at)?;
        }
        upload.finish().map_err(at)
    }

    /// Writes the list of versions with this one first. Versions beyond `keep` are removed then; the list without them
    /// is written last.
    fn write_list(&self, known: &MirrorVersions, keep: usize) -> Result<(), MirrorError> {
        let ticket = mirrored::ticket_of(&self.signed);
        let mut tickets = vec![ticket];
        let root = self.signed.manifest.root;
        tickets.extend(known.tickets.iter().filter(|t| t.root != root).cloned());
        self.put_list(&MirrorVersions { tickets: tickets.clone() })?;
        let gone = tickets.split_off(keep.min(tickets.len()));
        for ticket in &gone {
            self.remove_version(ticket)?;
        }
        if gone.is_empty() { Ok(()) } else { self.put_list(&MirrorVersions { tickets }) }
    }

    fn put_list(&self, versions: &MirrorVersions) -> Result<(), MirrorError> {
        let list = self.place.versions()?;
        let put = self.buckets.put(&list, versions.write().into());
        put.map_err(|e| MirrorError::at(&list.path(), e))
    }

    fn remove_version(&self, ticket: &Ticket) -> Result<(), MirrorError> {
        let root = ticket.root.to_hex().to_string();
        let removed = || {
            let content = self.place.below(&root)?;
            for object in self.buckets.below(&content)? {
                self.buckets.remove(&content.below(&object.name)?)?;
            }
            let folder = self.place.parts()?;
            for part in ObjectPart::ALL {
                let name = part_name(&self.store, &ticket.root, part);
                self.buckets.remove(&folder.below(&name.to_string_lossy())?)?;
            }
            Ok(())
        };
        removed().map_err(|e| MirrorError::at(&self.place.path(), e))
    }
}
