//! [`Answers`]: Interests of peers for a publication that is still being fetched, or was.

use std::time::Duration;

use xylem_object::naming::{self, Request};
use xylem_object::{Answer, Have, Kind, Manifest, ObjectId, Publication, PublisherId};
use xylem_packet::{Data, Interest, NameRef};

use super::proofs::Proofs;
use super::source::{HeldError, HeldSource};

/// What is there is read again after this long, however often it is asked for.
const HAVE_AGE: Duration = Duration::from_millis(100);

/// Answers with what was verified, each piece proven again on its way out.
pub struct Answers {
    publication: Publication,
    publisher: PublisherId,
    manifest: Manifest,
    source: HeldSource,
    proofs: Proofs,
    have: Option<(Duration, Have)>,
    /// Bytes of content that went out.
    pub served: u64,
}

impl Answers {
    /// Answers for `publication`, which `publisher` has signed.
    pub fn new(publication: Publication, publisher: PublisherId, source: HeldSource) -> Self {
        let (manifest, proofs) = (publication.manifest().clone(), Proofs::default());
        Self { publication, publisher, manifest, source, proofs, have: None, served: 0 }
    }

    /// What is answered for.
    pub fn publication(&self) -> &Publication {
        &self.publication
    }

    /// Who signed it.
    pub fn publisher(&self) -> PublisherId {
        self.publisher
    }

    /// Appends the answer to `out`; false, and nothing appended, if there is none.
    pub fn answer(&mut self, now: Duration, interest: &Interest<'_>, out: &mut Vec<u8>) -> bool {
        let name = interest.name();
        match naming::parse(self.publication.prefix(), name) {
            Some(Request::Have { .. }) => self.answer_have(now, name, out),
            Some(Request::Segment { object, index }) => {
                if !self.source.holdings().has(object, index) {
                    return false;
                }
                let sent = self.proven(interest, out, |answers, data| {
                    let Self { source, proofs, .. } = answers;
                    proofs.segment(source, object, index, data.content(), data.signature_value())
                });
                match sent {
                    Some(bytes) => self.served += bytes,
                    // Somebody changed it: it is not offered any more, and read anew if it comes back.
                    None => {
                        self.source.holdings().lost(object, index);
                        self.forget(object);
                    }
                }
                sent.is_some()
            }
            Some(Request::Tile { object, tile }) => {
                let sent = self.proven(interest, out, |answers, data| {
                    let (content, proof) = (data.content(), data.signature_value());
                    Proofs::tile(&mut answers.source, object, tile, content, proof)
                });
                sent.is_some()
            }
            // Signed by the publisher; pointers to the newest version are its own to give.
            Some(Request::Manifest | Request::Metadata) | None => {
                let answer = self.publication.answer(interest, &mut self.source, out);
                matches!(answer, Ok(Answer::Data))
            }
        }
    }

    /// Makes a segment's or tile's packet and appends it if `proves` says that it proves what it brings:
    /// bytes of its content.
    fn proven(
        &mut self,
        interest: &Interest<'_>,
        out: &mut Vec<u8>,
        proves: impl FnOnce(&mut Self, &Data<'_>) -> Result<bool, HeldError>,
    ) -> Option<u64> {
        let start = out.len();
        let made = self.publication.answer(interest, &mut self.source, out);
        let sent = match (made, out.get(start..).map(Data::decode)) {
            (Ok(Answer::Data), Some(Ok(data))) => {
                proves(self, &data).unwrap_or(false).then(|| data.content().len() as u64)
            }
            // What can't be read is not there; the fetch itself will meet with it and say so.
            _ => None,
        };
        if sent.is_none() {
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
