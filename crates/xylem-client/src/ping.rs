//! [`Pinger`] and [`PingServer`]: test reachability and round trip with `PREFIX/ping/<number>`, as in ndnping.

use std::collections::BTreeMap;
use std::time::Duration;

use xylem_packet::{Component, Data, DataBuilder, Interest, Name, NameRef, Packet};
use xylem_trust::Signer;

use crate::{
    Application, ClientError, ForwarderMessage, Histogram, InterestRequest, PacketOutbox,
    PacketOverflow, satisfies,
};

const PING: &[u8] = b"ping";
/// Most unanswered pings; one more counts the oldest as lost.
const MAX_WAITING: usize = 65_536;

/// `PREFIX/ping`, the prefix of pings.
#[must_use]
pub fn ping_name(prefix: NameRef<'_>) -> Name {
    prefix.child(Component::generic(PING))
}

/// The outcome of one ping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PingOutcome {
    /// Answered, after this time.
    Answer(Duration),
    /// Refused by the forwarder: the reason's number, and the time it took.
    Nack(u64, Duration),
    /// No answer came in time.
    Timeout,
}

/// The outcome of all pings.
#[derive(Clone, Debug, Default)]
pub struct PingReport {
    /// Pings sent.
    pub sent: u64,
    /// Pings refused.
    pub nacked: u64,
    /// Pings without an answer.
    pub lost: u64,
    /// Round-trip times of the answered pings.
    pub times: Histogram,
}

/// Sends pings and waits for their answers.
pub struct Pinger<'a> {
    prefix: Name,
    interval: Duration,
    timeout: Duration,
    /// Pings still to be sent.
    left: u64,
    next: u64,
    nonce: u32,
    /// When the next ping is due; `None` before the first.
    due: Option<Duration>,
    /// When each unanswered ping was sent, by its number.
    waiting: BTreeMap<u64, Duration>,
    report: PingReport,
    on_ping: &'a mut dyn FnMut(u64, PingOutcome),
}

impl<'a> Pinger<'a> {
    /// Pings `prefix` (without `ping`) `count` times, numbered from `first`, one in each `interval`.
    pub fn new(
        prefix: NameRef<'_>,
        interval: Duration,
        timeout: Duration,
        count: Option<u64>,
        first: u64,
        seed: u64,
        on_ping: &'a mut dyn FnMut(u64, PingOutcome),
    ) -> Self {
        Self {
            prefix: ping_name(prefix),
            interval,
            timeout,
            left: count.unwrap_or(u64::MAX),
            next: first,
            nonce: seed as u32,
            due: None,
            waiting: BTreeMap::new(),
            report: PingReport::default(),
            on_ping,
        }
    }

    /// The outcome of all pings.
    #[must_use]
    pub fn into_report(self) -> PingReport {
        self.report
    }

    /// Counts overdue pings as lost, and the oldest if there are too many.
    fn expire(&mut self, now: Duration) {
        loop {
            let full = self.waiting.len() >= MAX_WAITING;
            let late = |sent: &Duration| *sent + self.timeout <= now || full;
            let Some((number, _)) = self.waiting.iter().find(|(_, sent)| late(sent)) else {
                return;
            };
            let number = *number;
            self.waiting.remove(&number);
            self.report.lost += 1;
            (self.on_ping)(number, PingOutcome::Timeout);
        }
    }
}

impl Application for Pinger<'_> {
    fn transmit(
        &mut self,
        now: Duration,
        outbox: &mut PacketOutbox<'_>,
    ) -> Result<(), ClientError> {
        self.expire(now);
        let due = *self.due.get_or_insert(now);
        if self.left > 0 && now >= due {
            let name = self.prefix.child(Component::generic(self.next.to_string().as_bytes()));
            self.nonce = self.nonce.wrapping_add(0x9e37_79b1);
            let question = InterestRequest {
                must_be_fresh: true,
                ..InterestRequest::exactly(name, self.timeout)
            };
            outbox.packet(&question.encode(self.nonce.to_be_bytes())?, None);
            self.waiting.insert(self.next, now);
            self.next = self.next.wrapping_add(1);
            self.left -= 1;
            self.report.sent += 1;
            self.due = Some(due + self.interval);
        }
        Ok(())
    }

    fn handle_message(
        &mut self,
        now: Duration,
        message: ForwarderMessage<'_>,
        _outbox: &mut PacketOutbox<'_>,
    ) -> Result<(), ClientError> {
        let answered = answered(self.prefix.as_ref(), message);
        let Some((number, nack)) = answered else { return Ok(()) };
        let Some(sent) = self.waiting.remove(&number) else { return Ok(()) };
        let after = now.saturating_sub(sent);
        match nack {
            None => {
                self.report.times.add(after);
                (self.on_ping)(number, PingOutcome::Answer(after));
            }
            Some(reason) => {
                self.report.nacked += 1;
                (self.on_ping)(number, PingOutcome::Nack(reason, after));
            }
        }
        Ok(())
    }

    fn poll_timeout(&self, _now: Duration) -> Option<Duration> {
        // Take the minimum: after the numbers have wrapped, the first in the map is not the oldest.
        let expires = self.waiting.values().min().map(|sent| *sent + self.timeout);
        let sends = self.due.filter(|_| self.left > 0);
        expires.into_iter().chain(sends).min()
    }

    fn is_done(&self) -> bool {
        self.left == 0 && self.waiting.is_empty()
    }
}

/// The number of the ping that a message is about, and the reason's number if it was refused.
fn answered(prefix: NameRef<'_>, message: ForwarderMessage<'_>) -> Option<(u64, Option<u64>)> {
    let name = match (Packet::decode(message.packet).ok()?, message.nack) {
        (Packet::Data(data), None) => data.name(),
        (Packet::Interest(interest), Some(_)) => interest.name(),
        _ => return None,
    };
    let number = name.last().filter(|_| name.parent() == prefix)?;
    let number = std::str::from_utf8(number.value()).ok()?.parse().ok()?;
    Some((number, message.nack.map(|reason| reason.0)))
}

/// Answers pings.
pub struct PingServer<'a> {
    prefix: Name,
    content: Vec<u8>,
    freshness_ms: u64,
    left: u64,
    answered: u64,
    on_ping: &'a mut dyn FnMut(&Name),
}

impl<'a> PingServer<'a> {
    /// Answers `count` pings of `prefix` (without `ping`), each with `size` bytes.
    ///
    /// # Errors
    /// A size that no packet has.
    pub fn new(
        prefix: NameRef<'_>,
        size: usize,
        freshness: Duration,
        count: Option<u64>,
        on_ping: &'a mut dyn FnMut(&Name),
    ) -> Result<Self, ClientError> {
        let freshness_ms = u64::try_from(freshness.as_millis()).unwrap_or(u64::MAX);
        let (content, left) = (vec![b'a'; size], count.unwrap_or(u64::MAX));
        let prefix = ping_name(prefix);
        let server = Self { prefix, content, freshness_ms, left, answered: 0, on_ping };
        let example = server.prefix.child(Component::generic(u64::MAX.to_string().as_bytes()));
        server.answer(example.as_ref())?;
        Ok(server)
    }

    /// The prefix to register at the forwarder.
    #[must_use]
    pub fn served(&self) -> NameRef<'_> {
        self.prefix.as_ref()
    }

    /// Pings that were answered.
    #[must_use]
    pub fn answered(&self) -> u64 {
        self.answered
    }

    fn answer(&self, name: NameRef<'_>) -> Result<Vec<u8>, ClientError> {
        let mut packet = Vec::new();
        let builder = DataBuilder::new(name).freshness_ms(self.freshness_ms);
        let signed = Signer::digest_sha256().data(builder, &self.content, &mut packet);
        signed.map(|()| packet).map_err(|e| PacketOverflow::Answer(e).into())
    }
}

impl Application for PingServer<'_> {
    fn handle_message(
        &mut self,
        _now: Duration,
        message: ForwarderMessage<'_>,
        outbox: &mut PacketOutbox<'_>,
    ) -> Result<(), ClientError> {
        let interest = Interest::decode(message.packet).ok().filter(|_| message.nack.is_none());
        let Some(interest) = interest.filter(|_| self.left > 0) else { return Ok(()) };
        let name = interest.name();
        if self.prefix.is_prefix_of(name)
            && let Ok(packet) = self.answer(name)
            && Data::decode(&packet).is_ok_and(|data| satisfies(&data, &interest))
        {
            outbox.packet(&packet, message.pit_token);
            self.answered += 1;
            self.left -= 1;
            (self.on_ping)(&name.to_name());
        }
        Ok(())
    }

    fn is_done(&self) -> bool {
        self.left == 0
    }
}
