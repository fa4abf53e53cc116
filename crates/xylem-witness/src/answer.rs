//! Answers of a share to witnesses, and to Interests for co-signatures.

use std::time::Duration;

use xylem_base::UnixTime;
use xylem_files::LibraryEvent;
use xylem_forward::FaceId;
use xylem_object::packets::digest_signed;
use xylem_object::witness::{WitnessSubject, is_witness_name, submitted_cosignature};
use xylem_object::{PublisherId, naming};
use xylem_packet::Interest;
use xylem_publish::publications::Publications;

use super::kept::{Cosigned, SharedVersion};

impl Cosigned {
    /// Answers an Interest that asks for, or submits, co-signatures of a shared publication: returns the Data, and
    /// events to report. `publisher` is the signer of publications that name no other.
    pub fn answer(
        &mut self,
        now: Duration,
        clock: UnixTime,
        from: FaceId,
        interest: &Interest<'_>,
        shared: &Publications,
        publisher: PublisherId,
    ) -> Option<(Vec<u8>, Vec<LibraryEvent>)> {
        let name = interest.name();
        let object = name.parent().parent();
        if !is_witness_name(object, name) {
            return None;
        }
        let content = shared.newest_of(object)?;
        let subject = WitnessSubject::new(content.signed_by().unwrap_or(publisher), object);
        if interest.app_parameters().is_none() {
            return Some((digest_signed(name, &self.list(&subject)).ok()?, Vec::new()));
        }
        let packet = submitted_cosignature(object, interest)?;
        let publication = content.publication();
        let version = naming::version(publication.prefix())?;
        let newest = SharedVersion { subject, version, manifest: publication.manifest() };
        let taken = self.take(now, clock, from, newest, packet);
        let warning = taken.warning.map(|what| LibraryEvent::Warning { what });
        let told = taken.kept.map(LibraryEvent::Cosigned).into_iter().chain(warning).collect();
        Some((taken.answer.packet(name).ok()?, told))
    }
}
