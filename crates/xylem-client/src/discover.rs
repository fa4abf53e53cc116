//! [`Discovery`]: finds the newest version of an object by its name, and what is known of it.
//!
//! It first sends an RDR Interest (`NAME/32=metadata`, fresh). Without an answer, it requests the name alone with
//! CanBePrefix, as older tools publish. The answer has to be for exactly this name ([`ObjectAnswer`]). If it is for
//! something else below the name, Discovery requests the name once more without CanBePrefix, as a cache may prefer that
//! packet to the object. It verifies an answer before it takes a version from it.

use std::time::Duration;

use xylem_object::{PublisherId, Ticket, naming, verify_manifest};
use xylem_packet::{Component, Data, NackReason, Name, NameRef, SignatureType};

use crate::error::OtherObject;
use crate::exact::{self, ObjectAnswer};
use crate::rdr::{self, METADATA, Metadata};
use crate::{
    Application, CheckError, ClientError, Driver, Exchange, ExchangeReply, Expected,
    ForwarderMessage, InterestRequest, PacketOutbox,
};

/// Lifetime of one discovery Interest.
const PATIENCE: Duration = Duration::from_secs(1);
/// The Interests, in turn. RDR is tried twice, as a packet may be lost.
const QUESTIONS: [DiscoveryStep; 4] = [
    DiscoveryStep::Metadata,
    DiscoveryStep::Metadata,
    DiscoveryStep::Below,
    DiscoveryStep::Exactly,
];
/// Pause after a refusal.
const PAUSE: Duration = Duration::from_millis(100);

/// Time to wait for a manifest. A producer that has the object's metadata at hand has its manifest too.
const MANIFEST_PATIENCE: Duration = Duration::from_secs(2);

/// Verifies a packet; an error states why it is not trusted.
pub(crate) type Check<'a> = dyn FnMut(&Data<'_>) -> Result<(), CheckError> + 'a;

/// The object at a name.
pub enum Discovered {
    /// Segments under a prefix.
    Segments {
        /// The prefix, with its version if it has one.
        prefix: Name,
        /// Sizes from the metadata.
        expected: Expected,
    },
    /// One verified packet, with this content.
    Single(Vec<u8>),
}

/// A kind of discovery Interest.
#[derive(Clone, Copy, PartialEq, Eq)]
enum DiscoveryStep {
    /// For the newest version.
    Metadata,
    /// For any packet with the object's name, or one that begins with it.
    Below,
    /// For the packet of exactly this name, after another packet answered.
    Exactly,
}

/// Finds the object at a name, which may have its version already.
pub struct Discovery<'a> {
    object: Name,
    metadata: Name,
    check: &'a mut Check<'a>,
    give_up: Duration,
    /// When the first Interest was sent.
    began: Option<Duration>,
    nonce: u32,
    /// Index of the next Interest in [`QUESTIONS`].
    next: usize,
    asking: Option<Exchange>,
    /// Earliest time of the next Interest.
    resume_at: Duration,
    last_nack: Option<NackReason>,
    /// The packet for something else that answered.
    other: Option<String>,
    found: Option<Discovered>,
}

impl<'a> Discovery<'a> {
    /// Searches for `name` until `give_up`. `seed` is random.
    pub fn new(name: &Name, check: &'a mut Check<'a>, give_up: Duration, seed: u64) -> Self {
        let known = rdr::version_of(name.as_ref()).is_some();
        let found = known
            .then(|| Discovered::Segments { prefix: name.clone(), expected: Expected::default() });
        let object = match name.iter().last() {
            Some(last) if last == Component::keyword(METADATA) => name.as_ref().parent().to_name(),
            _ => name.clone(),
        };
        Self {
            metadata: rdr::discovery_name(object.as_ref()),
            object,
            check,
            give_up,
            began: None,
            nonce: seed as u32,
            next: 0,
            asking: None,
            resume_at: Duration::ZERO,
            last_nack: None,
            other: None,
            found,
        }
    }

    /// The object; `None` before [`Application::is_done`].
    #[must_use]
    pub fn into_found(self) -> Option<Discovered> {
        self.found
    }

    /// The next Interest, unless time is up.
    fn next_question(&mut self, now: Duration) -> Result<Exchange, ClientError> {
        let began = *self.began.get_or_insert(now);
        let left = (began + self.give_up).saturating_sub(now);
        if self.other.is_none() && QUESTIONS.get(self.next) == Some(&DiscoveryStep::Exactly) {
            self.next = 0;
        }
        let Some(asked) = QUESTIONS.get(self.next).filter(|_| !left.is_zero()) else {
            let name = self.object.clone();
            return Err(match (self.other.take(), self.last_nack) {
                (Some(found), _) => ClientError::NotThis { name, found },
                (None, Some(reason)) => ClientError::Nack { name, reason },
                (None, None) => ClientError::Unanswered { name, after: self.give_up },
            });
        };
        self.next += 1;
        self.nonce = self.nonce.wrapping_add(0x9e37_79b1);
        let patience = left.min(PATIENCE);
        let name = if *asked == DiscoveryStep::Metadata { &self.metadata } else { &self.object };
        let question = InterestRequest {
            can_be_prefix: *asked != DiscoveryStep::Exactly,
            must_be_fresh: true,
            ..InterestRequest::exactly(name.clone(), patience)
        };
        Exchange::new(question.encode(self.nonce.to_be_bytes())?, patience)
    }

    /// Reads an answer after verifying it. `None` if it answers for something else.
    fn read_answer(&mut self, packet: &[u8]) -> Result<Option<Discovered>, ClientError> {
        let object = self.object.as_ref();
        let what = || format!("the answer for {object}");
        let data = Data::decode(packet).map_err(|e| ClientError::not_believed(what(), e))?;
        let Some(answer) = ObjectAnswer::of(object, &data) else {
            self.other = Some(exact::describe(&data));
            return Ok(None);
        };
        (self.check)(&data).map_err(|e| ClientError::not_believed(what(), e))?;
        Ok(Some(match answer {
            ObjectAnswer::Metadata => newest(object, data.content())?,
            ObjectAnswer::SegmentOf(prefix) => {
                Discovered::Segments { prefix: prefix.to_name(), expected: Expected::default() }
            }
            ObjectAnswer::Whole => Discovered::Single(data.content().to_vec()),
        }))
    }
}

/// The object that verified metadata name.
fn newest(object: NameRef<'_>, content: &[u8]) -> Result<Discovered, ClientError> {
    let what = "the metadata packet";
    let found = Metadata::decode(content).map_err(|e| ClientError::not_believed(what, e))?;
    if found.name.parent() != object || rdr::version_of(found.name).is_none() {
        return Err(ClientError::not_believed(what, OtherObject(found.name.to_name())));
    }
    let expected =
        Expected { last: found.last_segment(), size: found.size, segment_size: found.segment_size };
    Ok(Discovered::Segments { prefix: found.name.to_name(), expected })
}

impl Application for Discovery<'_> {
    fn transmit(
        &mut self,
        now: Duration,
        outbox: &mut PacketOutbox<'_>,
    ) -> Result<(), ClientError> {
        if self.found.is_some() {
            return Ok(());
        }
        if let Some(asking) = &mut self.asking {
            asking.transmit(now, outbox)?;
        }
        match self.asking.take_if(|asking| asking.is_done()).map(Exchange::into_reply) {
            Some(ExchangeReply::Data(packet)) => {
                self.found = self.read_answer(&packet)?;
                if self.found.is_some() {
                    return Ok(());
                }
                self.resume_at = now + PAUSE;
            }
            Some(ExchangeReply::Nack(reason)) => {
                self.last_nack = Some(reason);
                self.resume_at = now + PAUSE;
            }
            Some(ExchangeReply::Timeout) => self.last_nack = None,
            None => {}
        }
        if self.asking.is_none() && now >= self.resume_at {
            let mut asking = self.next_question(now)?;
            asking.transmit(now, outbox)?;
            self.asking = Some(asking);
        }
        Ok(())
    }

    fn handle_message(
        &mut self,
        now: Duration,
        message: ForwarderMessage<'_>,
        outbox: &mut PacketOutbox<'_>,
    ) -> Result<(), ClientError> {
        match &mut self.asking {
            Some(asking) => asking.handle_message(now, message, outbox),
            None => Ok(()),
        }
    }

    fn poll_timeout(&self, now: Duration) -> Option<Duration> {
        match &self.asking {
            // Its answer is processed at once.
            Some(asking) if asking.is_done() => Some(now),
            Some(asking) => asking.poll_timeout(now),
            None => Some(self.resume_at),
        }
    }

    fn is_done(&self) -> bool {
        self.found.is_some()
    }
}

/// Whether segment 0 is signed with a key of its own. A publisher that signs packets one by one has no manifest, and
/// would leave a request for one unanswered; ours are signed by their place in a tree. This is a hint, and proves
/// nothing.
fn signed_one_by_one<D: Driver>(driver: &mut D, prefix: &Name) -> Result<bool, D::Error> {
    let name = prefix.child(Component::segment(0));
    let interest = InterestRequest::exactly(name, MANIFEST_PATIENCE).encode(driver.nonce()?)?;
    let ExchangeReply::Data(packet) = driver.fetch(interest, MANIFEST_PATIENCE)? else {
        return Ok(false);
    };
    let typ = Data::decode(&packet).map(|data| data.signature_info().typ);
    let in_tree = [SignatureType::BLAKE3_MERKLE, SignatureType::SHA256_MERKLE];
    Ok(typ.is_ok_and(|typ| !in_tree.contains(&typ)))
}

/// The unverified manifest of a xylem publication at `prefix`; `None` if there is none.
///
/// # Errors
/// Any that ends the run.
pub fn published_manifest<D: Driver>(
    driver: &mut D,
    prefix: &Name,
) -> Result<Option<Vec<u8>>, D::Error> {
    if naming::check_prefix(prefix.as_ref()).is_err() || signed_one_by_one(driver, prefix)? {
        return Ok(None);
    }
    let name = naming::encode(prefix.as_ref(), &naming::PublicationRequest::Manifest);
    let interest = InterestRequest::exactly(name, MANIFEST_PATIENCE).encode(driver.nonce()?)?;
    match driver.fetch(interest, MANIFEST_PATIENCE)? {
        ExchangeReply::Data(packet) => Ok(Some(packet)),
        _ => Ok(None),
    }
}

/// The ticket, without addresses, for a manifest that `publisher` signed.
///
/// # Errors
/// A manifest that does not verify.
pub fn ticket_for(
    manifest: &Data<'_>,
    prefix: &Name,
    publisher: PublisherId,
) -> Result<Ticket, ClientError> {
    let manifest = verify_manifest(manifest, prefix.as_ref(), &publisher)
        .map_err(|e| ClientError::not_believed("the manifest", e))?;
    Ok(Ticket {
        publisher,
        root: manifest.root,
        name: Some(prefix.clone()),
        link_key: None,
        size: Some(manifest.size),
        kind: Some(manifest.kind),
        addresses: Vec::new(),
        relays: Vec::new(),
    })
}
