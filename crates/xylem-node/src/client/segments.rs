//! The segments of one object, `P/seg=0` to the last: asked for through a window, verified, handed
//! on in order.
//!
//! Packets come over one [`Client`]; contents go to a callback that sees each byte once and in its
//! place. FinalBlockId is believed as far as its packet is: all that say one must agree, and a
//! metadata packet that was verified binds the number and the size as well, so that an object can't
//! be cut short by who only passes it on.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use xylem_packet::tlv::types;
use xylem_packet::{Component, ContentType, Data, Interest, InterestBuilder, Name, NameRef};
use xylem_transfer::{Config, Pipeline};

use super::trust::Trust;
use super::{Client, GLANCE, Message, interrupted, random_seed};
use xylem_library::{Blame, Error, Stop};

/// InterestLifetime of a segment; what is lost is asked again long before.
const LIFETIME_MS: u64 = 4000;
/// Interests that may be unanswered.
const MAX_WINDOW: u32 = 1024;
/// Segments that may be kept for want of an earlier one.
const MAX_AHEAD: u64 = 4096;
/// Segments of one object.
const MAX_SEGMENTS: u64 = 1 << 40;
/// Packets that did not verify after which there is no hope.
const MAX_BAD: u32 = 8;

/// What is known of an object before its first segment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Expected {
    /// The last segment.
    pub(crate) last: Option<u64>,
    /// Bytes of content in all.
    pub(crate) size: Option<u64>,
    /// Bytes of content of every segment but the last.
    pub(crate) segment_size: Option<u64>,
}

/// What the fetch tells while it runs.
pub(crate) trait Receiver {
    /// The next bytes of the object.
    fn content(&mut self, bytes: &[u8]) -> Result<(), Error>;
    /// So many bytes were handed on, of so many (0: not known).
    fn progress(&mut self, bytes: u64, total: u64);
    /// A packet did not verify.
    fn bad(&mut self, what: &str);
}

struct Fetch<'a> {
    prefix: NameRef<'a>,
    trust: &'a Trust,
    expected: Expected,
    pipeline: Pipeline,
    started: Instant,
    nonce: u32,
    /// Lost ones, to be asked again.
    again: VecDeque<u64>,
    /// The lowest that was never asked.
    next_new: u64,
    /// The lowest that was not handed on.
    next_out: u64,
    last: Option<u64>,
    early: BTreeMap<u64, Vec<u8>>,
    bytes: u64,
    bad: u32,
    /// The last packet that did not verify.
    last_bad: String,
    answered: bool,
    progress_at: Duration,
    failure: Option<Error>,
}

/// Fetches every segment under `prefix`: bytes of content, and segments.
///
/// # Errors
/// [`Blame::Network`] if nothing comes for `give_up`, [`Blame::Data`] if packets do not verify or
/// contradict each other, [`Blame::Interrupted`], and those of `to`.
pub(crate) fn fetch(
    client: &mut Client,
    prefix: &Name,
    trust: &Trust,
    expected: Expected,
    give_up: Duration,
    stop: &Stop,
    to: &mut dyn Receiver,
) -> Result<(u64, u64), Error> {
    let config = Config { max_window: MAX_WINDOW, ..Config::default() };
    let mut fetch = Fetch {
        prefix: prefix.as_ref(),
        trust,
        last: expected.last,
        expected,
        pipeline: Pipeline::new(Duration::ZERO, &config),
        started: Instant::now(),
        nonce: random_seed()? as u32,
        again: VecDeque::new(),
        next_new: 0,
        next_out: 0,
        early: BTreeMap::new(),
        bytes: 0,
        bad: 0,
        last_bad: String::new(),
        answered: false,
        progress_at: Duration::ZERO,
        failure: None,
    };
    fetch.check_last(0)?;
    while !fetch.is_done() {
        if stop.raised() {
            return Err(interrupted());
        }
        fetch.turn(client, to)?;
        let silent = fetch.started.elapsed().saturating_sub(fetch.progress_at);
        if silent > give_up {
            return Err(fetch.gave_up(give_up));
        }
    }
    fetch.check_size()?;
    Ok((fetch.bytes, fetch.next_out))
}

impl Fetch<'_> {
    fn is_done(&self) -> bool {
        self.last.is_some_and(|last| self.next_out > last)
    }

    /// Asks for what may be asked, waits for what comes.
    fn turn(&mut self, client: &mut Client, to: &mut dyn Receiver) -> Result<(), Error> {
        let now = self.started.elapsed();
        while let Some(lost) = self.pipeline.take_lost(now) {
            self.again.push_back(lost);
        }
        let mut packet = Vec::new();
        while self.pipeline.may_ask(now) {
            let Some(number) = self.next_to_ask() else { break };
            packet.clear();
            let name = self.prefix.child(Component::segment(number));
            self.nonce = self.nonce.wrapping_add(0x9e37_79b1);
            InterestBuilder::new(name.as_ref())
                .nonce(self.nonce.to_be_bytes())
                .lifetime_ms(LIFETIME_MS)
                .encode(&mut packet)
                .map_err(|e| data(format!("the object's name makes no Interest: {e}")))?;
            client.outbox().packet(&packet, None);
            self.pipeline.sent(now, number);
        }
        let timer = self.pipeline.next_timer(now).map(|at| at.saturating_sub(now));
        let wait = timer.map_or(GLANCE, |t| t.clamp(Duration::from_millis(1), GLANCE));
        client.receive(wait, &mut |message, _| {
            if self.failure.is_none()
                && let Err(error) = self.heard(message, to)
            {
                self.failure = Some(error);
            }
        })?;
        match self.failure.take() {
            Some(error) => Err(error),
            None => {
                to.progress(self.bytes, self.expected.size.unwrap_or(0));
                Ok(())
            }
        }
    }

    /// The first segment alone, until it says how many there are.
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

    fn heard(&mut self, message: Message<'_>, to: &mut dyn Receiver) -> Result<(), Error> {
        let now = self.started.elapsed();
        if message.nack.is_some() {
            let returned = Interest::decode(message.packet).ok();
            if let Some(number) = returned.and_then(|i| self.number(i.name())) {
                self.note_mark(now, number, &message);
                if self.pipeline.refused(now, number) {
                    self.again.push_back(number);
                }
            }
            return Ok(());
        }
        let Ok(packet) = Data::decode(message.packet) else { return Ok(()) };
        let Some(number) = self.number(packet.name()) else { return Ok(()) };
        if number >= self.next_new {
            return Ok(()); // never asked for
        }
        self.note_mark(now, number, &message);
        if let Err(why) = self.trust.check(&packet) {
            return self.not_verified(now, number, &why, to);
        }
        self.pipeline.answered(now, number, message.packet.len());
        self.take(now, number, &packet, to)
    }

    fn note_mark(&mut self, now: Duration, number: u64, message: &Message<'_>) {
        if message.congested {
            self.pipeline.congested(now, number);
        }
    }

    fn number(&self, name: NameRef<'_>) -> Option<u64> {
        let number = name.last()?.as_number_of(types::SEGMENT_COMPONENT)?;
        (name.parent() == self.prefix && number < MAX_SEGMENTS).then_some(number)
    }

    fn not_verified(
        &mut self,
        now: Duration,
        number: u64,
        why: &str,
        to: &mut dyn Receiver,
    ) -> Result<(), Error> {
        let what = format!("segment {number}: {why}");
        to.bad(&what);
        self.bad += 1;
        if self.bad > MAX_BAD {
            return Err(data(what));
        }
        self.last_bad = what;
        if self.pipeline.refused(now, number) {
            self.again.push_back(number);
        }
        Ok(())
    }

    /// Takes a segment that verified.
    fn take(
        &mut self,
        now: Duration,
        number: u64,
        packet: &Data<'_>,
        to: &mut dyn Receiver,
    ) -> Result<(), Error> {
        let meta = packet.meta();
        if meta.content_type == ContentType::NACK {
            let message = format!("the publisher says that it has no segment {number}");
            return Err(Error { blame: Blame::Network, message });
        }
        if let Some(last) = meta.final_block_id {
            let last = last.as_number_of(types::SEGMENT_COMPONENT);
            let last = last.ok_or_else(|| data("FinalBlockId is no segment's number"))?;
            if self.last.replace(last).is_some_and(|before| before != last) {
                return Err(data("the packets disagree about which segment is the last"));
            }
        }
        self.answered = true;
        if number < self.next_out || self.early.contains_key(&number) {
            return Ok(());
        }
        self.check_last(number)?;
        self.check_length(number, packet.content().len())?;
        self.progress_at = now;
        if number > self.next_out {
            self.early.insert(number, packet.content().to_vec());
            return Ok(());
        }
        self.hand_on(packet.content(), to)?;
        while let Some(content) = self.early.remove(&self.next_out) {
            self.hand_on(&content, to)?;
        }
        Ok(())
    }

    fn hand_on(&mut self, content: &[u8], to: &mut dyn Receiver) -> Result<(), Error> {
        self.next_out += 1;
        self.bytes += content.len() as u64;
        to.content(content)
    }

    /// The last segment must not stand before one that there is.
    fn check_last(&self, number: u64) -> Result<(), Error> {
        let Some(last) = self.last else { return Ok(()) };
        let highest = self.early.keys().next_back().map_or(number, |early| number.max(*early));
        if last < highest || last >= MAX_SEGMENTS {
            return Err(data(format!("FinalBlockId is {last}, but there is a segment {highest}")));
        }
        if self.expected.last.is_some_and(|expected| expected != last) {
            return Err(data("the packets disagree with the metadata about the last segment"));
        }
        Ok(())
    }

    fn check_length(&self, number: u64, len: usize) -> Result<(), Error> {
        let (Some(size), Some(last)) = (self.expected.segment_size, self.last) else {
            return Ok(());
        };
        let right = if number < last { len as u64 == size } else { len as u64 <= size };
        if right {
            return Ok(());
        }
        Err(data(format!("segment {number} has {len} bytes where the metadata says {size}")))
    }

    fn check_size(&self) -> Result<(), Error> {
        match self.expected.size {
            Some(size) if size != self.bytes => {
                let message = format!("{} bytes came where the metadata says {size}", self.bytes);
                Err(data(message))
            }
            _ => Ok(()),
        }
    }

    fn gave_up(&self, after: Duration) -> Error {
        // Something came, time and again, and it is wrong: that is the news.
        if self.bad > 0 {
            return data(self.last_bad.clone());
        }
        let end = match self.last {
            Some(last) => format!("of 0 to {last}"),
            None => "and no packet said which is the last".to_owned(),
        };
        Error {
            blame: Blame::Network,
            message: format!(
                "segment {} did not come within {} s, {end}",
                self.next_out,
                after.as_secs_f64()
            ),
        }
    }
}

fn data(message: impl Into<String>) -> Error {
    Error { blame: Blame::Data, message: message.into() }
}
