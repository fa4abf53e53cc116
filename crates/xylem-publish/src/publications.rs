//! [`Publications`]: all publications of one server, found by name. Publications can be added and removed while it
//! serves.
//!
//! Interests come from the server's loop; [`Publication`] and [`Grower`] make the answers. It does not know the peers.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use xylem_base::Wake;
use xylem_files::held::Answers;
use xylem_files::reads::Reads;
use xylem_hash::Hash;
use xylem_object::find::{self, FindId, Vouch};
use xylem_object::{Manifest, Publication, PublisherId, ServeOutcome};
use xylem_packet::{Interest, Name, NameRef};
use xylem_store::StoreError;

use crate::Serving;
use crate::follow::Grower;

/// Content served under one name.
pub enum ServedContent {
    /// A file or directory that does not change.
    Still {
        /// Manifest and names.
        publication: Box<Publication>,
        /// Where its bytes are read.
        serving: Box<Serving>,
    },
    /// Another publisher's publication, complete when serving began.
    Onward(Box<Answers>),
    /// A file that grows.
    Growing(Box<Grower>),
}

impl ServedContent {
    /// Returns the versioned prefix and the manifest of the newest version.
    pub fn newest(&self) -> (Name, Manifest) {
        let publication = self.publication();
        (publication.prefix().to_name(), publication.manifest().clone())
    }

    /// Returns the newest version.
    pub fn publication(&self) -> &Publication {
        match self {
            Self::Still { publication, .. } => publication,
            Self::Onward(answers) => answers.publication(),
            Self::Growing(grower) => grower.newest(),
        }
    }

    /// Returns the publisher if it is another one than ours.
    pub fn signed_by(&self) -> Option<PublisherId> {
        match self {
            Self::Onward(answers) => Some(answers.publisher()),
            Self::Still { .. } | Self::Growing(_) => None,
        }
    }

    fn object(&self) -> NameRef<'_> {
        self.publication().prefix().parent()
    }

    /// Returns the threads that read its content.
    fn reads(&self) -> Option<&Reads> {
        match self {
            Self::Still { serving, .. } => serving.reads(),
            Self::Onward(answers) => answers.reads(),
            Self::Growing(grower) => Some(grower.reads()),
        }
    }

    fn answer(
        &mut self,
        asked: &ReceivedInterest<'_>,
        out: &mut Vec<u8>,
    ) -> Result<ServeOutcome, StoreError> {
        let ReceivedInterest { now, by, interest, packet } = *asked;
        if let Some(reads) = self.reads() {
            reads.begin(now, by);
        }
        let answered = match self {
            Self::Still { publication, serving } => {
                serving.set_now(now);
                publication.answer(interest, &mut **serving, out)
            }
            // Unreadable or changed content counts as missing.
            Self::Onward(answers) => Ok(answers.answer(now, interest, out)),
            Self::Growing(grower) => grower.answer(now, interest, out),
        };
        let waits = match &answered {
            // The next checkpoint of a growing file is not there yet.
            Ok(ServeOutcome::NotYet) => !matches!(self, Self::Growing(_)),
            // An object is unknown as long as the listing is not read.
            Ok(ServeOutcome::NoSuch) => self.reads().is_some_and(Reads::is_wanting),
            Ok(_) => false,
            Err(e) => e.is_waiting(),
        };
        match self.reads().filter(|_| waits) {
            // If too many Interests wait, this one is dropped, and the peer asks again.
            Some(reads) => {
                let lifetime = Duration::from_millis(interest.lifetime_ms());
                reads.wait(now, by, packet, lifetime);
                Ok(ServeOutcome::NotYet)
            }
            None => answered,
        }
    }
}

/// One Interest that a server has received.
#[derive(Clone, Copy)]
pub struct ReceivedInterest<'a> {
    /// The time of the answer.
    pub now: Duration,
    /// The number of the face that it came over.
    pub by: u64,
    /// The Interest.
    pub interest: &'a Interest<'a>,
    /// Its bytes as received.
    pub packet: &'a [u8],
}

/// Identifies one publication of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PublicationId(u64);

#[cfg(test)]
impl PublicationId {
    pub(crate) fn numbered(number: u64) -> Self {
        Self(number)
    }
}

/// The publications of one server; see the module's documentation.
#[derive(Default)]
pub struct Publications {
    all: HashMap<PublicationId, ServedContent>,
    /// Keyed by the value of the object name, which several versions may share; newest version first.
    by_object: HashMap<Vec<u8>, Vec<PublicationId>>,
    /// Lengths of object names in components, with the number of names of each; longest first.
    lengths: Vec<(usize, usize)>,
    /// Number of growing files.
    growing: usize,
    /// The vouch of this machine's publisher for our link key, sent in answer to questions about missing content.
    vouch: Option<Vouch>,
    /// Answers to peers that know a root and no name.
    finds: HashMap<FindId, (PublicationId, Vec<u8>)>,
    /// Set if Interests may be ready: with thousands of publications, a turn cannot check each.
    maybe_ready: Arc<AtomicBool>,
    /// Wakes the serving loop.
    wake: Option<Wake>,
    /// The publication of the last answer: the next Interest is most likely for the same.
    last: Option<PublicationId>,
    next: u64,
}

impl Publications {
    /// Adds a publication.
    pub fn add(&mut self, mut content: ServedContent) -> PublicationId {
        let id = PublicationId(self.next);
        self.next += 1;
        self.growing += usize::from(matches!(content, ServedContent::Growing(_)));
        if let Some(reads) = content.reads() {
            let (stirred, wake) = (self.maybe_ready.clone(), self.wake.clone());
            reads.wake_by(Arc::new(move || {
                stirred.store(true, Ordering::Release);
                wake.iter().for_each(|wake| wake());
            }));
        }
        if let (ServedContent::Growing(grower), Some(wake)) = (&mut content, &self.wake) {
            grower.wake_by(wake.clone());
        }
        let object = content.object();
        let (len, key) = (object.len(), object.value().to_vec());
        self.all.insert(id, content);
        let same = self.by_object.entry(key).or_default();
        if same.is_empty() {
            match self.lengths.iter_mut().find(|(of, _)| *of == len) {
                Some((_, names)) => *names += 1,
                None => self.lengths.push((len, 1)),
            }
            self.lengths.sort_by(|a, b| b.cmp(a));
        }
        same.push(id);
        let all = &self.all;
        let version =
            |id: &PublicationId| xylem_object::naming::version(all[id].publication().prefix());
        same.sort_by_key(|id| std::cmp::Reverse((version(id), *id)));
        id
    }

    /// Starts without publications. A peer that asks for missing content receives the vouch: it shows that this is the
    /// publisher's machine, which may be asked for newer content.
    pub fn of_publisher(vouch: Vouch) -> Self {
        Self { vouch: Some(vouch), ..Self::default() }
    }

    /// Sets the function that other threads call when [`Publications::ready`] has something. It applies to publications
    /// added from now on.
    pub fn wake_by(&mut self, wake: Wake) {
        self.wake = Some(wake);
    }

    /// Returns Interests that waited for content and can be answered now, each with its face.
    /// [`Publications::has_ready`] reports whether there may be more.
    pub fn ready(&mut self, now: Duration) -> Vec<(u64, Vec<u8>)> {
        if !self.maybe_ready.swap(false, Ordering::Acquire) {
            return Vec::new();
        }
        let mut ready = Vec::new();
        for reads in self.all.values().filter_map(ServedContent::reads) {
            ready.extend(reads.ready(now));
            if reads.has_ready() {
                self.maybe_ready.store(true, Ordering::Release);
            }
        }
        ready
    }

    /// Returns whether more Interests may be ready.
    pub fn has_ready(&self) -> bool {
        self.maybe_ready.load(Ordering::Acquire)
    }

    /// Returns whether a question for this root over a link to `link_key` is answered with another name than `prefix`.
    pub fn finds_other(&self, root: &Hash, link_key: &[u8; 32], prefix: NameRef<'_>) -> bool {
        let found = self.finds.get(&FindId::new(root, link_key));
        let found = found.and_then(|(id, _)| self.all.get(id));
        found.is_some_and(|content| content.publication().prefix() != prefix)
    }

    /// Also answers questions for the content by its root over a link to `link_key`, for which its publisher may
    /// `vouch`. Growing files are skipped: they have no fixed root.
    pub fn add_find(&mut self, id: PublicationId, link_key: &[u8; 32], vouch: Option<Vouch>) {
        let content = self.all.get(&id);
        let Some(content) = content.filter(|c| !matches!(c, ServedContent::Growing(_))) else {
            return;
        };
        let publication = content.publication();
        let asked = FindId::new(&publication.manifest().root, link_key);
        let manifest = publication.manifest_packet();
        if let Ok(packet) = asked.packet(&find::FindAnswer { vouch, manifest }) {
            // The same name replaces its entry: sharing anew may leave an old one behind.
            if !self.finds_other(
                &content.publication().manifest().root,
                link_key,
                publication.prefix(),
            ) {
                self.finds.insert(asked, (id, packet));
            }
        }
    }

    /// Also answers peers that know its root and not its publisher, over a link to `link_key`.
    pub fn add_public_find(
        &mut self,
        id: PublicationId,
        link_key: &[u8; 32],
        publisher: PublisherId,
        vouch: Option<Vouch>,
    ) {
        let content = self.all.get(&id);
        let Some(content) = content.filter(|c| !matches!(c, ServedContent::Growing(_))) else {
            return;
        };
        let publication = content.publication();
        let asked = FindId::public(&publication.manifest().root, link_key);
        let answer = find::FindAnswer { vouch, manifest: publication.manifest_packet() };
        if let Ok(packet) = asked.public_packet(&find::PublicAnswer { publisher, answer }) {
            self.finds.insert(asked, (id, packet));
        }
    }

    /// Removes a publication and returns its content.
    pub fn remove(&mut self, id: PublicationId) -> Option<ServedContent> {
        let content = self.all.remove(&id)?;
        self.finds.retain(|_, (of, _)| *of != id);
        self.growing -= usize::from(matches!(content, ServedContent::Growing(_)));
        self.last = self.last.filter(|last| *last != id);
        let object = content.object();
        if let Some(same) = self.by_object.get_mut(object.value()) {
            same.retain(|other| *other != id);
            if same.is_empty() {
                self.by_object.remove(object.value());
                if let Some((_, names)) = self.lengths.iter_mut().find(|(n, _)| *n == object.len())
                {
                    *names -= 1;
                }
                self.lengths.retain(|(_, names)| *names > 0);
            }
        }
        Some(content)
    }

    /// Returns one publication's content.
    pub fn get(&self, id: PublicationId) -> Option<&ServedContent> {
        self.all.get(&id)
    }

    /// Returns whether any version is served under this object name.
    pub fn has_object(&self, object: NameRef<'_>) -> bool {
        self.by_object.contains_key(object.value())
    }

    /// Returns the newest version served under this object name.
    pub fn newest_of(&self, object: NameRef<'_>) -> Option<&ServedContent> {
        self.by_object.get(object.value())?.first().and_then(|id| self.all.get(id))
    }

    /// Returns the growing files.
    pub fn growing(&mut self) -> impl Iterator<Item = &mut Grower> {
        let all = if self.growing == 0 { 0 } else { self.all.len() };
        self.all.values_mut().take(all).filter_map(|content| match content {
            ServedContent::Growing(grower) => Some(&mut **grower),
            ServedContent::Still { .. } | ServedContent::Onward(_) => None,
        })
    }

    /// Answers an Interest; appends the Data to `out`. [`ServeOutcome::NotYet`]: it waits and will be
    /// [`Publications::ready`], or asks for the next version of a growing file. Also returns the publication concerned;
    /// `None` if it is not for any of these.
    ///
    /// # Errors
    /// The content or its proofs cannot be read.
    pub fn answer(
        &mut self,
        asked: &ReceivedInterest<'_>,
        out: &mut Vec<u8>,
    ) -> (Option<PublicationId>, Result<ServeOutcome, StoreError>) {
        let name = asked.interest.name();
        if let Some(id) = self.last
            && let Some(content) = self.all.get_mut(&id)
            && content.publication().prefix().is_prefix_of(name)
        {
            return (Some(id), content.answer(asked, out));
        }
        if let Some(find) = FindId::parse(name) {
            if let Some((id, packet)) = self.finds.get(&find) {
                out.extend_from_slice(packet);
                return (Some(*id), Ok(ServeOutcome::Data));
            }
            let absent = find::FindAnswer { vouch: self.vouch, manifest: &[] };
            let packet = self.vouch.and_then(|_| find.packet(&absent).ok());
            out.extend_from_slice(packet.as_deref().unwrap_or_default());
            return (
                None,
                Ok(if packet.is_some() {
                    ServeOutcome::Data
                } else {
                    ServeOutcome::OtherPublication
                }),
            );
        }
        let mut without_answer = None;
        for at in 0..self.lengths.len() {
            let object = name.prefix(self.lengths[at].0.min(name.len()));
            let Some(same) = self.by_object.get(object.value()) else { continue };
            let all = &self.all;
            let exact = |id: &&PublicationId| all[*id].publication().prefix().is_prefix_of(name);
            // No other publication answers below this one's name.
            let candidates = match same.iter().find(exact) {
                Some(one) => std::slice::from_ref(one),
                None => same,
            };
            for id in candidates {
                let Some(content) = self.all.get_mut(id) else { continue };
                match content.answer(asked, out) {
                    Ok(ServeOutcome::OtherPublication) => {}
                    Ok(ServeOutcome::NoSuch) => without_answer = without_answer.or(Some(*id)),
                    answered => {
                        self.last = Some(*id);
                        return (Some(*id), answered);
                    }
                }
            }
        }
        let answer = if without_answer.is_some() {
            ServeOutcome::NoSuch
        } else {
            ServeOutcome::OtherPublication
        };
        (without_answer, Ok(answer))
    }
}
