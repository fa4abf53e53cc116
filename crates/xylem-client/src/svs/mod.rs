//! [`SvsMember`]: one member of a sync group over a connection. It publishes, learns of other members' publications,
//! and fetches them (docs/spec/sync.md).

mod fetching;

use std::collections::BTreeMap;
use std::time::Duration;

use xylem_congestion::SplitMix64;
use xylem_packet::{Data, DataBuilder, Interest, Name, Packet};
use xylem_svs::{
    Group, GroupConfig, GroupEvent, GroupMember, SyncTrust, SyncVersion, VectorRefusal,
    publication_name,
};
use xylem_trust::{CommandStamp, Signer, TrustError, TrustPolicy, TrustVerdict};

use crate::{
    Application, ClientError, Driver, ForwarderMessage, Manager, NameFlaw, PacketOutbox,
    STOP_CHECK_EVERY, register, satisfies,
};
use fetching::SvsFetcher;
use xylem_mgmt::ControlParameters;

/// Most bytes of one publication. With names and signature it fits a packet.
pub const MAX_PUBLICATION: usize = 8000;
/// Most own publications kept for others; older ones can't be fetched any more.
const MAX_KEPT: usize = 10_000;
/// FreshnessPeriod of publications in ms. They never change.
const FRESHNESS_MS: u64 = 3_600_000;
/// The strategy that sends a sync Interest to all members.
const MULTICAST: &str = "/localhost/nfd/strategy/multicast";

/// The next publication, if any.
#[derive(Debug, PartialEq, Eq)]
pub enum SvsLine {
    /// Publish this.
    Next(Vec<u8>),
    /// Nothing for now.
    NotYet,
    /// Nothing any more.
    End,
}

/// An event of the group.
#[derive(Debug)]
pub enum SvsEvent<'a> {
    /// We have published this number.
    Published(&'a GroupMember, u64),
    /// A member has published these numbers.
    Updated(&'a GroupMember, u64, u64),
    /// A publication has arrived. Each member's arrive in order.
    Came(&'a GroupMember, u64, &'a [u8], TrustVerdict),
    /// Publications that could not be fetched or are not trusted: from, to, and why.
    Missed(&'a GroupMember, u64, u64, String),
    /// Others claim that we have published this many more than we know. In version 3 we start with a new boot time.
    Ahead(u64),
    /// A vector was refused.
    Refused(VectorRefusal),
    /// A publication is too long; its size in bytes.
    TooLong(usize),
}

/// One member of a sync group.
pub struct SvsMember<'a> {
    group: Group,
    signer: Signer,
    judge: PolicyJudge,
    /// Milliseconds since 1970 at the connection's beginning.
    began_ms: u64,
    chance: SplitMix64,
    published: BTreeMap<Name, Vec<u8>>,
    /// Names of our publications, oldest first.
    order: std::collections::VecDeque<Name>,
    fetching: Option<SvsFetcher>,
    lines: &'a mut dyn FnMut() -> SvsLine,
    tell: &'a mut dyn FnMut(SvsEvent<'_>),
}

/// A trust policy, with the current time.
struct PolicyJudge {
    policy: TrustPolicy,
    now_ms: u64,
}

impl SyncTrust for PolicyJudge {
    fn data(&mut self, data: &Data<'_>) -> Result<(), TrustError> {
        self.policy.verdict(data, self.now_ms).map(drop)
    }

    fn interest(&mut self, interest: &Interest<'_>) -> Result<(), TrustError> {
        match &self.policy {
            TrustPolicy::Key(key) => key.interest(interest),
            TrustPolicy::Anchors(store) => store.interest(interest, self.now_ms),
            TrustPolicy::Nobody => Ok(()),
        }
    }
}

/// The keys of a member of a sync group.
pub struct SvsKeys {
    /// Signs what the member sends.
    pub signer: Signer,
    /// Decides which senders are trusted.
    pub policy: TrustPolicy,
}

impl<'a> SvsMember<'a> {
    /// A member of the group that `config` describes. `fetch`: also fetches
    /// other members' publications. `lines` supplies publications, `tell` gets events. `began_ms` is the time at the
    /// connection's beginning, in milliseconds since 1970. `seed` is random.
    ///
    /// # Errors
    /// A group or a member without a name.
    pub fn new(
        config: GroupConfig,
        SvsKeys { signer, policy }: SvsKeys,
        fetch: bool,
        began_ms: u64,
        seed: u64,
        lines: &'a mut dyn FnMut() -> SvsLine,
        tell: &'a mut dyn FnMut(SvsEvent<'_>),
    ) -> Result<Self, ClientError> {
        let mut chance = SplitMix64::new(seed);
        let group = Group::new(config, Duration::ZERO, chance.next_u64())
            .ok_or_else(|| ClientError::bad_name("/", NameFlaw::Empty))?;
        let judge = PolicyJudge { policy, now_ms: began_ms };
        let (published, order) = (BTreeMap::new(), std::collections::VecDeque::new());
        let fetching = fetch.then(SvsFetcher::default);
        Ok(Self { group, signer, judge, began_ms, chance, published, order, fetching, lines, tell })
    }

    /// The prefix of the group's sync Interests.
    fn sync_prefix(&self) -> Name {
        self.group.version().prefix(self.group.name())
    }

    /// The prefix of our own publications.
    fn own_prefix(&self) -> Option<Name> {
        let own = self.group.own()?;
        Some(own.name.iter().chain(self.group.name().iter()).collect())
    }

    /// Asks the forwarder to send members' Interests here, and to send sync Interests to all members. Returns the
    /// reason if it refuses the latter.
    ///
    /// It registers the group's own name, as members of other programs do. An entry for the longer prefix of the sync
    /// Interests would take them away from all members that registered the shorter one.
    ///
    /// # Errors
    /// A refused registration, and any error that ends the run.
    pub fn announce<D: Driver>(&self, driver: &mut D) -> Result<Option<String>, D::Error> {
        let digest = Signer::digest_sha256();
        // A forwarder does not know the group's shared key.
        let signer = if self.signer.public().is_some() { &self.signer } else { &digest };
        register(driver, self.group.name().as_ref(), signer)?;
        if let Some(prefix) = self.own_prefix() {
            register(driver, prefix.as_ref(), signer)?;
        }
        let strategy = Name::from_uri(MULTICAST).ok();
        let name = Some(self.group.name().clone());
        let parameters = ControlParameters { name, strategy, ..ControlParameters::default() };
        let set =
            Manager::new(driver, signer).send_command("strategy-choice", "set", &parameters)?;
        Ok((set.code != 200).then(|| format!("{} {}", set.code, set.text)))
    }

    fn unix_ms(&self, now: Duration) -> u64 {
        self.began_ms.saturating_add(u64::try_from(now.as_millis()).unwrap_or(u64::MAX))
    }

    fn nonce(&mut self) -> [u8; 4] {
        (self.chance.next_u64() as u32).to_be_bytes()
    }

    /// Publishes what is waiting.
    fn publish(&mut self, now: Duration) -> Result<(), ClientError> {
        // Before its boot time a member publishes nothing, so that the next boot can have that time.
        let begins_ms = self.group.own().map_or(0, |own| own.boot.saturating_mul(1000));
        if self.unix_ms(now) < begins_ms {
            return Ok(());
        }
        while let SvsLine::Next(line) = (self.lines)() {
            let Some(own) = self.group.own().cloned() else { continue };
            if line.len() > MAX_PUBLICATION {
                (self.tell)(SvsEvent::TooLong(line.len()));
                continue;
            }
            let number = self.group.sequence(&own).saturating_add(1);
            let name = publication_name(self.group.version(), self.group.name(), &own, number);
            let mut packet = Vec::new();
            let builder = DataBuilder::new(name.as_ref()).freshness_ms(FRESHNESS_MS);
            let signed = self.signer.data(builder, &line, &mut packet);
            signed.map_err(|e| ClientError::bad_name(name.to_string(), e))?;
            if self.published.len() >= MAX_KEPT
                && let Some(oldest) = self.order.pop_front()
            {
                self.published.remove(&oldest);
            }
            self.order.push_back(name.clone());
            self.published.insert(name, packet);
            self.group.publish(now);
            (self.tell)(SvsEvent::Published(&own, number));
        }
        Ok(())
    }

    /// Passes on the group's events.
    fn handle_group_events(&mut self, now: Duration) {
        while let Some(event) = self.group.poll_event() {
            match event {
                GroupEvent::Updated { member, from, to } => {
                    (self.tell)(SvsEvent::Updated(&member, from, to));
                    if let Some(fetching) = &mut self.fetching {
                        fetching.want(member, from, to, self.tell);
                    }
                }
                GroupEvent::Ahead { sequence } => {
                    (self.tell)(SvsEvent::Ahead(sequence));
                    let after = self.group.own().map_or(0, |own| own.boot.saturating_add(1));
                    self.group.restart(after.max(self.unix_ms(now) / 1000));
                }
            }
        }
    }

    fn send_vector(
        &mut self,
        now: Duration,
        outbox: &mut PacketOutbox<'_>,
    ) -> Result<(), ClientError> {
        let stamp = CommandStamp::new(self.chance.next_u64().to_be_bytes(), self.unix_ms(now));
        let nonce = self.nonce();
        let mut wire = Vec::new();
        let sent = self.group.poll_transmit(now, &self.signer, stamp, nonce, &mut wire);
        if sent.map_err(|e| ClientError::bad_name(self.group.name().to_string(), e))? {
            outbox.packet(&wire, None);
        }
        Ok(())
    }

    /// A publication of ours that satisfies the Interest: that of its name, or one below it.
    fn answer(&self, interest: &Interest<'_>) -> Option<&[u8]> {
        let name = interest.name();
        let digest = name.last()?.typ() == xylem_packet::types::IMPLICIT_SHA256_DIGEST;
        let asked = if digest { name.parent() } else { name };
        let (_, packet) = self.published.range(asked.to_name()..).next()?;
        Data::decode(packet).is_ok_and(|data| satisfies(&data, interest)).then_some(packet)
    }
}

impl Application for SvsMember<'_> {
    fn transmit(
        &mut self,
        now: Duration,
        outbox: &mut PacketOutbox<'_>,
    ) -> Result<(), ClientError> {
        self.publish(now)?;
        self.group.handle_timer(now);
        self.handle_group_events(now);
        self.send_vector(now, outbox)?;
        let (version, group) = (self.group.version(), self.group.name().clone());
        let Some(fetching) = &mut self.fetching else { return Ok(()) };
        let chance = &mut self.chance;
        let ask = |interest: &[u8]| outbox.packet(interest, None);
        let name = |member: &GroupMember, number| publication_name(version, &group, member, number);
        fetching.transmit(now, name, || (chance.next_u64() as u32).to_be_bytes(), ask, self.tell);
        Ok(())
    }

    fn handle_message(
        &mut self,
        now: Duration,
        message: ForwarderMessage<'_>,
        outbox: &mut PacketOutbox<'_>,
    ) -> Result<(), ClientError> {
        self.judge.now_ms = self.unix_ms(now);
        match Packet::decode(message.packet) {
            Ok(Packet::Data(data)) => {
                if let Some(fetching) = &mut self.fetching {
                    let verdict = self.judge.policy.verdict(&data, self.judge.now_ms);
                    if let Some(round_trip) = fetching.handle_data(now, &data, verdict, self.tell) {
                        self.group.set_round_trip(round_trip);
                    }
                }
            }
            // A Nack for a publication is ignored: the request is repeated when it is overdue.
            Ok(Packet::Interest(interest)) if message.nack.is_none() => {
                if let Some(packet) = self.answer(&interest) {
                    outbox.packet(packet, message.pit_token);
                } else if self.sync_prefix().is_prefix_of(interest.name()) {
                    let now_ms = self.judge.now_ms;
                    match self.group.receive(now, now_ms, &interest, &mut self.judge) {
                        Ok(_) => self.handle_group_events(now),
                        Err(why) => (self.tell)(SvsEvent::Refused(why)),
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn poll_timeout(&self, now: Duration) -> Option<Duration> {
        let fetches = self.fetching.as_ref().and_then(SvsFetcher::next_timer);
        let timer = self.group.next_timer().min(now.saturating_add(STOP_CHECK_EVERY));
        Some(fetches.map_or(timer, |fetches| fetches.min(timer)))
    }

    /// A member runs until it is stopped.
    fn is_done(&self) -> bool {
        false
    }
}

/// A text that is no version of State Vector Sync.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown version: use 1, 2 or 3")]
pub struct UnknownSyncVersion;

/// Parses a version: 1, 2 or 3.
///
/// # Errors
/// Any other text.
pub fn parse_version(text: &str) -> Result<SyncVersion, UnknownSyncVersion> {
    match text {
        "1" => Ok(SyncVersion::V1),
        "2" => Ok(SyncVersion::V2),
        "3" => Ok(SyncVersion::V3),
        _ => Err(UnknownSyncVersion),
    }
}
