//! Fetches the segments of one object, `P/seg=0` to the last: requests them within a window, verifies them, and passes
//! them on in order.
//!
//! Packets come over one [`crate::Connection`]. A callback gets each byte of content once and in order. A FinalBlockId
//! is trusted as far as its packet is, and all of them must agree. Verified metadata fix the number of segments and the
//! size as well, so that a forwarder cannot truncate an object.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use xylem_packet::tlv::types;
use xylem_packet::{
    Component, ContentType, Data, Interest, InterestBuilder, NackReason, Name, NameRef,
};
use xylem_transfer::{Pipeline, TransferConfig};

use crate::{
    Application, CheckError, ClientError, ForwarderMessage, ObjectContradiction, PacketOutbox,
    exact,
};

/// InterestLifetime of a segment. A lost one is requested again long before.
const LIFETIME_MS: u64 = 4000;
/// Most unanswered Interests.
const MAX_WINDOW: u32 = 1024;
/// Most segments kept for want of an earlier one.
const MAX_AHEAD: u64 = 4096;
/// Most segments of one object.
const MAX_SEGMENTS: u64 = 1 << 40;
/// Pause before a refused segment is requested again. [`NOBODY`]: how long Nacks may come without any other answer. A
/// producer that is up answers by then, and a forwarder without a route will not find one soon.
const NACK_PAUSE: Duration = Duration::from_millis(100);
const NACK_TIMEOUT: Duration = Duration::from_secs(2);
/// Most packets that do not verify; one more ends the fetch.
const MAX_BAD: u32 = 8;

/// Facts about an object that are known before its first segment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Expected {
    /// Number of the last segment.
    pub last: Option<u64>,
    /// Bytes of content in all.
    pub size: Option<u64>,
    /// Bytes of content of every segment but the last.
    pub segment_size: Option<u64>,
}

/// Verifies the packets of a [`SegmentFetch`] and receives their content.
pub trait SegmentReceiver {
    /// Verifies a packet; an error states why it is not trusted.
    ///
    /// # Errors
    /// The reason why the packet is not trusted.
    fn check(&mut self, data: &Data<'_>) -> Result<(), CheckError>;
    /// How many packets, within those of one read, are best verified together.
    fn at_once(&self) -> usize {
        1
    }
    /// Runs [`Self::check`] on each of these packets, in their order.
    fn check_many(&mut self, packets: &[Data<'_>]) -> Vec<Result<(), CheckError>> {
        packets.iter().map(|data| self.check(data)).collect()
    }
    /// Takes the next bytes of the object.
    ///
    /// # Errors
    /// If they can't be saved; that ends the fetch.
    fn content(&mut self, bytes: &[u8]) -> std::io::Result<()>;
    /// Reports that `bytes` of `total` were passed on (0: not known).
    fn progress(&mut self, bytes: u64, total: u64);
    /// Reports a packet that did not verify.
    fn bad(&mut self, what: &str);
}

/// Fetches all segments under a prefix, in any order, and passes them on in theirs.
pub struct SegmentFetch<'a, R> {
    prefix: Name,
    expected: Expected,
    to: &'a mut R,
    give_up: Duration,
    pipeline: Pipeline,
    nonce: u32,
    /// Numbers of lost segments, to be requested again.
    again: VecDeque<u64>,
    /// The lowest number never requested.
    next_new: u64,
    /// The lowest number not passed on.
    next_out: u64,
    last: Option<u64>,
    early: BTreeMap<u64, Vec<u8>>,
    bytes: u64,
    bad: u32,
    /// The last packet's error that did not verify.
    last_bad: Option<ClientError>,
    answered: bool,
    /// Since when Nacks have come and nothing else has.
    refused_since: Option<Duration>,
    /// Earliest time of the next request.
    resume_at: Duration,
    /// When a segment verified last, or else when the fetch began.
    last_progress: Option<Duration>,
    packet: Vec<u8>,
    held: HeldPackets,
}

/// Packets to be verified together, with their times of arrival.
#[derive(Default)]
struct HeldPackets {
    packets: Vec<(Duration, u64, Vec<u8>)>,
    /// Buffers for reuse.
    spare: Vec<Vec<u8>>,
}

impl HeldPackets {
    fn keep(&mut self, now: Duration, number: u64, packet: &[u8]) {
        let mut room = self.spare.pop().unwrap_or_default();
        room.clear();
        room.extend_from_slice(packet);
        self.packets.push((now, number, room));
    }
}

impl<'a, R: SegmentReceiver> SegmentFetch<'a, R> {
    /// Fetches the segments under `prefix`. Gives up when nothing verifies for `give_up`. `seed` is random.
    ///
    /// # Errors
    /// Metadata with impossible values.
    pub fn new(
        prefix: Name,
        expected: Expected,
        give_up: Duration,
        seed: u64,
        to: &'a mut R,
    ) -> Result<Self, ClientError> {
        let config = TransferConfig { max_window: MAX_WINDOW, ..TransferConfig::default() };
        let fetch = Self {
            prefix,
            last: expected.last,
            expected,
            to,
            give_up,
            pipeline: Pipeline::new(Duration::ZERO, &config),
            nonce: seed as u32,
            again: VecDeque::new(),
            next_new: 0,
            next_out: 0,
            early: BTreeMap::new(),
            bytes: 0,
            bad: 0,
            last_bad: None,
            answered: false,
            refused_since: None,
            resume_at: Duration::ZERO,
            last_progress: None,
            packet: Vec::new(),
            held: HeldPackets::default(),
        };
        fetch.check_last(0)?;
        Ok(fetch)
    }

    /// Bytes of content, and number of segments, that were passed on.
    ///
    /// # Errors
    /// If the metadata stated another size.
    pub fn finish(self) -> Result<(u64, u64), ClientError> {
        match self.expected.size {
            Some(stated) if stated != self.bytes => {
                Err(ObjectContradiction::Size { received: self.bytes, stated }.into())
            }
            _ => Ok((self.bytes, self.next_out)),
        }
    }

    /// The next number to request. Until the first segment has stated how many there are, only the first.
    fn next_to_ask(&mut self) -> Option<u64> {
        while let Some(number) = self.again.pop_front() {
            let wanted = number >= self.next_out && !self.early.contains_key(&number);
            if wanted && self.last.is_none_or(|last| number <= last) {
                return Some(number);
            }
        }
        let known = match self.last {
            Some(last) => self.next_new <= last,
            None => self.answered || self.next_new == 0,
        };
        if !known || self.next_new >= self.next_out + MAX_AHEAD {
            return None;
        }
        self.next_new += 1;
        Some(self.next_new - 1)
    }

    fn note_mark(&mut self, now: Duration, number: u64, message: &ForwarderMessage<'_>) {
        if message.congested {
            self.pipeline.congested(now, number);
        }
    }

    fn number(&self, name: NameRef<'_>) -> Option<u64> {
        let number = name.last()?.as_number_of(types::SEGMENT_COMPONENT)?;
        (name.parent() == self.prefix.as_ref() && number < MAX_SEGMENTS).then_some(number)
    }

    fn refuse_segment(
        &mut self,
        now: Duration,
        number: u64,
        why: CheckError,
    ) -> Result<(), ClientError> {
        let error = ClientError::not_believed(format!("segment {number}"), why);
        self.to.bad(&error.to_string());
        self.bad += 1;
        if self.bad > MAX_BAD {
            return Err(error);
        }
        self.last_bad = Some(error);
        if self.pipeline.refused(now, number) {
            self.again.push_back(number);
        }
        Ok(())
    }

    fn handle_verified(
        &mut self,
        now: Duration,
        number: u64,
        packet: &Data<'_>,
        judged: Result<(), CheckError>,
    ) -> Result<(), ClientError> {
        if let Err(why) = judged {
            return self.refuse_segment(now, number, why);
        }
        self.pipeline.answered(now, number);
        self.keep_segment(now, number, packet)
    }

    /// Verifies the packets kept for that.
    fn verify_held(&mut self) -> Result<(), ClientError> {
        if self.held.packets.is_empty() {
            return Ok(());
        }
        let held = std::mem::take(&mut self.held.packets);
        let decoded = held.iter().filter_map(|(now, number, packet)| {
            Data::decode(packet).ok().map(|data| (*now, *number, data))
        });
        let (places, packets): (Vec<_>, Vec<_>) =
            decoded.map(|(now, number, data)| ((now, number), data)).unzip();
        let judged = self.to.check_many(&packets);
        for (((now, number), data), judged) in places.into_iter().zip(&packets).zip(judged) {
            self.handle_verified(now, number, data, judged)?;
        }
        self.held.spare.extend(held.into_iter().map(|(_, _, packet)| packet));
        Ok(())
    }

    fn keep_segment(
        &mut self,
        now: Duration,
        number: u64,
        packet: &Data<'_>,
    ) -> Result<(), ClientError> {
        let meta = packet.meta();
        match meta.content_type {
            ContentType::BLOB => {}
            ContentType::NACK => return Err(ClientError::NoSegment { number }),
            _ => {
                let name = self.prefix.child(Component::segment(number));
                return Err(ClientError::NotThis { name, found: exact::describe(packet) });
            }
        }
        if let Some(last) = meta.final_block_id {
            let last = last.as_number_of(types::SEGMENT_COMPONENT);
            let last = last.ok_or(ObjectContradiction::FinalBlockId)?;
            if self.last.replace(last).is_some_and(|before| before != last) {
                return Err(ObjectContradiction::TwoEnds.into());
            }
        }
        self.answered = true;
        if number < self.next_out || self.early.contains_key(&number) {
            return Ok(());
        }
        self.check_last(number)?;
        self.check_length(number, packet.content().len())?;
        self.last_progress = Some(now);
        if number > self.next_out {
            self.early.insert(number, packet.content().to_vec());
            return Ok(());
        }
        self.pass_on(packet.content())?;
        while let Some(content) = self.early.remove(&self.next_out) {
            self.pass_on(&content)?;
        }
        Ok(())
    }

    fn pass_on(&mut self, content: &[u8]) -> Result<(), ClientError> {
        self.next_out += 1;
        self.bytes += content.len() as u64;
        self.to.content(content).map_err(ClientError::Output)
    }

    /// Checks that no segment has a number beyond the last.
    fn check_last(&self, number: u64) -> Result<(), ClientError> {
        let Some(last) = self.last else { return Ok(()) };
        let highest = self.early.keys().next_back().map_or(number, |early| number.max(*early));
        if last < highest || last >= MAX_SEGMENTS {
            return Err(ObjectContradiction::BehindEnd { last, highest }.into());
        }
        if self.expected.last.is_some_and(|expected| expected != last) {
            return Err(ObjectContradiction::OtherEnd.into());
        }
        Ok(())
    }

    fn check_length(&self, number: u64, len: usize) -> Result<(), ClientError> {
        let (Some(size), Some(last)) = (self.expected.segment_size, self.last) else {
            return Ok(());
        };
        let right = if number < last { len as u64 == size } else { len as u64 <= size };
        if right {
            return Ok(());
        }
        Err(ObjectContradiction::SegmentLength { number, len, stated: size }.into())
    }

    fn gave_up(&mut self) -> ClientError {
        // Packets did arrive, time and again, but failed to verify: report that.
        self.last_bad.take().unwrap_or(ClientError::SegmentMissing {
            number: self.next_out,
            last: self.last,
            after: self.give_up,
        })
    }
}

impl<R: SegmentReceiver> Application for SegmentFetch<'_, R> {
    fn transmit(
        &mut self,
        now: Duration,
        outbox: &mut PacketOutbox<'_>,
    ) -> Result<(), ClientError> {
        self.verify_held()?;
        self.to.progress(self.bytes, self.expected.size.unwrap_or(0));
        if now > *self.last_progress.get_or_insert(now) + self.give_up {
            return Err(self.gave_up());
        }
        while let Some(lost) = self.pipeline.take_lost(now) {
            self.again.push_back(lost);
        }
        while now >= self.resume_at && self.pipeline.may_ask(now) {
            let Some(number) = self.next_to_ask() else { break };
            self.packet.clear();
            let name = self.prefix.child(Component::segment(number));
            self.nonce = self.nonce.wrapping_add(0x9e37_79b1);
            InterestBuilder::new(name.as_ref())
                .nonce(self.nonce.to_be_bytes())
                .lifetime_ms(LIFETIME_MS)
                .encode(&mut self.packet)
                .map_err(|e| ClientError::bad_name(&name, e))?;
            outbox.packet(&self.packet, None);
            self.pipeline.sent(now, number);
        }
        Ok(())
    }

    fn handle_message(
        &mut self,
        now: Duration,
        message: ForwarderMessage<'_>,
        _outbox: &mut PacketOutbox<'_>,
    ) -> Result<(), ClientError> {
        if let Some(reason) = message.nack {
            let returned = Interest::decode(message.packet).ok();
            if let Some(number) = returned.and_then(|i| self.number(i.name())) {
                self.note_mark(now, number, &message);
                if self.pipeline.refused(now, number) {
                    self.again.push_back(number);
                }
                if reason == NackReason::NO_ROUTE && !self.answered {
                    if now > *self.refused_since.get_or_insert(now) + NACK_TIMEOUT {
                        let name = self.prefix.clone();
                        return Err(ClientError::Nack { name, reason });
                    }
                    self.resume_at = now + NACK_PAUSE;
                }
            }
            return Ok(());
        }
        let Ok(packet) = Data::decode(message.packet) else { return Ok(()) };
        let Some(number) = self.number(packet.name()) else { return Ok(()) };
        if number >= self.next_new {
            return Ok(()); // never requested
        }
        self.note_mark(now, number, &message);
        let at_once = self.to.at_once();
        if at_once > 1 {
            self.held.keep(now, number, message.packet);
            return if self.held.packets.len() >= at_once { self.verify_held() } else { Ok(()) };
        }
        let judged = self.to.check(&packet);
        self.handle_verified(now, number, &packet, judged)
    }

    fn poll_timeout(&self, now: Duration) -> Option<Duration> {
        let timer = self.pipeline.next_timer(now).map(|at| at.max(now + Duration::from_millis(1)));
        let resumes = Some(self.resume_at).filter(|at| *at > now);
        timer.into_iter().chain(resumes).min()
    }

    fn is_done(&self) -> bool {
        self.last.is_some_and(|last| self.next_out > last)
    }
}

#[cfg(test)]
mod tests;
