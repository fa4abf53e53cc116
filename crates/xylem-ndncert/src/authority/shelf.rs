//! Issued certificates for fetching: the newest ones, by name.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, clippy::cast_possible_truncation))]

use std::collections::{BTreeMap, VecDeque};

use xylem_packet::tlv::types;
use xylem_packet::{Component, Data, Interest, Name, NameRef};

#[derive(Default)]
pub(super) struct IssuedCertificates {
    /// Packets by full name, digest included.
    packets: BTreeMap<Name, Vec<u8>>,
    /// Full names, oldest first.
    order: VecDeque<Name>,
}

impl IssuedCertificates {
    /// Adds a certificate and returns its full name; beyond `most` the oldest is dropped.
    pub(super) fn put(&mut self, data: &Data<'_>, most: usize) -> Name {
        let full = data.name().child(Component::implicit_digest(&data.implicit_digest()));
        if self.packets.insert(full.clone(), data.wire().to_vec()).is_none() {
            self.order.push_back(full.clone());
        }
        while self.order.len() > most.max(1) {
            if let Some(oldest) = self.order.pop_front() {
                self.packets.remove(&oldest);
            }
        }
        full
    }

    /// Finds the certificate for an Interest: by its full name, by its name, or, if the Interest permits a prefix, the
    /// newest certificate below it.
    pub(super) fn find(&self, interest: &Interest<'_>) -> Option<&[u8]> {
        let asked = interest.name();
        let below = self.packets.range(asked.to_name()..);
        let mut fits = below
            .take_while(|(name, _)| asked.is_prefix_of(name.as_ref()))
            .filter(|(name, _)| interest.can_be_prefix() || is_named(name.as_ref(), asked));
        // Versions are compared as numbers.
        let found = match interest.can_be_prefix() {
            true => fits.max_by_key(|(name, _)| version(name.as_ref())),
            false => fits.next(),
        };
        found.map(|(_, wire)| wire.as_slice())
    }
}

fn version(name: NameRef<'_>) -> Option<u64> {
    let at = name.len().checked_sub(2)?;
    name.get(at)?.as_number_of(types::VERSION_COMPONENT)
}

/// Whether `asked` names the certificate with this full name.
fn is_named(full: NameRef<'_>, asked: NameRef<'_>) -> bool {
    full == asked || full.parent() == asked
}
