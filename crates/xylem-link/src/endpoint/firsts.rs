//! [`FirstMessages`]: first messages that are being answered, or were answered lately.

use core::net::SocketAddr;
use std::collections::HashMap;

use crate::event::LinkId;
use crate::handshake::DialedBy;
use crate::header::ConnectionId;
use crate::message::CHECK_LEN;

/// The dialer's address, and the id that it chose. The address is part of it, so that an attacker that copies a first
/// message and sends it from elsewhere does not take the dialer's place.
pub(super) type Origin = (SocketAddr, ConnectionId);

/// Digest of a first message.
pub(super) type Content = [u8; 16];

/// One first message.
#[derive(Clone, Copy)]
pub(super) struct FirstMessage {
    pub link: LinkId,
    pub by: DialedBy,
    pub content: Content,
    /// The hash that its rest must have, if it has a rest.
    pub check: Option<[u8; CHECK_LEN]>,
}

/// First messages by origin. Origin and content identify one together: an attacker that uses a dialer's address and id
/// with a first message of its own begins another handshake, and does not replace the dialer's.
#[derive(Default)]
pub(super) struct FirstMessages(HashMap<Origin, Vec<FirstMessage>>);

impl FirstMessages {
    pub(super) fn insert(&mut self, from: Origin, first: FirstMessage) {
        self.0.entry(from).or_default().push(first);
    }

    pub(super) fn remove(&mut self, from: &Origin, link: LinkId) {
        if let Some(firsts) = self.0.get_mut(from) {
            firsts.retain(|first| first.link != link);
            if firsts.is_empty() {
                self.0.remove(from);
            }
        }
    }

    pub(super) fn get(&self, from: &Origin) -> &[FirstMessage] {
        self.0.get(from).map_or(&[], |firsts| firsts)
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.0.values().map(Vec::len).sum()
    }
}
