//! Load for a forwarder: Interests at a rate, or as fast as a window permits, and a server that answers them.
//!
//! The generator requests `PREFIX/<16 hexadecimal digits>`. It patches number and nonce into one template, and finds
//! the answer's number at its place in the name. The server puts each name before one prepared tail. Neither decodes
//! more than it needs, so that the measurement is of the forwarder. The Data are unsigned (SignatureType 200,
//! NullSignature).

mod serve;

use std::time::Duration;

use xylem_packet::tlv::{self, TlvReader, types};
use xylem_packet::{Component, Interest, InterestBuilder, Name};

use crate::{
    Application, ClientError, ForwarderMessage, Histogram, NameFlaw, PacketOutbox, STOP_CHECK_EVERY,
};

pub use serve::{TrafficServed, TrafficServer};

/// Digits of the number in a name.
const DIGITS: usize = 16;
/// Most unanswered Interests.
pub const MAX_WINDOW: usize = 1 << 20;
/// Slots for unanswered Interests, for each that the window permits. A lost one keeps its slot until it expires, while
/// others go on.
const SLOTS_PER_WINDOW: usize = 8;
/// Interval at which expired Interests are counted as lost.
const SWEEP: Duration = Duration::from_millis(100);
/// Most Interests queued before arriving packets are handled.
const BURST: usize = 4096;

/// Options of the load.
#[derive(Clone, Debug)]
pub struct TrafficOptions {
    /// Prefix of the names to request.
    pub prefix: Name,
    /// Interests a second; `None`: as fast as answers arrive.
    pub rate: Option<f64>,
    /// Most unanswered Interests.
    pub window: usize,
    /// Duration of the load.
    pub duration: Duration,
    /// Number of names, requested over and over; `None`: each name once.
    pub names: Option<u64>,
    /// First number. Runs that must not find each other's Data in caches start at different numbers.
    pub start: u64,
    /// InterestLifetime. Interests unanswered for longer are lost.
    pub lifetime: Duration,
    /// Whether stale Data is refused.
    pub must_be_fresh: bool,
    /// Octets of a PIT token to send with Interests; 0: none.
    pub pit_token: usize,
}

/// Results of the load.
#[derive(Clone, Debug, Default)]
pub struct TrafficReport {
    /// Interests sent.
    pub sent: u64,
    /// Interests answered with their Data.
    pub answered: u64,
    /// Interests refused.
    pub nacked: u64,
    /// Interests without an answer within their lifetime, or before the end of the run.
    pub lost: u64,
    /// Packets that answer no request.
    pub unasked: u64,
    /// Packets with a congestion mark.
    pub congested: u64,
    /// Bytes of Data packets.
    pub bytes: u64,
    /// Time from the first Interest to the last answer or the end of the run.
    pub elapsed: Duration,
    /// Time from Interest to Data.
    pub latency: Histogram,
}

/// An encoded Interest that is patched for each use.
struct Template {
    interest: Vec<u8>,
    number_at: usize,
    nonce_at: usize,
    /// The name up to the number.
    name: Vec<u8>,
}

impl Template {
    fn new(options: &TrafficOptions) -> Result<Self, ClientError> {
        let name = options.prefix.child(Component::generic(&[b'0'; DIGITS]));
        let lifetime = u64::try_from(options.lifetime.as_millis()).unwrap_or(u64::MAX);
        let mut interest = Vec::new();
        InterestBuilder::new(name.as_ref())
            .must_be_fresh(options.must_be_fresh)
            .nonce([0; 4])
            .lifetime_ms(lifetime)
            .encode(&mut interest)
            .map_err(no_interest)?;
        let head = |len: usize| 1 + tlv::var_number_len(len as u64);
        let value = name.as_ref().value();
        // A length below 253 takes one octet; one of a packet's size else takes three.
        let outer = if interest[1] < 253 { 2 } else { 4 };
        let number_at = outer + head(value.len()) + value.len() - DIGITS;
        let nonce_at = Interest::decode(&interest)
            .ok()
            .and_then(|i| i.nonce_offset())
            .ok_or_else(|| no_interest(NameFlaw::NoNonce))?;
        let name = value[..value.len() - DIGITS].to_vec();
        debug_assert_eq!(&interest[number_at..number_at + DIGITS], [b'0'; DIGITS]);
        Ok(Self { interest, number_at, nonce_at, name })
    }

    fn fill(&mut self, number: u64, nonce: u32) -> &[u8] {
        const HEX: [u8; 16] = *b"0123456789abcdef";
        let place = &mut self.interest[self.number_at..self.number_at + DIGITS];
        for (i, digit) in place.iter_mut().enumerate() {
            *digit = HEX[(number >> (60 - 4 * i) & 15) as usize];
        }
        self.interest[self.nonce_at..self.nonce_at + 4].copy_from_slice(&nonce.to_be_bytes());
        &self.interest
    }

    /// The number in a packet's name; `None` if the name does not begin as the template's.
    fn number(&self, packet: &[u8], typ: u32) -> Option<u64> {
        let outer = TlvReader::new(packet).next_element().ok()??;
        let name = TlvReader::new(outer.value).next_element().ok()??;
        if outer.typ != typ || name.typ != types::NAME {
            return None;
        }
        let digits = name.value.strip_prefix(self.name.as_slice())?;
        if digits.len() != DIGITS {
            return None;
        }
        digits.iter().try_fold(0, |number, digit| {
            Some(number << 4 | u64::from(char::from(*digit).to_digit(16)?))
        })
    }
}

/// An unanswered Interest.
#[derive(Clone, Copy, Default)]
struct TrafficSlot {
    number: u64,
    /// When it was sent, since the start; `None`: the slot is free.
    sent: Option<Duration>,
}

/// Makes load and measures the answers.
pub struct Generator {
    options: TrafficOptions,
    template: Template,
    token: Vec<u8>,
    slots: Vec<TrafficSlot>,
    mask: u64,
    /// Numbers used so far; the next name is this one, modulo `names`.
    serial: u64,
    start: u64,
    names: u64,
    nonce: u32,
    outstanding: usize,
    /// When the first Interest went out.
    started: Option<Duration>,
    /// Set when no more Interests are sent: since when.
    asked_until: Option<Duration>,
    swept: Duration,
    last_answer: Duration,
    report: TrafficReport,
}

impl Generator {
    /// Makes this load; `seed` is random.
    ///
    /// # Errors
    /// A prefix that makes no Interest.
    pub fn new(options: TrafficOptions, seed: u64) -> Result<Self, ClientError> {
        let slots = (options.window.clamp(1, MAX_WINDOW) * SLOTS_PER_WINDOW).next_power_of_two();
        Ok(Self {
            template: Template::new(&options)?,
            token: vec![b'x'; options.pit_token.min(xylem_packet::MAX_PIT_TOKEN)],
            slots: vec![TrafficSlot::default(); slots],
            mask: slots as u64 - 1,
            serial: 0,
            start: options.start,
            names: options.names.unwrap_or(u64::MAX).max(1),
            nonce: seed as u32,
            outstanding: 0,
            started: None,
            asked_until: None,
            swept: Duration::ZERO,
            last_answer: Duration::ZERO,
            report: TrafficReport::default(),
            options,
        })
    }

    /// Queues up to `count` Interests; fewer if the names that are due still wait for an answer.
    fn ask(&mut self, now: Duration, count: usize, outbox: &mut PacketOutbox<'_>) {
        for _ in 0..count {
            let Some(number) = self.free_number() else { return };
            let slot = &mut self.slots[(number & self.mask) as usize];
            *slot = TrafficSlot { number, sent: Some(now) };
            // The increment is odd: no nonce repeats within 2^32 Interests.
            self.nonce = self.nonce.wrapping_add(0x9e37_79b1);
            let token = (!self.token.is_empty()).then_some(self.token.as_slice());
            outbox.packet(self.template.fill(number, self.nonce), token);
            self.outstanding += 1;
            self.report.sent += 1;
        }
    }

    /// The next number with a free slot.
    fn free_number(&mut self) -> Option<u64> {
        for _ in 0..=self.mask {
            let number = self.start.wrapping_add(self.serial % self.names);
            self.serial += 1;
            if self.slots[(number & self.mask) as usize].sent.is_none() {
                return Some(number);
            }
        }
        None
    }

    fn count_answer(&mut self, message: ForwarderMessage<'_>, now: Duration) {
        self.report.congested += u64::from(message.congested);
        let typ = if message.nack.is_some() { types::INTEREST } else { types::DATA };
        let number = self.template.number(message.packet, typ);
        let asked = number.and_then(|number| {
            let slot = &mut self.slots[(number & self.mask) as usize];
            if slot.number == number { slot.sent.take() } else { None }
        });
        let Some(sent) = asked else {
            self.report.unasked += 1;
            return;
        };
        self.outstanding -= 1;
        self.last_answer = now;
        if message.nack.is_some() {
            self.report.nacked += 1;
            return;
        }
        self.report.answered += 1;
        self.report.bytes += message.packet.len() as u64;
        self.report.latency.add(now.saturating_sub(sent));
    }

    /// Counts Interests unanswered for longer than their lifetime as lost.
    fn sweep(&mut self, now: Duration) {
        if now < self.swept + SWEEP {
            return;
        }
        self.swept = now;
        for slot in &mut self.slots {
            if slot.sent.is_some_and(|sent| sent + self.options.lifetime < now) {
                slot.sent = None;
                self.outstanding -= 1;
                self.report.lost += 1;
            }
        }
    }

    /// The number of Interests that are due now, and the time until the next one is.
    fn due(&self, since: Duration) -> (usize, Duration) {
        let free = self.options.window.clamp(1, MAX_WINDOW).saturating_sub(self.outstanding);
        let Some(rate) = self.options.rate else { return (free.min(BURST), STOP_CHECK_EVERY) };
        let by_now = since.as_secs_f64() * rate;
        let due = (by_now - self.report.sent as f64).max(0.0);
        let next = (1.0 - due.fract()) / rate;
        (
            free.min(due as usize).min(BURST),
            Duration::from_secs_f64(next.min(STOP_CHECK_EVERY.as_secs_f64())),
        )
    }
}

impl Generator {
    /// The results. Unanswered Interests count as lost.
    #[must_use]
    pub fn into_report(self) -> TrafficReport {
        let mut report = self.report;
        report.lost += self.outstanding as u64;
        let began = self.started.unwrap_or_default();
        let end = self.asked_until.unwrap_or(began).max(self.last_answer);
        report.elapsed = end.saturating_sub(began);
        report
    }
}

impl Application for Generator {
    fn transmit(
        &mut self,
        now: Duration,
        outbox: &mut PacketOutbox<'_>,
    ) -> Result<(), ClientError> {
        let since = now.saturating_sub(*self.started.get_or_insert(now));
        self.sweep(now);
        if since < self.options.duration {
            let (due, _) = self.due(since);
            self.ask(now, due, outbox);
        } else {
            // Send nothing more; outstanding answers may still arrive.
            self.asked_until.get_or_insert(now);
        }
        Ok(())
    }

    fn handle_message(
        &mut self,
        now: Duration,
        message: ForwarderMessage<'_>,
        _outbox: &mut PacketOutbox<'_>,
    ) -> Result<(), ClientError> {
        self.count_answer(message, now);
        Ok(())
    }

    fn poll_timeout(&self, now: Duration) -> Option<Duration> {
        let started = self.started?;
        if self.asked_until.is_some() {
            return None;
        }
        let (_, wait) = self.due(now.saturating_sub(started));
        Some((now + wait).min(started + self.options.duration))
    }

    fn is_done(&self) -> bool {
        self.asked_until.is_some() && self.outstanding == 0
    }
}

fn no_interest(why: impl Into<NameFlaw>) -> ClientError {
    ClientError::bad_name("no Interest can be made of the prefix", why)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(prefix: &str, names: Option<u64>) -> TrafficOptions {
        TrafficOptions {
            prefix: prefix.parse().unwrap(),
            rate: None,
            window: 4,
            duration: Duration::from_secs(1),
            names,
            start: 0,
            lifetime: Duration::from_secs(4),
            must_be_fresh: true,
            pit_token: 0,
        }
    }

    #[test]
    fn numbers_are_found_where_they_were_put() {
        for len in [1, 150, 210, 230, 231, 232, 233, 300] {
            let prefix = format!("/{}", "p".repeat(len));
            let mut template = Template::new(&options(&prefix, None)).unwrap();
            let interest = template.fill(0x0123_4567_89ab_cdef, 7).to_vec();
            let decoded = Interest::decode(&interest).unwrap();
            assert_eq!(decoded.name().to_string(), format!("{prefix}/0123456789abcdef"));
            assert_eq!(decoded.nonce(), Some([0, 0, 0, 7]));
            assert_eq!(template.number(&interest, types::INTEREST), Some(0x0123_4567_89ab_cdef));
            assert_eq!(template.number(&interest, types::DATA), None);
            assert_eq!(template.number(&interest[1..], types::INTEREST), None);
        }
    }

    #[test]
    fn names_are_not_requested_again_before_their_answer() {
        let mut generator = Generator::new(options("/p", Some(3)), 0).unwrap();
        let mut connection = crate::Connection::new(xylem_packet::MAX_FRAME, false, 0);
        let now = Duration::ZERO;
        generator.ask(now, 5, &mut connection.outbox(now));
        assert_eq!((generator.report.sent, generator.outstanding), (3, 3));
        let message =
            ForwarderMessage { packet: &[], pit_token: None, nack: None, congested: false };
        generator.count_answer(message, Duration::from_millis(1));
        assert_eq!((generator.report.unasked, generator.outstanding), (1, 3));
    }
}
