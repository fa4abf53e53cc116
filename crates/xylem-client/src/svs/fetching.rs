//! Fetches members' publications: each member's in order, several at a time. A member's false claims do not slow the
//! others.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use xylem_packet::{Data, Name};
use xylem_svs::GroupMember;
use xylem_trust::{TrustError, TrustVerdict};

use super::SvsEvent;
use crate::InterestRequest;

/// Most unanswered Interests for one member.
const WINDOW: usize = 8;
/// Most unanswered Interests for all members.
const WINDOW_OF_ALL: usize = 256;
/// Lifetime of an Interest. [`TRIES`]: most Interests for one publication.
const LIFETIME: Duration = Duration::from_secs(1);
const TRIES: u32 = 4;
/// Most publications fetched to catch up with a member: the newest. A member that claims a billion costs no more.
const MAX_CATCH_UP: u64 = 1000;
/// Failures in a row after which the rest of a claim is skipped.
const MAX_FAILURES: u64 = WINDOW as u64;

/// Publications that are being fetched.
#[derive(Default)]
pub(super) struct SvsFetcher {
    members: BTreeMap<GroupMember, Claim>,
    asked: HashMap<Name, PendingFetch>,
    /// Smoothed round trip of these fetches.
    round_trip: Option<Duration>,
    /// The member that was served last, when not all can be.
    last_served: Option<GroupMember>,
}

/// A member's claimed publications that have not all been reported.
#[derive(Default)]
struct Claim {
    /// The next number to request. `next_reported`: the next to report.
    next_asked: u64,
    next_reported: u64,
    to: u64,
    waiting: usize,
    /// Publications that came early or have failed.
    outcomes: BTreeMap<u64, FetchOutcome>,
    missed: u64,
}

enum FetchOutcome {
    Came(Vec<u8>, TrustVerdict),
    /// Failed, up to this number; and the reason.
    Missed(u64, String),
}

impl Claim {
    /// Skips the numbers from the next to request up to `to`.
    fn skip(&mut self, to: u64, why: &str) {
        self.outcomes.insert(self.next_asked, FetchOutcome::Missed(to, why.to_owned()));
        self.next_asked = to + 1;
    }
}

struct PendingFetch {
    member: GroupMember,
    number: u64,
    at: Duration,
    tries: u32,
}

impl SvsFetcher {
    /// Records that a member claims these publications.
    pub(super) fn want(
        &mut self,
        member: GroupMember,
        from: u64,
        to: u64,
        tell: &mut dyn FnMut(SvsEvent<'_>),
    ) {
        let claim = self.members.entry(member.clone()).or_default();
        if claim.to == 0 {
            (claim.next_asked, claim.next_reported) = (from, from);
        }
        claim.to = to;
        let newest = to.saturating_sub(MAX_CATCH_UP - 1);
        if newest > claim.next_asked {
            claim.skip(newest - 1, "too far behind");
            self.report_in_order(&member, tell);
        }
    }

    /// Sends the Interests that are due, and gives up overdue ones.
    pub(super) fn transmit(
        &mut self,
        now: Duration,
        name: impl Fn(&GroupMember, u64) -> Name,
        mut nonce: impl FnMut() -> [u8; 4],
        mut send: impl FnMut(&[u8]),
        tell: &mut dyn FnMut(SvsEvent<'_>),
    ) {
        let mut ask = |name: &Name| {
            let question = InterestRequest {
                can_be_prefix: true,
                ..InterestRequest::exactly(name.clone(), LIFETIME)
            };
            if let Ok(interest) = question.encode(nonce()) {
                send(&interest);
            }
        };
        let late = |asked: &PendingFetch| asked.at + LIFETIME <= now;
        let over: Vec<Name> = self
            .asked
            .iter()
            .filter(|(_, asked)| late(asked))
            .map(|(name, _)| name.clone())
            .collect();
        for name in over {
            let Some(asked) = self.asked.get_mut(&name) else { continue };
            if asked.tries < TRIES {
                (asked.at, asked.tries) = (now, asked.tries + 1);
                ask(&name);
            } else if let Some(asked) = self.asked.remove(&name) {
                let why = FetchOutcome::Missed(asked.number, "no answer".to_owned());
                self.record_outcome(&asked.member, asked.number, why, tell);
            }
        }
        let from_turn = self.last_served.take();
        let mut members: Vec<GroupMember> = self.members.keys().cloned().collect();
        if let Some(turn) = &from_turn {
            let at = members.partition_point(|member| member <= turn);
            members.rotate_left(at);
        }
        for member in members {
            let Some(claim) = self.members.get_mut(&member) else { continue };
            while claim.waiting < WINDOW
                && claim.next_asked <= claim.to
                && self.asked.len() < WINDOW_OF_ALL
            {
                let number = claim.next_asked;
                (claim.next_asked, claim.waiting) = (number + 1, claim.waiting + 1);
                let name = name(&member, number);
                ask(&name);
                let asked = PendingFetch { member: member.clone(), number, at: now, tries: 1 };
                self.asked.insert(name, asked);
                self.last_served = Some(member.clone());
            }
        }
    }

    /// Handles Data. Returns the smoothed round trip if it was requested here.
    pub(super) fn handle_data(
        &mut self,
        now: Duration,
        data: &Data<'_>,
        verdict: Result<TrustVerdict, TrustError>,
        tell: &mut dyn FnMut(SvsEvent<'_>),
    ) -> Option<Duration> {
        // The Data's name may be longer than the requested one.
        let whole = data.name();
        let lengths = (1..=whole.len()).rev();
        let name =
            lengths.map(|len| whole.prefix(len).to_name()).find(|n| self.asked.contains_key(n))?;
        let asked = self.asked.remove(&name)?;
        let outcome = match verdict {
            Ok(verdict) => FetchOutcome::Came(data.content().to_vec(), verdict),
            Err(why) => FetchOutcome::Missed(asked.number, why.to_string()),
        };
        self.record_outcome(&asked.member, asked.number, outcome, tell);
        if asked.tries > 1 {
            return None;
        }
        let sample = now.saturating_sub(asked.at);
        let smoothed = self.round_trip.map_or(sample, |known| (known * 7 + sample) / 8);
        self.round_trip = Some(smoothed);
        self.round_trip
    }

    /// When the first request is overdue.
    pub(super) fn next_timer(&self) -> Option<Duration> {
        self.asked.values().map(|asked| asked.at + LIFETIME).min()
    }

    /// Records the outcome of one publication, and reports what is next in order.
    fn record_outcome(
        &mut self,
        member: &GroupMember,
        number: u64,
        outcome: FetchOutcome,
        tell: &mut dyn FnMut(SvsEvent<'_>),
    ) {
        let Some(claim) = self.members.get_mut(member) else { return };
        claim.waiting -= 1;
        claim.outcomes.insert(number, outcome);
        self.report_in_order(member, tell);
    }

    /// Reports outcomes in order. Skips the rest of a claim if its publications don't come.
    fn report_in_order(&mut self, member: &GroupMember, tell: &mut dyn FnMut(SvsEvent<'_>)) {
        let Some(claim) = self.members.get_mut(member) else { return };
        while let Some(outcome) = claim.outcomes.remove(&claim.next_reported) {
            let number = claim.next_reported;
            claim.next_reported += 1;
            match outcome {
                FetchOutcome::Came(content, verdict) => {
                    claim.missed = 0;
                    tell(SvsEvent::Came(member, number, &content, verdict));
                }
                FetchOutcome::Missed(to, why) => {
                    claim.missed += 1;
                    claim.next_reported = to + 1;
                    tell(SvsEvent::Missed(member, number, to, why));
                }
            }
            if claim.missed >= MAX_FAILURES && claim.next_asked <= claim.to {
                claim.missed = 0;
                claim.skip(claim.to, "no answer for those before");
            }
        }
        if claim.waiting == 0 && claim.next_asked > claim.to {
            self.members.remove(member);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use xylem_packet::{Component, DataBuilder};
    use xylem_trust::Signer;

    fn member(uri: &str) -> GroupMember {
        GroupMember::new(Name::from_uri(uri).unwrap(), 1)
    }

    fn name(member: &GroupMember, number: u64) -> Name {
        member.name.child(Component::sequence(number))
    }

    /// An event as text.
    fn line(event: &SvsEvent<'_>) -> String {
        match event {
            SvsEvent::Came(member, number, content, _) => {
                format!("{} {number} {}", member.name, String::from_utf8_lossy(content))
            }
            SvsEvent::Missed(member, from, to, why) => {
                format!("{} {from}..{to} {why}", member.name)
            }
            other => panic!("{other:?}"),
        }
    }

    struct FetchWorld {
        fetching: SvsFetcher,
        now: Duration,
        asked: Vec<Name>,
        told: Vec<String>,
    }

    impl FetchWorld {
        fn new() -> Self {
            let fetching = SvsFetcher::default();
            Self { fetching, now: Duration::ZERO, asked: Vec::new(), told: Vec::new() }
        }

        fn want(&mut self, member: &GroupMember, from: u64, to: u64) {
            let mut tell = |event: SvsEvent<'_>| self.told.push(line(&event));
            self.fetching.want(member.clone(), from, to, &mut tell);
        }

        /// Returns the names that are requested now.
        fn transmit(&mut self) -> Vec<Name> {
            let mut asked = Vec::new();
            let send = |interest: &[u8]| {
                let interest = xylem_packet::Interest::decode(interest).unwrap();
                asked.push(interest.name().to_name());
            };
            let mut tell = |event: SvsEvent<'_>| self.told.push(line(&event));
            self.fetching.transmit(self.now, name, || [0; 4], send, &mut tell);
            self.asked.extend(asked.iter().cloned());
            asked
        }

        fn answer(&mut self, name: &Name) {
            let mut packet = Vec::new();
            let text = name.to_string();
            let builder = DataBuilder::new(name.as_ref());
            Signer::digest_sha256().data(builder, text.as_bytes(), &mut packet).unwrap();
            let data = Data::decode(&packet).unwrap();
            let mut tell = |event: SvsEvent<'_>| self.told.push(line(&event));
            self.fetching.handle_data(self.now, &data, Ok(TrustVerdict::Undamaged), &mut tell);
        }

        /// Runs until nothing is left to request. `serves` decides which names are answered.
        fn run(&mut self, serves: impl Fn(&Name) -> bool) {
            for _ in 0..10_000 {
                for name in self.transmit() {
                    if serves(&name) {
                        self.answer(&name);
                    }
                }
                self.now += Duration::from_millis(100);
                if self.fetching.members.is_empty() {
                    assert!(self.fetching.asked.is_empty());
                    return;
                }
            }
            panic!("it never ends");
        }
    }

    #[test]
    fn publications_are_reported_in_order_and_missing_ones_named() {
        let mut world = FetchWorld::new();
        let alice = member("/alice");
        world.want(&alice, 1, 3);
        let asked = world.transmit();
        assert_eq!(asked.len(), 3);
        world.answer(&asked[2]);
        assert_eq!(world.told, Vec::<String>::new());
        world.want(&alice, 4, 4);
        world.answer(&asked[0]);
        world.run(|name| *name != self::name(&member("/alice"), 2));
        assert_eq!(
            world.told,
            [
                "/alice 1 /alice/seq=1",
                "/alice 2..2 no answer",
                "/alice 3 /alice/seq=3",
                "/alice 4 /alice/seq=4"
            ]
        );
    }

    #[test]
    fn a_claim_of_endless_publications_has_a_bounded_cost() {
        let mut world = FetchWorld::new();
        let (liar, alice) = (member("/liar"), member("/alice"));
        let most = xylem_svs::MAX_SEQUENCE;
        world.want(&liar, 1, most);
        world.want(&alice, 1, 30);
        world.run(|name| name.prefix(1) == member("/alice").name.as_ref());
        let told = |who: &str| world.told.iter().filter(|line| line.starts_with(who)).count();
        assert_eq!(told("/alice"), 30);
        assert!(told("/liar") <= 20, "{:?}", world.told);
        assert!(world.told[0].ends_with("too far behind"), "{}", world.told[0]);
        assert!(world.asked.len() <= 30 + 2 * WINDOW * TRIES as usize, "{}", world.asked.len());
        // A new claim while the first is still being requested has the same result, and no number is reported twice.
        world.want(&liar, 1, 5);
        world.transmit();
        world.want(&liar, 6, most);
        world.run(|_| false);
    }
}
