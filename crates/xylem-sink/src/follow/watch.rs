//! [`PointerWatch`]: unsolicited packets about a growing object, without a version in their names.

use std::collections::VecDeque;

use bytes::Bytes;
use xylem_object::growing::parse_pointer_name;
use xylem_object::{naming, witness};
use xylem_packet::{Name, Packet};

/// Queue of packets under an object's name that belong to none of its versions: pointers to them, for a reader that
/// follows the object.
pub struct PointerWatch {
    object: Name,
    came: VecDeque<Bytes>,
}

impl PointerWatch {
    /// Most packets in the queue; further ones are dropped.
    const MOST: usize = 64;

    /// Starts an empty queue for this object.
    #[must_use]
    pub fn new(object: Name) -> Self {
        Self { object, came: VecDeque::new() }
    }

    /// Queues a packet if it is a pointer or metadata of exactly this object, or about its witnesses. Returns whether
    /// no fetch of a version can use it.
    pub fn keep(&mut self, packet: &Bytes) -> bool {
        let Ok(Packet::Data(data)) = Packet::decode(packet) else { return false };
        let (object, name) = (self.object.as_ref(), data.name());
        let is_one = naming::is_metadata(object, name)
            || parse_pointer_name(object, name).is_some()
            || witness::is_witness_name(object, name);
        if is_one && self.came.len() < Self::MOST {
            self.came.push_back(packet.clone());
        }
        let under = name.strip_prefix(object);
        under.is_some_and(|rest| naming::version(rest.prefix(1)).is_none())
    }

    /// Takes the oldest packet.
    pub fn next_pointer(&mut self) -> Option<Bytes> {
        self.came.pop_front()
    }
}
