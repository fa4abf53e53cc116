//! [`witnessed`]: asks for the co-signatures of a version.

use std::path::{Path, PathBuf};
use std::time::Duration;

use xylem_base::{Blame, Failure, UnixTime, advised, blame_of};
use xylem_files::Testimony;
use xylem_hash::Hash;
use xylem_object::witness::{Evidence, HistorySplit, SignedVersion, VersionStep, step};
use xylem_packet::Name;
use xylem_store::StoreError;

use super::demand::{CosignatureDemand, NamedStatement};
use super::newest::{ASK_EVERY, QuestionError};
use super::questions::OpenQuestions;
use super::record::keep_evidence;
use super::versions::VersionSource;

/// Pause before peers are asked again, while co-signatures are missing.
const AGAIN: Duration = Duration::from_millis(250);

/// Why co-signatures cannot be collected. `E`: why peers send nothing.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WitnessedError<E> {
    /// Failures of peers, or it was stopped.
    #[error(transparent)]
    Peers(E),
    /// No peer can be asked.
    #[error(transparent)]
    Question(#[from] QuestionError),
    /// A witness has co-signed another content as this version.
    #[error(
        "TWO HISTORIES: {witness} has co-signed other content as v={version} of {object}, with root {root}"
    )]
    OtherContent {
        /// The witness.
        witness: Name,
        /// The version.
        version: u64,
        /// The publication's name without the version.
        object: Name,
        /// Root of the content that the witness has co-signed.
        root: Hash,
    },
    /// Evidence cannot be stored.
    #[error("{}", advised(.0))]
    Store(#[from] StoreError),
}

impl<E: Failure + 'static> Failure for WitnessedError<E> {
    fn blame(&self) -> Blame {
        match self {
            Self::Peers(e) => e.blame(),
            Self::Question(e) => e.blame(),
            Self::OtherContent { .. } => Blame::Data,
            Self::Store(e) => blame_of(e),
        }
    }
}

/// Why the co-signatures of a version do not satisfy a demand.
#[derive(Clone, Debug, thiserror::Error)]
pub enum NotCosigned {
    /// A witness has co-signed a version that does not begin with this one.
    #[error(
        "TWO HISTORIES: a witness has co-signed another one; {split}{}",
        evidence_hint(evidence)
    )]
    Split {
        /// How the two histories differ.
        split: HistorySplit,
        /// Path of the evidence.
        evidence: PathBuf,
    },
    /// There are too few co-signatures.
    #[error(
        "co-signed by {by} of {}, not by {}; a version that is new, or hidden from a witness, has no co-signature",
        wanted_witnesses(*wanted),
        names(missing)
    )]
    TooFew {
        /// Number of co-signatures.
        by: usize,
        /// Number of required witnesses.
        wanted: usize,
        /// Named witnesses without a co-signature.
        missing: Vec<Name>,
    },
}

fn wanted_witnesses(wanted: usize) -> String {
    match wanted {
        1 => "1 wanted witness".to_owned(),
        wanted => format!("{wanted} wanted witnesses"),
    }
}

fn names(all: &[Name]) -> String {
    all.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

impl Failure for NotCosigned {
    fn blame(&self) -> Blame {
        match self {
            Self::Split { .. } => Blame::Data,
            Self::TooFew { .. } => Blame::Network,
        }
    }
}

/// Result of asking for co-signatures.
#[derive(Clone, Debug)]
pub struct Witnessed {
    /// Co-signatures of the version, or of a later one that was proven to begin with it.
    pub by: Vec<Testimony>,
    /// Named witnesses without one.
    pub missing: Vec<Name>,
    /// Number of required witnesses.
    pub wanted: usize,
    /// A witness has co-signed a version that does not begin with this one: the publisher has signed two histories.
    /// Also the path of the evidence.
    pub split: Option<(HistorySplit, PathBuf)>,
}

impl Witnessed {
    /// Returns whether there are enough co-signatures.
    #[must_use]
    pub fn is_enough(&self) -> bool {
        self.split.is_none() && self.by.len() >= self.wanted
    }

    /// Checks that there are enough co-signatures.
    ///
    /// # Errors
    /// See [`NotCosigned`].
    pub fn enough(&self) -> Result<(), NotCosigned> {
        if let Some((split, path)) = &self.split {
            return Err(NotCosigned::Split { split: *split, evidence: path.clone() });
        }
        if self.is_enough() {
            return Ok(());
        }
        let (by, wanted, missing) = (self.by.len(), self.wanted, self.missing.clone());
        Err(NotCosigned::TooFew { by, wanted, missing })
    }

    /// Returns how long the oldest co-signature is still new enough for the demand; `None` if it has no age limit.
    #[must_use]
    pub fn fresh(&self, demand: &CosignatureDemand, now: UnixTime) -> Option<Duration> {
        let within = demand.within()?;
        let oldest = self.by.iter().map(|said| said.time_ms).min()?;
        let age = Duration::from_millis(now.milliseconds().saturating_sub(oldest));
        Some(within.saturating_sub(age))
    }
}

/// Returns the end of a message, with the path of evidence for two histories.
#[must_use]
pub fn evidence_hint(path: &Path) -> String {
    let path = path.display();
    format!(". The evidence: {path}, which `xylem verify --evidence {path}` shows to anybody")
}

/// Asks for co-signatures of a version by the named witnesses, until there are enough, at most for `give_up`. Evidence
/// is stored in `store`.
///
/// # Errors
/// See [`WitnessedError`].
pub fn witnessed<V: VersionSource>(
    peers: &mut V,
    newest: &SignedVersion,
    demand: &CosignatureDemand,
    store: &Path,
    give_up: Duration,
) -> Result<Witnessed, WitnessedError<V::Error>> {
    peers.watch(newest.object.clone());
    let by = vec![None; demand.named()];
    let open = OpenQuestions::of(newest.object.clone());
    let mut asking = CosignatureQuery { newest, demand, by, later: None, open };
    let until = peers.now() + give_up;
    let mut split = None;
    loop {
        let list = asking.list(peers)?;
        for said in list {
            if let Some(proven) = asking.count_statement(peers, said)? {
                split = Some((proven.split, keep_evidence(store, &proven.evidence)?));
            }
        }
        let heard = asking.by.iter().flatten().count();
        if split.is_some() || heard >= demand.threshold() || peers.now() >= until {
            break;
        }
        let again = peers.now() + AGAIN;
        while peers.now() < again {
            peers.wait(again).map_err(WitnessedError::Peers)?;
        }
    }
    let silent = |(at, by): (usize, &Option<Testimony>)| by.is_none().then(|| demand.name(at));
    let missing = asking.by.iter().enumerate().filter_map(silent).collect();
    let by = asking.by.into_iter().flatten().collect();
    Ok(Witnessed { by, missing, wanted: demand.threshold(), split })
}

/// Two histories, and what proves them.
struct ProvenSplit {
    split: HistorySplit,
    evidence: Evidence,
}

struct CosignatureQuery<'a> {
    newest: &'a SignedVersion,
    demand: &'a CosignatureDemand,
    by: Vec<Option<Testimony>>,
    /// The later version that was fetched last, and whether it begins with ours.
    later: Option<(SignedVersion, bool)>,
    open: OpenQuestions,
}

impl CosignatureQuery<'_> {
    /// Asks the connected peers for co-signatures, and returns the first list that is not empty. It is empty if all
    /// have none, or no answer comes within a second. Later answers are left for the next call.
    fn list<V: VersionSource>(
        &mut self,
        peers: &mut V,
    ) -> Result<Vec<NamedStatement>, WitnessedError<V::Error>> {
        self.open.ask(peers)?;
        let until = peers.now() + ASK_EVERY;
        while peers.now() < until {
            while let Some(packet) = peers.next_answer() {
                let Some(list) = self.open.answered(&packet) else { continue };
                let said =
                    self.demand.timely_statements(&self.newest.subject(), &list, peers.clock());
                if !said.is_empty() || self.open.is_empty() {
                    return Ok(said);
                }
            }
            peers.wait(until).map_err(WitnessedError::Peers)?;
        }
        Ok(Vec::new())
    }

    /// Counts a statement about our version, or about one that begins with it; returns evidence if it shows two
    /// histories.
    fn count_statement<V: VersionSource>(
        &mut self,
        peers: &mut V,
        NamedStatement { witness, statement }: NamedStatement,
    ) -> Result<Option<ProvenSplit>, WitnessedError<V::Error>> {
        let newest = self.newest;
        let counts = if statement.version == newest.version {
            if !statement.has_content_of(&newest.manifest) {
                return Err(WitnessedError::OtherContent {
                    witness: self.demand.name(witness),
                    version: newest.version,
                    object: newest.object.clone(),
                    root: statement.root,
                });
            }
            true
        } else if statement.version > newest.version && newest.manifest.growing.is_some() {
            let known = self.later.as_ref().filter(|(later, _)| later.version == statement.version);
            let continues = match known {
                Some((_, continues)) => *continues,
                None => match self.continued(peers, statement.version)? {
                    Ok(continues) => continues,
                    Err(proven) => return Ok(Some(*proven)),
                },
            };
            let is_it =
                |(later, _): &(SignedVersion, bool)| statement.has_content_of(&later.manifest);
            continues && self.later.as_ref().is_some_and(is_it)
        } else {
            false
        };
        if counts {
            let testimony = Testimony::new(self.demand.name(witness), &statement);
            if let Some(by) = self.by.get_mut(witness) {
                *by = Some(testimony);
            }
        }
        Ok(None)
    }

    /// Returns whether a later version begins with ours. A version that cannot be fetched does not count.
    fn continued<V: VersionSource>(
        &mut self,
        peers: &mut V,
        version: u64,
    ) -> Result<Result<bool, Box<ProvenSplit>>, WitnessedError<V::Error>> {
        let newest = self.newest;
        let fetched = peers.version(&newest.object, version);
        let later = match fetched {
            Err(e) if e.blame() == Blame::Interrupted => return Err(WitnessedError::Peers(e)),
            Err(_) => return Ok(Ok(false)),
            Ok(later) => later,
        };
        let is_longer = later.manifest.size >= newest.manifest.size;
        let proof = match later.manifest.growing {
            Some(_) if is_longer => match peers.proof(newest.manifest.size) {
                Err(e) if e.blame() == Blame::Interrupted => return Err(WitnessedError::Peers(e)),
                proof => proof.unwrap_or_default(),
            },
            _ => Vec::new(),
        };
        let continues =
            matches!(step(newest, &later, &proof), Ok(VersionStep::Next { proven: true }));
        self.later = Some((later.clone(), continues));
        let evidence = Evidence { earlier: newest.clone(), later, proof };
        Ok(match evidence.split() {
            Ok(split) => Err(Box::new(ProvenSplit { split, evidence })),
            Err(_) => Ok(continues),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::tests::{NOW, Witnesses, later, version};
    use bytes::Bytes;
    use std::collections::VecDeque;
    use xylem_files::LibraryEvent;
    use xylem_object::packets::digest_signed;
    use xylem_object::witness::encode_list;
    use xylem_packet::Interest;

    /// Peers that each answer with a list of their own, in turn; waiting advances the time.
    struct ListPeers {
        now: Duration,
        lists: Vec<Vec<Vec<u8>>>,
        answered: Vec<Name>,
        answers: VecDeque<Bytes>,
    }

    #[derive(Debug, thiserror::Error)]
    #[error("nobody has it")]
    struct Nobody;

    impl Failure for Nobody {
        fn blame(&self) -> Blame {
            Blame::Network
        }
    }

    impl VersionSource for ListPeers {
        type Error = Nobody;

        fn now(&self) -> Duration {
            self.now
        }

        fn clock(&self) -> UnixTime {
            NOW
        }

        fn of_ticket(&mut self) -> Result<SignedVersion, Nobody> {
            Err(Nobody)
        }

        fn version(&mut self, _: &Name, _: u64) -> Result<SignedVersion, Nobody> {
            Err(Nobody)
        }

        fn proof(&mut self, _: u64) -> Result<Vec<u8>, Nobody> {
            Err(Nobody)
        }

        fn watch(&mut self, _: Name) {}

        /// The first peer answers.
        fn ask(&mut self, interest: &[u8]) {
            self.answer(0, interest);
        }

        fn ask_each(
            &mut self,
            make: &mut dyn FnMut() -> Result<Vec<u8>, QuestionError>,
        ) -> Result<(), QuestionError> {
            for peer in 0..self.lists.len() {
                let interest = make()?;
                self.answer(peer, &interest);
            }
            Ok(())
        }

        fn next_answer(&mut self) -> Option<Bytes> {
            self.answers.pop_front()
        }

        fn wait(&mut self, until: Duration) -> Result<(), Nobody> {
            self.now = until;
            Ok(())
        }

        fn has_connected(&mut self) -> bool {
            false
        }

        fn tell(&mut self, _: LibraryEvent) {}
    }

    impl ListPeers {
        fn answer(&mut self, peer: usize, interest: &[u8]) {
            let interest = Interest::decode(interest).unwrap();
            // As in a forwarder: only the first answer to a name arrives.
            let name = interest.name().to_name();
            if self.answered.contains(&name) {
                return;
            }
            self.answered.push(name);
            let list = encode_list(self.lists[peer].iter().map(Vec::as_slice));
            self.answers.push_back(digest_signed(interest.name(), &list).unwrap().into());
        }

        fn say(
            lists: Vec<Vec<Vec<u8>>>,
            demand: &CosignatureDemand,
            newest: &SignedVersion,
        ) -> Result<Witnessed, WitnessedError<Nobody>> {
            let store = tempfile::tempdir().unwrap();
            let mut peers =
                Self { now: Duration::ZERO, lists, answered: Vec::new(), answers: VecDeque::new() };
            witnessed(&mut peers, newest, demand, store.path(), Duration::from_secs(9))
        }
    }

    /// A first answer that is empty or old does not hide the others.
    #[test]
    fn no_peer_hides_co_signatures_that_another_has() {
        let all = Witnesses::new();
        let (old, new) = (version(1, b"one", false), version(2, b"two", false));
        let demand = CosignatureDemand::new(&[all.file("/a"), all.file("/b")], None, None).unwrap();
        let (by_a, by_b) = (all.by("/a", &new, NOW, 1), all.by("/b", &new, NOW, 1));
        let before = all.by("/a", &old, NOW, 1);
        let heard = |lists: &[&[&Vec<u8>]]| {
            let lists = lists.iter().map(|list| list.iter().map(|said| (*said).clone()).collect());
            ListPeers::say(lists.collect(), &demand, &new).unwrap()
        };
        let enough = heard(&[&[], &[&before], &[&by_a], &[&before, &by_b]]);
        assert!(enough.is_enough() && enough.enough().is_ok() && enough.missing.is_empty());
        let one = heard(&[&[], &[&before], &[&by_b, &before]]);
        assert_eq!((one.by.len(), one.missing.len()), (1, 1));
        let why = one.enough().unwrap_err();
        assert_eq!(why.blame(), Blame::Network);
        assert!(why.to_string().contains(", not by /a"), "{why}");
    }

    #[test]
    fn another_content_of_the_version_is_two_histories() {
        let all = Witnesses::new();
        let (new, other) = (version(2, b"two", false), version(2, b"2", false));
        let demand =
            CosignatureDemand::new(&[all.file("/a"), all.file("/b")], Some(1), None).unwrap();
        let lists = vec![vec![all.by("/a", &other, NOW, 1)], vec![all.by("/b", &new, NOW, 1)]];
        let split = ListPeers::say(lists, &demand, &new).unwrap_err();
        assert_eq!(split.blame(), Blame::Data);
        assert!(split.to_string().contains("TWO HISTORIES"), "{split}");
    }

    #[test]
    fn freshness_lasts_until_the_oldest_co_signature_expires() {
        let all = Witnesses::new();
        let new = version(2, b"two", false);
        let within = Some(Duration::from_secs(60));
        let demand =
            CosignatureDemand::new(&[all.file("/a"), all.file("/b")], None, within).unwrap();
        let lists = vec![vec![all.by("/a", &new, NOW, 1), all.by("/b", &new, later(15), 1)]];
        let heard = ListPeers::say(lists, &demand, &new).unwrap();
        assert_eq!(heard.fresh(&demand, later(20)), Some(Duration::from_secs(40)));
        assert_eq!(heard.fresh(&demand, later(99)), Some(Duration::ZERO));
        let any = CosignatureDemand::new(&[all.file("/a")], None, None).unwrap();
        assert_eq!(heard.fresh(&any, NOW), None);
    }
}
