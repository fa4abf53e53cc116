//! [`Connection`]: packets ↔ NDNLPv2 frames of one connection to a forwarder.

use std::time::Duration;

use xylem_packet::link_service::{LinkHeaders, LinkService, LinkServiceConfig};
use xylem_packet::{MAX_FRAME, NackReason, probe};

/// The two directions of one connection, and the queue of frames.
pub struct Connection {
    /// Separate from `outgoing`, so that an answer can be sent while the packet that it answers is in use.
    incoming: LinkService,
    outgoing: LinkService,
    queue: FrameQueue,
}

/// A packet from the forwarder: one bare Interest or Data, with its link-layer headers.
#[derive(Clone, Copy, Debug)]
pub struct ForwarderMessage<'a> {
    /// The Interest or Data.
    pub packet: &'a [u8],
    /// Has to be returned with the answer to an Interest.
    pub pit_token: Option<&'a [u8]>,
    /// If set, `packet` is an Interest of ours that was refused, for this reason.
    pub nack: Option<NackReason>,
    /// The packet carries a congestion mark.
    pub congested: bool,
}

/// The queue of packets to be written.
pub struct PacketOutbox<'a> {
    queue: &'a mut FrameQueue,
    service: &'a mut LinkService,
    now: Duration,
}

impl Connection {
    /// A connection with frames of at most `mtu` bytes. `datagrams`: each frame is sent as a datagram of its own.
    /// `seed` is random; sequence numbers of fragments begin there.
    #[must_use]
    pub fn new(mtu: usize, datagrams: bool, seed: u64) -> Self {
        let config = LinkServiceConfig {
            mtu,
            fragmentation: mtu < MAX_FRAME,
            local_fields: true,
            congestion_marking: false,
            first_sequence: seed,
            ..LinkServiceConfig::default()
        };
        Self {
            incoming: LinkService::new(config),
            outgoing: LinkService::new(config),
            queue: FrameQueue { datagrams, ..FrameQueue::default() },
        }
    }

    /// The queue of packets.
    pub fn outbox(&mut self, now: Duration) -> PacketOutbox<'_> {
        PacketOutbox { queue: &mut self.queue, service: &mut self.outgoing, now }
    }

    /// The frames to be written.
    pub fn queue(&mut self) -> &mut FrameQueue {
        &mut self.queue
    }

    /// Drops fragments that are too old to be completed.
    pub fn handle_timeout(&mut self, now: Duration) {
        self.incoming.handle_timeout(now, &mut |_| {});
    }

    /// Takes a frame, and passes its packet to `each` if it completes one. Frames that hold no NDN packet are skipped,
    /// as a forwarder may relay those of strangers.
    pub fn handle_frame(
        &mut self,
        now: Duration,
        frame: &[u8],
        each: &mut dyn FnMut(ForwarderMessage<'_>, &mut PacketOutbox<'_>),
    ) {
        let Ok(Some(received)) = self.incoming.receive(now, frame) else { return };
        let headers = received.headers;
        let message = ForwarderMessage {
            packet: received.packet,
            pit_token: headers.pit_token,
            nack: headers.nack,
            congested: headers.congestion_mark.is_some_and(|mark| mark != 0),
        };
        let (queue, service) = (&mut self.queue, &mut self.outgoing);
        if message.nack.is_none() && probe::is_probe(message.packet) {
            // A probe for our presence is returned, as any forwarder does.
            let headers = LinkHeaders { nack: Some(NackReason::NO_ROUTE), ..Default::default() };
            let _ = service.send(now, message.packet, &headers, 0, &mut |frame| queue.push(frame));
            return;
        }
        each(message, &mut PacketOutbox { queue, service, now });
    }
}

impl PacketOutbox<'_> {
    /// Queues an Interest or Data, with a PIT token of 1 to 32 octets if one is given. Bytes that are no packet or too
    /// long are skipped.
    pub fn packet(&mut self, packet: &[u8], pit_token: Option<&[u8]>) {
        let headers = LinkHeaders { pit_token, ..LinkHeaders::default() };
        let queue = &mut *self.queue;
        let _ = self.service.send(self.now, packet, &headers, 0, &mut |frame| queue.push(frame));
    }

    /// Returns an Interest as a Nack, with its PIT token: there is no such name here, but another producer may have it.
    pub fn refuse(&mut self, interest: &[u8], pit_token: Option<&[u8]>) {
        let nack = Some(NackReason::NO_ROUTE);
        let headers = LinkHeaders { pit_token, nack, ..LinkHeaders::default() };
        let queue = &mut *self.queue;
        let _ = self.service.send(self.now, interest, &headers, 0, &mut |frame| queue.push(frame));
    }
}

/// Frames to be written, back to back.
#[derive(Default)]
pub struct FrameQueue {
    bytes: Vec<u8>,
    /// Where frames end; recorded for datagrams only.
    ends: Vec<usize>,
    written: usize,
    datagrams: bool,
}

impl FrameQueue {
    fn push(&mut self, frame: &[u8]) {
        self.bytes.extend_from_slice(frame);
        if self.datagrams {
            self.ends.push(self.bytes.len());
        }
    }

    /// The waiting bytes, for a stream.
    #[must_use]
    pub fn waiting(&self) -> &[u8] {
        &self.bytes[self.written..]
    }

    /// Records that `bytes` of [`Self::waiting`] were written.
    pub fn written(&mut self, bytes: usize) {
        self.written += bytes;
        if self.written >= self.bytes.len() {
            self.bytes.clear();
            self.ends.clear();
            self.written = 0;
        }
    }

    /// Passes on each waiting datagram, and clears the queue.
    pub fn drain_datagrams(&mut self, mut each: impl FnMut(&[u8])) {
        let mut begin = 0;
        for end in &self.ends {
            each(&self.bytes[begin..*end]);
            begin = *end;
        }
        self.written(self.bytes.len());
    }
}
