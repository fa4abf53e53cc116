//! Finding an object by its name: the newest version, and what is known of it.
//!
//! RDR first (`NAME/32=metadata`, fresh); where nobody answers that, the name alone with
//! CanBePrefix, as older tools publish. What comes is verified before a version is taken from it,
//! and the version has to be one of the object that was asked for.

use std::time::{Duration, Instant};

use xylem_packet::tlv::types;
use xylem_packet::{Component, Data, InterestBuilder, Name, NameRef};

use super::rdr::{self, METADATA, Metadata};
use super::segments::Expected;
use super::trust::{self, Trust};
use super::{Client, Reply, random_seed};
use xylem_library::{Blame, Error, Stop};

/// How long one discovery Interest waits, and how many go to RDR before the name alone is tried.
const PATIENCE: Duration = Duration::from_secs(1);
const RDR_TRIES: u32 = 2;
/// Pause after a refusal.
const PAUSE: Duration = Duration::from_millis(100);

/// What a name turned out to be.
pub(crate) enum Found {
    /// Segments under a prefix.
    Segments {
        /// The prefix, with its version where it has one.
        prefix: Name,
        /// What the metadata say.
        expected: Expected,
    },
    /// One packet, which verified, with this content.
    Single(Vec<u8>),
}

/// Finds the object at `name`, which may have its version already.
///
/// # Errors
/// [`Blame::Network`] if nobody answers for `give_up`, [`Blame::Data`] if who answers is not
/// believed, [`Blame::Interrupted`].
pub(crate) fn discover(
    client: &mut Client,
    name: &Name,
    trust: &Trust,
    give_up: Duration,
    stop: &Stop,
) -> Result<Found, Error> {
    if rdr::version_of(name.as_ref()).is_some() {
        return Ok(Found::Segments { prefix: name.clone(), expected: Expected::default() });
    }
    let object = match name.iter().last() {
        Some(last) if last == Component::keyword(METADATA) => name.as_ref().parent().to_name(),
        _ => name.clone(),
    };
    let metadata = rdr::discovery_name(object.as_ref());
    let deadline = Instant::now() + give_up;
    let mut last = Reply::Timeout;
    for attempt in 0_u32.. {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            break;
        }
        let asked = if attempt % (RDR_TRIES + 1) < RDR_TRIES { &metadata } else { &object };
        last = ask(client, asked.as_ref(), left.min(PATIENCE), stop)?;
        match &last {
            Reply::Data(packet) => return understand(object.as_ref(), packet, trust),
            Reply::Nack(_) => std::thread::sleep(PAUSE),
            Reply::Timeout => {}
        }
    }
    let why = match last {
        Reply::Nack(reason) => format!("the forwarder knows no way to it (Nack {})", reason.0),
        _ => format!("nobody answered within {} s", give_up.as_secs_f64()),
    };
    Err(Error { blame: Blame::Network, message: format!("{name}: {why}") })
}

fn ask(
    client: &mut Client,
    name: NameRef<'_>,
    patience: Duration,
    stop: &Stop,
) -> Result<Reply, Error> {
    let mut packet = Vec::new();
    InterestBuilder::new(name)
        .can_be_prefix(true)
        .must_be_fresh(true)
        .nonce((random_seed()? as u32).to_be_bytes())
        .lifetime_ms(u64::try_from(patience.as_millis()).unwrap_or(u64::MAX).max(1))
        .encode(&mut packet)
        .map_err(|e| crate::failure::usage(format!("{name}: {e}")))?;
    client.fetch(&packet, patience, stop)
}

/// What a verified answer says.
fn understand(object: NameRef<'_>, packet: &[u8], trust: &Trust) -> Result<Found, Error> {
    let what = || format!("what came for {object}");
    let data = Data::decode(packet).map_err(|e| trust::refused(&what(), &e.to_string()))?;
    trust.check(&data).map_err(|why| trust::refused(&what(), &why))?;
    let name = data.name();
    let mut rest = name.iter().skip(object.len());
    if rest.next() == Some(Component::keyword(METADATA)) {
        let found = Metadata::decode(data.content())
            .map_err(|e| trust::refused("the metadata packet", &e.to_string()))?;
        if !object.is_prefix_of(found.name) {
            let why = format!("it points to {}, which is another object", found.name);
            return Err(trust::refused("the metadata packet", &why));
        }
        let expected = Expected {
            last: found.last_segment(),
            size: found.size,
            segment_size: found.segment_size,
        };
        return Ok(Found::Segments { prefix: found.name.to_name(), expected });
    }
    if name.len() > object.len()
        && name.last().is_some_and(|c| c.as_number_of(types::SEGMENT_COMPONENT).is_some())
    {
        let prefix = name.parent().to_name();
        return Ok(Found::Segments { prefix, expected: Expected::default() });
    }
    Ok(Found::Single(data.content().to_vec()))
}
