//! What arrives: matched with what was asked, judged, reported.
//!
//! Blame needs proof: only an answer to something that this very peer was asked can be held against it.
//! What nobody asked for is counted and thrown away before its content is looked at.

use core::time::Duration;

use bytes::Bytes;
use xylem_object::naming::{self, Request};
use xylem_object::packets::{self, PacketError};
use xylem_object::{ObjectId, verify_manifest};
use xylem_packet::tlv::{self, types};
use xylem_packet::{ContentType, Data, LpPacket, NackReason, NameRef, Packet};
use xylem_tree::{Blame, SegmentIndex, Tile, VerifyError};

use crate::event::{Event, Misbehaviour, PeerId};
use crate::flight::Answer;
use crate::key::{Key, Wanted, object_number};
use crate::object::Held;
use crate::transfer::{Phase, Transfer};

/// Segments after which their proven nodes are reported.
const REPORT_EVERY: u32 = 16;
/// Headers around headers are followed this deep.
const MAX_NESTING: u32 = 2;

/// What the headers around a packet say of the way that it took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Clear,
    Congested,
}

impl Transfer {
    /// Takes one packet from `peer`: a Data, or an NDNLPv2 packet around a Data or a Nack. Anything
    /// else, and anything that was not asked of this peer, is thrown away.
    pub fn handle_data(&mut self, now: Duration, peer: PeerId, packet: Bytes) {
        self.take_packet(now, peer, packet, Way::Clear, 0);
    }

    /// As [`Self::handle_data`], for a packet that came with a congestion mark: the peer is asked for
    /// less at a time.
    pub fn handle_marked_data(&mut self, now: Duration, peer: PeerId, packet: Bytes) {
        self.take_packet(now, peer, packet, Way::Congested, 0);
    }

    /// `peer` says that it does not have `name`, or cannot answer now.
    pub fn handle_nack(
        &mut self,
        now: Duration,
        peer: PeerId,
        name: NameRef<'_>,
        reason: NackReason,
    ) {
        self.take_nack(now, peer, name, reason, Way::Clear);
    }

    fn take_nack(
        &mut self,
        now: Duration,
        peer: PeerId,
        name: NameRef<'_>,
        reason: NackReason,
        way: Way,
    ) {
        let Some(p) = self.place(peer) else { return };
        if self.phase == Phase::Over || self.peers[p].dropped {
            return;
        }
        let Some(key) = self.key_of(name) else {
            if let Some(nonce) = self.question_of(name) {
                self.have_refused(p, nonce);
            }
            return;
        };
        self.take_refusal(now, p, key, reason, way);
        self.find_lost(p, now);
    }

    fn take_packet(&mut self, now: Duration, peer: PeerId, packet: Bytes, way: Way, nesting: u32) {
        let Some(p) = self.place(peer) else { return };
        if self.phase == Phase::Over || self.peers[p].dropped {
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
        if let Some(p) = self.place(peer) {
            self.find_lost(p, now);
        }
    }

    fn take_lp(
        &mut self,
        now: Duration,
        peer: PeerId,
        packet: &Bytes,
        lp: &LpPacket<'_>,
        way: Way,
        nesting: u32,
    ) {
        let Some(fragment) = lp.fragment else { return };
        if lp.is_fragmented() {
            self.progress.unasked += 1; // reassembly is the link's
            return;
        }
        let way =
            if lp.congestion_mark.is_some_and(|mark| mark > 0) { Way::Congested } else { way };
        match lp.nack {
            None => self.take_packet(now, peer, packet.slice_ref(fragment), way, nesting + 1),
            Some(reason) => {
                if let Ok(Packet::Interest(interest)) = Packet::decode(fragment) {
                    self.take_nack(now, peer, interest.name(), reason, way);
                }
            }
        }
    }

    fn key_of(&self, name: NameRef<'_>) -> Option<Key> {
        let wanted = match naming::parse(self.spec.prefix.as_ref(), name)? {
            Request::Manifest => Wanted::Manifest,
            Request::Segment { object, index } => Wanted::Segment(object, index),
            Request::Tile { object, tile } => Wanted::Tile(object, tile),
            Request::Have { .. } | Request::Metadata => return None,
        };
        Some(Key::from(wanted)).filter(|key| key.wanted() == wanted)
    }

    /// The question that `name` asks, if it asks what a peer has.
    fn question_of(&self, name: NameRef<'_>) -> Option<[u8; 8]> {
        match naming::parse(self.spec.prefix.as_ref(), name)? {
            Request::Have { nonce } => Some(nonce),
            _ => None,
        }
    }

    fn take_data(&mut self, now: Duration, p: usize, packet: &Bytes, data: &Data<'_>, way: Way) {
        let Some(key) = self.key_of(data.name()) else {
            match self.question_of(data.name()) {
                Some(nonce) => self.take_have(now, p, nonce, data),
                None => self.progress.unasked += 1,
            }
            return;
        };
        if data.meta().content_type == ContentType::NACK {
            return self.take_refusal(now, p, key, NackReason::NO_ROUTE, way);
        }
        let answer = self.peers[p].answered(now, key);
        if way == Way::Congested {
            self.peers[p].marked(now, answer);
        }
        match (answer, self.is_missing(key)) {
            (Answer::Unasked, true) => {
                self.progress.unasked += 1;
                return;
            }
            (_, false) => {
                self.progress.duplicates += 1;
                return self.peers[p].credit(now, answer, 0);
            }
            _ => {}
        }
        let judged = match key.wanted() {
            Wanted::Manifest => self.take_manifest(now, packet, data).map(|()| 0),
            Wanted::Segment(id, _) | Wanted::Tile(id, _) => {
                self.take_proof(now, p, id, packet, data)
            }
        };
        match judged {
            Ok(bytes) => self.peers[p].credit(now, answer, bytes),
            Err(what) => self.misbehaved(now, p, key, what),
        }
    }

    /// Judges a segment or a tile. How many bytes of content it brought.
    fn take_proof(
        &mut self,
        now: Duration,
        p: usize,
        id: ObjectId,
        packet: &Bytes,
        data: &Data<'_>,
    ) -> Result<usize, Misbehaviour> {
        let (number, from) = (object_number(id), self.peers[p].id);
        let geometry = |_| self.objects.get(&number).map(|o| *o.geometry());
        let opened = packets::open(self.spec.prefix.as_ref(), data, geometry)?;
        let content = packet.slice(opened.content_range);
        let signature = packet.slice_ref(opened.proof);
        let (item, length) = match opened.request {
            Request::Segment { index, .. } => {
                let length = content.len();
                (Held::Segment { from, index, content, signature }, length)
            }
            Request::Tile { tile, .. } => (Held::Tile { from, tile, content, signature }, 0),
            _ => return Err(PacketError::Name.into()),
        };
        self.take_item(now, number, item).map(|()| length)
    }

    /// Judges the manifest and, if it is the one, goes on to the objects.
    pub(crate) fn take_manifest(
        &mut self,
        now: Duration,
        packet: &Bytes,
        data: &Data<'_>,
    ) -> Result<(), Misbehaviour> {
        if self.phase != Phase::Manifest {
            return Ok(());
        }
        let spec = &self.spec;
        let manifest = verify_manifest(data, spec.prefix.as_ref(), &spec.publisher)?;
        if spec.root.as_ref().is_some_and(|root| *root != manifest.root)
            || spec.size.is_some_and(|size| size != manifest.size)
        {
            return Err(Misbehaviour::OtherManifest);
        }
        self.phase = Phase::Objects;
        self.touch(now);
        self.events.push_back(Event::Manifest { manifest, packet: packet.clone() });
        Ok(())
    }

    /// Judges a segment or a tile, and whatever was waiting for that tile. What comes before its own
    /// tile waits; blame for what waited goes to whoever sent it.
    fn take_item(&mut self, now: Duration, number: u64, first: Held) -> Result<(), Misbehaviour> {
        let mut result = Ok(());
        let mut queue = vec![first];
        let mut is_first = true;
        while let Some(item) = queue.pop() {
            let is_tile = matches!(item, Held::Tile { .. });
            let outcome = match item {
                Held::Segment { from, index, content, signature } => {
                    self.judge_segment(now, number, from, index, content, signature)
                }
                Held::Tile { from, tile, content, signature } => {
                    self.judge_tile(now, number, from, tile, content, signature, &mut queue)
                }
            };
            match outcome {
                // A tile's nodes are what lets the next run recognise data without their leaves.
                Ok(()) if is_tile => self.report_nodes(number),
                Ok(()) => {}
                Err((_, _, what)) if is_first => result = Err(what),
                Err((from, key, what)) => match self.place(from) {
                    Some(p) => self.misbehaved(now, p, key, what),
                    None => self.ask_again(key), // the sender has left meanwhile
                },
            }
            is_first = false;
        }
        result
    }

    fn judge_segment(
        &mut self,
        now: Duration,
        number: u64,
        from: PeerId,
        index: SegmentIndex,
        content: Bytes,
        signature: Bytes,
    ) -> Result<(), (PeerId, Key, Misbehaviour)> {
        let Some(object) = self.objects.get_mut(&number) else { return Ok(()) };
        if !object.is_missing(index) {
            return Ok(());
        }
        let (id, unasked) = (object.id, object.unasked());
        let key = Key::from(Wanted::Segment(id, index));
        match object.segment(index, content.clone(), &signature) {
            Ok(segment) => {
                self.unasked -= unasked - object.unasked();
                let (missing, unreported) = (object.missing(), object.unreported);
                self.progress.verified_segments += 1;
                self.progress.verified_bytes += segment.content.len() as u64;
                self.events.push_back(Event::Segment { object: id, segment });
                self.touch(now);
                if !self.avoided.is_empty() {
                    self.avoided.remove(&key);
                }
                if missing == 0 {
                    self.complete(number);
                } else if unreported >= REPORT_EVERY {
                    self.report_nodes(number);
                }
                Ok(())
            }
            Err(VerifyError::NeedTile(tile)) => {
                self.hold(number, key, tile, Held::Segment { from, index, content, signature });
                Ok(())
            }
            Err(error) if error.blame() == Blame::Sender => {
                Err((from, key, Misbehaviour::NotProven(error)))
            }
            Err(_) => Ok(()),
        }
    }

    #[allow(clippy::too_many_arguments)] // one packet's parts, and where what it frees goes
    fn judge_tile(
        &mut self,
        now: Duration,
        number: u64,
        from: PeerId,
        tile: Tile,
        content: Bytes,
        signature: Bytes,
        freed: &mut Vec<Held>,
    ) -> Result<(), (PeerId, Key, Misbehaviour)> {
        let Some(object) = self.objects.get_mut(&number) else { return Ok(()) };
        if !object.is_tile_missing(tile) {
            return Ok(());
        }
        let key = Key::from(Wanted::Tile(object.id, tile));
        match object.tile(tile, &content, &signature) {
            Ok(held) => {
                self.held -= held.len();
                freed.extend(held);
                self.touch(now);
                self.avoided.remove(&key);
                self.report_nodes(number);
                Ok(())
            }
            Err(VerifyError::NeedTile(above)) => {
                self.hold(number, key, above, Held::Tile { from, tile, content, signature });
                Ok(())
            }
            Err(error) if error.blame() == Blame::Sender => {
                Err((from, key, Misbehaviour::NotProven(error)))
            }
            Err(_) => Ok(()),
        }
    }

    /// Keeps something that came before `tile`; if too much waits already, it is asked for again.
    fn hold(&mut self, number: u64, key: Key, tile: Tile, held: Held) {
        let Some(object) = self.objects.get_mut(&number) else { return };
        if self.held >= self.config.max_held {
            self.progress.held_over += 1;
            return self.ask_again(key);
        }
        self.held += 1;
        let above = Key::from(Wanted::Tile(object.id, tile));
        if object.hold(tile, held) {
            self.urgent.push_back(above);
        }
    }

    fn complete(&mut self, number: u64) {
        self.report_nodes(number);
        let Some(object) = self.objects.remove(&number) else { return };
        self.held -= object.held();
        self.progress.objects = self.objects.len();
        self.events.push_back(Event::ObjectComplete(object.id));
    }

    fn take_refusal(&mut self, now: Duration, p: usize, key: Key, reason: NackReason, way: Way) {
        let answer = self.peers[p].answered(now, key);
        if answer == Answer::Unasked {
            self.progress.unasked += 1;
            return;
        }
        self.peers[p].refused(now);
        if reason == NackReason::CONGESTION || way == Way::Congested {
            self.peers[p].marked(now, answer);
        }
        if reason != NackReason::CONGESTION {
            let id = self.peers[p].id;
            self.avoid(key, id);
        }
        self.ask_again(key);
        if key == Key::from(Wanted::Manifest) && self.phase == Phase::Manifest {
            let times = self.peers[p].manifest_refusals;
            self.peers[p].manifest_refusals += 1;
            self.peers[p].rest(now, times);
            self.manifest_refused();
        }
    }

    /// Not a Data. If its beginning says what it was meant to answer, the peer is to blame.
    fn take_undecodable(&mut self, now: Duration, p: usize, packet: &[u8]) {
        let key = salvage_name(packet).and_then(|name| self.key_of(name));
        let Some(key) = key else {
            self.progress.unasked += 1;
            return;
        };
        if self.peers[p].answered(now, key) == Answer::Unasked {
            self.progress.unasked += 1;
        } else if self.is_missing(key) {
            self.misbehaved(now, p, key, Misbehaviour::Undecodable);
        }
    }
}

/// The name of what begins like a Data, whatever follows the name.
fn salvage_name(packet: &[u8]) -> Option<NameRef<'_>> {
    let (typ, type_len) = tlv::read_var_number(packet).ok()?;
    if typ != u64::from(types::DATA) {
        return None;
    }
    let (_, length_len) = tlv::read_var_number(packet.get(type_len..)?).ok()?;
    let name = packet.get(type_len + length_len..)?;
    let (typ, type_len) = tlv::read_var_number(name).ok()?;
    if typ != u64::from(types::NAME) {
        return None;
    }
    let (length, length_len) = tlv::read_var_number(name.get(type_len..)?).ok()?;
    let start = type_len + length_len;
    let end = start.checked_add(usize::try_from(length).ok()?)?;
    NameRef::from_value(name.get(start..end)?).ok()
}
