//! [`Mesh`]: exchanges statements among the members of a group (docs/spec/sync.md, "Folders"). Each member has a stream
//! to every other one, or in a large group to some of them, on which all members' latest statements travel. Statements
//! name the members; their content is fetched elsewhere.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::mpsc;
use std::time::Duration;

use xylem_engine::StreamEvent;
use xylem_folder::{
    AdoptedState, FULL_MESH, Histories, KnownStatements, LinkRefusal, MAX_MEMBERS, MemberStatement,
    Membership, MeshNews, MeshStart, NotAdmitted, ProofRequest, Roles, StatementError,
    StatementOutcome, SyncGroup,
};
use xylem_forward::FaceId;
use xylem_hash::Hash;
use xylem_link::{StreamId, purpose};
use xylem_object::PublisherId;

mod chosen;
mod dial;
mod links;
#[cfg(test)]
mod simulated;
mod stream;

use dial::{DialBudget, MemberDial};
use links::MeshLinks;
use stream::MemberStream;

/// Most streams that others may open. In a large group a member has some sixteen links, but one of few writers has one
/// to each member.
const MAX_STREAMS: usize = 2 * MAX_MEMBERS;
/// Interval at which a stream's allowance is renewed. Excess statements wait in the stream's window until then.
const ALLOWANCE_PERIOD: Duration = Duration::from_secs(1);
/// Most bytes of news that may wait for a link; then the link is closed. Statements from before the link came up are
/// sent as fast as the link takes them, and do not count.
const MAX_WAITING: usize = 4 << 20;
/// How long a peer's statements are held if it does not show the statement of ours that it knows, which it sends at once.
const UNSHOWN_FOR: Duration = Duration::from_secs(2);
/// Time for a refused peer to read the refusal.
const REFUSAL_READ_TIME: Duration = Duration::from_secs(5);
/// Refusals in a row, by members other than the founder, before they are reported.
const REFUSALS_BEFORE_REPORT: u32 = 5;

/// The statements and links of a group's member.
pub(super) struct Mesh {
    group: SyncGroup,
    own: PublisherId,
    /// Our own latest statement.
    own_statement: Option<Vec<u8>>,
    /// The state that we have adopted since, encoded; and our present state.
    own_adopted: Option<Vec<u8>>,
    own_state: Option<Hash>,
    heard: Histories,
    members: Membership,
    told_old: bool,
    streams: BTreeMap<FaceId, MemberStream>,
    /// Statements that are not reported yet, oldest first.
    held: Vec<HeldStatement>,
    /// Dials by member, each as that member's own statement claims. One member's claim never moves or ends a path to
    /// another.
    dials: BTreeMap<PublisherId, MemberDial>,
    /// The members to keep a link to; `None`: they have to be chosen again.
    chosen: Option<BTreeSet<PublisherId>>,
    /// Budget of dials caused by claims of all members together.
    claims: DialBudget,
    /// Refusals in a row, since the last link that admitted us.
    refusals: u32,
    /// Whether a refusal was reported, and whether it came from the founder.
    reported_refusal: Option<bool>,
    told_no_place: bool,
    /// When the streams' allowances are renewed.
    refill: Duration,
    news: mpsc::Sender<MeshNews>,
}

/// A member's statement from a peer that has not shown yet which statement of ours it knows.
struct HeldStatement {
    /// That peer's key: two members that dial each other have two links for a moment.
    key: [u8; 32],
    until: Duration,
    said: Box<MemberStatement>,
    bytes: Vec<u8>,
}

// The maps are ordered, so that one seed gives one run.

impl Mesh {
    pub(super) fn new(
        links: &mut dyn MeshLinks,
        start: MeshStart,
        news: mpsc::Sender<MeshNews>,
    ) -> Self {
        let MeshStart { group, own, first, known, met, roles, history, rewrote } = start;
        let members = Membership::new(group.founder, roles, links.wall_ms());
        let mut mesh = Self {
            group,
            own,
            own_statement: None,
            own_adopted: None,
            own_state: None,
            heard: Histories::new(history, rewrote, met),
            members,
            told_old: false,
            streams: BTreeMap::new(),
            held: Vec::new(),
            dials: BTreeMap::new(),
            chosen: None,
            claims: DialBudget::of_claims(links.now()),
            refusals: 0,
            reported_refusal: None,
            told_no_place: false,
            refill: Duration::ZERO,
            news,
        };
        let first = first.filter(|ticket| mesh.members.may_admit(&ticket.publisher));
        if let Some((key, ticket)) = first.and_then(|ticket| Some((ticket.link_key?, ticket))) {
            mesh.dial_at(links, ticket.publisher, key, &ticket);
        }
        for (statement, bytes) in known {
            mesh.learn(links, None, statement, bytes);
        }
        mesh
    }

    /// Sends a new statement of ours, if `said` is not empty, and applies new roles.
    pub(super) fn send_own_statement(
        &mut self,
        links: &mut dyn MeshLinks,
        said: Vec<u8>,
        roles: Option<Roles>,
    ) {
        if let Some(roles) = roles {
            self.take_roles(links, roles);
        }
        self.expire(links);
        if said.is_empty() {
            return;
        }
        let read = MemberStatement::read(&said, &self.group).ok();
        self.own_adopted = None;
        self.own_state = read.as_ref().map(|said| said.state);
        self.heard.own = read.map(|said| said.past);
        self.send_to_all(links, &said, None);
        if self.own_statement.replace(said).is_none() {
            // Peers that came before we had a statement wait for it.
            let wait =
                |(face, stream): (&FaceId, &MemberStream)| stream.member.is_none().then_some(*face);
            let waiting: Vec<FaceId> = self.streams.iter().filter_map(wait).collect();
            waiting.into_iter().for_each(|face| self.serve(links, face));
        }
    }

    /// Tells the members to which there is a link that we now have a state that another member has announced.
    pub(super) fn send_adopted(&mut self, links: &mut dyn MeshLinks, adopted: &AdoptedState) {
        self.expire(links);
        let message = adopted.to_bytes();
        self.send_to_all(links, &message, None);
        self.own_adopted = Some(message);
        self.own_state = Some(adopted.state);
        self.take_adopted(links, |waits| waits.state == adopted.state);
    }

    /// Reports members whose adopted states may be in a known statement now.
    fn take_adopted(&mut self, links: &mut dyn MeshLinks, which: impl Fn(&AdoptedState) -> bool) {
        let waits = |stream: &MemberStream| stream.adopted.as_ref().is_some_and(&which);
        let faces = self.streams.iter().filter(|(_, stream)| waits(stream));
        for face in faces.map(|(face, _)| *face).collect::<Vec<_>>() {
            self.take_adopted_of(links, face);
        }
    }

    fn take_adopted_of(&mut self, links: &mut dyn MeshLinks, face: FaceId) {
        let Some(stream) = self.streams.get_mut(&face) else { return };
        let Some((member, waits)) = stream.member.zip(stream.adopted.as_ref()) else { return };
        if let Some((said, bytes)) = self.heard.adopt(&member, waits, self.own_state) {
            stream.adopted = None;
            let key = stream.key;
            self.report_or_hold(links, Some(key), said, bytes);
        }
    }

    fn take_roles(&mut self, links: &mut dyn MeshLinks, roles: Roles) {
        if self.members.take(roles) {
            if self.members.may_admit(&self.own) {
                self.reported_refusal = None;
            }
            self.drop_others(links);
        }
    }

    /// Drops members with expired certificates: nothing more is sent to them.
    fn expire(&mut self, links: &mut dyn MeshLinks) {
        if self.members.expire(links.wall_ms()) {
            self.drop_others(links);
        }
    }

    /// Sends nothing more to former members. The key that a former member claimed may belong to another peer. So only
    /// links that speak for the former member end, and dials made for its claim.
    fn drop_others(&mut self, links: &mut dyn MeshLinks) {
        self.chosen = None;
        let now_ms = links.wall_ms();
        self.heard.retain(&mut self.members, now_ms);
        if self.members.has_no_roles() {
            return;
        }
        let mut ended = Vec::new();
        for (face, stream) in &self.streams {
            let Some(who) = stream.member.filter(|who| !self.members.admits(who)) else { continue };
            // Its later statements may hold newer certificates than its first.
            if let Err(why) = self.members.judge_member(&who, &stream.shown, now_ms) {
                ended.push((*face, LinkRefusal::of(&who, self.members.roles(), &why)));
            }
        }
        ended.into_iter().for_each(|(face, why)| self.refuse(links, face, why));
        let dials = self.dials.keys().filter(|member| !self.members.may_admit(member));
        for member in dials.copied().collect::<Vec<_>>() {
            self.forget_dial(links, &member);
        }
    }

    /// Takes in a member's statement, which came over the link `from` or is stored. Returns false if it is nothing new.
    fn learn(
        &mut self,
        links: &mut dyn MeshLinks,
        from: Option<FaceId>,
        said: MemberStatement,
        bytes: Vec<u8>,
    ) -> bool {
        if said.member == self.own {
            if self.heard.is_foreign(&said) {
                let _ = self.news.send(MeshNews::Twice);
            } else if let Some(stream) = from.and_then(|face| self.streams.get_mut(&face)) {
                stream.has_shown_ours = true;
                let key = stream.key;
                self.pass_on(|held| held.key == key);
            }
            return false;
        }
        // Apply roles even if the rest is invalid: a removal counts although the founder can't be asked.
        if let Some(roles) = said.roles.clone() {
            self.take_roles(links, roles);
        }
        let heard = self.members.judge_member(&said.member, &said.shown, links.wall_ms());
        self.expire(links);
        if heard.is_err() {
            return false;
        }
        let state = said.state;
        let heard = self.heard.take_statement(said.clone(), bytes.clone(), &self.members);
        for member in self.heard.take_forgotten() {
            self.forget_dial(links, &member);
            self.held.retain(|held| held.said.member != member);
            let _ = self.news.send(MeshNews::Forgotten(member));
        }
        match heard {
            StatementOutcome::New => {}
            StatementOutcome::NoPlace => {
                // A peer that has the ticket can make up any number of members.
                if !std::mem::replace(&mut self.told_no_place, true) {
                    let full = NotAdmitted::TooMany;
                    let _ = self.news.send(MeshNews::Applies(Box::new(said), full));
                }
                return false;
            }
            StatementOutcome::Rewrote(both) => {
                self.send_rewritten_history(links, said, both);
                return false;
            }
            StatementOutcome::Unproven(is_first) => {
                if is_first {
                    self.chosen = None;
                    self.ask(links);
                }
                self.take_adopted(links, |waits| waits.state == state);
                return false;
            }
            StatementOutcome::Nothing => return false,
        }
        self.dial_at(links, said.member, said.link_key, &said.index);
        let stream = from.and_then(|face| self.streams.get(&face));
        self.report_or_hold(links, stream.map(|stream| stream.key), said, bytes);
        self.take_adopted(links, |waits| waits.state == state);
        true
    }

    /// Reports a member's new state, which came over a link with this key.
    fn report_or_hold(
        &mut self,
        links: &mut dyn MeshLinks,
        from: Option<[u8; 32]>,
        said: MemberStatement,
        bytes: Vec<u8>,
    ) {
        // Our store may be an older one, put back from a copy. Then it lacks changes of ours that others know, and what
        // others did to them would be taken for newer than what is here. A peer first shows the statement of ours that it
        // knows, and a store that lacks it ends the member.
        let may_be_old = self.heard.own.as_ref().is_some_and(|own| own.length() > 1);
        match from.filter(|key| may_be_old && !self.has_shown_ours(key)) {
            Some(key) => {
                // One of each member, and no later than its first: a peer can neither fill memory nor delay it for ever.
                let of_member = self.held.extract_if(.., |held| held.said.member == said.member);
                let before = of_member.filter(|held| held.key == key).map(|held| held.until).min();
                let until = before.unwrap_or(links.now() + UNSHOWN_FOR);
                self.held.push(HeldStatement { key, until, said: Box::new(said), bytes });
            }
            // If the receiver is gone, the member is about to end.
            None => drop(self.news.send(MeshNews::Said(Box::new(said), bytes))),
        }
    }

    /// Whether the peer with this key has shown, over any link, a statement of ours that our log has.
    fn has_shown_ours(&self, key: &[u8; 32]) -> bool {
        self.streams.values().any(|stream| stream.has_shown_ours && stream.key == *key)
    }

    /// Reports those of the held statements that are still their members' newest.
    fn pass_on(&mut self, which: impl Fn(&HeldStatement) -> bool) {
        for HeldStatement { said, bytes, .. } in self.held.extract_if(.., |held| which(held)) {
            if self.heard.knows(&bytes) {
                let _ = self.news.send(MeshNews::Said(said, bytes));
            }
        }
    }

    /// Sends both statements to all members, so that none trusts the one that rewrote its history.
    fn send_rewritten_history(
        &mut self,
        links: &mut dyn MeshLinks,
        said: MemberStatement,
        both: [Vec<u8>; 2],
    ) {
        both.iter().for_each(|said| self.send_to_all(links, said, None));
        let _ = self.news.send(MeshNews::Rewrote(Box::new(said), both));
    }

    /// Requests a proof from members with a latest statement too far from the state that we know.
    fn ask(&mut self, links: &mut dyn MeshLinks) {
        for (face, stream) in &mut self.streams {
            let question = stream.member.and_then(|member| self.heard.question(&member));
            if let Some(question) = question {
                stream.queue(&question.to_bytes());
                stream.write(links, *face);
            }
        }
    }

    /// Proves that our log continues.
    fn answer(&mut self, links: &mut dyn MeshLinks, face: FaceId, asked: &ProofRequest) {
        if asked.member != self.own {
            return;
        }
        match (self.heard.prove(asked, links.now()), self.streams.get_mut(&face)) {
            (Ok(Some(proof)), Some(stream)) => {
                stream.queue(&asked.answer(&proof));
                stream.write(links, face);
            }
            (Err(e), _) => drop(self.news.send(MeshNews::BadLog(e))),
            _ => {}
        }
    }

    /// Handles a member's proof.
    fn answered(
        &mut self,
        links: &mut dyn MeshLinks,
        from: &PublisherId,
        asked: &ProofRequest,
        proof: &[u8],
    ) {
        self.chosen = None;
        match self.heard.take_answer(from, asked, proof) {
            None => {}
            Some((said, _, StatementOutcome::Rewrote(both))) => {
                self.send_rewritten_history(links, said, both)
            }
            Some((said, bytes, _)) => {
                self.dial_at(links, said.member, said.link_key, &said.index);
                let (state, faces) = (said.state, self.streams.iter());
                let of_it = faces.filter(|(_, stream)| stream.member == Some(said.member));
                let of_it: Vec<FaceId> = of_it.map(|(face, _)| *face).collect();
                let _ = self.news.send(MeshNews::Said(Box::new(said), bytes.clone()));
                self.send_to_all(links, &bytes, None);
                self.take_adopted(links, |waits| waits.state == state);
                of_it.into_iter().for_each(|face| self.take_adopted_of(links, face));
            }
        }
    }

    fn is_up(&self, member: &PublisherId) -> bool {
        self.streams.values().any(|stream| stream.member == Some(*member))
    }

    /// Handles a face that came up. If we dialled it, sends our own statement and waits for the peer's.
    pub(super) fn came_up(&mut self, links: &mut dyn MeshLinks, face: FaceId) {
        let Some(key) = links.peer_key(face) else { return };
        let dialled = self.dials.iter().find(|(_, dial)| dial.faces.contains(&face));
        let Some(member) = dialled.map(|(member, _)| *member) else { return };
        let is_ours = |s: &MemberStream| s.member.is_some() || s.dialled.is_some();
        let is_here = self.streams.values().any(|s| is_ours(s) && s.key == key);
        if is_here || self.is_up(&member) {
            for dial in self.dials.values_mut() {
                dial.faces.remove(&face);
            }
            links.hang_up(face, "the same member answered before");
            return self.lost_dial(links.now(), member);
        }
        let Some(stream) = links.open(face) else { return };
        links.keep(face);
        let mut stream = MemberStream::new(stream, key, Some(member));
        self.own_statement.iter().for_each(|said| stream.queue(said));
        self.streams.insert(face, stream);
        self.serve(links, face);
    }

    /// The other end speaks for this member. Sends it all statements, the founder's first.
    fn admit(&mut self, links: &mut dyn MeshLinks, face: FaceId, member: PublisherId) {
        let Some(stream) = self.streams.get_mut(&face) else { return };
        stream.member = Some(member);
        let key = stream.key;
        self.refusals = 0;
        // Members other than the founder may not have the founder's latest statement yet.
        if member == self.group.founder || self.reported_refusal == Some(false) {
            self.reported_refusal = None;
        }
        // Each end begins with its own statement. A peer that dialled us may learn from the founder's statement that we
        // are a member, so ours follows that once more. The cost is small.
        // It reads its own statement next: it takes nothing from us before.
        let (founder, own) = (&self.group.founder, self.own_statement.iter());
        let founders: Vec<&Vec<u8>> = self.heard.of(founder).collect();
        let (begins, ends) = (stream.dialled.is_none(), !founders.is_empty());
        let who = own.clone().filter(|_| begins).chain(self.heard.of(&member));
        let own = own.filter(|_| ends || !begins);
        who.chain(founders).chain(own).for_each(|said| stream.queue(said));
        let question = self.heard.question(&member);
        question.iter().for_each(|question| stream.queue(&question.to_bytes()));
        self.own_adopted.iter().for_each(|adopted| stream.queue(adopted));
        // In a large group the other end knows most statements already.
        if self.heard.members().count() > FULL_MESH {
            stream.list(&self.heard);
        } else {
            let others =
                self.heard.members().filter(|other| *other != founder && **other != member);
            stream.owed = others.copied().collect();
        }
        let dialled = stream.dialled;
        self.confirm_claim(&member, &key);
        if let Some(dial) = self.dials.get_mut(&member) {
            dial.faces.extend(dialled.map(|_| face));
            (dial.again, dial.has_spoken, dial.is_away) = (None, true, false);
        }
        self.chosen = None;
        if let Some(looked_for) = dialled.filter(|looked_for| *looked_for != member) {
            // The owner of that key speaks for another member.
            self.dials.get_mut(&looked_for).map(|dial| dial.faces.remove(&face));
            self.lost_dial(links.now(), looked_for);
        }
        let _ = self.news.send(MeshNews::Up(member, true));
        self.send_owed(links, face);
        self.drop_twin(links, key);
    }

    /// Sends owed statements as fast as the stream takes them. Returns false if the stream is unusable.
    fn send_owed(&mut self, links: &mut dyn MeshLinks, face: FaceId) -> bool {
        let Some(stream) = self.streams.get_mut(&face) else { return false };
        loop {
            if !stream.write(links, face) {
                return false;
            }
            let next = if stream.out.is_empty() { stream.owed.pop_front() } else { None };
            let Some(member) = next else { return true };
            self.heard.of(&member).for_each(|said| stream.queue(said));
        }
    }

    /// The other end sends its list of statements, once. Sends it those that it lacks.
    fn listed(&mut self, links: &mut dyn MeshLinks, face: FaceId, known: &KnownStatements) {
        let Some(stream) = self.streams.get_mut(&face) else { return };
        if std::mem::replace(&mut stream.was_listed, true) {
            return;
        }
        if !stream.has_listed {
            // All statements that we have are sent already, or queued.
            stream.list(&self.heard);
        } else {
            let lacks = |who: &&PublisherId| self.heard.of(who).any(|said| !known.has(said));
            stream.owed = self.heard.members().filter(lacks).copied().collect();
        }
        self.send_owed(links, face);
    }

    /// When two members dial each other at the same moment, one of the two links is superfluous and would carry all
    /// statements twice. The one that the smaller key dialled stays. The member with the larger key closes its own once
    /// the other has come up.
    fn drop_twin(&mut self, links: &mut dyn MeshLinks, key: [u8; 32]) {
        if links.own_key() <= key {
            return;
        }
        let to_it = self.streams.iter().filter(|(_, s)| s.member.is_some() && s.key == key);
        let (ours, theirs): (Vec<_>, Vec<_>) = to_it.partition(|(_, s)| s.dialled.is_some());
        if !theirs.is_empty() {
            let ours: Vec<FaceId> = ours.into_iter().map(|(face, _)| *face).collect();
            ours.into_iter().for_each(|face| self.close_stream(links, face));
        }
    }

    fn send_to_all(&mut self, links: &mut dyn MeshLinks, said: &[u8], but: Option<FaceId>) {
        let mut slow = Vec::new();
        for (face, stream) in &mut self.streams {
            if stream.member.is_some() && Some(*face) != but {
                stream.queue(said);
                if !stream.write(links, *face) || stream.out.len() > MAX_WAITING {
                    slow.push(*face);
                }
            }
        }
        slow.into_iter().for_each(|face| self.close_stream(links, face));
    }

    /// Handles an event of a peer's stream. Returns false if the stream is not for a mesh.
    pub(super) fn handle(
        &mut self,
        links: &mut dyn MeshLinks,
        face: FaceId,
        stream: StreamId,
        what: &StreamEvent,
    ) -> bool {
        match what {
            StreamEvent::Opened { purpose: purpose::SYNC } => {
                let Some(key) = links.peer_key(face) else { return false };
                if self.streams.len() >= MAX_STREAMS || self.streams.contains_key(&face) {
                    return false;
                }
                self.streams.insert(face, MemberStream::new(stream, key, None));
            }
            _ if self.streams.get(&face).is_none_or(|known| known.stream != stream) => {
                return false;
            }
            StreamEvent::Reset | StreamEvent::Stopped | StreamEvent::Delivered => {
                self.close_stream(links, face);
                return true;
            }
            _ => {}
        }
        self.serve(links, face);
        true
    }

    fn serve(&mut self, links: &mut dyn MeshLinks, face: FaceId) {
        if !self.send_owed(links, face) {
            return self.close_stream(links, face);
        }
        loop {
            let Some(stream) = self.streams.get_mut(&face) else { return };
            if stream.ends.is_some() {
                return;
            }
            if stream.member.is_none() && self.own_statement.is_none() {
                // Each end has to send its own statement first, and we have none yet.
                return;
            }
            let said = match stream.next(links, face) {
                Ok(Some(said)) => said,
                Ok(None) => return,
                Err(()) => return self.close_stream(links, face),
            };
            if let Some(why) = LinkRefusal::read(&said) {
                let (by, key) = (stream.member.or(stream.dialled), stream.key);
                if let Some(by) = by {
                    // A peer that answers with a refusal is at its claimed address.
                    self.confirm_claim(&by, &key);
                    self.handle_refusal(&by, why);
                }
                return self.close_stream(links, face);
            }
            if let Some(member) = stream.member {
                if self.heard.knows(&said) {
                    stream.inbox.was_known();
                    self.mark_spoken(&member);
                    continue;
                }
                if let Some(asked) = ProofRequest::read(&said) {
                    self.answer(links, face, &asked);
                    continue;
                }
                if let Some(adopted) = AdoptedState::read(&said) {
                    stream.adopted = Some(adopted);
                    self.mark_spoken(&member);
                    self.take_adopted_of(links, face);
                    continue;
                }
                if let Some(known) = KnownStatements::read(&said) {
                    self.listed(links, face, &known);
                    continue;
                }
                if let Some((asked, proof)) = ProofRequest::read_answer(&said) {
                    self.answered(links, &member, &asked, proof);
                    continue;
                }
            }
            let statement = match MemberStatement::read(&said, &self.group) {
                Ok(statement) => statement,
                Err(e) => {
                    if e == StatementError::Old && !std::mem::replace(&mut self.told_old, true) {
                        let _ = self.news.send(MeshNews::Old);
                    }
                    return self.close_stream(links, face);
                }
            };
            let member = stream.member;
            match member {
                Some(member) => {
                    self.mark_spoken(&member);
                    if self.learn(links, Some(face), statement, said.clone()) {
                        self.send_to_all(links, &said, Some(face));
                    }
                }
                None => self.handle_first_statement(links, face, statement, &said),
            }
        }
    }

    /// Handles the first statement on a stream: that of the member for which the other end speaks. It names the key
    /// that the link has proven, and the owner of that key has sent it.
    fn handle_first_statement(
        &mut self,
        links: &mut dyn MeshLinks,
        face: FaceId,
        who: MemberStatement,
        said: &[u8],
    ) {
        let Some(stream) = self.streams.get_mut(&face) else { return };
        if who.link_key != stream.key {
            return self.close_stream(links, face);
        }
        let member = who.member;
        let judged = self.members.judge_member(&member, &who.shown, links.wall_ms());
        // Trust the member that invited us until the founder's statement arrives.
        let invited = stream.dialled == Some(member) && self.members.has_no_roles();
        let is_member = judged.is_ok();
        if let Err(why) = judged
            && !invited
        {
            let told = LinkRefusal::of(&member, self.members.roles(), &why);
            self.report_applicant(who, why);
            return self.refuse(links, face, told);
        }
        stream.shown.clone_from(&who.shown);
        self.heard.record_link(&member);
        let news = self.learn(links, Some(face), who, said.to_vec());
        if is_member && member != self.own && !self.heard.has_place(&member) {
            return self.refuse(links, face, LinkRefusal::NoPlace);
        }
        links.keep(face);
        self.admit(links, face, member);
        if news {
            self.send_to_all(links, said, Some(face));
        }
    }

    fn mark_spoken(&mut self, member: &PublisherId) {
        if let Some(dial) = self.dials.get_mut(member) {
            dial.has_spoken = true;
        }
    }

    /// Reports an applicant. In a group without a schema only the founder may do that, as the list of members is its
    /// own.
    fn report_applicant(&mut self, said: MemberStatement, why: NotAdmitted) {
        let roles = self.members.roles();
        let is_ours = self.own == self.group.founder || roles.schema.is_some();
        if is_ours && self.heard.record_applicant(&said, roles) {
            let _ = self.news.send(MeshNews::Applies(Box::new(said), why));
        }
    }

    /// Sends a refusal to the other end of a link. Ends the stream when the peer has received it.
    fn refuse(&mut self, links: &mut dyn MeshLinks, face: FaceId, why: LinkRefusal) {
        let now = links.now();
        let Some(stream) = self.streams.get_mut(&face) else { return };
        let member = stream.member.take();
        stream.ends = Some(now + REFUSAL_READ_TIME);
        stream.queue(&why.to_bytes());
        let arrives =
            stream.write(links, face) && stream.out.is_empty() && links.finish(face, stream.stream);
        member.into_iter().for_each(|member| self.lost_link(now, member));
        if !arrives {
            self.close_stream(links, face);
        }
    }

    /// Handles a refusal by this member. Only the founder's is reported at once, as it holds for all.
    fn handle_refusal(&mut self, by: &PublisherId, why: LinkRefusal) {
        self.refusals = self.refusals.saturating_add(1);
        let by_founder = *by == self.group.founder;
        let is_news = self.reported_refusal.is_none_or(|by| by_founder && !by);
        if is_news && (by_founder || self.refusals >= REFUSALS_BEFORE_REPORT) {
            self.reported_refusal = Some(by_founder);
            let _ = self.news.send(MeshNews::TurnedAway { by_founder, why });
        }
    }

    fn close_stream(&mut self, links: &mut dyn MeshLinks, face: FaceId) {
        if let Some(stream) = self.streams.remove(&face) {
            links.abandon(face, stream.stream);
            if stream.dialled.is_some() {
                links.hang_up(face, "the member has nothing more to send");
            }
            self.ended(links.now(), face, Some(&stream));
        }
    }

    /// A face is gone, and its stream with it.
    pub(super) fn face_down(&mut self, now: Duration, face: FaceId) {
        let stream = self.streams.remove(&face);
        self.ended(now, face, stream.as_ref());
    }

    /// A link is gone. Schedules other dials for the members that were dialled by it or spoke on it.
    fn ended(&mut self, now: Duration, face: FaceId, stream: Option<&MemberStream>) {
        let dials = self.dials.iter_mut();
        let tried: Vec<PublisherId> =
            dials.filter_map(|(who, dial)| dial.faces.remove(&face).then_some(*who)).collect();
        if let Some(member) = stream.and_then(|stream| stream.member) {
            self.lost_link(now, member);
        }
        tried.into_iter().for_each(|member| self.lost_dial(now, member));
    }

    /// Does what is due.
    pub(super) fn handle_timeout(&mut self, links: &mut dyn MeshLinks, now: Duration) {
        let over = self.streams.iter().filter(|(_, s)| s.ends.is_some_and(|ends| ends <= now));
        let over: Vec<FaceId> = over.map(|(face, _)| *face).collect();
        over.into_iter().for_each(|face| self.close_stream(links, face));
        self.pass_on(|held| held.until <= now);
        if now >= self.refill {
            self.refill = now + ALLOWANCE_PERIOD;
            self.renew_allowances(links);
        }
        self.choose(links);
        self.dial_absent_members(links, now);
    }

    /// Work that is due once a second.
    fn renew_allowances(&mut self, links: &mut dyn MeshLinks) {
        self.expire(links);
        let held: Vec<FaceId> = (self.streams.iter_mut())
            .filter_map(|(face, stream)| stream.inbox.begin().then_some(*face))
            .collect();
        held.into_iter().for_each(|face| self.serve(links, face));
        if self.waits_for_proofs() {
            self.ask(links);
            let there = self.streams.values().filter_map(|stream| stream.member).collect();
            for said in self.heard.count_questions(&there) {
                let _ = self.news.send(MeshNews::Unproven(Box::new(said)));
            }
        }
    }

    /// Whether a connected member still has to prove that its history continues.
    fn waits_for_proofs(&self) -> bool {
        let mut there = self.streams.values().filter_map(|stream| stream.member);
        there.any(|member| self.heard.question(&member).is_some())
    }

    /// When [`Mesh::handle_timeout`] is due.
    pub(super) fn poll_timeout(&self) -> Option<Duration> {
        let held = self.streams.values().any(|stream| stream.inbox.is_full());
        let may_end = self.members.roles().schema.is_some();
        let held = (held || may_end || self.waits_for_proofs()).then_some(self.refill);
        let speaks = self.own_statement.is_some();
        // Choose members at once.
        let Some(chosen) = &self.chosen else { return Some(Duration::ZERO) };
        let dials = chosen.iter().filter(|_| speaks).filter_map(|who| self.dials.get(who));
        let ends = self.streams.values().filter_map(|stream| stream.ends);
        let ends = ends.chain(self.held.iter().map(|held| held.until));
        dials.filter_map(|dial| dial.again).chain(held).chain(ends).min()
    }
}
