//! [`watch`]: examines every new version of a publication, and co-signs it if it continues what was seen.
//!
//! The steps are in order: the name of the newest version, its signed manifest, and for a growing file the proof that
//! it begins with the version before. Then the record is written, and only then the co-signature goes to the share.

use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use xylem_base::{Blame, Error};
use xylem_files::{LibraryEvent, Testimony};
use xylem_object::Ticket;
use xylem_object::witness::{
    HistorySplit, SignedVersion, StepError, SubmissionReply, VersionStep, step,
};
use xylem_packet::Name;
use xylem_trust::Signer;

use super::error::CosigningError;
use super::hand_over::hand_over;
use super::newest::{ASK_EVERY, NewestQuery, POINTER_LIFETIME};
use super::questions::OpenQuestions;
use super::record::{COSIGN_AGAIN, WitnessRecord, keep_evidence};
use super::versions::{DialVersions, VersionSource};

/// Rounds in which connected peers are asked for co-signatures of this witness, while one of them does not answer.
const TRIES: usize = 3;
/// Age at which a single run co-signs the same version again.
const AGAIN_ONCE: Duration = Duration::from_secs(60);

/// The publication to witness, and how.
#[derive(Clone, Debug)]
pub struct WatchOptions {
    /// Any version of the publication.
    pub ticket: Ticket,
    /// Store with the record.
    pub store: PathBuf,
    /// Directory with a copy of the record, which shows that the store was put back from a backup.
    pub copies: Option<PathBuf>,
    /// End once the newest version was co-signed and submitted.
    pub once: bool,
    /// Give up on peers after this long.
    pub give_up: Duration,
}

/// Co-signs the versions of a publication as they appear, while one connection to its peers lasts. The first call opens
/// `record`, and it stays open.
///
/// # Errors
/// [`Blame::Data`] for a publisher that has signed two histories: the evidence is in the store. [`Blame::Network`] if
/// no peer is reached any more; [`Blame::Interrupted`]. Errors of keys and records are those of [`CosigningError`].
pub fn watch(
    options: &WatchOptions,
    signer: &Signer,
    record: &mut Option<WitnessRecord>,
    peers: &mut impl DialVersions,
) -> Result<(), Error> {
    let ticket = &options.ticket;
    let known = match record.as_ref().and_then(WitnessRecord::newest) {
        Some(newest) => Some(newest.object.clone()),
        None => WitnessRecord::object_of(&options.store, ticket)?,
    };
    let known = known.or_else(|| Some(ticket.name.as_ref()?.as_ref().parent().to_name()));
    let mut peers = peers.dial(ticket, options.give_up)?;
    // With a known name, the ticket's version is not required; it may be gone.
    let object = match known {
        Some(object) => object,
        None => peers.of_ticket()?.object,
    };
    peers.watch(object.clone());
    let publisher = options.ticket.publisher;
    if record.is_none() {
        let opened = WitnessRecord::open(
            &options.store,
            options.copies.as_deref(),
            publisher,
            object.as_ref(),
            &options.ticket,
            signer,
        )?;
        *record = Some(opened);
    }
    let Some(record) = record.as_mut() else { return Ok(()) };
    let newest = NewestQuery::of(object.clone(), publisher);
    let watching = Watching { peers, newest, object, options, signer, record };
    WatchSession::new(watching).run()
}

/// State that is constant while a connection lasts.
struct Watching<'a, V> {
    peers: V,
    newest: NewestQuery,
    object: Name,
    options: &'a WatchOptions,
    signer: &'a Signer,
    record: &'a mut WitnessRecord,
}

struct WatchSession<'a, V> {
    watching: Watching<'a, V>,
    /// The newest version that was reported and not examined yet.
    heard: Option<u64>,
    /// When to ask for the newest version next.
    ask_at: Duration,
    /// When to ask for the pointer to the next checkpoint.
    pointer_at: Duration,
    /// The newest version of the record was examined in this session.
    checked: bool,
    /// Time of the co-signature that was submitted.
    handed: Option<u64>,
    /// The older version that the user was warned of.
    warned: Option<u64>,
    /// Interests for this witness's co-signatures at other peers. `compared` is whether all connected peers were asked.
    open: OpenQuestions,
    compared: bool,
}

impl<'a, V: VersionSource> WatchSession<'a, V> {
    fn new(watching: Watching<'a, V>) -> Self {
        let at = Duration::ZERO;
        let (ask_at, pointer_at) = (at, at);
        let open = OpenQuestions::of(watching.object.clone());
        Self {
            watching,
            heard: None,
            ask_at,
            pointer_at,
            checked: false,
            handed: None,
            warned: None,
            open,
            compared: false,
        }
    }

    fn run(&mut self) -> Result<(), Error> {
        let (once, give_up) = (self.watching.options.once, self.watching.options.give_up);
        let mut last_heard = self.watching.peers.now();
        loop {
            self.listen()?;
            let now = self.watching.peers.now();
            match self.heard.take() {
                Some(version) => {
                    last_heard = now;
                    self.examine(version)?;
                }
                None if now >= last_heard + give_up => {
                    let seconds = give_up.as_secs_f64();
                    return Err(network(format!("no answer from the publisher for {seconds} s")));
                }
                None => {}
            }
            // A share that reconnects may have lost the co-signature.
            if self.watching.peers.has_connected() {
                self.handed = None;
                self.compared = false;
            }
            if self.checked {
                self.hand_over()?;
                if once {
                    return Ok(());
                }
            }
        }
    }

    /// Asks for the newest version, and waits until there is a new one, or it is time to ask again.
    fn listen(&mut self) -> Result<(), Error> {
        let Watching { peers, newest, record, signer, .. } = &mut self.watching;
        if peers.now() >= self.ask_at {
            peers.ask(&newest.question(None)?);
            self.ask_at = peers.now() + ASK_EVERY;
        }
        // A peer that is asked ahead of time for the next checkpoint answers as soon as there is one.
        let growing = record.newest().and_then(|seen| seen.manifest.growing);
        if let Some(growing) = growing.filter(|_| self.checked && peers.now() >= self.pointer_at) {
            peers.ask(&newest.question(growing.number.checked_add(1))?);
            self.pointer_at = peers.now() + POINTER_LIFETIME;
        }
        let seen = record.newest().map(|seen| seen.version).filter(|_| self.checked);
        while (self.heard.is_none() || self.heard == seen) && peers.now() < self.ask_at {
            while let Some(packet) = peers.next_answer() {
                self.heard = self.heard.max(newest.pointed_to(&packet));
                if let Some(list) = self.open.answered(&packet) {
                    record.compare(&list, signer)?;
                }
            }
            if self.heard.is_none() || self.heard == seen {
                peers.wait(self.ask_at)?;
            }
        }
        Ok(())
    }

    /// Examines a version, and co-signs it if it is new, or its co-signature is old.
    fn examine(&mut self, version: u64) -> Result<(), Error> {
        let Watching { peers, object, options, record, .. } = &mut self.watching;
        let seen = record.newest().cloned();
        if let Some(seen) = seen.as_ref().filter(|seen| version < seen.version) {
            let what = format!(
                "peers report v={version} of {object} as the newest, but v={} was seen before: nothing is co-signed",
                seen.version
            );
            if options.once {
                return Err(network(what));
            }
            if self.warned.replace(version) != Some(version) {
                peers.warn(what);
            }
            return Ok(());
        }
        let again = if options.once { AGAIN_ONCE } else { COSIGN_AGAIN };
        let again = u64::try_from(again.as_millis()).unwrap_or(u64::MAX);
        let now = peers.clock();
        let is_due = record
            .said()
            .is_none_or(|(said, _)| now.milliseconds() >= said.time_ms.saturating_add(again));
        let is_known = seen.as_ref().is_some_and(|seen| seen.version == version);
        if is_known && self.checked && !is_due {
            return Ok(());
        }
        if !std::mem::replace(&mut self.compared, true) {
            match self.checked {
                false => self.compare()?,
                // Another peer has connected: its answer arrives beside the rest.
                true => self.open.ask(peers)?,
            }
        }
        let Watching { peers, object, options, signer, record, .. } = &mut self.watching;
        let new = peers.version(object, version)?;
        let proof = match &seen {
            Some(seen) if needs_proof(seen, &new) => peers.proof(seen.manifest.size)?,
            _ => Vec::new(),
        };
        let is_same =
            seen.as_ref().is_some_and(|seen| step(seen, &new, &proof) == Ok(VersionStep::Same));
        if !is_same || is_due {
            if seen.is_none() {
                let what = format!(
                    "no version of {object} was seen before: the co-signature states that its record begins with v={version}"
                );
                peers.warn(what);
            }
            match record.cosign(new.clone(), &proof, signer, now) {
                Err(CosigningError::Split(split)) => {
                    let kept = record.evidence(&new, &proof);
                    let kept = kept.map(|evidence| keep_evidence(&options.store, &evidence));
                    return Err(two_histories(&new, split, kept.transpose()?));
                }
                Err(CosigningError::NotNext(StepError::NoProof)) => {
                    let message =
                        format!("the proof that v={version} continues what was seen does not hold");
                    return Err(network(message));
                }
                outcome => outcome?,
            }
        }
        self.checked = true;
        // The next checkpoint's number may have changed.
        self.pointer_at = if is_same { self.pointer_at } else { Duration::ZERO };
        Ok(())
    }

    /// Asks all connected peers for co-signatures of this witness before anything is co-signed. A store that was
    /// restored from a backup lacks the latest ones.
    fn compare(&mut self) -> Result<(), Error> {
        let Watching { peers, newest, signer, record, .. } = &mut self.watching;
        for _ in 0..TRIES {
            self.open.ask(peers)?;
            let until = peers.now() + ASK_EVERY;
            while !self.open.is_empty() && peers.now() < until {
                while let Some(packet) = peers.next_answer() {
                    self.heard = self.heard.max(newest.pointed_to(&packet));
                    if let Some(list) = self.open.answered(&packet) {
                        record.compare(&list, signer)?;
                    }
                }
                peers.wait(until)?;
            }
            if self.open.is_empty() {
                break;
            }
        }
        Ok(())
    }

    /// Submits the last co-signature, unless that was done. The session goes on after any answer.
    fn hand_over(&mut self) -> Result<(), Error> {
        let Watching { peers, newest, object, options, record, .. } = &mut self.watching;
        let Some((said, packet)) = record.said() else { return Ok(()) };
        if self.handed == Some(said.time_ms) {
            return Ok(());
        }
        let heard = &mut self.heard;
        let mut other = |packet: &Bytes| *heard = (*heard).max(newest.pointed_to(packet));
        let answer = hand_over(peers, object.as_ref(), packet, &mut other)?;
        self.handed = Some(said.time_ms);
        let who = record.identity();
        let what = match answer {
            Some(SubmissionReply::Kept) => {
                let testimony = Testimony::new(who.clone(), said);
                peers.tell(LibraryEvent::Cosigned(testimony));
                return Ok(());
            }
            Some(SubmissionReply::NotNewer) => return Ok(()),
            Some(SubmissionReply::WitnessNotNamed) => {
                format!(
                    "the share accepts no co-signatures of {who}: it names witnesses with `xylem share --witness CERT`"
                )
            }
            Some(SubmissionReply::NotPublishedHere) => format!(
                "the share has not published v={} of {object}, which {who} has seen: its store is an older copy, or another share signs with its key",
                said.version
            ),
            Some(SubmissionReply::TooMany) | None => {
                format!("no share accepts the co-signature of {object}")
            }
        };
        if options.once {
            return Err(network(what));
        }
        peers.warn(what);
        Ok(())
    }
}

/// Returns whether a proof is needed that one version begins with the other.
fn needs_proof(seen: &SignedVersion, new: &SignedVersion) -> bool {
    let grows = |version: &SignedVersion| version.manifest.growing.is_some();
    let later = new.version > seen.version && new.manifest.size >= seen.manifest.size;
    later && grows(seen) && grows(new)
}

fn network(message: String) -> Error {
    Error { blame: Blame::Network, message }
}

fn two_histories(new: &SignedVersion, split: HistorySplit, kept: Option<PathBuf>) -> Error {
    let (object, publisher) = (&new.object, new.publisher);
    let kept = kept.map(|path| {
        format!(
            "; evidence: {0}, which `xylem verify --evidence {0}` shows to anybody",
            path.display()
        )
    });
    let kept = kept.unwrap_or_default();
    let message = format!(
        "TWO HISTORIES: of {object}, publisher {publisher}, {split} (v={}); nothing is co-signed{kept}",
        new.version
    );
    Error { blame: Blame::Data, message }
}
