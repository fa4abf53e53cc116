//! Arriving packets: matched with the requests, judged, and reported.
//!
//! Blame needs proof: only an answer to a request to this very peer can be held against it. Unrequested packets are
//! counted and dropped before their content is read.

use core::time::Duration;

use bytes::Bytes;
use xylem_object::naming::{self, PublicationRequest};
use xylem_object::packets::{self, PacketError};
use xylem_object::{Have, ObjectId, verify_manifest};
use xylem_packet::tlv::{self, types};
use xylem_packet::{ContentType, Data, LpPacket, NackReason, NameRef, Packet};
use xylem_tree::{Segment, Verified};

use super::{Transfer, TransferPhase};
use crate::event::{Misbehaviour, PeerId, TransferEvent};
use crate::flight::RequestAnswer;
use crate::key::{ItemKey, RequestedItem};
use crate::object::ArrivedItem;
use crate::objects::{AfterSegment, ItemVerdict, SegmentOutcome};
use crate::question::QueryNonce;

/// Nesting depth to which NDNLPv2 headers around headers are followed.
const MAX_NESTING: u32 = 2;

/// Whether the headers around a packet carry a congestion mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MarkState {
    Clear,
    Congested,
}

impl Transfer {
    /// Takes one packet from `peer`: a Data, or an NDNLPv2 packet around a Data or a Nack. Any other packet, and any
    /// that was not requested from this peer, is dropped.
    pub fn handle_data(&mut self, now: Duration, peer: PeerId, packet: Bytes) {
        self.queue_data(now, peer, packet, false);
        self.prove_queued(now);
    }

    /// As [`Self::handle_data`], for a packet with a congestion mark. The peer's window shrinks.
    pub fn handle_marked_data(&mut self, now: Duration, peer: PeerId, packet: Bytes) {
        self.queue_data(now, peer, packet, true);
        self.prove_queued(now);
    }

    /// As [`Self::handle_data`], but segments may be left for [`Self::prove_queued`], which proves a batch in a
    /// fraction of the time. Call `prove_queued` before any other method than this one. `marked`: the packet carries a
    /// congestion mark.
    pub fn queue_data(&mut self, now: Duration, peer: PeerId, packet: Bytes, marked: bool) {
        let way = if marked { MarkState::Congested } else { MarkState::Clear };
        self.take_packet(now, peer, packet, way, 0);
    }

    /// Takes a Nack from `peer`: it does not have `name`, or cannot answer now.
    pub fn handle_nack(
        &mut self,
        now: Duration,
        peer: PeerId,
        name: NameRef<'_>,
        reason: NackReason,
    ) {
        self.take_nack(now, peer, name, reason, MarkState::Clear);
    }

    fn take_nack(
        &mut self,
        now: Duration,
        peer: PeerId,
        name: NameRef<'_>,
        reason: NackReason,
        way: MarkState,
    ) {
        let Some(p) = self.peers.place(peer) else { return };
        if matches!(self.phase, TransferPhase::Over | TransferPhase::Unnamed)
            || self.peers[p].is_dropped()
        {
            return;
        }
        let Some(key) = self.key_of(p, name) else {
            if let Some(nonce) = self.question_of(p, name) {
                self.peers[p].on_question_reply(nonce);
            }
            return;
        };
        self.take_refusal(now, p, key, reason, way);
        self.find_lost(p, now);
    }

    fn take_packet(
        &mut self,
        now: Duration,
        peer: PeerId,
        packet: Bytes,
        way: MarkState,
        nesting: u32,
    ) {
        let Some(p) = self.peers.place(peer) else { return };
        if matches!(self.phase, TransferPhase::Over | TransferPhase::Unnamed)
            || self.peers[p].is_dropped()
        {
            return;
        }
        match Packet::decode(&packet) {
            Ok(Packet::Data(data)) => self.take_data(now, p, &packet, &data, way),
            Ok(Packet::Lp(lp)) if nesting < MAX_NESTING => {
                return self.take_lp(now, peer, &packet, &lp, way, nesting);
            }
            Ok(_) => self.progress.unasked += 1,
            Err(_) => self.take_undecodable(now, p, &packet),
        }
        // If the peer has queued segments, losses are looked for when those are judged.
        if let Some(p) = self.peers.place(peer).filter(|_| !self.is_queued_of(peer)) {
            self.find_lost(p, now);
        }
    }

    fn take_lp(
        &mut self,
        now: Duration,
        peer: PeerId,
        packet: &Bytes,
        lp: &LpPacket<'_>,
        way: MarkState,
        nesting: u32,
    ) {
        let Some(fragment) = lp.fragment else { return };
        if lp.is_fragmented() {
            self.progress.unasked += 1; // the link reassembles fragments
            return;
        }
        let way = if lp.congestion_mark.is_some_and(|mark| mark > 0) {
            MarkState::Congested
        } else {
            way
        };
        match lp.nack {
            None => self.take_packet(now, peer, packet.slice_ref(fragment), way, nesting + 1),
            Some(reason) => {
                if let Ok(Packet::Interest(interest)) = Packet::decode(fragment) {
                    self.take_nack(now, peer, interest.name(), reason, way);
                }
            }
        }
    }

    fn key_of(&self, p: usize, name: NameRef<'_>) -> Option<ItemKey> {
        let wanted = match naming::parse(self.prefix_at(p), name)? {
            PublicationRequest::Manifest => RequestedItem::Manifest,
            PublicationRequest::Segment { object, index } => RequestedItem::Segment(object, index),
            PublicationRequest::Tile { object, tile } => RequestedItem::Tile(object, tile),
            PublicationRequest::Have { .. } | PublicationRequest::Metadata => return None,
        };
        Some(ItemKey::from(wanted)).filter(|key| key.wanted() == wanted)
    }

    /// The nonce of the question in `name`, if it asks which segments a peer has.
    fn question_of(&self, p: usize, name: NameRef<'_>) -> Option<QueryNonce> {
        match naming::parse(self.prefix_at(p), name)? {
            PublicationRequest::Have { nonce } => Some(nonce),
            _ => None,
        }
    }

    fn take_data(
        &mut self,
        now: Duration,
        p: usize,
        packet: &Bytes,
        data: &Data<'_>,
        way: MarkState,
    ) {
        let Some(key) = self.key_of(p, data.name()) else {
            match self.question_of(p, data.name()) {
                Some(nonce) => self.take_have(now, p, nonce, data),
                None => self.progress.unasked += 1,
            }
            return;
        };
        if data.meta().content_type == ContentType::NACK {
            return self.take_refusal(now, p, key, NackReason::NO_ROUTE, way);
        }
        self.prove_before(now, key);
        let flow = self.peers[p].flow_mut();
        let answer = flow.answered(now, key);
        if way == MarkState::Congested {
            flow.on_mark(now, answer);
        }
        match (answer, self.is_missing(key)) {
            (RequestAnswer::Unasked, true) => {
                self.progress.unasked += 1;
                return;
            }
            (_, false) => {
                self.progress.duplicates += 1;
                return self.peers[p].on_good(now, answer, 0);
            }
            _ => {}
        }
        let judged = match key.wanted() {
            RequestedItem::Manifest => {
                let prefix = self.prefix_at(p).to_name();
                self.take_manifest(now, packet, data, prefix.as_ref()).map(|()| 0)
            }
            RequestedItem::Segment(id, _) | RequestedItem::Tile(id, _) => {
                match (self.open(p, id, packet, data), key.wanted()) {
                    (Ok(arrived), RequestedItem::Segment(..)) => {
                        return self.queue(now, answer, arrived);
                    }
                    (Ok(arrived), _) => self.judge(now, arrived, None).map(|()| 0),
                    (Err(what), _) => {
                        self.prove_queued(now);
                        Err(what)
                    }
                }
            }
        };
        self.on_judged(now, p, key, answer, judged);
    }

    /// Records the result for an answer: good, with its bytes of content, or a misbehaviour of peer `p`.
    pub(super) fn on_judged(
        &mut self,
        now: Duration,
        p: usize,
        key: ItemKey,
        answer: RequestAnswer,
        judged: Result<usize, Misbehaviour>,
    ) {
        match judged {
            Ok(bytes) => self.peers[p].on_good(now, answer, bytes),
            Err(what) => self.on_misbehaviour(now, p, key, what),
        }
    }

    pub(super) fn is_missing(&self, key: ItemKey) -> bool {
        match key.wanted() {
            RequestedItem::Manifest => self.phase == TransferPhase::Manifest,
            RequestedItem::Segment(..) | RequestedItem::Tile(..) => self.objects.is_missing(key),
        }
    }

    /// Takes peer `p`'s list of the segments that it has. A list that cannot be decoded changes nothing.
    fn take_have(&mut self, now: Duration, p: usize, nonce: QueryNonce, data: &Data<'_>) {
        if !self.peers[p].on_question_reply(nonce) {
            self.progress.unasked += 1;
        } else if let Ok(have) = Have::from_packet(data) {
            self.peers.on_have(now, p, have);
            self.objects.ask_all_postponed();
        }
    }

    /// Extracts a segment or a tile from its packet.
    fn open(
        &self,
        p: usize,
        id: ObjectId,
        packet: &Bytes,
        data: &Data<'_>,
    ) -> Result<ArrivedItem, Misbehaviour> {
        let geometry = |_| self.objects.geometry(id).copied();
        let opened = packets::open(self.prefix_at(p), data, geometry)?;
        let wanted = match opened.request {
            PublicationRequest::Segment { object, index } => RequestedItem::Segment(object, index),
            PublicationRequest::Tile { object, tile } => RequestedItem::Tile(object, tile),
            _ => return Err(PacketError::Name.into()),
        };
        let content = packet.slice(opened.content_range);
        let signature = packet.slice_ref(opened.proof);
        Ok(ArrivedItem { from: self.peers[p].id(), wanted, content, signature })
    }

    /// Judges the manifest. If it is valid and wanted, the object phase begins.
    pub(super) fn take_manifest(
        &mut self,
        now: Duration,
        packet: &Bytes,
        data: &Data<'_>,
        prefix: NameRef<'_>,
    ) -> Result<(), Misbehaviour> {
        if !matches!(self.phase, TransferPhase::Manifest | TransferPhase::Unnamed) {
            return Ok(());
        }
        let spec = &self.spec;
        let manifest = verify_manifest(data, prefix, &spec.publisher)?;
        if spec.root.as_ref().is_some_and(|root| *root != manifest.root)
            || spec.size.is_some_and(|size| size != manifest.size)
        {
            return Err(Misbehaviour::OtherManifest);
        }
        self.phase = TransferPhase::Objects;
        self.patience.on_progress(now);
        self.events.push_back(TransferEvent::Manifest { manifest, packet: packet.clone() });
        Ok(())
    }

    /// Judges a tile, or a segment for which there may be an `outcome` already, and then the items that waited for that
    /// tile. Each of those that is wrong is blamed on its own sender.
    pub(super) fn judge(
        &mut self,
        now: Duration,
        first: ArrivedItem,
        mut outcome: Option<SegmentOutcome>,
    ) -> Result<(), Misbehaviour> {
        let mut result = Ok(());
        let (mut next, mut is_first) = (Some(first), true);
        let mut freed = Vec::new();
        while let Some(arrived) = next {
            let (from, wanted) = (arrived.from, arrived.wanted);
            match self.objects.judge(arrived, outcome.take(), self.config.max_held) {
                ItemVerdict::Segment(segment, after) => {
                    self.on_segment(now, wanted, segment, after)
                }
                ItemVerdict::Tile(waited) => {
                    freed.extend(waited);
                    self.on_tile(now, wanted);
                }
                ItemVerdict::Held | ItemVerdict::Unwanted => {}
                ItemVerdict::HeldOver => self.progress.held_over += 1,
                ItemVerdict::Bad(error) if is_first => result = Err(Misbehaviour::NotProven(error)),
                ItemVerdict::Bad(error) => match self.peers.place(from) {
                    Some(p) => {
                        self.on_misbehaviour(now, p, wanted.into(), Misbehaviour::NotProven(error));
                    }
                    None => self.objects.ask_again(wanted.into()), // the sender has left meanwhile
                },
            }
            is_first = false;
            next = freed.pop();
        }
        result
    }

    fn on_segment(
        &mut self,
        now: Duration,
        wanted: RequestedItem,
        segment: Verified<Segment<Bytes>>,
        after: AfterSegment,
    ) {
        let (RequestedItem::Segment(object, _) | RequestedItem::Tile(object, _)) = wanted else {
            return;
        };
        self.progress.verified_segments += 1;
        self.progress.verified_bytes += segment.content.len() as u64;
        self.events.push_back(TransferEvent::Segment { object, segment });
        self.patience.on_progress(now);
        self.peers.forget_avoided(wanted.into());
        match (after, &mut self.nodes_due) {
            (AfterSegment::Nothing, _) => {}
            // All segments that were proven together are reported before the nodes that prove them.
            (AfterSegment::Report, Some(due)) if due.contains(&object) => {}
            (AfterSegment::Report, Some(due)) => due.push(object),
            (AfterSegment::Report | AfterSegment::Complete, _) => self.report_nodes(object),
        }
        if after == AfterSegment::Complete {
            self.objects.remove(object);
            self.progress.objects = self.objects.len();
            self.events.push_back(TransferEvent::ObjectComplete(object));
        }
    }

    /// A tile's nodes are reported because the next run needs them to recognise segments on disk.
    fn on_tile(&mut self, now: Duration, wanted: RequestedItem) {
        let (RequestedItem::Segment(object, _) | RequestedItem::Tile(object, _)) = wanted else {
            return;
        };
        self.patience.on_progress(now);
        self.peers.forget_avoided(wanted.into());
        self.report_nodes(object);
    }

    fn take_refusal(
        &mut self,
        now: Duration,
        p: usize,
        key: ItemKey,
        reason: NackReason,
        way: MarkState,
    ) {
        let answer = self.peers[p].flow_mut().answered(now, key);
        if answer == RequestAnswer::Unasked {
            self.progress.unasked += 1;
            return;
        }
        // A refusal of an item that is not wanted any more does not count against the peer.
        if self.is_missing(key) {
            self.peers[p].on_refusal(now);
        }
        if reason == NackReason::CONGESTION || way == MarkState::Congested {
            self.peers[p].flow_mut().on_mark(now, answer);
        }
        if reason != NackReason::CONGESTION {
            self.peers.avoid(key, self.peers[p].id());
        }
        if reason != NackReason::CONGESTION && self.peers.have_all_failed(now, key) {
            self.objects.postpone(now, key);
        } else {
            self.objects.ask_again(key);
        }
        if key == ItemKey::from(RequestedItem::Manifest) && self.phase == TransferPhase::Manifest {
            self.peers[p].on_manifest_refusal(now);
            self.on_manifest_refused();
        }
    }

    /// Takes a packet that is no decodable Data. If it begins with the name of a request, the peer is to blame.
    fn take_undecodable(&mut self, now: Duration, p: usize, packet: &[u8]) {
        let key = salvage_name(packet).and_then(|name| self.key_of(p, name));
        let Some(key) = key else {
            self.progress.unasked += 1;
            return;
        };
        self.prove_queued(now);
        if self.peers[p].flow_mut().answered(now, key) == RequestAnswer::Unasked {
            self.progress.unasked += 1;
        } else if self.is_missing(key) {
            self.on_misbehaviour(now, p, key, Misbehaviour::Undecodable);
        }
    }
}

/// The name in a packet that begins like a Data, whatever follows the name.
#[deny(clippy::arithmetic_side_effects)]
fn salvage_name(packet: &[u8]) -> Option<NameRef<'_>> {
    let (typ, type_len) = tlv::read_var_number(packet).ok()?;
    if typ != u64::from(types::DATA) {
        return None;
    }
    let (_, length_len) = tlv::read_var_number(packet.get(type_len..)?).ok()?;
    let name = packet.get(type_len.checked_add(length_len)?..)?;
    let (typ, type_len) = tlv::read_var_number(name).ok()?;
    if typ != u64::from(types::NAME) {
        return None;
    }
    let (length, length_len) = tlv::read_var_number(name.get(type_len..)?).ok()?;
    let start = type_len.checked_add(length_len)?;
    let end = start.checked_add(usize::try_from(length).ok()?)?;
    NameRef::from_value(name.get(start..end)?).ok()
}
