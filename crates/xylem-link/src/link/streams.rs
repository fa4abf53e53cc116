//! The link's side of its streams: made on first use, sealed with its keys, sent in turn with packets.

use core::time::Duration;
use std::collections::VecDeque;

use super::Link;
use super::liveness::MAX_WAIT;
use super::receive::Misbehaved;
use crate::event::{LinkEvent, LinkId, Transmit};
use crate::frame::Ack;
use crate::stream::{DatagramLayout, StreamError, StreamSettings, Streams, WrittenDatagrams};

/// The streams of a link, if it has any, and their turn.
pub(super) struct LinkStreams {
    /// Made when the first stream is opened.
    streams: Option<Box<Streams>>,
    settings: StreamSettings,
    /// Whether packets are sent next, not streams: the two alternate.
    packets_next: bool,
}

impl LinkStreams {
    pub(super) fn new(settings: StreamSettings) -> Self {
        Self { streams: None, settings, packets_next: false }
    }

    /// The streams, once there has been one.
    #[inline]
    pub(super) fn begun(&self) -> Option<&Streams> {
        self.streams.as_deref()
    }

    #[inline]
    fn begun_mut(&mut self) -> Option<&mut Streams> {
        self.streams.as_deref_mut()
    }

    /// The streams, made now if there has been none. `datagram`: bytes of the largest datagram.
    fn begin(
        &mut self,
        now: Duration,
        link: LinkId,
        datagram: usize,
        rtt: Option<Duration>,
    ) -> &mut Streams {
        let settings = self.settings;
        self.streams.get_or_insert_with(|| {
            let mut streams = Streams::new(link, settings, now, datagram);
            streams.set_rtt(rtt.unwrap_or(MAX_WAIT / 4));
            Box::new(streams)
        })
    }

    /// Whether packets go first in this turn, so that neither starves the other.
    fn packets_first(&mut self) -> bool {
        if self.streams.is_none() {
            return true;
        }
        self.packets_next = !self.packets_next;
        self.packets_next
    }
}

impl Link {
    #[cfg(test)]
    pub(crate) fn next_number(&self) -> u64 {
        self.keys.next_number()
    }

    #[cfg(test)]
    pub(crate) fn has_stream_state(&self) -> bool {
        self.streams.begun().is_some()
    }

    pub(super) fn streams(&mut self, now: Duration) -> &mut Streams {
        self.streams.begin(now, self.id, self.mtu.current(), self.liveness.rtt())
    }

    /// The streams for a call of the program.
    pub(crate) fn streams_of_program(&mut self) -> Result<&mut Streams, StreamError> {
        if self.ending.is_closing() {
            return Err(StreamError::NoLink);
        }
        // The latest time known here is that of the last arrival.
        Ok(self.streams(self.liveness.last_received()))
    }

    /// Handles the end of a datagram's frames. `asks`: it had frames that are acknowledged.
    pub(super) fn on_stream_datagram(
        &mut self,
        now: Duration,
        number: u64,
        asks: bool,
        marked: bool,
    ) {
        let Some(streams) = self.streams.begun_mut() else { return };
        if asks {
            self.liveness.on_use();
            streams.on_datagram(now, number, self.keys.window());
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
        let Some(streams) = self.streams.begun_mut() else { return Ok(()) };
        let next = self.keys.next_number();
        if let Some(rtt) = streams.on_ack(now, ack, next, events).map_err(|_| Misbehaved)? {
            self.liveness.measured(rtt);
        }
        Ok(())
    }

    pub(super) fn on_stream_timeout(&mut self, now: Duration) {
        let Some(streams) = self.streams.begun_mut() else { return };
        streams.on_timeout(now);
        self.ecn.on_timeouts(streams.timeouts());
    }

    /// Handles a new address of the peer: nothing is known of the path there.
    pub(super) fn on_new_path(&mut self, now: Duration) {
        self.owed.ping |= self.ecn.on_new_path();
        self.repair.on_new_path(now);
        if let Some(streams) = self.streams.begun_mut() {
            streams.on_new_path(now);
        }
    }

    /// Sends streams and packets alternately, so that neither starves the other.
    pub(super) fn transmit_data(&mut self, now: Duration, buf: &mut Vec<u8>) -> Option<Transmit> {
        if self.streams.packets_first() {
            self.transmit_queue(now, buf).or_else(|| self.transmit_streams(now, buf))
        } else {
            self.transmit_streams(now, buf).or_else(|| self.transmit_queue(now, buf))
        }
    }

    fn transmit_streams(&mut self, now: Duration, buf: &mut Vec<u8>) -> Option<Transmit> {
        let streams = self.streams.begun_mut()?;
        if let Some(rtt) = self.liveness.rtt() {
            streams.set_rtt(rtt);
        }
        let (datagram, segments, padding) = self.queue.layout(self.mtu.current());
        let (number, marked) = (self.keys.next_number(), self.ecn.marked());
        let layout = DatagramLayout { datagram, segments, padding, number, marked };
        buf.clear();
        let WrittenDatagrams { mut segment, padding, is_ack } =
            streams.fill(now, layout, self.keys.window(), buf)?;
        self.stats.padding_sent += padding as u64;
        if !is_ack {
            self.liveness.on_use();
        }
        if is_ack && !self.shaping.has_sizes() {
            segment = self.padded(segment);
            buf.resize(segment, 0);
        }
        for datagram in buf.chunks_mut(segment) {
            self.keys.seal(datagram);
        }
        // Like packets, only data is a reason to check the MTU again.
        self.mtu.on_sent(segment);
        let several = buf.len() > segment;
        Some(self.sent(self.remote, buf.len(), several.then_some(segment)))
    }
}
