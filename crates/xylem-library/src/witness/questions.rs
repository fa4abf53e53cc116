//! [`OpenQuestions`]: the co-signatures of a publication, asked of everybody who is here.

use std::collections::VecDeque;

use bytes::Bytes;
use xylem_object::witness::{question, read_list};
use xylem_packet::{Data, InterestBuilder, Name};

use super::newest::ASK_EVERY;
use super::versions::Versions;
use crate::error::Error;
use crate::keys;

/// Questions whose answers are still waited for.
const MAX_OPEN: usize = 256;

/// Questions that are not answered yet. Each of those who are here is asked by a name of its own, so that nobody who answers
/// first keeps from us what another one has.
pub(super) struct OpenQuestions {
    object: Name,
    open: VecDeque<Name>,
}

impl OpenQuestions {
    /// None yet, of this publication.
    pub(super) fn of(object: Name) -> Self {
        Self { object, open: VecDeque::new() }
    }

    /// Asks everybody who is here.
    pub(super) fn ask(&mut self, peers: &mut impl Versions) -> Result<(), Error> {
        let Self { object, open } = self;
        peers.ask_each(&mut || {
            let name = question(object.as_ref(), keys::random()?);
            let mut interest = Vec::new();
            InterestBuilder::new(name.as_ref())
                .nonce(keys::random()?)
                .lifetime_ms(ASK_EVERY.as_millis() as u64)
                .encode(&mut interest)
                .map_err(|e| Error::usage(e.to_string()))?;
            open.push_back(name);
            Ok(interest)
        })?;
        self.open.drain(..self.open.len().saturating_sub(MAX_OPEN));
        Ok(())
    }

    /// The co-signatures in a packet that answers one of them, which is one less then.
    pub(super) fn answered<'a>(&mut self, packet: &'a Bytes) -> Option<Vec<&'a [u8]>> {
        let data = Data::decode(packet).ok()?;
        let asked = self.open.iter().position(|name| name.as_ref() == data.name())?;
        let name = self.open.remove(asked)?;
        read_list(name.as_ref(), &data).ok()
    }

    /// Whether nobody is waited for.
    pub(super) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }
}
