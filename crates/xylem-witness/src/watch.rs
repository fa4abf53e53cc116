//! [`watch`]: examines every new version of a publication, and co-signs it if it continues what was seen.
//!
//! The steps are in order: the name of the newest version, its signed manifest, and for a growing file the proof that
//! it begins with the version before. Then the record is written, and only then the co-signature goes to the share.

use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use xylem_base::{Blame, Failure, FileMedium};
use xylem_files::{LibraryEvent, Testimony};
use xylem_object::witness::{
    HistorySplit, SignedVersion, StepError, SubmissionReply, VersionStep, step,
};
use xylem_object::{PublisherId, Ticket};
use xylem_packet::Name;
use xylem_trust::Signer;

use super::error::CosigningError;
use super::hand_over::hand_over;
use super::newest::{ASK_EVERY, NewestQuery, POINTER_LIFETIME, QuestionError};
use super::questions::OpenQuestions;
use super::record::{COSIGN_AGAIN, WitnessRecord, keep_evidence};
use super::versions::{DialVersions, VersionSource};

/// Rounds in which connected peers are asked for co-signatures of this witness, while one of them does not answer.
const TRIES: usize = 3;
/// Age at which a single run co-signs the same version again.
const AGAIN_ONCE: Duration = Duration::from_secs(60);

/// Why a publication is not watched any more. `E`: why peers send nothing.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WatchError<E> {
    /// Failures of peers, or it was stopped.
    #[error(transparent)]
    Peers(E),
    /// No peer can be asked.
    #[error(transparent)]
    Question(#[from] QuestionError),
    /// Keys or records.
    #[error(transparent)]
    Cosigning(#[from] CosigningError),
    /// The publisher is silent.
    #[error("no answer from the publisher for {} s", .after.as_secs_f64())]
    Silent {
        /// How long peers were asked.
        after: Duration,
    },
    /// For a single run: peers have only a version older than one that was seen.
    #[error(transparent)]
    Superseded(SupersededVersion),
    /// The peers' proof that a version continues what was seen is wrong.
    #[error("the proof that v={0} continues what was seen does not hold")]
    Unproven(u64),
    /// The publisher has signed two histories.
    #[error(
        "TWO HISTORIES: of {object}, publisher {publisher}, {split} (v={version}); nothing is co-signed{}",
        kept_at(evidence.as_deref())
    )]
    TwoHistories {
        /// The publication's name without the version.
        object: Name,
        /// The publisher.
        publisher: PublisherId,
        /// How the histories differ.
        split: HistorySplit,
        /// The version that does not continue what was seen.
        version: u64,
        /// Path of the evidence, if there is any.
        evidence: Option<PathBuf>,
    },
    /// For a single run: no share has accepted the co-signature.
    #[error(transparent)]
    NotHandedOver(NotHandedOver),
}

fn kept_at(evidence: Option<&Path>) -> String {
    let path = evidence.map(Path::display);
    let hint = |path| {
        format!("; evidence: {path}, which `xylem verify --evidence {path}` shows to anybody")
    };
    path.map(hint).unwrap_or_default()
}

impl<E: Failure + 'static> Failure for WatchError<E> {
    fn blame(&self) -> Blame {
        match self {
            Self::Peers(e) => e.blame(),
            Self::Question(e) => e.blame(),
            Self::Cosigning(e) => e.blame(),
            Self::TwoHistories { .. } => Blame::Data,
            Self::Silent { .. }
            | Self::Superseded(_)
            | Self::Unproven(_)
            | Self::NotHandedOver(_) => Blame::Network,
        }
    }
}

/// Peers report a version as the newest that is older than one that was seen.
#[derive(Clone, Debug, thiserror::Error)]
#[error(
    "peers report v={version} of {object} as the newest, but v={seen} was seen before: nothing is co-signed"
)]
pub struct SupersededVersion {
    /// The publication's name without the version.
    pub object: Name,
    /// The version that peers report.
    pub version: u64,
    /// The newer version that was seen.
    pub seen: u64,
}

/// Why no share has accepted a co-signature.
#[derive(Clone, Debug, thiserror::Error)]
pub enum NotHandedOver {
    /// The share does not name the witness.
    #[error(
        "the share accepts no co-signatures of {0}: it names witnesses with `xylem share --witness CERT`"
    )]
    WitnessNotNamed(Name),
    /// The share does not have the version.
    #[error(
        "the share has not published v={version} of {object}, which {witness} has seen: its store is an older copy, or another share signs with its key"
    )]
    NotPublished {
        /// The publication's name without the version.
        object: Name,
        /// The version.
        version: u64,
        /// The witness.
        witness: Name,
    },
    /// No share answers, or each has too many co-signatures to check.
    #[error("no share accepts the co-signature of {0}")]
    NoShare(Name),
}

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
/// See [`WatchError`].
pub fn watch<D: DialVersions>(
    options: &WatchOptions,
    signer: &Signer,
    record: &mut Option<WitnessRecord>,
    peers: &mut D,
) -> Result<(), WatchError<D::Error>> {
    let ticket = &options.ticket;
    let known = match record.as_ref().and_then(WitnessRecord::newest) {
        Some(newest) => Some(newest.object.clone()),
        None => WitnessRecord::object_of(&FileMedium::default(), &options.store, ticket)?,
    };
    let known = known.or_else(|| Some(ticket.name.as_ref()?.as_ref().parent().to_name()));
    let mut peers = peers.dial(ticket, options.give_up).map_err(WatchError::Peers)?;
    // With a known name, the ticket's version is not required; it may be gone.
    let object = match known {
        Some(object) => object,
        None => peers.of_ticket().map_err(WatchError::Peers)?.object,
    };
    peers.watch(object.clone());
    let publisher = options.ticket.publisher;
    if record.is_none() {
        let opened = WitnessRecord::open(
            &FileMedium::default(),
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

    fn run(&mut self) -> Result<(), WatchError<V::Error>> {
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
                    return Err(WatchError::Silent { after: give_up });
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
    fn listen(&mut self) -> Result<(), WatchError<V::Error>> {
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
                peers.wait(self.ask_at).map_err(WatchError::Peers)?;
            }
        }
        Ok(())
    }

    /// Examines a version, and co-signs it if it is new, or its co-signature is old.
    fn examine(&mut self, version: u64) -> Result<(), WatchError<V::Error>> {
        let Watching { peers, object, options, record, .. } = &mut self.watching;
        let seen = record.newest().cloned();
        if let Some(seen) = seen.as_ref().filter(|seen| version < seen.version) {
            let (object, seen) = (object.clone(), seen.version);
            let superseded = SupersededVersion { object, version, seen };
            if options.once {
                return Err(WatchError::Superseded(superseded));
            }
            if self.warned.replace(version) != Some(version) {
                peers.warn(superseded.to_string());
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
        let new = peers.version(object, version).map_err(WatchError::Peers)?;
        let proof = match &seen {
            Some(seen) if needs_proof(seen, &new) => {
                peers.proof(seen.manifest.size).map_err(WatchError::Peers)?
            }
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
                    let evidence = kept.transpose().map_err(CosigningError::from)?;
                    let SignedVersion { object, publisher, version, .. } = new;
                    return Err(WatchError::TwoHistories {
                        object,
                        publisher,
                        split,
                        version,
                        evidence,
                    });
                }
                Err(CosigningError::NotNext(StepError::NoProof)) => {
                    return Err(WatchError::Unproven(version));
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
    fn compare(&mut self) -> Result<(), WatchError<V::Error>> {
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
                peers.wait(until).map_err(WatchError::Peers)?;
            }
            if self.open.is_empty() {
                break;
            }
        }
        Ok(())
    }

    /// Submits the last co-signature, unless that was done. The session goes on after any answer.
    fn hand_over(&mut self) -> Result<(), WatchError<V::Error>> {
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
        let why = match answer {
            Some(SubmissionReply::Kept) => {
                let testimony = Testimony::new(who.clone(), said);
                peers.tell(LibraryEvent::Cosigned(testimony));
                return Ok(());
            }
            Some(SubmissionReply::NotNewer) => return Ok(()),
            Some(SubmissionReply::WitnessNotNamed) => NotHandedOver::WitnessNotNamed(who.clone()),
            Some(SubmissionReply::NotPublishedHere) => NotHandedOver::NotPublished {
                object: object.clone(),
                version: said.version,
                witness: who.clone(),
            },
            Some(SubmissionReply::TooMany) | None => NotHandedOver::NoShare(object.clone()),
        };
        if options.once {
            return Err(WatchError::NotHandedOver(why));
        }
        peers.warn(why.to_string());
        Ok(())
    }
}

/// Returns whether a proof is needed that one version begins with the other.
fn needs_proof(seen: &SignedVersion, new: &SignedVersion) -> bool {
    let grows = |version: &SignedVersion| version.manifest.growing.is_some();
    let later = new.version > seen.version && new.manifest.size >= seen.manifest.size;
    later && grows(seen) && grows(new)
}
