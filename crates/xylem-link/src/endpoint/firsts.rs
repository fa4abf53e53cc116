//! [`Firsts`]: first messages that are being, or have lately been, answered.

use core::net::SocketAddr;
use std::collections::HashMap;

use crate::event::LinkId;
use crate::handshake::DialedBy;
use crate::header::ConnectionId;
use crate::message::CHECK_LEN;

/// The dialer's address, and the id that it chose. The address belongs to it, so that somebody who copies
/// a first message and sends it from elsewhere does not take the dialer's place.
pub(super) type Origin = (SocketAddr, ConnectionId);

/// What a first message says, in short.
pub(super) type Content = [u8; 16];

/// One of them.
#[derive(Clone, Copy)]
pub(super) struct First {
    pub link: LinkId,
    pub by: DialedBy,
    pub content: Content,
    /// What its rest has to hash to, if it has one.
    pub check: Option<[u8; CHECK_LEN]>,
}

/// Where they came from and what they say belong together: somebody who repeats address and id of a
/// dialer with a first message of their own has begun another handshake, and not taken this one's place.
#[derive(Default)]
pub(super) struct Firsts(HashMap<Origin, Vec<First>>);

impl Firsts {
    pub(super) fn insert(&mut self, from: Origin, first: First) {
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

    pub(super) fn get(&self, from: &Origin) -> &[First] {
        self.0.get(from).map_or(&[], |firsts| firsts)
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.0.values().map(Vec::len).sum()
    }
}
