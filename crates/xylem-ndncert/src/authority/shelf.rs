//! Issued certificates, as they can be asked for: the newest, by name.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, clippy::cast_possible_truncation))]

use std::collections::{BTreeMap, VecDeque};

use xylem_packet::tlv::types;
use xylem_packet::{Component, Data, Interest, Name, NameRef};

#[derive(Default)]
pub(super) struct Shelf {
    /// By name, with the digest behind it.
    packets: BTreeMap<Name, Vec<u8>>,
    /// The oldest first.
    order: VecDeque<Name>,
}

impl Shelf {
    /// Puts a certificate there, and gives its full name; beyond `most` the oldest goes.
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

    /// What an Interest asks for: by its full name, by its name, or, if the Interest lets it be longer, by
    /// the beginning of it; then the newest of a key.
    pub(super) fn find(&self, interest: &Interest<'_>) -> Option<&[u8]> {
        let asked = interest.name();
        let below = self.packets.range(asked.to_name()..);
        let mut fits = below
            .take_while(|(name, _)| asked.is_prefix_of(name.as_ref()))
            .filter(|(name, _)| interest.can_be_prefix() || is_named(name.as_ref(), asked));
        // Versions are ordered as numbers are.
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

/// Whether a certificate of this full name is the one that is asked for.
fn is_named(full: NameRef<'_>, asked: NameRef<'_>) -> bool {
    full == asked || full.parent() == asked
}
