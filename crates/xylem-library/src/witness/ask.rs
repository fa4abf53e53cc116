//! [`witnessed`]: what do the named witnesses say of a version?

use std::path::{Path, PathBuf};
use std::time::Duration;

use xylem_object::witness::{Evidence, SignedVersion, Split, Step, question, read_list, step};
use xylem_packet::{Data, InterestBuilder, Name};

use super::Testimony;
use super::demand::{Demand, Said};
use super::newest::ASK_EVERY;
use super::record::keep_evidence;
use super::versions::Versions;
use crate::error::{Blame, Error};
use crate::keys;

/// A share that has not heard enough witnesses yet is asked again after this long.
const AGAIN: Duration = Duration::from_millis(250);

/// What was heard of witnesses.
#[derive(Clone, Debug)]
pub struct Witnessed {
    /// Who has co-signed the version, or a later one that was proven to begin with it.
    pub by: Vec<Testimony>,
    /// Who was named and has not.
    pub missing: Vec<Name>,
    /// How many were wanted.
    pub wanted: usize,
    /// That a witness has co-signed what the version at hand is no beginning of: the publisher has signed two histories.
    /// Where the evidence is kept.
    pub split: Option<(Split, PathBuf)>,
}

impl Witnessed {
    /// Whether enough have.
    #[must_use]
    pub fn is_enough(&self) -> bool {
        self.split.is_none() && self.by.len() >= self.wanted
    }
}

/// Asks what the named witnesses say of a version, until enough have co-signed it, or for `give_up`. Evidence is kept in `store`.
///
/// # Errors
/// It was stopped; evidence can't be kept; [`Blame::Data`] if a witness has co-signed another content as this version.
pub fn witnessed(
    peers: &mut impl Versions,
    newest: &SignedVersion,
    demand: &Demand,
    (store, give_up): (&Path, Duration),
) -> Result<Witnessed, Error> {
    peers.watch(newest.object.clone());
    let mut asking = Asking { newest, demand, by: vec![None; demand.named()], later: None };
    let until = peers.now() + give_up;
    let mut split = None;
    loop {
        let list = asking.list(peers)?;
        for said in list {
            if let Some(evidence) = asking.hear(peers, said)? {
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

struct Asking<'a> {
    newest: &'a SignedVersion,
    demand: &'a Demand,
    by: Vec<Option<Testimony>>,
    /// The later version that was fetched last, and what it is to ours.
    later: Option<(SignedVersion, bool)>,
}

impl Asking<'_> {
    /// What the named witnesses say, as those who are here tell; nothing if nobody does within a second.
    fn list(&self, peers: &mut impl Versions) -> Result<Vec<Said>, Error> {
        let name = question(self.newest.object.as_ref(), keys::random()?);
        let mut interest = Vec::new();
        InterestBuilder::new(name.as_ref())
            .nonce(keys::random()?)
            .lifetime_ms(ASK_EVERY.as_millis() as u64)
            .encode(&mut interest)
            .map_err(|e| Error::usage(e.to_string()))?;
        peers.ask(&interest);
        let until = peers.now() + ASK_EVERY;
        while peers.now() < until {
            while let Some(packet) = peers.next_answer() {
                let data = Data::decode(&packet).ok();
                let list = data.and_then(|data| read_list(name.as_ref(), &data).ok());
                if let Some(list) = list {
                    return Ok(self.demand.said(&self.newest.subject(), &list, peers.clock()));
                }
            }
            peers.wait(until)?;
        }
        Ok(Vec::new())
    }

    /// Counts what one says, if it is about our version or one that begins with it; evidence, if it shows two histories.
    fn hear(
        &mut self,
        peers: &mut impl Versions,
        Said { witness, statement }: Said,
    ) -> Result<Option<Evidence>, Error> {
        let newest = self.newest;
        let counts = if statement.version == newest.version {
            if !statement.has_content_of(&newest.manifest) {
                let who = self.demand.name(witness);
                let message = format!(
                    "TWO HISTORIES: {who} has co-signed another content as v={} of {}, root {}",
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

    /// Whether a later version begins with ours. One that nobody hands out says nothing.
    fn continued(
        &mut self,
        peers: &mut impl Versions,
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
        let continues = matches!(step(newest, &later, &proof), Ok(Step::Next { proven: true }));
        self.later = Some((later.clone(), continues));
        let evidence = Evidence { earlier: newest.clone(), later, proof };
        Ok(if evidence.split().is_ok() { Err(Box::new(evidence)) } else { Ok(continues) })
    }
}
