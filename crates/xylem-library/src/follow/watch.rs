//! [`Watch`]: packets about a growing object that nobody asked for by version.

use std::collections::VecDeque;

use bytes::Bytes;
use xylem_object::growing::parse_pointer_name;
use xylem_object::{naming, witness};
use xylem_packet::{Name, Packet};

/// Packets under an object's name that are of none of its versions: pointers to them, for whoever
/// follows a growing object.
pub struct Watch {
    object: Name,
    came: VecDeque<Bytes>,
}

impl Watch {
    /// More than this many that nobody has looked at are thrown away.
    const MOST: usize = 64;

    /// Of this object; nothing has come.
    #[must_use]
    pub fn new(object: Name) -> Self {
        Self { object, came: VecDeque::new() }
    }

    /// Keeps a packet if it is a pointer or metadata of exactly this object, or about its witnesses. Whether it is for nobody
    /// else.
    pub fn keep(&mut self, packet: &Bytes) -> bool {
        let Ok(Packet::Data(data)) = Packet::decode(packet) else { return false };
        let (object, name) = (self.object.as_ref(), data.name());
        let is_one = naming::is_metadata(object, name)
            || parse_pointer_name(object, name).is_some()
            || witness::is_answer(object, name);
        if is_one && self.came.len() < Self::MOST {
            self.came.push_back(packet.clone());
        }
        let under = name.strip_prefix(object);
        under.is_some_and(|rest| naming::version(rest.prefix(1)).is_none())
    }

    /// The oldest that nobody has looked at.
    pub fn next_pointer(&mut self) -> Option<Bytes> {
        self.came.pop_front()
    }
}
