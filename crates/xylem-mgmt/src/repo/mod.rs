//! [`RepoProtocol`]: insertions into a repository and removals from it, as the clients of ndn-python-repo 0.3 request them.
//!
//! ```text
//! REPO/insert|delete/notify/params-sha256=…     a notice: the client's prefix, a nonce
//! CLIENT/msg/REPO/insert|delete/<nonce>         the command, which is fetched: signed Data
//! NAME/seg=N                                    the packets to insert, which are fetched
//! REPO/insert check|delete check/<process>      a check: how far is it
//! ```
//!
//! A command is obeyed if a trusted key signed it that may sign the packets that it names, and once among those that the
//! host remembers. A packet is stored if a trusted key signed it that may sign its name. Notices and checks prove nothing:
//! a notice causes three Interests under a name of its sender's choice, a check a signature, and each face causes so many
//! per second. Everything that waits is bounded. Packets come in through [`RepoProtocol::handle_interest`] and
//! [`RepoProtocol::handle_reply`]; a [`RepoHost`] stores them.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, clippy::cast_possible_truncation))]

mod codec;

use core::time::Duration;
use std::collections::{BTreeMap, VecDeque};

use xylem_forward::FaceId;
use xylem_packet::tlv::types::SEGMENT_COMPONENT;
use xylem_packet::{
    Component, Data, DataBuilder, Interest, InterestBuilder, Name, NameRef, Packet,
};
use xylem_trust::{Signer, TrustError, TrustStore};

pub use codec::{NamedPrefix, ProcessId, RepoNotice, RepoParameters, RepoResponse};

/// Most commands that are fetched at the same time, and most of those because of one face's notices.
const MOST_MESSAGES: usize = 64;
const MOST_OF_FACE: usize = 16;
/// Most notices that wait for one command, which a client has repeated.
const MOST_NOTICES: usize = 4;
/// Notices and checks of one face: so many at once, and then one more in each of these times.
const NOTICES_AT_ONCE: u32 = 64;
const NOTICE_EVERY: Duration = Duration::from_millis(100);
const CHECKS_AT_ONCE: u32 = 100;
const CHECK_EVERY: Duration = Duration::from_millis(20);
/// Most faces whose notices and checks are counted; those of others are dropped.
const MOST_COUNTED_FACES: usize = 4_096;
/// Most insertions and removals under way, and most that wait for those.
const MOST_RUNNING: usize = 16;
const MOST_QUEUED: usize = 64;
/// Most commands about which checks are answered, and how long after their end.
const MOST_PROCESSES: usize = 512;
const REMEMBERED: Duration = Duration::from_secs(60);
/// Most refused commands about which checks are answered.
const MOST_REFUSED: usize = 64;
/// Segments of an insertion that are requested at the same time (as the reference implementation).
const AT_THE_SAME_TIME: usize = 10;
/// Removals of one command between two looks at the network.
const REMOVALS_AT_ONCE: usize = 256;
/// How often a packet is requested, and the lifetime of these Interests.
const TRIES: u32 = 3;
const LIFETIME: Duration = Duration::from_secs(1);
/// Pause before the disk is asked again.
const DISK_PAUSE: Duration = Duration::from_millis(20);
/// Longest name in a command: room is left for a segment number and a packet's rest.
const MAX_NAME: usize = 2_048;
/// FreshnessPeriod of answers: a check after the next one must not get the old answer.
const ANSWER_FRESHNESS_MS: u64 = 100;

/// What a command asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RepoVerb {
    /// Fetch and store packets.
    Insert,
    /// Remove packets.
    Delete,
}

impl RepoVerb {
    fn of(component: &[u8]) -> Option<Self> {
        match component {
            b"insert" | b"insert check" => Some(RepoVerb::Insert),
            b"delete" | b"delete check" => Some(RepoVerb::Delete),
            _ => None,
        }
    }

    fn component(self) -> Component<'static> {
        Component::generic(match self {
            RepoVerb::Insert => b"insert",
            RepoVerb::Delete => b"delete",
        })
    }
}

/// Reasons for which a host cannot change its packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RepoHostError {
    /// The quota is used up.
    Full,
    /// The disk is behind; later it may work.
    Busy,
}

/// The packets, as the protocol needs them. No call waits for a disk.
pub trait RepoHost {
    /// Stores a packet, in place of one of this name.
    ///
    /// # Errors
    /// See [`RepoHostError`].
    fn store(&mut self, name: NameRef<'_>, packet: &[u8]) -> Result<(), RepoHostError>;
    /// Whether there is a packet of this name.
    fn contains(&self, name: NameRef<'_>) -> bool;
    /// Removes the packet of this name, if there is one.
    ///
    /// # Errors
    /// `Busy`.
    fn remove(&mut self, name: NameRef<'_>) -> Result<bool, RepoHostError>;
    /// Whether a command with this digest took effect before.
    fn remembers(&self, digest: &[u8; 32]) -> bool;
    /// Remembers a command, on the disk before all later changes.
    ///
    /// # Errors
    /// `Busy`.
    fn remember(&mut self, digest: [u8; 32]) -> Result<(), RepoHostError>;
    /// Asks that the changes so far be made durable; returns a number for [`Self::flushed`].
    fn flush(&mut self) -> u64;
    /// The number of the latest flush.
    fn latest_flush(&self) -> u64;
    /// Whether the changes between the flush `since` and this one are; `None` if that is not known yet.
    fn flushed(&self, since: u64, flush: u64) -> Option<bool>;
    /// Drops the forwarder's cached packet of this name: it was removed, or is not what it should be.
    fn forget_cached(&mut self, name: NameRef<'_>);
    /// The time of day, milliseconds since 1970.
    fn now_ms(&self) -> u64;
}

/// Name and permissions of a repository.
#[derive(Debug)]
pub struct RepoSettings {
    /// The repository's own name.
    pub prefix: Name,
    /// Keys that may insert and remove, each what it may sign.
    pub trust: TrustStore,
    /// Signs answers.
    pub signer: Signer,
    /// Random, for the nonces of Interests.
    pub seed: u64,
}

/// What has happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RepoReport {
    /// An insertion has ended.
    Inserted {
        /// The packet, or the prefix of its segments.
        name: Name,
        /// Stored packets.
        packets: u64,
        /// The reason why it is not complete.
        failed: Option<RepoFailure>,
    },
    /// A removal has ended.
    Removed {
        /// The packet, or the prefix of its segments.
        name: Name,
        /// Removed packets.
        packets: u64,
        /// The reason why it may not last.
        failed: Option<RepoFailure>,
    },
    /// A command was refused.
    Refused {
        /// The command's name.
        command: Name,
        /// Reason.
        why: RepoRefusal,
    },
}

/// Why a repository refuses a command.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RepoRefusal {
    /// No trusted key has signed it, or the rules do not permit its signer this name.
    #[error(transparent)]
    Untrusted(#[from] TrustError),
    /// It has no name.
    #[error("the command has no name")]
    NoName,
    /// It has no process id.
    #[error("the command has no process id")]
    NoProcess,
    /// Its name is empty, or too long for a packet.
    #[error("the name is empty or too long")]
    NameLength,
    /// Its name is the repository's own, or of this machine.
    #[error("such names are not for a repository")]
    Reserved,
    /// Its last segment is before its first.
    #[error("the last segment is before the first")]
    Backwards,
    /// It is a repetition.
    #[error("this command was obeyed before")]
    Repeated,
    /// Its process id is in use.
    #[error("another command of this process id is under way")]
    ProcessInUse,
    /// There is no room for another command. It is requested again.
    #[error("too much is under way")]
    Busy,
}

impl RepoRefusal {
    /// The status code of the answer; `None` if the command is requested again instead.
    fn code(&self) -> Option<u64> {
        match self {
            Self::NoName | Self::NoProcess | Self::NameLength | Self::Backwards => Some(400),
            Self::Untrusted(_) | Self::Reserved | Self::Repeated | Self::ProcessInUse => Some(403),
            Self::Busy => None,
        }
    }
}

/// Why an insertion or removal failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RepoFailure {
    /// No producer answers for this packet.
    #[error("no answer for {0}")]
    NoAnswer(Name),
    /// No trusted key has signed a packet.
    #[error("{name}: {why}")]
    Untrusted {
        /// The packet.
        name: Name,
        /// Reason.
        why: TrustError,
    },
    /// The producer has fewer segments than its packets name.
    #[error("segments are missing")]
    Incomplete,
    /// The repository has no room.
    #[error("the repository is full")]
    Full,
    /// The disk did not keep what was written.
    #[error("the disk failed")]
    Disk,
}

/// A command that is being fetched.
#[derive(Debug)]
struct PendingMessage {
    name: Name,
    verb: RepoVerb,
    hint: Option<Name>,
    /// The face of the first notice.
    from: FaceId,
    /// Names of the notices to answer.
    notices: Vec<Name>,
    tries: u32,
    due: Duration,
}

/// A packet that an insertion has requested.
#[derive(Debug)]
struct PendingPacket {
    name: Name,
    segment: u64,
    tries: u32,
    due: Duration,
    /// The reason why an answer was refused.
    refused: Option<RepoFailure>,
}

#[derive(Debug)]
struct RepoProcess {
    id: ProcessId,
    verb: RepoVerb,
    name: Name,
    hint: Option<Name>,
    /// The command is for segments, beginning with `next`; otherwise for the packet `name`.
    has_segments: bool,
    /// A removal is for the packet `name`, too.
    with_packet: bool,
    next: u64,
    /// The last segment, if known.
    last: Option<u64>,
    /// The number of segments was not stated: `last` is a guess, if any.
    is_open: bool,
    /// The last of the stored segments.
    latest: Option<u64>,
    pending: Vec<PendingPacket>,
    /// Inserted or removed packets.
    count: u64,
    failed: Option<RepoFailure>,
    /// The latest flush before its first change.
    since: u64,
    state: ProcessState,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ProcessState {
    Queued,
    /// At this time there is more to do, apart from answers.
    Running(Option<Duration>),
    /// Waits for the disk; looks again at this time.
    Flushing(u64, Duration),
    /// Forgotten at this time.
    Ended(Duration),
}

/// What each face may cause: so much at once, and then one more per `every`.
#[derive(Debug)]
struct FaceAllowance {
    every: Duration,
    at_once: u32,
    /// When all that a face has caused is paid for.
    paid: BTreeMap<FaceId, Duration>,
}

impl FaceAllowance {
    fn new(every: Duration, at_once: u32) -> Self {
        FaceAllowance { every, at_once, paid: BTreeMap::new() }
    }

    /// Counts one more of this face; false if it has had enough.
    fn take(&mut self, now: Duration, from: FaceId) -> bool {
        if self.paid.len() >= MOST_COUNTED_FACES && !self.paid.contains_key(&from) {
            self.paid.retain(|_, paid| *paid > now);
            if self.paid.len() >= MOST_COUNTED_FACES {
                return false;
            }
        }
        let paid = self.paid.get(&from).copied().unwrap_or_default().max(now);
        let before_last = self.every.saturating_mul(self.at_once.saturating_sub(1));
        if paid > now.saturating_add(before_last) {
            return false;
        }
        self.paid.insert(from, paid.saturating_add(self.every));
        true
    }
}

/// The repository's side of the protocol, without sockets, clock or disk.
///
/// It has a face of the forwarder with a route of [`Self::prefix`]. Interests and Data that the forwarder sends there go to
/// [`Self::handle_interest`] and [`Self::handle_reply`]; the resulting packets go back as from that face.
#[derive(Debug)]
pub struct RepoProtocol {
    prefix: Name,
    trust: TrustStore,
    signer: Signer,
    nonce: u64,
    messages: Vec<PendingMessage>,
    processes: Vec<RepoProcess>,
    /// Refusals of commands of trusted keys: others could crowd these out.
    refused: VecDeque<(ProcessId, RepoVerb, u64)>,
    notices: FaceAllowance,
    checks: FaceAllowance,
    reports: Vec<RepoReport>,
}

impl RepoProtocol {
    /// A repository without commands.
    pub fn new(settings: RepoSettings) -> Self {
        RepoProtocol {
            prefix: settings.prefix,
            trust: settings.trust,
            signer: settings.signer,
            nonce: settings.seed,
            messages: Vec::new(),
            processes: Vec::new(),
            refused: VecDeque::new(),
            notices: FaceAllowance::new(NOTICE_EVERY, NOTICES_AT_ONCE),
            checks: FaceAllowance::new(CHECK_EVERY, CHECKS_AT_ONCE),
            reports: Vec::new(),
        }
    }

    /// The prefix that has to be routed to the protocol's face.
    pub fn prefix(&self) -> &Name {
        &self.prefix
    }

    /// What has happened since the last call.
    pub fn take_reports(&mut self) -> Vec<RepoReport> {
        core::mem::take(&mut self.reports)
    }

    /// Handles one Interest, which the forwarder had from the face `from`; false if it is not under the repository's
    /// name.
    pub fn handle_interest(
        &mut self,
        now: Duration,
        from: FaceId,
        interest: &Interest<'_>,
        host: &mut impl RepoHost,
        out: &mut Vec<Vec<u8>>,
    ) -> bool {
        let Some(rest) = interest.name().strip_prefix(self.prefix.as_ref()) else { return false };
        let generic =
            |i| rest.get(i).filter(|component| component.typ() == Component::generic(b"").typ());
        let (Some(first), second) = (generic(0), generic(1)) else { return true };
        let Some(verb) = RepoVerb::of(first.value()) else { return true };
        match (first.value(), second) {
            (b"insert" | b"delete", Some(second)) if second.value() == b"notify" => {
                self.notice(now, from, verb, interest, out);
            }
            (b"insert check" | b"delete check", Some(second))
                if rest.len() == 2 && self.checks.take(now, from) =>
            {
                self.check(verb, interest.name(), second.value(), out);
            }
            _ => {}
        }
        self.work(now, host, out);
        true
    }

    /// Handles Data or, with an Interest, a Nack; false if the protocol did not request it.
    pub fn handle_reply(
        &mut self,
        now: Duration,
        packet: &[u8],
        host: &mut impl RepoHost,
        out: &mut Vec<Vec<u8>>,
    ) -> bool {
        let is_ours = match Packet::decode(packet) {
            Ok(Packet::Data(data)) => {
                self.message(now, &data, host, out) || self.segment(now, &data, host)
            }
            Ok(Packet::Interest(interest)) => self.has_requested(interest.name()),
            _ => false,
        };
        if is_ours {
            self.work(now, host, out);
        }
        is_ours
    }

    /// Handles a notice: requests the command.
    fn notice(
        &mut self,
        now: Duration,
        from: FaceId,
        verb: RepoVerb,
        interest: &Interest<'_>,
        out: &mut Vec<Vec<u8>>,
    ) {
        let notice = interest.app_parameters().and_then(|it| RepoNotice::from_value(it).ok());
        let Some(RepoNotice { publisher: Some(publisher), nonce: Some(nonce), forwarding_hint }) =
            notice
        else {
            return;
        };
        let len = publisher.encoded_len().saturating_add(self.prefix.encoded_len());
        if len > MAX_NAME || is_of_this_machine(&publisher) {
            return;
        }
        let mut name = publisher.child(Component::generic(b"msg"));
        for component in self.prefix.iter() {
            name.push(component);
        }
        name.push(verb.component());
        name.push(Component::generic(nonce.octets()));
        let answer_to = interest.name().to_name();
        if let Some(message) = self.messages.iter_mut().find(|message| message.name == name) {
            if message.notices.len() < MOST_NOTICES && !message.notices.contains(&answer_to) {
                message.notices.push(answer_to);
            }
            return;
        }
        if !self.notices.take(now, from) || !self.make_room(from) {
            return;
        }
        let hint = hint_of(forwarding_hint);
        if let Some(wire) = self.request(&name, hint.as_ref()) {
            out.push(wire);
            let due = now.saturating_add(LIFETIME);
            let notices = vec![answer_to];
            self.messages.push(PendingMessage { name, verb, hint, from, notices, tries: 1, due });
        }
    }

    /// Makes room for one more command of this face. If all places are taken, the face with most gives up its oldest one
    /// to a face with less.
    fn make_room(&mut self, from: FaceId) -> bool {
        let count = |face| self.messages.iter().filter(|message| message.from == face).count();
        let own = count(from);
        if own >= MOST_OF_FACE {
            return false;
        }
        if self.messages.len() < MOST_MESSAGES {
            return true;
        }
        let most = self.messages.iter().map(|message| (count(message.from), message.from)).max();
        let Some((_, greediest)) = most.filter(|(count, _)| *count > own.saturating_add(1)) else {
            return false;
        };
        let oldest = self.messages.iter().position(|message| message.from == greediest);
        oldest.map(|i| self.messages.remove(i)).is_some()
    }

    /// An Interest for this name.
    fn request(&mut self, name: &Name, hint: Option<&Name>) -> Option<Vec<u8>> {
        self.nonce = self.nonce.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        let [a, b, c, d, ..] = self.nonce.to_be_bytes();
        let hints: Vec<NameRef<'_>> = hint.iter().map(|hint| hint.as_ref()).collect();
        let lifetime_ms = u64::try_from(LIFETIME.as_millis()).unwrap_or(u64::MAX);
        let builder =
            InterestBuilder::new(name.as_ref()).nonce([a, b, c, d]).lifetime_ms(lifetime_ms);
        let mut wire = Vec::new();
        builder.forwarding_hint(&hints).encode(&mut wire).ok()?;
        Some(wire)
    }

    /// Handles Data if it is a requested command. It is requested until a trusted key has signed one.
    fn message(
        &mut self,
        now: Duration,
        data: &Data<'_>,
        host: &mut impl RepoHost,
        out: &mut Vec<Vec<u8>>,
    ) -> bool {
        let is_it = |message: &PendingMessage| message.name.as_ref() == data.name();
        let Some(i) = self.messages.iter().position(is_it) else { return false };
        let Some(verb) = self.messages.get(i).map(|message| message.verb) else { return false };
        let parameters = RepoParameters::from_value(data.content()).unwrap_or_default();
        let (info, portion) = (data.signature_info(), data.signed_portion());
        let signed = self.trust.parts(&info, &[portion], data.signature_value(), host.now_ms());
        let done = match &signed {
            Ok(()) => self.obey(verb, &parameters, data, host),
            Err(why) => Err(RepoRefusal::Untrusted(*why)),
        };
        if let Err(why) = done {
            let code = why.code();
            // The host may take the same packet again, or another one that comes in its place.
            host.forget_cached(data.name());
            self.report(RepoReport::Refused { command: data.name().to_name(), why });
            if signed.is_err() {
                // The right one may come from elsewhere.
                self.messages.iter_mut().skip(i).take(1).for_each(|message| message.due = now);
                return true;
            }
            let Some(code) = code else { return true };
            if let Some(process) = parameters.process {
                if self.refused.len() >= MOST_REFUSED {
                    self.refused.pop_front();
                }
                self.refused.push_back((process, verb, code));
            }
        }
        let message = self.messages.remove(i);
        for notice in &message.notices {
            self.answer(notice.as_ref(), &[], out);
        }
        true
    }

    fn report(&mut self, report: RepoReport) {
        // The owner takes reports after each call.
        if self.reports.len() < MOST_PROCESSES {
            self.reports.push(report);
        }
    }

    /// Begins what a command asks for, if it may.
    fn obey(
        &mut self,
        verb: RepoVerb,
        parameters: &RepoParameters,
        data: &Data<'_>,
        host: &mut impl RepoHost,
    ) -> Result<(), RepoRefusal> {
        let name = parameters.name.clone().ok_or(RepoRefusal::NoName)?;
        let id = parameters.process.clone();
        let id = id.ok_or(RepoRefusal::NoProcess)?;
        if name.is_empty() || name.encoded_len() > MAX_NAME {
            return Err(RepoRefusal::NameLength);
        }
        let own = self.prefix.as_ref();
        let overlaps = own.is_prefix_of(name.as_ref()) || name.as_ref().is_prefix_of(own);
        if overlaps || is_of_this_machine(&name) {
            return Err(RepoRefusal::Reserved);
        }
        let is_whole = parameters.start_block.is_none() && parameters.end_block.is_none();
        // A removal without segments is for all of them.
        let has_segments = !is_whole || verb == RepoVerb::Delete;
        let first = parameters.start_block.unwrap_or(0);
        if parameters.end_block.is_some_and(|last| last < first) {
            return Err(RepoRefusal::Backwards);
        }
        let about = match has_segments {
            true => name.child(Component::segment(first)),
            false => name.clone(),
        };
        self.trust.data_about(data, about.as_ref(), host.now_ms())?;
        // The rules for a name say nothing about those above it.
        let with_packet = verb == RepoVerb::Delete
            && is_whole
            && self.trust.data_about(data, name.as_ref(), host.now_ms()).is_ok();
        // The signature itself may have other forms that are as valid.
        let digest = xylem_trust::digest::sha256(&[data.signed_portion()]);
        let is_known = |process: &RepoProcess| process.id == id && process.verb == verb;
        let known = self.processes.iter().position(is_known);
        if host.remembers(&digest) {
            return match known {
                // The answer was lost.
                Some(_) => Ok(()),
                None => Err(RepoRefusal::Repeated),
            };
        }
        if let Some(i) = known {
            match self.processes.get(i).map(|process| process.state) {
                Some(ProcessState::Ended(_)) => drop(self.processes.remove(i)),
                _ => return Err(RepoRefusal::ProcessInUse),
            }
        }
        let is_active = |process: &&RepoProcess| !matches!(process.state, ProcessState::Ended(_));
        let active = self.processes.iter().filter(is_active).count();
        if active >= MOST_RUNNING.saturating_add(MOST_QUEUED) {
            return Err(RepoRefusal::Busy);
        }
        if self.processes.len() >= MOST_PROCESSES {
            let ended = self.processes.iter().position(|process| !is_active(&process));
            ended.map(|i| self.processes.remove(i)).ok_or(RepoRefusal::Busy)?;
        }
        let since = host.latest_flush();
        host.remember(digest).map_err(|_| RepoRefusal::Busy)?;
        self.refused.retain(|(refused, ..)| *refused != id);
        self.processes.push(RepoProcess {
            id,
            verb,
            name,
            hint: hint_of(parameters.forwarding_hint.clone()),
            has_segments,
            with_packet,
            next: first,
            last: parameters.end_block,
            is_open: has_segments && parameters.end_block.is_none(),
            latest: None,
            pending: Vec::new(),
            count: 0,
            failed: None,
            since,
            state: ProcessState::Queued,
        });
        Ok(())
    }

    /// Handles Data if an insertion has requested it.
    fn segment(&mut self, now: Duration, data: &Data<'_>, host: &mut impl RepoHost) -> bool {
        let trust = &self.trust;
        let mut is_ours = false;
        for process in &mut self.processes {
            let is_it = |packet: &PendingPacket| packet.name.as_ref() == data.name();
            let Some(i) = process.pending.iter().position(is_it) else { continue };
            is_ours = true;
            if let Err(why) = trust.data(data, host.now_ms()) {
                // The right one may come from elsewhere.
                host.forget_cached(data.name());
                let why = RepoFailure::Untrusted { name: data.name().to_name(), why };
                if let Some(packet) = process.pending.get_mut(i) {
                    packet.refused = Some(why.clone());
                }
                process.packet_failed(now, i, why);
                continue;
            }
            match host.store(data.name(), data.wire()) {
                Ok(()) => {
                    let packet = process.pending.swap_remove(i);
                    process.latest = process.latest.max(Some(packet.segment));
                    process.count = process.count.saturating_add(1);
                    let end = data.meta().final_block_id;
                    if let Some(end) = end.and_then(|it| it.as_number_of(SEGMENT_COMPONENT)) {
                        let is_short = process.last.is_some_and(|last| last < end);
                        if process.is_open && is_short {
                            process.fail(RepoFailure::Incomplete);
                        }
                        process.is_open = false;
                        process.end_at(end);
                    }
                }
                Err(RepoHostError::Busy) => {
                    if let Some(packet) = process.pending.get_mut(i) {
                        packet.due = now.saturating_add(DISK_PAUSE);
                        packet.tries = packet.tries.saturating_sub(1);
                    }
                }
                Err(RepoHostError::Full) => process.fail(RepoFailure::Full),
            }
        }
        is_ours
    }

    /// Whether an Interest that came back is one of these. It is repeated when its lifetime is over.
    fn has_requested(&self, name: NameRef<'_>) -> bool {
        let mut pending = self.processes.iter().flat_map(|process| &process.pending);
        self.messages.iter().any(|message| message.name.as_ref() == name)
            || pending.any(|packet| packet.name.as_ref() == name)
    }

    /// Answers a check.
    fn check(&self, verb: RepoVerb, name: NameRef<'_>, parameters: &[u8], out: &mut Vec<Vec<u8>>) {
        let parameters = RepoParameters::from_value(parameters).unwrap_or_default();
        let mut response = RepoResponse::default();
        let Some(id) = parameters.process else {
            response.status_code = Some(403);
            return self.respond(name, &response, out);
        };
        let process = self.processes.iter().find(|it| it.id == id && it.verb == verb);
        let refused = self.refused.iter().rev().find(|(it, its, _)| *it == id && *its == verb);
        response.status_code = Some(match (process, refused) {
            (Some(process), _) => process.code(),
            (None, Some((.., code))) => *code,
            (None, None) => 404,
        });
        if let Some(process) = process {
            match verb {
                RepoVerb::Insert => response.insert_num = Some(process.count),
                RepoVerb::Delete => response.delete_num = Some(process.count),
            }
        }
        response.process = Some(id);
        self.respond(name, &response, out);
    }

    fn respond(&self, name: NameRef<'_>, response: &RepoResponse, out: &mut Vec<Vec<u8>>) {
        let mut content = Vec::new();
        response.write_value(&mut content);
        self.answer(name, &content, out);
    }

    fn answer(&self, name: NameRef<'_>, content: &[u8], out: &mut Vec<Vec<u8>>) {
        let builder = DataBuilder::new(name).freshness_ms(ANSWER_FRESHNESS_MS);
        let mut wire = Vec::new();
        if self.signer.data(builder, content, &mut wire).is_ok() {
            out.push(wire);
        }
    }

    /// When to call [`Self::handle_timeout`]; `None` if nothing is under way.
    pub fn poll_timeout(&self) -> Option<Duration> {
        let messages = self.messages.iter().map(|message| message.due);
        let processes = self.processes.iter().filter_map(RepoProcess::due);
        messages.chain(processes).min()
    }

    /// Repeats requests without an answer, and continues what is under way.
    pub fn handle_timeout(
        &mut self,
        now: Duration,
        host: &mut impl RepoHost,
        out: &mut Vec<Vec<u8>>,
    ) {
        let mut due = Vec::new();
        self.messages.retain_mut(|message| {
            if message.due > now {
                return true;
            }
            message.tries = message.tries.saturating_add(1);
            message.due = now.saturating_add(LIFETIME);
            let again = message.tries <= TRIES;
            if again {
                due.push((message.name.clone(), message.hint.clone()));
            }
            again
        });
        for (name, hint) in due {
            out.extend(self.request(&name, hint.as_ref()));
        }
        self.work(now, host, out);
    }

    /// Continues all insertions and removals as far as possible.
    fn work(&mut self, now: Duration, host: &mut impl RepoHost, out: &mut Vec<Vec<u8>>) {
        let is_running = |process: &&RepoProcess| {
            matches!(process.state, ProcessState::Running(_) | ProcessState::Flushing(..))
        };
        let mut running = self.processes.iter().filter(is_running).count();
        let mut requests = Vec::new();
        let mut ended = Vec::new();
        for process in &mut self.processes {
            if process.state == ProcessState::Queued && running < MOST_RUNNING {
                process.state = ProcessState::Running(None);
                running = running.saturating_add(1);
            }
            if let ProcessState::Running(_) = process.state {
                let is_done = match process.verb {
                    RepoVerb::Insert => process.fetch(now, &mut requests),
                    RepoVerb::Delete => process.remove(now, host),
                };
                if is_done {
                    process.state = ProcessState::Flushing(host.flush(), now);
                }
            }
            if let ProcessState::Flushing(flush, _) = process.state {
                match host.flushed(process.since, flush) {
                    None => {
                        let again = now.saturating_add(DISK_PAUSE);
                        process.state = ProcessState::Flushing(flush, again);
                    }
                    Some(is_durable) => {
                        if !is_durable {
                            process.failed = Some(RepoFailure::Disk);
                        }
                        process.state = ProcessState::Ended(now.saturating_add(REMEMBERED));
                        ended.push(process.ended());
                    }
                }
            }
        }
        self.processes
            .retain(|process| !matches!(process.state, ProcessState::Ended(until) if until <= now));
        ended.into_iter().for_each(|report| self.report(report));
        for (name, hint) in requests {
            out.extend(self.request(&name, hint.as_ref()));
        }
    }
}

impl RepoProcess {
    fn code(&self) -> u64 {
        match (self.state, &self.failed) {
            (ProcessState::Ended(_), None) => 200,
            (ProcessState::Ended(_), Some(_)) => 400,
            _ => 300,
        }
    }

    fn due(&self) -> Option<Duration> {
        match self.state {
            ProcessState::Queued => None,
            ProcessState::Running(more) => {
                more.into_iter().chain(self.pending.iter().map(|packet| packet.due)).min()
            }
            ProcessState::Flushing(_, at) | ProcessState::Ended(at) => Some(at),
        }
    }

    fn ended(&self) -> RepoReport {
        let (name, packets, failed) = (self.name.clone(), self.count, self.failed.clone());
        match self.verb {
            RepoVerb::Insert => RepoReport::Inserted { name, packets, failed },
            RepoVerb::Delete => RepoReport::Removed { name, packets, failed },
        }
    }

    fn fail(&mut self, why: RepoFailure) {
        self.failed.get_or_insert(why);
        self.pending.clear();
    }

    /// Notes that there are no segments behind this one.
    fn end_at(&mut self, segment: u64) {
        self.last = Some(self.last.map_or(segment, |last| last.min(segment)));
        self.pending.retain(|packet| packet.segment <= segment);
    }

    /// Notes that a request was in vain. After the last try the insertion has failed, unless the number of segments was
    /// not stated, and neither this segment nor one behind it was ever answered: then the one before was the last.
    fn packet_failed(&mut self, now: Duration, i: usize, why: RepoFailure) {
        let Some(packet) = self.pending.get_mut(i) else { return };
        if packet.tries < TRIES {
            packet.due = now;
            return;
        }
        let segment = packet.segment;
        let mut from_here = self.pending.iter().filter(|packet| packet.segment >= segment);
        let refused = from_here.find_map(|packet| packet.refused.clone());
        let is_behind_all = self.latest.is_some_and(|latest| latest < segment);
        let is_end = self.is_open && refused.is_none() && is_behind_all;
        match segment.checked_sub(1) {
            Some(before) if is_end => self.end_at(before),
            _ => self.fail(refused.unwrap_or(why)),
        }
    }

    /// Requests what is missing. Returns whether the insertion is over.
    fn fetch(&mut self, now: Duration, requests: &mut Vec<(Name, Option<Name>)>) -> bool {
        // Expired requests first: they may end the insertion.
        while let Some(i) = self.pending.iter().position(|it| it.due <= now && it.tries >= TRIES) {
            let name = self.pending.get(i).map(|it| it.name.clone()).unwrap_or_default();
            let before = self.pending.len();
            self.packet_failed(now, i, RepoFailure::NoAnswer(name));
            if self.pending.len() == before {
                break;
            }
        }
        for packet in &mut self.pending {
            if packet.due <= now {
                packet.tries = packet.tries.saturating_add(1);
                packet.due = now.saturating_add(LIFETIME);
                requests.push((packet.name.clone(), self.hint.clone()));
            }
        }
        let last = self.last.unwrap_or(u64::MAX);
        while self.failed.is_none()
            && self.pending.len() < AT_THE_SAME_TIME
            && self.next <= last
            && let Some(after) = self.next.checked_add(1)
        {
            let segment = self.next;
            let name = match self.has_segments {
                true => self.name.child(Component::segment(segment)),
                false => self.name.clone(),
            };
            requests.push((name.clone(), self.hint.clone()));
            let due = now.saturating_add(LIFETIME);
            self.pending.push(PendingPacket { name, segment, tries: 1, due, refused: None });
            self.next = after;
            if !self.has_segments {
                self.last = Some(segment);
                break;
            }
        }
        self.state = ProcessState::Running(None);
        self.pending.is_empty()
    }

    /// Removes the next packets. Returns whether the removal is over.
    fn remove(&mut self, now: Duration, host: &mut impl RepoHost) -> bool {
        let has_packet = self.with_packet && host.contains(self.name.as_ref());
        if has_packet && self.remove_one(&self.name.clone(), host).is_err() {
            self.state = ProcessState::Running(Some(now.saturating_add(DISK_PAUSE)));
            return false;
        }
        for _ in 0..REMOVALS_AT_ONCE {
            let name = self.name.child(Component::segment(self.next));
            if self.last.is_some_and(|last| self.next > last) || !host.contains(name.as_ref()) {
                return true;
            }
            let Some(after) = self.next.checked_add(1) else { return true };
            if self.remove_one(&name, host).is_err() {
                self.state = ProcessState::Running(Some(now.saturating_add(DISK_PAUSE)));
                return false;
            }
            self.next = after;
        }
        self.state = ProcessState::Running(Some(now));
        false
    }

    fn remove_one(&mut self, name: &Name, host: &mut impl RepoHost) -> Result<(), RepoHostError> {
        if host.remove(name.as_ref())? {
            self.count = self.count.saturating_add(1);
        }
        host.forget_cached(name.as_ref());
        Ok(())
    }
}

/// The forwarding hint that a record has, if any that leads elsewhere.
fn hint_of(hint: Option<NamedPrefix>) -> Option<Name> {
    let is_usable = |name: &Name| {
        !name.is_empty() && name.encoded_len() <= MAX_NAME && !is_of_this_machine(name)
    };
    hint?.name.filter(is_usable)
}

/// Whether a name is for this machine or its neighbours alone.
fn is_of_this_machine(name: &Name) -> bool {
    let first = name.get(0);
    [b"localhost".as_slice(), b"localhop"]
        .map(Component::generic)
        .iter()
        .any(|it| Some(*it) == first)
}
