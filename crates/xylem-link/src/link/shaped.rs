//! Datagrams out on a shaped link: those of [`Link::poll_transmit`], at the times that the
//! [`Shaper`](crate::shape::Shaper) gives, and cover traffic beside them.

use core::time::Duration;

use super::Link;
use crate::event::Transmit;
use crate::kdf::LinkRng;
use crate::shape::{Level, Shaper};
use crate::stats::LinkStats;

/// Random amounts of padding for the link's own frames where no shaping sets their size. Otherwise the lengths of such
/// datagrams would tell an acknowledgement, a ping and a change of keys apart. Drawn in advance, since acknowledgements
/// are many.
#[derive(Debug)]
pub(super) struct PaddingDice {
    drawn: [u8; 64],
    left: usize,
}

impl Default for PaddingDice {
    fn default() -> Self {
        Self { drawn: [0; 64], left: 0 }
    }
}

impl PaddingDice {
    /// A number from 0 to 63.
    pub(super) fn draw(&mut self, rng: &mut LinkRng) -> usize {
        if self.left == 0 {
            rng.fill(&mut self.drawn);
            self.left = self.drawn.len();
        }
        self.left -= 1;
        usize::from(self.drawn[self.left] & 63)
    }
}

/// How a link hides the sizes of its datagrams and, if it is shaped, their times.
#[derive(Default)]
pub(super) struct LinkShaping {
    shaper: Option<Box<Shaper>>,
    padding_dice: PaddingDice,
}

impl LinkShaping {
    pub(super) fn new(shaper: Option<Box<Shaper>>) -> Self {
        Self { shaper, padding_dice: PaddingDice::default() }
    }

    pub(super) fn level(&self) -> Level {
        self.shaper.as_ref().map_or(Level::Off, |shaper| shaper.level())
    }

    /// Whether datagrams have the sizes of a profile, not only random padding.
    #[inline]
    pub(super) fn has_sizes(&self) -> bool {
        self.shaper.is_some()
    }

    /// The size of a datagram that needs `len` bytes, of `most` at most, and holds only the link's own frames.
    #[inline]
    pub(super) fn padded(
        &mut self,
        len: usize,
        most: usize,
        rng: &mut LinkRng,
        stats: &mut LinkStats,
    ) -> usize {
        let Some(shaper) = &mut self.shaper else {
            return len.max(most.min(len + self.padding_dice.draw(rng)));
        };
        let size = shaper.size(len, most);
        stats.padding_sent += (size - len) as u64;
        size
    }

    /// When the link is due, given that it is `due` then apart from shaping.
    pub(super) fn timeout(&self, due: Option<Duration>) -> Option<Duration> {
        self.shaper.as_ref().map_or(due, |shaper| shaper.timeout(due))
    }
}

impl Link {
    /// Writes the next datagrams to `buf`, replacing its content; on a shaped link one at a time. The handshake's last
    /// message does not wait, nor does a close: an observer sees the end of a link in any case.
    pub(crate) fn transmit(&mut self, now: Duration, buf: &mut Vec<u8>) -> Option<Transmit> {
        let transmit = self.transmit_when_due(now, buf)?;
        let Transmit { len, segment_size, .. } = transmit;
        self.stats.sent.see(now, len, segment_size.unwrap_or(len));
        Some(transmit)
    }

    fn transmit_when_due(&mut self, now: Duration, buf: &mut Vec<u8>) -> Option<Transmit> {
        let Some(shaper) = self.shaping.shaper.as_mut().filter(|it| !it.is_only_padding()) else {
            return self.poll_transmit(now, buf);
        };
        if self.ending.is_closing() {
            return self.poll_transmit(now, buf);
        }
        let streams = self.streams.begun().map_or(0, |streams| streams.moved());
        shaper.note_use(now, self.stats.packets_sent + self.stats.packets_received + streams);
        let finish = self.transmit_finish(now, buf);
        finish.or_else(|| self.transmit_at_gate(now, buf)).or_else(|| self.transmit_cover(now, buf))
    }

    fn transmit_at_gate(&mut self, now: Duration, buf: &mut Vec<u8>) -> Option<Transmit> {
        if !self.shaping.shaper.as_mut()?.may_send(now) {
            return None;
        }
        let mut transmit = self.poll_transmit(now, buf);
        if transmit.is_none()
            && !self.ending.has_ended()
            && self.shaping.shaper.as_mut()?.on_nothing_to_send(now)
        {
            transmit = self.cover_datagram(buf);
        }
        if transmit.is_some() {
            self.shaping.shaper.as_mut()?.on_sent();
        }
        transmit
    }

    fn transmit_cover(&mut self, now: Duration, buf: &mut Vec<u8>) -> Option<Transmit> {
        let shaper = self.shaping.shaper.as_mut()?;
        if self.ending.has_ended() || !shaper.cover_due(now) {
            return None;
        }
        self.poll_transmit(now, buf).or_else(|| self.cover_datagram(buf))
    }

    /// A datagram of nothing but padding.
    fn cover_datagram(&mut self, buf: &mut Vec<u8>) -> Option<Transmit> {
        let size = self.shaping.shaper.as_mut()?.cover_size(self.mtu.current());
        let transmit = self.datagram(buf, self.remote, size, |_| {});
        self.stats.cover_sent += transmit.len as u64;
        Some(transmit)
    }

    /// The size of a datagram that needs `len` bytes and holds only the link's own frames.
    pub(super) fn padded(&mut self, len: usize) -> usize {
        self.shaping.padded(len, self.mtu.current(), &mut self.rng, &mut self.stats)
    }
}
