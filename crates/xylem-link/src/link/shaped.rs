//! Datagrams out where the link is shaped: the same as ever ([`Link::poll_transmit`]), at the
//! moments that the [`Shaper`](crate::shape::Shaper) gives, and cover beside them.

use core::net::SocketAddr;
use core::time::Duration;

use super::Link;
use crate::event::Transmit;

impl Link {
    /// Writes the next datagrams to `buf`, replacing what is in it; where the link is shaped, one
    /// at a time. The handshake's last message does not wait, and neither does a close: that the
    /// link ends shows anyhow.
    pub(crate) fn transmit(&mut self, now: Duration, buf: &mut Vec<u8>) -> Option<Transmit> {
        let Some(shaper) = self.shaper.as_mut().filter(|shaper| !shaper.is_only_padding()) else {
            return self.poll_transmit(now, buf);
        };
        if self.closing.is_some() {
            return self.poll_transmit(now, buf);
        }
        let streams = self.streams.as_ref().map_or(0, |streams| streams.moved());
        shaper.note_use(now, self.stats.packets_sent + self.stats.packets_received + streams);
        let finish = self.transmit_finish(now, buf);
        finish.or_else(|| self.transmit_at_gate(now, buf)).or_else(|| self.transmit_cover(now, buf))
    }

    fn transmit_at_gate(&mut self, now: Duration, buf: &mut Vec<u8>) -> Option<Transmit> {
        if !self.shaper.as_mut()?.may_send(now) {
            return None;
        }
        let mut transmit = self.poll_transmit(now, buf);
        if transmit.is_none() && !self.has_ended() && self.shaper.as_mut()?.unused(now) {
            transmit = self.cover_datagram(buf);
        }
        if transmit.is_some() {
            self.shaper.as_mut()?.spent();
        }
        transmit
    }

    fn transmit_cover(&mut self, now: Duration, buf: &mut Vec<u8>) -> Option<Transmit> {
        let shaper = self.shaper.as_mut()?;
        if self.ended.is_some() || !shaper.cover_due(now) {
            return None;
        }
        self.poll_transmit(now, buf).or_else(|| self.cover_datagram(buf))
    }

    /// A datagram of nothing but padding.
    fn cover_datagram(&mut self, buf: &mut Vec<u8>) -> Option<Transmit> {
        let size = self.shaper.as_mut()?.cover_size(self.mtu.current());
        let transmit = self.datagram(buf, self.remote, size, |_| {});
        self.stats.cover_sent += transmit.len as u64;
        Some(transmit)
    }

    /// The size of a datagram for `to` that needs `len` bytes.
    pub(super) fn padded(&mut self, to: SocketAddr, len: usize) -> usize {
        let most = self.mtu.current();
        let size = match &mut self.shaper {
            None => len,
            Some(shaper) if to == self.remote => shaper.size(len, most),
            Some(shaper) => shaper.size_to_unproven(to, len, most),
        };
        self.stats.padding_sent += (size - len) as u64;
        size
    }

    /// When the link has to be looked at, if apart from shaping that is `due`.
    pub(super) fn shaped_timeout(&self, due: Option<Duration>) -> Option<Duration> {
        self.shaper.as_ref().map_or(due, |shaper| shaper.timeout(due))
    }
}
