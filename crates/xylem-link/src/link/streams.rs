//! The link's side of its streams: made on first use, sealed with its keys, sent in turn with packets.

use core::time::Duration;
use std::collections::VecDeque;

use super::receive::Misbehaved;
use super::{EARLY_PINGS, Link, MAX_WAIT};
use crate::event::{LinkEvent, Transmit};
use crate::frame::Ack;
use crate::stream::{DatagramLayout, StreamError, Streams, WrittenDatagrams};

impl Link {
    #[cfg(test)]
    pub(crate) fn next_number(&self) -> u64 {
        self.sealer.next_number()
    }

    #[cfg(test)]
    pub(crate) fn has_stream_state(&self) -> bool {
        self.streams.is_some()
    }

    pub(super) fn streams(&mut self, now: Duration) -> &mut Streams {
        let (id, settings, datagram) = (self.id, self.stream_settings, self.mtu.current());
        let rtt = self.rtt;
        self.streams.get_or_insert_with(|| {
            let mut streams = Streams::new(id, settings, now, datagram);
            streams.set_rtt(rtt.unwrap_or(MAX_WAIT / 4));
            Box::new(streams)
        })
    }

    /// The streams for a call of the program.
    pub(crate) fn streams_of_program(&mut self) -> Result<&mut Streams, StreamError> {
        if self.closing.is_some() {
            return Err(StreamError::NoLink);
        }
        // The latest time known here is that of the last arrival.
        Ok(self.streams(self.last_received))
    }

    /// Handles the end of a datagram's frames. `asks`: it had frames that are acknowledged.
    pub(super) fn on_stream_datagram(
        &mut self,
        now: Duration,
        number: u64,
        asks: bool,
        marked: bool,
    ) {
        let Some(streams) = &mut self.streams else { return };
        if asks {
            self.early_pings = EARLY_PINGS;
            streams.on_datagram(now, number, self.opener.window());
        }
        if marked {
            streams.on_mark();
        }
    }

    pub(super) fn on_stream_ack(
        &mut self,
        now: Duration,
        ack: &Ack<'_>,
        events: &mut VecDeque<LinkEvent>,
    ) -> Result<(), Misbehaved> {
        let Some(streams) = &mut self.streams else { return Ok(()) };
        let next = self.sealer.next_number();
        if let Some(rtt) = streams.on_ack(now, ack, next, events).map_err(|_| Misbehaved)? {
            self.measured(rtt);
        }
        Ok(())
    }

    pub(super) fn on_stream_timeout(&mut self, now: Duration) {
        let Some(streams) = &mut self.streams else { return };
        streams.on_timeout(now);
        self.ecn.on_timeouts(streams.timeouts());
    }

    /// Handles a new address of the peer: nothing is known of the path there.
    pub(super) fn on_new_path(&mut self, now: Duration) {
        self.owed.ping |= self.ecn.on_new_path();
        self.repair.on_new_path(now);
        if let Some(streams) = &mut self.streams {
            streams.on_new_path(now);
        }
    }

    /// Sends streams and packets alternately, so that neither starves the other.
    pub(super) fn transmit_data(&mut self, now: Duration, buf: &mut Vec<u8>) -> Option<Transmit> {
        if self.streams.is_none() {
            return self.transmit_queue(now, buf);
        }
        self.packets_next = !self.packets_next;
        if self.packets_next {
            self.transmit_queue(now, buf).or_else(|| self.transmit_streams(now, buf))
        } else {
            self.transmit_streams(now, buf).or_else(|| self.transmit_queue(now, buf))
        }
    }

    fn transmit_streams(&mut self, now: Duration, buf: &mut Vec<u8>) -> Option<Transmit> {
        let streams = self.streams.as_deref_mut()?;
        if let Some(rtt) = self.rtt {
            streams.set_rtt(rtt);
        }
        let (datagram, segments, padding) = self.queue.layout(self.mtu.current());
        let number = self.sealer.next_number();
        let layout = DatagramLayout { datagram, segments, padding, number, marked: self.marked };
        buf.clear();
        let WrittenDatagrams { mut segment, padding, is_ack } =
            streams.fill(now, layout, self.opener.window(), buf)?;
        self.stats.padding_sent += padding as u64;
        if !is_ack {
            self.early_pings = EARLY_PINGS;
        }
        if is_ack && self.shaper.is_none() {
            segment = self.padded(segment);
            buf.resize(segment, 0);
        }
        for datagram in buf.chunks_mut(segment) {
            self.sealer.seal(datagram);
        }
        // Like packets, only data is a reason to check the MTU again.
        self.mtu.on_sent(segment);
        let several = buf.len() > segment;
        Some(self.sent(self.remote, buf.len(), several.then_some(segment)))
    }
}
