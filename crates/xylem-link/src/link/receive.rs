//! Datagrams in: opens them, then acts on their frames. Nothing changes before the tag is verified.

use core::net::SocketAddr;
use core::time::Duration;
use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};

use super::{Link, MAX_ANSWERS};
use crate::aead::TAG_LEN;
use crate::event::{CloseReason, LinkEvent};
use crate::frame::{FRAGMENT_OVERHEAD, Frame, Frames, PACKET_OVERHEAD};
use crate::header::HEADER_LEN;
use crate::seal::{OVERHEAD, OpenDatagramError};

/// The peer broke the protocol in a datagram that it sealed.
pub(super) struct Misbehaved;

impl Link {
    /// Takes a datagram with a connection id of this link. Returns whether the set of live connection ids, or the
    /// peer's reset token, has changed. An opened datagram is left in `used`.
    pub(crate) fn handle(
        &mut self,
        now: Duration,
        from: SocketAddr,
        marked: bool,
        mut datagram: BytesMut,
        events: &mut VecDeque<LinkEvent>,
        used: &mut Option<Bytes>,
    ) -> bool {
        let opened = match self.keys.open(now, &mut datagram) {
            Ok(opened) => opened,
            Err(error) => {
                self.count_refusal(error);
                return false;
            }
        };
        self.stats.datagrams_received += 1;
        self.stats.bytes_received += datagram.len() as u64;
        self.stats.received.see(now, datagram.len(), datagram.len());
        // Padding alone does not put off the idle timeout: it shows that the peer's timer runs, not that its program
        // uses the link.
        if !Frames::new(&datagram[HEADER_LEN..datagram.len() - TAG_LEN]).is_empty() {
            self.liveness.on_received(now);
        }
        if opened.ratcheted {
            let carried = self.carried();
            self.keys.on_ratcheted(now, carried);
        }
        if self.ending.answer() {
            return self.keys.take_routes_changed();
        }
        // Only a peer that has our last handshake message can have sealed this.
        self.finish = None;
        let elsewhere = (from != self.remote).then_some(from);
        if elsewhere.is_some() {
            self.on_other_address(now, from, datagram.len(), opened.newest);
        }
        let challenged = self.owed.responses.len();
        let datagram = &*used.insert(datagram.freeze());
        let (mut asks, mut pieces) = (false, false);
        self.ecn.on_datagram(marked);
        for frame in Frames::new(&datagram[HEADER_LEN..datagram.len() - TAG_LEN]) {
            let done = match frame {
                Ok(frame) => {
                    asks |= frame.asks_for_ack();
                    pieces |= matches!(frame, Frame::Fragment(_));
                    self.on_frame(now, frame, marked, datagram, events)
                }
                Err(_) => Err(Misbehaved),
            };
            if done.is_err() {
                self.ending.end(CloseReason::PeerMisbehaved);
            }
            if self.ending.has_ended() {
                break;
            }
        }
        if pieces {
            self.repair.on_datagram(now, opened.number, self.keys.window());
        }
        self.on_stream_datagram(now, opened.number, asks, marked);
        if let Some(from) = elsewhere
            && let Some(token) = self.owed.responses.get(challenged)
        {
            self.on_challenge_from(now, from, *token);
        }
        self.keys.take_routes_changed()
    }

    fn count_refusal(&mut self, error: OpenDatagramError) {
        if error == OpenDatagramError::Replayed {
            self.stats.replayed += 1;
        } else {
            self.stats.forged += 1;
        }
        if self.keys.is_worn_out() {
            self.ending.end(CloseReason::ForgeryLimit);
        }
    }

    fn on_frame(
        &mut self,
        now: Duration,
        frame: Frame<'_>,
        marked: bool,
        datagram: &Bytes,
        events: &mut VecDeque<LinkEvent>,
    ) -> Result<(), Misbehaved> {
        match frame {
            Frame::Packet(packet) => {
                self.stats.content_received += (packet.len() + PACKET_OVERHEAD) as u64;
                self.deliver(datagram.slice_ref(packet), marked, events);
            }
            Frame::Fragment(fragment) => {
                let len = fragment.piece.len() + FRAGMENT_OVERHEAD + OVERHEAD;
                self.stats.content_received += len as u64;
                if let Some(packet) =
                    self.reassembly.insert(now, fragment).map_err(|_| Misbehaved)?
                {
                    self.deliver(packet, marked, events);
                }
            }
            Frame::Ping(token) => push_bounded(&mut self.owed.pongs, token),
            Frame::Pong(token) => {
                if self.liveness.on_pong(now, token) {
                    self.ecn.on_pong(token);
                }
            }
            Frame::Close(_) => self.ending.end(CloseReason::Peer),
            // The size is acknowledged only if the whole datagram came through.
            Frame::Probe(size) if size as usize == datagram.len() => {
                push_bounded(&mut self.owed.probe_acks, size);
            }
            Frame::Probe(_) => return Err(Misbehaved),
            Frame::ProbeAck(size) => {
                if let Some(sample) = self.mtu.on_ack(now, size as usize) {
                    self.liveness.measured(sample);
                }
            }
            Frame::PathChallenge(token) => push_bounded(&mut self.owed.responses, token),
            Frame::PathResponse(token) => self.on_path_response(now, token),
            Frame::Epoch { number, commitment } => {
                self.keys.on_epoch(number, &commitment).map_err(|_| Misbehaved)?;
            }
            Frame::EpochAck(number) => self.keys.on_epoch_ack(number),
            Frame::Ack(ack) => {
                self.repair.on_ack(now, &ack);
                self.on_stream_ack(now, &ack, events)?;
            }
            Frame::StreamOpen { .. }
            | Frame::StreamData { .. }
            | Frame::StreamClose { .. }
            | Frame::StreamReset { .. }
            | Frame::StreamStop { .. }
            | Frame::WindowUpdate { .. }
            | Frame::GoAway(_) => {
                let streams = self.streams(now);
                streams.on_frame(now, frame, datagram, events).map_err(|_| Misbehaved)?;
            }
            // Frames for keys.
            Frame::Rekey { round, answer, key } => {
                self.keys.on_rekey(round, answer, key, &mut self.rng).map_err(|_| Misbehaved)?;
            }
            Frame::ResetToken { epoch, token } => {
                self.keys.on_reset_token(epoch, &token).map_err(|_| Misbehaved)?;
            }
            Frame::Observed(_) | Frame::Candidates(_) | Frame::CandidatesAck(_) => {
                self.on_reach_frame(now, frame, events);
            }
        }
        Ok(())
    }

    fn deliver(&mut self, packet: Bytes, marked: bool, events: &mut VecDeque<LinkEvent>) {
        self.stats.packets_received += 1;
        self.liveness.on_use();
        events.push_back(LinkEvent::Packet { link: self.id, packet, marked });
    }
}

fn push_bounded<T>(queue: &mut VecDeque<T>, item: T) {
    if queue.len() < MAX_ANSWERS {
        queue.push_back(item);
    }
}
