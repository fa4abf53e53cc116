//! [`SignedAhead`]: segments of a [`super::Producer`] that are signed together, before they are requested.

/// Segments that were made before they were requested.
#[derive(Default)]
pub(super) struct SignedAhead {
    /// The number after the last requested one.
    pub(super) expected: u64,
    first: u64,
    /// The packets from number `first` on. Used ones are empty.
    packets: Vec<Vec<u8>>,
}

impl SignedAhead {
    /// Swaps segment `number` into `packet`, if it was made.
    pub(super) fn take(&mut self, number: u64, packet: &mut Vec<u8>) -> bool {
        let place = number.checked_sub(self.first).and_then(|place| usize::try_from(place).ok());
        let made = place.and_then(|place| self.packets.get_mut(place));
        let Some(made) = made.filter(|made| !made.is_empty()) else { return false };
        std::mem::swap(made, packet);
        made.clear();
        true
    }

    /// Returns empty buffers for `count` segments from `first` on.
    pub(super) fn buffers(&mut self, first: u64, count: usize) -> &mut [Vec<u8>] {
        self.first = first;
        self.packets.resize_with(count, Vec::new);
        self.packets.iter_mut().for_each(Vec::clear);
        &mut self.packets
    }
}
