//! Is somebody there, and how far: `PREFIX/ping/<number>`, as ndnping has it.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use xylem_packet::{
    Component, Data, DataBuilder, Interest, InterestBuilder, Name, NameRef, Packet,
};
use xylem_trust::Signer;

use super::histogram::Histogram;
use super::{Client, GLANCE, Message, parse_name, random_seed};
use crate::failure;
use crate::uri::PeerUri;
use xylem_library::{Error, Stop};

const PING: &[u8] = b"ping";
/// Pings that may be unanswered: with more the oldest counts as lost.
const MAX_WAITING: usize = 65_536;

/// Whom to ping, and how.
#[derive(Clone, Debug)]
pub struct PingOptions {
    /// The forwarder, as in [`Client::connect`].
    pub at: Option<PeerUri>,
    /// The prefix, without `ping`, as an NDN URI.
    pub prefix: String,
    /// From one ping to the next.
    pub interval: Duration,
    /// How long an answer may take.
    pub timeout: Duration,
    /// So many pings; `None`: until the run is stopped.
    pub count: Option<u64>,
    /// First number; `None`: a random one, so that caches don't answer for the last run.
    pub start: Option<u64>,
}

/// What became of one ping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pinged {
    /// It was answered after so long.
    Answer(Duration),
    /// The forwarder refused it, for this reason, after so long.
    Nack(u64, Duration),
    /// Nobody answered in time.
    Timeout,
}

/// What became of all.
#[derive(Clone, Debug, Default)]
pub struct PingReport {
    /// Pings sent.
    pub sent: u64,
    /// Those refused.
    pub nacked: u64,
    /// Those that nobody answered.
    pub lost: u64,
    /// Round-trip times of those answered.
    pub times: Histogram,
}

/// Pings until `count` are done or `stop` is raised.
///
/// # Errors
/// [`crate::Blame::Usage`] for a prefix that makes no Interest, [`crate::Blame::Network`] if the
/// forwarder goes away.
pub fn ping(
    options: &PingOptions,
    stop: &Stop,
    on_ping: &mut dyn FnMut(u64, Pinged),
) -> Result<PingReport, Error> {
    let prefix = parse_name(&options.prefix)?.child(Component::generic(PING));
    let mut client = Client::connect(options.at.as_ref())?;
    let mut next = match options.start {
        Some(start) => start,
        None => random_seed()?,
    };
    let started = Instant::now();
    let mut report = PingReport::default();
    let mut waiting: BTreeMap<u64, Duration> = BTreeMap::new();
    let mut due = Duration::ZERO;
    loop {
        let now = started.elapsed();
        let more = options.count.is_none_or(|count| report.sent < count);
        if stop.raised() || (!more && waiting.is_empty()) {
            break;
        }
        if more && now >= due {
            client.outbox().packet(&interest(prefix.as_ref(), next, options.timeout)?, None);
            waiting.insert(next, now);
            next = next.wrapping_add(1);
            report.sent += 1;
            due += options.interval;
        }
        // The next to be sent or to expire; those that wait were sent in the order of numbers.
        let expires = waiting.values().min().map(|sent| *sent + options.timeout);
        let sends = more.then_some(due);
        let until = expires.into_iter().chain(sends).min().unwrap_or(now);
        client.receive(until.saturating_sub(now).min(GLANCE), &mut |message, _| {
            let Some((number, nack)) = answered(prefix.as_ref(), message) else { return };
            let Some(sent) = waiting.remove(&number) else { return };
            let took = started.elapsed().saturating_sub(sent);
            match nack {
                None => {
                    report.times.add(took);
                    on_ping(number, Pinged::Answer(took));
                }
                Some(reason) => {
                    report.nacked += 1;
                    on_ping(number, Pinged::Nack(reason, took));
                }
            }
        })?;
        let now = started.elapsed();
        let full = waiting.len() >= MAX_WAITING;
        let late = |sent: &Duration| *sent + options.timeout <= now || full;
        while let Some((number, _)) = waiting.iter().find(|(_, sent)| late(sent)) {
            let number = *number;
            waiting.remove(&number);
            report.lost += 1;
            on_ping(number, Pinged::Timeout);
            if full {
                break;
            }
        }
    }
    Ok(report)
}

fn interest(prefix: NameRef<'_>, number: u64, timeout: Duration) -> Result<Vec<u8>, Error> {
    let name = prefix.child(Component::generic(number.to_string().as_bytes()));
    let mut packet = Vec::new();
    InterestBuilder::new(name.as_ref())
        .must_be_fresh(true)
        .nonce((random_seed()? as u32).to_be_bytes())
        .lifetime_ms(u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX))
        .encode(&mut packet)
        .map_err(|e| failure::usage(format!("{prefix}: {e}")))?;
    Ok(packet)
}

/// The number that a message is about, and why it was refused if it was.
fn answered(prefix: NameRef<'_>, message: Message<'_>) -> Option<(u64, Option<u64>)> {
    let name = match (Packet::decode(message.packet).ok()?, message.nack) {
        (Packet::Data(data), None) => data.name(),
        (Packet::Interest(interest), Some(_)) => interest.name(),
        _ => return None,
    };
    let number = name.last().filter(|_| name.parent() == prefix)?;
    let number = std::str::from_utf8(number.value()).ok()?.parse().ok()?;
    Some((number, message.nack.map(|reason| reason.0)))
}

/// How to answer pings.
#[derive(Clone, Debug)]
pub struct PingServeOptions {
    /// The forwarder, as in [`Client::connect`].
    pub at: Option<PeerUri>,
    /// The prefix, without `ping`, as an NDN URI.
    pub prefix: String,
    /// Bytes of content in each answer.
    pub size: usize,
    /// FreshnessPeriod of each answer.
    pub freshness: Duration,
    /// End after so many answers.
    pub count: Option<u64>,
    /// Ask the forwarder for the prefix's Interests; false where a route leads here already.
    pub register: bool,
}

/// Answers pings until `stop` is raised: how many.
///
/// # Errors
/// As for [`ping`], and if the forwarder refuses the prefix.
pub fn serve(
    options: &PingServeOptions,
    stop: &Stop,
    on_ping: &mut dyn FnMut(Option<&Name>),
) -> Result<u64, Error> {
    let prefix = parse_name(&options.prefix)?.child(Component::generic(PING));
    let signer = Signer::digest_sha256();
    let freshness = u64::try_from(options.freshness.as_millis()).unwrap_or(u64::MAX);
    let content = vec![b'a'; options.size];
    let answer = |name: NameRef<'_>| {
        let mut packet = Vec::new();
        let builder = DataBuilder::new(name).freshness_ms(freshness);
        signer.data(builder, &content, &mut packet).map(|()| packet)
    };
    let example = prefix.child(Component::generic(u64::MAX.to_string().as_bytes()));
    answer(example.as_ref())
        .map_err(|e| failure::usage(format!("no packet can be that large: {e}")))?;
    let mut client = Client::connect(options.at.as_ref())?;
    if options.register {
        client.register(prefix.as_ref(), stop)?;
    }
    on_ping(None);
    let (mut answered, enough) = (0, options.count.unwrap_or(u64::MAX));
    client.answer(stop, &mut |interest: &Interest<'_>, token, outbox| {
        let name = interest.name();
        if answered < enough
            && prefix.is_prefix_of(name)
            && let Ok(packet) = answer(name)
            && Data::decode(&packet).is_ok_and(|data| super::satisfies(&data, interest))
        {
            outbox.packet(&packet, token);
            answered += 1;
            on_ping(Some(&name.to_name()));
        }
        answered < enough
    })?;
    client.flush()?;
    Ok(answered)
}
