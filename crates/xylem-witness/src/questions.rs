//! [`OpenQuestions`]: Interests to all connected peers for the co-signatures of a publication.

use std::collections::VecDeque;

use bytes::Bytes;
use xylem_object::witness::{question, read_list};
use xylem_packet::{Data, InterestBuilder, Name};

use super::newest::{ASK_EVERY, QuestionError};
use super::versions::VersionSource;

/// Most unanswered Interests.
const MAX_OPEN: usize = 256;

/// Unanswered Interests. Each connected peer gets one with a name of its own, so that the first answer does not hide
/// the others.
pub(super) struct OpenQuestions {
    object: Name,
    open: VecDeque<Name>,
}

impl OpenQuestions {
    /// No Interests yet, for this publication.
    pub(super) fn of(object: Name) -> Self {
        Self { object, open: VecDeque::new() }
    }

    /// Asks all connected peers.
    pub(super) fn ask(&mut self, peers: &mut impl VersionSource) -> Result<(), QuestionError> {
        let Self { object, open } = self;
        peers.ask_each(&mut || {
            let name = question(object.as_ref(), xylem_base::random()?);
            let mut interest = Vec::new();
            InterestBuilder::new(name.as_ref())
                .nonce(xylem_base::random()?)
                .lifetime_ms(ASK_EVERY.as_millis() as u64)
                .encode(&mut interest)?;
            open.push_back(name);
            Ok(interest)
        })?;
        self.open.drain(..self.open.len().saturating_sub(MAX_OPEN));
        Ok(())
    }

    /// Returns the co-signatures in a packet that answers one of the Interests, which is then closed.
    pub(super) fn answered<'a>(&mut self, packet: &'a Bytes) -> Option<Vec<&'a [u8]>> {
        let data = Data::decode(packet).ok()?;
        let asked = self.open.iter().position(|name| name.as_ref() == data.name())?;
        let name = self.open.remove(asked)?;
        read_list(name.as_ref(), &data).ok()
    }

    /// Returns whether all Interests were answered.
    pub(super) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }
}
