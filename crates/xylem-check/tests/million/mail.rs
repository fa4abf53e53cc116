//! Two people write to each other on failing disks, while an attacker forges and replays envelopes.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use xylem_faults::FaultMedium;
use xylem_link::StaticKey;
use xylem_mail::protocol::DeliveryStatus;
use xylem_mail::{MailBody, MailContent, MailIdentity};
use xylem_mailbox::{EnvelopeOutcome, MailRoute, MailStore};
use xylem_object::PublisherKey;
use xylem_sim::Rng;

use crate::counts::Counts;
use crate::disk::{Between, Planted, Strike, next_disk};
use crate::source::NOW;

/// Messages of a family, and rounds without faults after which all must have arrived.
const MESSAGES: u64 = 24;
const ROUNDS: u32 = 6;

struct Person {
    keys: [[u8; 32]; 2],
    medium: FaultMedium,
    store: MailStore,
}

fn store(keys: &[[u8; 32]; 2], medium: &FaultMedium) -> Result<MailStore, String> {
    let us = MailIdentity::new(PublisherKey::from_bytes(&keys[0]), StaticKey::from_bytes(keys[1]));
    MailStore::of(us, Arc::new(medium.clone()), Path::new("/store")).map_err(|e| e.to_string())
}

impl Person {
    fn new(rng: &mut Rng) -> Result<Self, String> {
        let mut keys = [[0; 32]; 2];
        keys.iter_mut().for_each(|key| rng.fill(key));
        let medium = FaultMedium::new();
        let store = store(&keys, &medium)?;
        // As after a first run that ended long ago.
        store.card(&[], None, NOW).map_err(|e| e.to_string())?;
        let medium = medium.image();
        Ok(Self { keys, store: self::store(&keys, &medium)?, medium })
    }

    /// Runs `act`, possibly with a fault. After a fault the store is opened by another process, sometimes after a loss
    /// of power.
    fn act<T, E: std::fmt::Display>(
        &mut self,
        strike: Option<Strike>,
        rng: &mut Rng,
        counts: &mut Counts,
        act: &mut dyn FnMut(&MailStore) -> Result<T, E>,
    ) -> Result<Option<T>, String> {
        counts.runs += 1;
        if let Some(strike) = strike {
            strike.arm(&self.medium);
        }
        let outcome = act(&self.store);
        let struck = strike.is_some_and(|strike| strike.settle(&self.medium, counts));
        let done = match outcome {
            Ok(done) => Some(done),
            Err(e) if !struck => return Err(format!("failed for nothing: {e}")),
            Err(_) => None,
        };
        counts.done += u64::from(done.is_some());
        if struck || rng.chance(0.05) {
            let between = if rng.chance(0.5) { Between::Process } else { Between::Power };
            let seed = rng.next_u64();
            self.medium = next_disk(&self.medium, between, Planted::Nothing, seed, counts);
            self.store = store(&self.keys, &self.medium)?;
        }
        Ok(done)
    }

    fn texts(&self) -> Result<Vec<String>, String> {
        let letters = self.store.letters().map_err(|e| e.to_string())?;
        let text = |content: MailContent| match content {
            MailContent::Note(text) => text,
            other => format!("{other:?}"),
        };
        Ok(letters.into_iter().map(|(_, letter)| text(letter.body.content)).collect())
    }
}

fn strike(rng: &mut Rng) -> Option<Strike> {
    rng.chance(0.6).then(|| Strike::anywhere(16, rng))
}

/// Delivers the envelopes of `from` for `to`; returns whether there were any.
fn deliver(
    from: &mut Person,
    to: &mut Person,
    peace: bool,
    rng: &mut Rng,
    counts: &mut Counts,
) -> Result<bool, String> {
    let waiting = from.store.outbox(NOW).map_err(|e| e.to_string())?.waiting;
    let any = !waiting.is_empty();
    for parcel in waiting {
        if !peace && rng.chance(0.3) {
            let mut forged = parcel.envelope.clone();
            let at = rng.index(forged.len());
            forged[at] ^= 1 << rng.below(8);
            counts.lies += 1;
            let taken = to.act(None, rng, counts, &mut |store| store.take_in(&forged, NOW))?;
            match taken.map(|taken| taken.incoming) {
                Some(EnvelopeOutcome::Not(_)) => {}
                other => return Err(format!("a forged envelope was taken: {other:?}")),
            }
        }
        let times = if !peace && rng.chance(0.3) { 2 } else { 1 };
        counts.lies += times - 1;
        let mut answer = None;
        for _ in 0..times {
            let strike = if peace { None } else { strike(rng) };
            let take = &mut |store: &MailStore| store.take_in(&parcel.envelope, NOW);
            answer = to.act(strike, rng, counts, take)?.map(|taken| match taken.incoming {
                EnvelopeOutcome::Not(status) => status,
                _ => DeliveryStatus::Stored,
            });
        }
        let Some(status) = answer else { continue };
        let strike = if peace { None } else { strike(rng) };
        from.act(strike, rng, counts, &mut |store| store.settle(&parcel, status, 0, NOW))?;
    }
    Ok(any)
}

/// Whatever happens: each message that was written once is read once.
pub(crate) fn family(seed: u64, _: Planted, counts: &mut Counts) -> Result<(), String> {
    let mut rng = Rng::new(seed);
    let mut people = [Person::new(&mut rng)?, Person::new(&mut rng)?];
    // Recipient, and whether writing it succeeded.
    let mut written: BTreeMap<String, (usize, bool)> = BTreeMap::new();
    for number in 0..MESSAGES {
        let who = rng.index(2);
        let [a, b] = &mut people;
        let (from, to) = if who == 0 { (a, b) } else { (b, a) };
        let strike_card = strike(&mut rng);
        let card = to.act(strike_card, &mut rng, counts, &mut |store| {
            store.card(&["127.0.0.1:7".parse().expect("an address")], None, NOW)
        })?;
        if let Some(card) = card {
            let text = format!("message {number}");
            let body = MailBody {
                content: MailContent::Note(text.clone()),
                name: String::new(),
                size: text.len() as u64,
                sent_ms: number,
            };
            let strike = strike(&mut rng);
            let done = from.act(strike, &mut rng, counts, &mut |store| {
                store.compose(
                    &card,
                    "them",
                    &body,
                    MailRoute::Direct(card.addresses.clone()),
                    &[],
                    NOW,
                )
            })?;
            written.insert(text, (1 - who, done.is_some()));
        }
        let [a, b] = &mut people;
        deliver(a, b, false, &mut rng, counts)?;
        deliver(b, a, false, &mut rng, counts)?;
    }
    for round in 0.. {
        let [a, b] = &mut people;
        let any = deliver(a, b, true, &mut rng, counts)? | deliver(b, a, true, &mut rng, counts)?;
        match any {
            false => break,
            true if round == ROUNDS => return Err("messages wait for ever".into()),
            true => {}
        }
    }
    let texts = [people[0].texts()?, people[1].texts()?];
    for (text, (to, was_written)) in &written {
        match texts[*to].iter().filter(|there| *there == text).count() {
            1 => {}
            0 if !was_written => {}
            times => return Err(format!("{text} is there {times} times")),
        }
    }
    let strange = texts.iter().enumerate().find_map(|(who, texts)| {
        texts.iter().find(|text| written.get(*text).is_none_or(|(to, _)| *to != who))
    });
    strange.map_or(Ok(()), |text| Err(format!("nobody wrote {text:?}")))
}
