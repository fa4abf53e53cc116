//! [`witnessed`]: asks for the co-signatures of a version.

use std::path::{Path, PathBuf};
use std::time::Duration;

use xylem_base::{Blame, Error, UnixTime};
use xylem_files::Testimony;
use xylem_object::witness::{Evidence, HistorySplit, SignedVersion, VersionStep, step};
use xylem_packet::Name;

use super::demand::{CosignatureDemand, NamedStatement};
use super::newest::ASK_EVERY;
use super::questions::OpenQuestions;
use super::record::keep_evidence;
use super::versions::VersionSource;

/// Pause before peers are asked again, while co-signatures are missing.
const AGAIN: Duration = Duration::from_millis(250);

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
    /// There are not enough ([`Blame::Network`]), or there are two histories ([`Blame::Data`]).
    pub fn enough(&self) -> Result<(), Error> {
        if let Some((split, path)) = &self.split {
            let message = format!(
                "TWO HISTORIES: a witness has co-signed another one; {split}{}",
                evidence_hint(path)
            );
            return Err(Error { blame: Blame::Data, message });
        }
        if self.is_enough() {
            return Ok(());
        }
        let missing: Vec<String> = self.missing.iter().map(ToString::to_string).collect();
        let wanted = match self.wanted {
            1 => "1 wanted witness".to_owned(),
            wanted => format!("{wanted} wanted witnesses"),
        };
        let message = format!(
            "co-signed by {} of {wanted}, not by {}; a version that is new, or hidden from a witness, has no co-signature",
            self.by.len(),
            missing.join(", ")
        );
        Err(Error { blame: Blame::Network, message })
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
/// It was stopped; evidence cannot be stored; [`Blame::Data`] if a witness has co-signed another content as this
/// version.
pub fn witnessed(
    peers: &mut impl VersionSource,
    newest: &SignedVersion,
    demand: &CosignatureDemand,
    store: &Path,
    give_up: Duration,
) -> Result<Witnessed, Error> {
    peers.watch(newest.object.clone());
    let by = vec![None; demand.named()];
    let open = OpenQuestions::of(newest.object.clone());
    let mut asking = CosignatureQuery { newest, demand, by, later: None, open };
    let until = peers.now() + give_up;
    let mut split = None;
    loop {
        let list = asking.list(peers)?;
        for said in list {
            if let Some(evidence) = asking.count_statement(peers, said)? {
                let what = evidence.split().map_err(|e| Error::usage(e.to_string()))?;
                split = Some((what, keep_evidence(store, &evidence)?));
            }
        }
        let heard = asking.by.iter().flatten().count();
        if split.is_some() || heard >= demand.threshold() || peers.now() >= until {
            break;
        }
        let again = peers.now() + AGAIN;
        while peers.now() < again {
            peers.wait(again)?;
        }
    }
    let silent = |(at, by): (usize, &Option<Testimony>)| by.is_none().then(|| demand.name(at));
    let missing = asking.by.iter().enumerate().filter_map(silent).collect();
    let by = asking.by.into_iter().flatten().collect();
    Ok(Witnessed { by, missing, wanted: demand.threshold(), split })
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
    fn list(&mut self, peers: &mut impl VersionSource) -> Result<Vec<NamedStatement>, Error> {
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
            peers.wait(until)?;
        }
        Ok(Vec::new())
    }

    /// Counts a statement about our version, or about one that begins with it; returns evidence if it shows two
    /// histories.
    fn count_statement(
        &mut self,
        peers: &mut impl VersionSource,
        NamedStatement { witness, statement }: NamedStatement,
    ) -> Result<Option<Evidence>, Error> {
        let newest = self.newest;
        let counts = if statement.version == newest.version {
            if !statement.has_content_of(&newest.manifest) {
                let who = self.demand.name(witness);
                let message = format!(
                    "TWO HISTORIES: {who} has co-signed other content as v={} of {}, with root {}",
                    newest.version, newest.object, statement.root
                );
                return Err(Error { blame: Blame::Data, message });
            }
            true
        } else if statement.version > newest.version && newest.manifest.growing.is_some() {
            let known = self.later.as_ref().filter(|(later, _)| later.version == statement.version);
            let continues = match known {
                Some((_, continues)) => *continues,
                None => match self.continued(peers, statement.version)? {
                    Ok(continues) => continues,
                    Err(evidence) => return Ok(Some(*evidence)),
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
    fn continued(
        &mut self,
        peers: &mut impl VersionSource,
        version: u64,
    ) -> Result<Result<bool, Box<Evidence>>, Error> {
        let newest = self.newest;
        let fetched = peers.version(&newest.object, version);
        let later = match fetched {
            Err(e) if e.blame == Blame::Interrupted => return Err(e),
            Err(_) => return Ok(Ok(false)),
            Ok(later) => later,
        };
        let is_longer = later.manifest.size >= newest.manifest.size;
        let proof = match later.manifest.growing {
            Some(_) if is_longer => match peers.proof(newest.manifest.size) {
                Err(e) if e.blame == Blame::Interrupted => return Err(e),
                proof => proof.unwrap_or_default(),
            },
            _ => Vec::new(),
        };
        let continues =
            matches!(step(newest, &later, &proof), Ok(VersionStep::Next { proven: true }));
        self.later = Some((later.clone(), continues));
        let evidence = Evidence { earlier: newest.clone(), later, proof };
        Ok(if evidence.split().is_ok() { Err(Box::new(evidence)) } else { Ok(continues) })
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

    impl VersionSource for ListPeers {
        fn now(&self) -> Duration {
            self.now
        }

        fn clock(&self) -> UnixTime {
            NOW
        }

        fn of_ticket(&mut self) -> Result<SignedVersion, Error> {
            Err(nobody())
        }

        fn version(&mut self, _: &Name, _: u64) -> Result<SignedVersion, Error> {
            Err(nobody())
        }

        fn proof(&mut self, _: u64) -> Result<Vec<u8>, Error> {
            Err(nobody())
        }

        fn watch(&mut self, _: Name) {}

        /// The first peer answers.
        fn ask(&mut self, interest: &[u8]) {
            self.answer(0, interest);
        }

        fn ask_each(
            &mut self,
            make: &mut dyn FnMut() -> Result<Vec<u8>, Error>,
        ) -> Result<(), Error> {
            for peer in 0..self.lists.len() {
                let interest = make()?;
                self.answer(peer, &interest);
            }
            Ok(())
        }

        fn next_answer(&mut self) -> Option<Bytes> {
            self.answers.pop_front()
        }

        fn wait(&mut self, until: Duration) -> Result<(), Error> {
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
        ) -> Result<Witnessed, Error> {
            let store = tempfile::tempdir().unwrap();
            let mut peers =
                Self { now: Duration::ZERO, lists, answered: Vec::new(), answers: VecDeque::new() };
            witnessed(&mut peers, newest, demand, store.path(), Duration::from_secs(9))
        }
    }

    fn nobody() -> Error {
        Error { blame: Blame::Network, message: "nobody has it".to_owned() }
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
        assert_eq!(why.blame, Blame::Network);
        assert!(why.message.contains(", not by /a"), "{why}");
    }

    #[test]
    fn another_content_of_the_version_is_two_histories() {
        let all = Witnesses::new();
        let (new, other) = (version(2, b"two", false), version(2, b"2", false));
        let demand =
            CosignatureDemand::new(&[all.file("/a"), all.file("/b")], Some(1), None).unwrap();
        let lists = vec![vec![all.by("/a", &other, NOW, 1)], vec![all.by("/b", &new, NOW, 1)]];
        let split = ListPeers::say(lists, &demand, &new).unwrap_err();
        assert_eq!(split.blame, Blame::Data);
        assert!(split.message.contains("TWO HISTORIES"), "{split}");
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
