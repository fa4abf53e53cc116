//! [`Answers`]: Interests of peers for a publication that is still being fetched, or was.

use std::time::Duration;

use xylem_object::naming::{self, Request};
use xylem_object::{Answer, Have, Kind, Manifest, ObjectId, Publication, PublisherId};
use xylem_packet::{Data, Interest, NameRef};

use super::proofs::Proofs;
use super::source::{HeldError, HeldSource};
use crate::reads::Reads;

/// What is there is read again after this long, however often it is asked for.
const HAVE_AGE: Duration = Duration::from_millis(100);

/// What came of making a packet that proves what it brings.
enum Proven {
    /// It is made, with so many bytes of content.
    Sent(u64),
    /// What it is made of is not at hand yet.
    Waits,
    /// It can't be read, or is not what it was.
    Wrong,
}

/// Answers with what was verified, each piece proven again on its way out.
pub struct Answers {
    publication: Publication,
    publisher: PublisherId,
    manifest: Manifest,
    source: HeldSource,
    proofs: Proofs,
    have: Option<(Duration, Have)>,
    /// What reads what is not at hand, where that is not waited for.
    reads: Option<Reads>,
    /// Bytes of content that went out.
    pub served: u64,
}

impl Answers {
    /// Answers for `publication`, which `publisher` has signed.
    pub fn new(publication: Publication, publisher: PublisherId, source: HeldSource) -> Self {
        let (manifest, proofs) = (publication.manifest().clone(), Proofs::default());
        let (have, reads) = (None, None);
        Self { publication, publisher, manifest, source, proofs, have, reads, served: 0 }
    }

    /// The source reads through the medium of these.
    #[must_use]
    pub(crate) fn with_reads(self, reads: Reads) -> Self {
        Self { reads: Some(reads), ..self }
    }

    /// What reads for it what is not at hand.
    pub fn reads(&self) -> Option<&Reads> {
        self.reads.as_ref()
    }

    /// What is answered for.
    pub fn publication(&self) -> &Publication {
        &self.publication
    }

    /// Who signed it.
    pub fn publisher(&self) -> PublisherId {
        self.publisher
    }

    /// Appends the answer to `out`; nothing is appended if there is none. [`Answer::NotYet`]: it has to be read first.
    pub fn answer(&mut self, now: Duration, interest: &Interest<'_>, out: &mut Vec<u8>) -> Answer {
        let name = interest.name();
        let sent = match naming::parse(self.publication.prefix(), name) {
            Some(Request::Have { .. }) => self.answer_have(now, name, out),
            Some(Request::Segment { object, index }) => {
                if !self.source.holdings().has(object, index) {
                    return Answer::NoSuch;
                }
                let sent = self.proven(interest, out, |answers, data| {
                    let Self { source, proofs, .. } = answers;
                    proofs.segment(source, object, index, data.content(), data.signature_value())
                });
                match sent {
                    Proven::Sent(bytes) => self.served += bytes,
                    Proven::Waits => return Answer::NotYet,
                    // Somebody changed it: it is not offered any more, and read anew if it comes back.
                    Proven::Wrong => {
                        self.source.holdings().lost(object, index);
                        self.forget(object);
                    }
                }
                matches!(sent, Proven::Sent(_))
            }
            Some(Request::Tile { object, tile }) => {
                let sent = self.proven(interest, out, |answers, data| {
                    let (content, proof) = (data.content(), data.signature_value());
                    Proofs::tile(&mut answers.source, object, tile, content, proof)
                });
                if let Proven::Waits = sent {
                    return Answer::NotYet;
                }
                matches!(sent, Proven::Sent(_))
            }
            // Signed by the publisher; pointers to the newest version are its own to give.
            Some(Request::Manifest | Request::Metadata) | None => {
                let answer = self.publication.answer(interest, &mut self.source, out);
                matches!(answer, Ok(Answer::Data))
            }
        };
        match sent {
            true => Answer::Data,
            false if self.publication.prefix().is_prefix_of(name) => Answer::NoSuch,
            false => Answer::NotOurs,
        }
    }

    /// Makes a segment's or tile's packet and appends it if `proves` says that it proves what it brings.
    fn proven(
        &mut self,
        interest: &Interest<'_>,
        out: &mut Vec<u8>,
        proves: impl FnOnce(&mut Self, &Data<'_>) -> Result<bool, HeldError>,
    ) -> Proven {
        let start = out.len();
        let made = self.publication.answer(interest, &mut self.source, out);
        let waits = |e: &HeldError| matches!(e, HeldError::Store(e) if e.is_waiting());
        let sent = match (made, out.get(start..).map(Data::decode)) {
            (Ok(Answer::Data), Some(Ok(data))) => match proves(self, &data) {
                Ok(true) => Proven::Sent(data.content().len() as u64),
                Err(e) if waits(&e) => Proven::Waits,
                Ok(false) | Err(_) => Proven::Wrong,
            },
            (Err(e), _) if waits(&e) => Proven::Waits,
            // What can't be read is not there; the fetch itself will meet with it and say so.
            _ => Proven::Wrong,
        };
        if !matches!(sent, Proven::Sent(_)) {
            out.truncate(start);
        }
        sent
    }

    /// Nodes and bytes that were at hand of an object may be what is wrong.
    fn forget(&mut self, object: ObjectId) {
        self.source.forget(object);
        self.proofs.forget(object);
        // The publication keeps nodes that it has read; a new one has none.
        let prefix = self.publication.prefix().to_name();
        let packet = self.publication.manifest_packet().to_vec();
        if let Ok(fresh) = Publication::new(prefix, packet, &self.publisher) {
            self.publication = fresh;
        }
    }

    fn answer_have(&mut self, now: Duration, name: NameRef<'_>, out: &mut Vec<u8>) -> bool {
        if self.have.as_ref().is_none_or(|(at, _)| now >= *at + HAVE_AGE) {
            let directory = self.manifest.kind == Kind::Directory;
            self.have = Some((now, self.source.holdings().have(directory)));
        }
        let Some((_, have)) = &self.have else { return false };
        have.packet(name, out).is_ok()
    }
}
