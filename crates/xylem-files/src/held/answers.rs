//! [`Answers`]: answers peers' Interests for a publication during or after its fetch.

use std::time::Duration;

use xylem_object::naming::{self, PublicationRequest};
use xylem_object::{
    Have, Manifest, ObjectId, Publication, PublicationKind, PublisherId, ServeOutcome,
};
use xylem_packet::{Data, Interest, NameRef};

use super::holdings::Holdings;
use super::proofs::Proofs;
use super::source::{HeldError, HeldSource};
use crate::reads::Reads;

/// Lifetime of the list of what is here, however often it is requested.
const HAVE_AGE: Duration = Duration::from_millis(100);

/// Outcome of making a packet that proves its content.
enum ProofOutcome {
    /// Made, with this many bytes of content.
    Sent(u64),
    /// Its data must be read first.
    Waits,
    /// Its data cannot be read, or is damaged.
    Wrong,
}

/// Answers Interests from verified content; each piece is verified again before it leaves.
pub struct Answers {
    publication: Publication,
    publisher: PublisherId,
    manifest: Manifest,
    source: HeldSource,
    proofs: Proofs,
    have: Option<(Duration, Have)>,
    /// Threads that read what is not in memory; `None`: reads block.
    reads: Option<Reads>,
    /// Bytes of content sent.
    pub served: u64,
}

impl Answers {
    /// Makes answers for `publication`, which `publisher` has signed.
    pub fn new(publication: Publication, publisher: PublisherId, source: HeldSource) -> Self {
        let (manifest, proofs) = (publication.manifest().clone(), Proofs::default());
        let (have, reads) = (None, None);
        Self { publication, publisher, manifest, source, proofs, have, reads, served: 0 }
    }

    /// Makes answers from `holdings`, which are read through `reads` from now on: a serving loop never waits for them.
    pub fn read_by(
        publication: Publication,
        publisher: PublisherId,
        holdings: Holdings,
        reads: Reads,
    ) -> Self {
        holdings.read_by(&reads);
        let manifest = publication.manifest().clone();
        let source = HeldSource::new(holdings, manifest, reads.medium());
        Self::new(publication, publisher, source).with_reads(reads)
    }

    /// Reads through these threads; the source must use their medium.
    #[must_use]
    pub fn with_reads(self, reads: Reads) -> Self {
        Self { reads: Some(reads), ..self }
    }

    /// Returns the threads that read what is not in memory.
    pub fn reads(&self) -> Option<&Reads> {
        self.reads.as_ref()
    }

    /// Returns the publication.
    pub fn publication(&self) -> &Publication {
        &self.publication
    }

    /// Returns its publisher.
    pub fn publisher(&self) -> PublisherId {
        self.publisher
    }

    /// Appends the answer to `out`, if there is one. [`ServeOutcome::NotYet`]: content must be read first.
    pub fn answer(
        &mut self,
        now: Duration,
        interest: &Interest<'_>,
        out: &mut Vec<u8>,
    ) -> ServeOutcome {
        let name = interest.name();
        let request = naming::parse(self.publication.prefix(), name);
        if let Some(
            PublicationRequest::Segment { object, .. } | PublicationRequest::Tile { object, .. },
        ) = request
            && self.source.waits_for_listing(object)
        {
            return ServeOutcome::NotYet;
        }
        let sent = match request {
            Some(PublicationRequest::Have { .. }) => self.answer_have(now, name, out),
            Some(PublicationRequest::Segment { object, index }) => {
                if !self.source.holdings().has(object, index) {
                    return ServeOutcome::NoSuch;
                }
                let sent = self.proven(interest, out, |answers, data| {
                    let Self { source, proofs, .. } = answers;
                    proofs.segment(source, object, index, data.content(), data.signature_value())
                });
                match sent {
                    ProofOutcome::Sent(bytes) => self.served += bytes,
                    ProofOutcome::Waits => return ServeOutcome::NotYet,
                    // The file changed on disk: the segment is no longer offered, and is read anew if it comes back.
                    ProofOutcome::Wrong => {
                        self.source.holdings().remove_segment(object, index);
                        self.forget(object);
                    }
                }
                matches!(sent, ProofOutcome::Sent(_))
            }
            Some(PublicationRequest::Tile { object, tile }) => {
                let sent = self.proven(interest, out, |answers, data| {
                    let (content, proof) = (data.content(), data.signature_value());
                    Proofs::tile(&mut answers.source, object, tile, content, proof)
                });
                if let ProofOutcome::Waits = sent {
                    return ServeOutcome::NotYet;
                }
                matches!(sent, ProofOutcome::Sent(_))
            }
            // These are signed by the publisher. Only the publisher may point to the newest version.
            Some(PublicationRequest::Manifest | PublicationRequest::Metadata) | None => {
                let answer = self.publication.answer(interest, &mut self.source, out);
                matches!(answer, Ok(ServeOutcome::Data))
            }
        };
        match sent {
            true => ServeOutcome::Data,
            false if self.publication.prefix().is_prefix_of(name) => ServeOutcome::NoSuch,
            false => ServeOutcome::OtherPublication,
        }
    }

    /// Makes the packet of a segment or tile, and appends it if `proves` returns true.
    fn proven(
        &mut self,
        interest: &Interest<'_>,
        out: &mut Vec<u8>,
        proves: impl FnOnce(&mut Self, &Data<'_>) -> Result<bool, HeldError>,
    ) -> ProofOutcome {
        let start = out.len();
        let made = self.publication.answer(interest, &mut self.source, out);
        let waits = |e: &HeldError| matches!(e, HeldError::Store(e) if e.is_waiting());
        let sent = match (made, out.get(start..).map(Data::decode)) {
            (Ok(ServeOutcome::Data), Some(Ok(data))) => match proves(self, &data) {
                Ok(true) => ProofOutcome::Sent(data.content().len() as u64),
                Err(e) if waits(&e) => ProofOutcome::Waits,
                Ok(false) | Err(_) => ProofOutcome::Wrong,
            },
            (Err(e), _) if waits(&e) => ProofOutcome::Waits,
            // Unreadable content counts as missing; the fetch itself meets the error and reports it.
            _ => ProofOutcome::Wrong,
        };
        if !matches!(sent, ProofOutcome::Sent(_)) {
            out.truncate(start);
        }
        sent
    }

    /// Discards cached nodes and content of an object, which may be the damaged part.
    fn forget(&mut self, object: ObjectId) {
        self.source.forget(object);
        self.proofs.forget(object);
        // The publication caches nodes; a new one has none.
        let prefix = self.publication.prefix().to_name();
        let packet = self.publication.manifest_packet().to_vec();
        if let Ok(fresh) = Publication::new(prefix, packet, &self.publisher) {
            self.publication = fresh;
        }
    }

    fn answer_have(&mut self, now: Duration, name: NameRef<'_>, out: &mut Vec<u8>) -> bool {
        if self.have.as_ref().is_none_or(|(at, _)| now >= *at + HAVE_AGE) {
            let directory = self.manifest.kind == PublicationKind::Directory;
            self.have = Some((now, self.source.holdings().have(directory)));
        }
        let Some((_, have)) = &self.have else { return false };
        have.packet(name, out).is_ok()
    }
}
