//! What a share answers to witnesses, and to those who ask what witnesses say.

use std::time::Duration;

use xylem_forward::FaceId;
use xylem_object::naming;
use xylem_object::packets::digest_signed;
use xylem_object::witness::{Subject, is_answer, submitted};
use xylem_packet::Interest;

use super::server::Server;
use crate::event::Event;
use xylem_engine::wall_clock;
use xylem_library::LibraryEvent;
use xylem_library::witness::Version;

impl Server<'_> {
    /// The Data that answers, if it was asked for co-signatures, or handed one, of something that is shared.
    pub(super) fn answer_of_witnesses(
        &mut self,
        now: Duration,
        from: FaceId,
        interest: &Interest<'_>,
    ) -> Option<Vec<u8>> {
        let name = interest.name();
        let object = name.parent().parent();
        if !is_answer(object, name) {
            return None;
        }
        let content = self.publications.newest_of(object)?;
        let publisher = content.signed_by().unwrap_or(self.at.publisher);
        let subject = Subject::new(publisher, object);
        if interest.app_parameters().is_none() {
            return digest_signed(name, &self.cosigned.list(&subject)).ok();
        }
        let packet = submitted(object, interest)?;
        let publication = content.publication();
        let newest = Version {
            subject,
            version: naming::version(publication.prefix())?,
            manifest: publication.manifest(),
        };
        let taken = self.cosigned.take((now, wall_clock()), from, newest, packet);
        if let Some(kept) = taken.kept {
            self.tell(Event::Library(LibraryEvent::Cosigned(kept)));
        }
        if let Some(warning) = taken.warning {
            self.tell(Event::warning(warning));
        }
        taken.answer.packet(name).ok()
    }
}
