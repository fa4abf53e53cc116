//! Load for a forwarder: Interests at a rate or as fast as a window allows, and who answers them.
//!
//! The generator asks for `PREFIX/<16 hexadecimal digits>`, patching number and nonce into one
//! template, and finds the answer's number where it stands in the name; the answerer puts each
//! name before one prepared tail. Neither decodes more than it needs, so that what is measured is
//! the forwarder. The Data are signed by nobody (SignatureType 200, NullSignature).

mod serve;

use std::time::{Duration, Instant};

use xylem_packet::tlv::{self, Reader, types};
use xylem_packet::{Component, Interest, InterestBuilder, Name};

use super::histogram::Histogram;
use super::usage::{self, Usage};
use super::{Client, GLANCE, Message, Outbox, parse_name, random_seed};
use crate::failure;
use crate::uri::PeerUri;
use xylem_library::{Error, Stop};

pub use serve::{TrafficServeOptions, TrafficServed, serve};

/// Digits of the number in a name.
const DIGITS: usize = 16;
/// Interests that may be unanswered, at most.
pub const MAX_WINDOW: usize = 1 << 20;
/// Places to remember unanswered Interests in, for each that the window allows: one that is lost
/// keeps its place until it expires, and others go on.
const SLOTS_PER_WINDOW: usize = 8;
/// How often lost ones are looked for.
const SWEEP: Duration = Duration::from_millis(100);
/// Interests queued at once before what came is looked at.
const BURST: usize = 4096;

/// What load to make.
#[derive(Clone, Debug)]
pub struct TrafficOptions {
    /// The forwarder, as in [`Client::connect`].
    pub at: Option<PeerUri>,
    /// Under which names to ask, as an NDN URI.
    pub prefix: String,
    /// Interests a second; `None`: as fast as answers come.
    pub rate: Option<f64>,
    /// Interests that may be unanswered.
    pub window: usize,
    /// How long.
    pub duration: Duration,
    /// Ask for so many names over and over; `None`: each name once.
    pub names: Option<u64>,
    /// First number: runs that must not find each other's Data in caches begin elsewhere.
    pub start: u64,
    /// InterestLifetime; what is unanswered for longer is lost.
    pub lifetime: Duration,
    /// Refuse stale Data.
    pub must_be_fresh: bool,
    /// Octets of a PIT token to send along; 0: none.
    pub pit_token: usize,
    /// The forwarder's process, to measure.
    pub pid: Option<u32>,
}

/// What came of it.
#[derive(Clone, Debug, Default)]
pub struct TrafficReport {
    /// Interests sent.
    pub sent: u64,
    /// Interests answered with their Data.
    pub answered: u64,
    /// Interests refused.
    pub nacked: u64,
    /// Interests that nobody answered within their lifetime, or before the end of the run.
    pub lost: u64,
    /// Packets that answer nothing that was asked.
    pub unasked: u64,
    /// Packets that said that the way is congested.
    pub congested: u64,
    /// Bytes of Data packets.
    pub bytes: u64,
    /// From the first Interest to the last answer or the end of the run.
    pub elapsed: Duration,
    /// From Interest to Data.
    pub latency: Histogram,
    /// Processor time of this process.
    pub cpu: Option<Duration>,
    /// The forwarder's processor time during the run, and its memory at the end.
    pub forwarder: Option<Usage>,
}

/// An Interest that is patched anew for each use.
struct Template {
    interest: Vec<u8>,
    number_at: usize,
    nonce_at: usize,
    /// The name up to the number.
    name: Vec<u8>,
}

impl Template {
    fn new(prefix: &Name, options: &TrafficOptions) -> Result<Self, Error> {
        let name = prefix.child(Component::generic(&[b'0'; DIGITS]));
        let lifetime = u64::try_from(options.lifetime.as_millis()).unwrap_or(u64::MAX);
        let mut interest = Vec::new();
        InterestBuilder::new(name.as_ref())
            .must_be_fresh(options.must_be_fresh)
            .nonce([0; 4])
            .lifetime_ms(lifetime)
            .encode(&mut interest)
            .map_err(|e| failure::usage(format!("the prefix makes no Interest: {e}")))?;
        let head = |len: usize| 1 + tlv::var_number_len(len as u64);
        let value = name.as_ref().value();
        // A length below 253 is one octet, one of a packet's size else three.
        let outer = if interest[1] < 253 { 2 } else { 4 };
        let number_at = outer + head(value.len()) + value.len() - DIGITS;
        let nonce_at = Interest::decode(&interest)
            .ok()
            .and_then(|i| i.nonce_offset())
            .ok_or_else(|| failure::usage("the prefix makes no Interest"))?;
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

    /// The number in a packet's name; `None` for one that does not begin as the template does.
    fn number(&self, packet: &[u8], typ: u32) -> Option<u64> {
        let outer = Reader::new(packet).next_element().ok()??;
        let name = Reader::new(outer.value).next_element().ok()??;
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
struct Slot {
    number: u64,
    /// When it was sent, since the start; `None`: nothing is unanswered here.
    sent: Option<Duration>,
}

struct Generator {
    template: Template,
    token: Vec<u8>,
    slots: Vec<Slot>,
    mask: u64,
    /// Numbers used so far; the next name is this one, modulo `names`.
    serial: u64,
    start: u64,
    names: u64,
    nonce: u32,
    outstanding: usize,
    started: Instant,
    swept: Duration,
    last_answer: Duration,
    report: TrafficReport,
}

impl Generator {
    fn new(options: &TrafficOptions) -> Result<Self, Error> {
        let prefix = parse_name(&options.prefix)?;
        let slots = (options.window.clamp(1, MAX_WINDOW) * SLOTS_PER_WINDOW).next_power_of_two();
        Ok(Self {
            template: Template::new(&prefix, options)?,
            token: vec![b'x'; options.pit_token.min(xylem_packet::MAX_PIT_TOKEN)],
            slots: vec![Slot::default(); slots],
            mask: slots as u64 - 1,
            serial: 0,
            start: options.start,
            names: options.names.unwrap_or(u64::MAX).max(1),
            nonce: random_seed()? as u32,
            outstanding: 0,
            started: Instant::now(),
            swept: Duration::ZERO,
            last_answer: Duration::ZERO,
            report: TrafficReport::default(),
        })
    }

    /// Queues up to `count` Interests; fewer where the names that are due still wait for an answer.
    fn ask(&mut self, count: usize, outbox: &mut Outbox<'_>) {
        let now = self.started.elapsed();
        for _ in 0..count {
            let Some(number) = self.free_number() else { return };
            let slot = &mut self.slots[(number & self.mask) as usize];
            *slot = Slot { number, sent: Some(now) };
            // An odd factor: no nonce twice in 2^32 Interests.
            self.nonce = self.nonce.wrapping_add(0x9e37_79b1);
            let token = (!self.token.is_empty()).then_some(self.token.as_slice());
            outbox.packet(self.template.fill(number, self.nonce), token);
            self.outstanding += 1;
            self.report.sent += 1;
        }
    }

    /// The next number whose place is free.
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

    fn heard(&mut self, message: Message<'_>, now: Duration) {
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

    /// Forgets what is unanswered for longer than `lifetime`.
    fn sweep(&mut self, lifetime: Duration) {
        let now = self.started.elapsed();
        if now < self.swept + SWEEP {
            return;
        }
        self.swept = now;
        for slot in &mut self.slots {
            if slot.sent.is_some_and(|sent| sent + lifetime < now) {
                slot.sent = None;
                self.outstanding -= 1;
                self.report.lost += 1;
            }
        }
    }

    /// Interests that are due now, and how long until the next one is.
    fn due(&self, options: &TrafficOptions) -> (usize, Duration) {
        let free = options.window.clamp(1, MAX_WINDOW).saturating_sub(self.outstanding);
        let Some(rate) = options.rate else { return (free.min(BURST), GLANCE) };
        let by_now = self.started.elapsed().as_secs_f64() * rate;
        let due = (by_now - self.report.sent as f64).max(0.0);
        let next = (1.0 - due.fract()) / rate;
        (free.min(due as usize).min(BURST), Duration::from_secs_f64(next.min(GLANCE.as_secs_f64())))
    }
}

/// Asks for names under a prefix until the time is over, and says how it went.
///
/// # Errors
/// [`crate::Blame::Usage`] for a name that can't be one, [`crate::Blame::Network`] if the forwarder
/// goes away. A raised `stop` ends the run early and is no error.
pub fn generate(options: &TrafficOptions, stop: &Stop) -> Result<TrafficReport, Error> {
    let mut client = Client::connect(options.at.as_ref())?;
    let mut generator = Generator::new(options)?;
    let usage_before =
        (usage::of_process(None), options.pid.and_then(|p| usage::of_process(Some(p))));
    generator.started = Instant::now();
    let started = generator.started;
    while started.elapsed() < options.duration && !stop.raised() {
        let (due, wait) = generator.due(options);
        generator.ask(due, &mut client.outbox());
        let wait = wait.min(options.duration.saturating_sub(started.elapsed()));
        receive(&mut client, &mut generator, wait)?;
        generator.sweep(options.lifetime);
    }
    // What is under way may still come; nothing new is asked.
    let asked_until = started.elapsed();
    while generator.outstanding > 0 && !stop.raised() {
        receive(&mut client, &mut generator, GLANCE)?;
        generator.sweep(options.lifetime);
    }
    let mut report = generator.report;
    report.lost += generator.outstanding as u64;
    report.elapsed = asked_until.max(generator.last_answer);
    let used = |before: Option<Usage>, pid| {
        let (before, after) = (before?, usage::of_process(pid)?);
        Some(Usage { cpu: after.cpu.saturating_sub(before.cpu), memory: after.memory })
    };
    report.cpu = used(usage_before.0, None).map(|u| u.cpu);
    report.forwarder = options.pid.and_then(|pid| used(usage_before.1, Some(pid)));
    Ok(report)
}

fn receive(client: &mut Client, generator: &mut Generator, wait: Duration) -> Result<(), Error> {
    let mut now = None;
    client.receive(wait, &mut |message, _| {
        // Once a batch: what is read together came together.
        let now = *now.get_or_insert_with(|| generator.started.elapsed());
        generator.heard(message, now);
    })?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use xylem_packet::link_service::{LinkService, LinkServiceConfig};

    fn options(prefix: &str, names: Option<u64>) -> TrafficOptions {
        TrafficOptions {
            at: None,
            prefix: prefix.to_owned(),
            rate: None,
            window: 4,
            duration: Duration::from_secs(1),
            names,
            start: 0,
            lifetime: Duration::from_secs(4),
            must_be_fresh: true,
            pit_token: 0,
            pid: None,
        }
    }

    #[test]
    fn numbers_are_found_where_they_were_put() {
        for len in [1, 150, 210, 230, 231, 232, 233, 300] {
            let prefix = format!("/{}", "p".repeat(len));
            let name = parse_name(&prefix).unwrap();
            let mut template = Template::new(&name, &options(&prefix, None)).unwrap();
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
    fn a_name_waits_for_its_answer_before_it_is_asked_again() {
        let mut generator = Generator::new(&options("/p", Some(3))).unwrap();
        let mut queue = crate::client::socket::Queue::default();
        let mut link = LinkService::new(LinkServiceConfig::default());
        let now = Duration::ZERO;
        generator.ask(5, &mut Outbox { queue: &mut queue, link: &mut link, now });
        assert_eq!((generator.report.sent, generator.outstanding), (3, 3));
        let message = Message { packet: &[], pit_token: None, nack: None, congested: false };
        generator.heard(message, Duration::from_millis(1));
        assert_eq!((generator.report.unasked, generator.outstanding), (1, 3));
    }
}
