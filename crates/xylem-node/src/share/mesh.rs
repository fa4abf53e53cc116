//! [`Mesh`]: the members of a group (docs/spec/sync.md, "Folders") over links: each has a stream to each other, where they are
//! many to some of them, on which everybody's newest statements travel. Who they are is theirs to say; what they have is fetched
//! elsewhere.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::mpsc;
use std::time::Duration;

use xylem_engine::StreamEvent;
use xylem_forward::FaceId;
use xylem_library::folder::{
    FULL_MESH, Group, Heard, Histories, KnownStatements, MAX_MEMBERS, Membership, MeshNews,
    MeshStart, NotAdmitted, Question, Roles, Statement, StatementError, TurnedAway,
};
use xylem_link::{StreamId, purpose};
use xylem_object::PublisherId;

mod chosen;
mod dial;
mod links;
#[cfg(test)]
mod simulated;
mod stream;

use dial::{Budget, Dial};
use links::Links;
use stream::Stream;

/// Streams that others may open at most. In a large group a member has some sixteen links; one of few who may write has one to each.
const MAX_STREAMS: usize = 2 * MAX_MEMBERS;
/// What is too much for a while waits in the stream's window.
const A_WHILE: Duration = Duration::from_secs(1);
/// Bytes of news that may wait for a link before it is given up. What was known before it came up is said as fast as it takes that.
const MAX_WAITING: usize = 4 << 20;
/// How long whoever is no member may take to read that.
const LINGER: Duration = Duration::from_secs(5);
/// Links in a row at whose other ends we are no member, before that is told without the founder's word.
const TURNED_AWAY: u32 = 5;

/// See the module's text.
pub(super) struct Mesh {
    group: Group,
    own: PublisherId,
    /// What we say.
    said: Option<Vec<u8>>,
    heard: Histories,
    members: Membership,
    told_old: bool,
    streams: BTreeMap<FaceId, Stream>,
    /// By member, each as that member's own statement says: what one claims moves or ends no way to another.
    dials: BTreeMap<PublisherId, Dial>,
    /// Those of them that we keep a link to; `None`: they are to be chosen anew.
    chosen: Option<BTreeSet<PublisherId>>,
    /// What may be dialled at the word of all members together.
    claims: Budget,
    /// Links at whose other ends we were no member, since one at whose other end we were.
    turned_away: u32,
    /// That it was told, and whether by the founder's word.
    told_turned_away: Option<bool>,
    told_no_place: bool,
    /// When links may send again.
    refill: Duration,
    news: mpsc::Sender<MeshNews>,
}

// Maps are in order, so that from the same seed the same happens.

impl Mesh {
    pub(super) fn new(
        links: &mut dyn Links,
        start: MeshStart,
        news: mpsc::Sender<MeshNews>,
    ) -> Self {
        let MeshStart { group, own, first, known, met, roles, history, rewrote } = start;
        let members = Membership::new(group.founder, roles, links.wall_ms());
        let mut mesh = Self {
            group,
            own,
            said: None,
            heard: Histories::new(history, rewrote, met),
            members,
            told_old: false,
            streams: BTreeMap::new(),
            dials: BTreeMap::new(),
            chosen: None,
            claims: Budget::of_claims(links.now()),
            turned_away: 0,
            told_turned_away: None,
            told_no_place: false,
            refill: Duration::ZERO,
            news,
        };
        let first = first.filter(|ticket| mesh.members.may_admit(&ticket.publisher));
        if let Some((key, ticket)) = first.and_then(|ticket| Some((ticket.link_key?, ticket))) {
            mesh.dial_at(links, ticket.publisher, key, &ticket);
        }
        for (statement, bytes) in known {
            mesh.learn(links, statement, bytes);
        }
        mesh
    }

    /// Says something new of ourselves, if it is not empty, and who may do what.
    pub(super) fn say(&mut self, links: &mut dyn Links, said: Vec<u8>, roles: Option<Roles>) {
        if let Some(roles) = roles {
            self.take_roles(links, roles);
        }
        self.expire(links);
        if said.is_empty() {
            return;
        }
        self.heard.own = Statement::read(&said, &self.group).ok().map(|said| said.past);
        self.tell_all(links, &said, None);
        if self.said.replace(said).is_none() {
            // Who came before we could say who we are waits for that.
            let wait =
                |(face, stream): (&FaceId, &Stream)| stream.member.is_none().then_some(*face);
            let waiting: Vec<FaceId> = self.streams.iter().filter_map(wait).collect();
            waiting.into_iter().for_each(|face| self.serve(links, face));
        }
    }

    fn take_roles(&mut self, links: &mut dyn Links, roles: Roles) {
        if self.members.take(roles) {
            if self.members.may_admit(&self.own) {
                self.told_turned_away = None;
            }
            self.drop_others(links);
        }
    }

    /// Whose certificates have ended is told nothing of what comes next.
    fn expire(&mut self, links: &mut dyn Links) {
        if self.members.expire(links.wall_ms()) {
            self.drop_others(links);
        }
    }

    /// Who is no member any more is told nothing more. Whoever has the key that it has claimed may be somebody else: only
    /// what speaks for it, and what was dialled at its word, ends.
    fn drop_others(&mut self, links: &mut dyn Links) {
        self.chosen = None;
        let now_ms = links.wall_ms();
        self.heard.retain(&mut self.members, now_ms);
        if self.members.is_unheard() {
            return;
        }
        let mut ended = Vec::new();
        for (face, stream) in &self.streams {
            let Some(who) = stream.member.filter(|who| !self.members.admits(who)) else { continue };
            // What it has said since may show newer certificates than it came with.
            if let Err(why) = self.members.hear(&who, &stream.shown, now_ms) {
                ended.push((*face, TurnedAway::of(&who, self.members.roles(), &why)));
            }
        }
        ended.into_iter().for_each(|(face, why)| self.turn_away(links, face, why));
        let dials = self.dials.keys().filter(|member| !self.members.may_admit(member));
        for member in dials.copied().collect::<Vec<_>>() {
            self.forget_dial(links, &member);
        }
    }

    /// A member's statement; false if it is nothing new.
    fn learn(&mut self, links: &mut dyn Links, said: Statement, bytes: Vec<u8>) -> bool {
        if said.member == self.own {
            if self.heard.is_not_ours(&said) {
                let _ = self.news.send(MeshNews::Twice);
            }
            return false;
        }
        // They hold whatever else is wrong: who is removed is, although the founder can't be asked.
        if let Some(roles) = said.roles.clone() {
            self.take_roles(links, roles);
        }
        let heard = self.members.hear(&said.member, &said.shown, links.wall_ms());
        self.expire(links);
        if heard.is_err() {
            return false;
        }
        let heard = self.heard.hear(said.clone(), bytes.clone(), &self.members);
        for member in self.heard.forgotten() {
            self.forget_dial(links, &member);
            let _ = self.news.send(MeshNews::Forgotten(member));
        }
        match heard {
            Heard::New => {}
            Heard::NoPlace => {
                // One who has the ticket makes up any number of them.
                if !std::mem::replace(&mut self.told_no_place, true) {
                    let full = NotAdmitted::TooMany;
                    let _ = self.news.send(MeshNews::Applies(Box::new(said), full));
                }
                return false;
            }
            Heard::Rewrote(both) => {
                self.tell_rewrote(links, said, both);
                return false;
            }
            Heard::Unproven(true) => {
                self.chosen = None;
                self.ask(links);
                return false;
            }
            Heard::Unproven(false) | Heard::Nothing => return false,
        }
        self.dial_at(links, said.member, said.link_key, &said.index);
        // Where nobody keeps the folder any more all is over.
        let _ = self.news.send(MeshNews::Said(Box::new(said), bytes));
        true
    }

    /// All are to know, so that nobody believes it.
    fn tell_rewrote(&mut self, links: &mut dyn Links, said: Statement, both: [Vec<u8>; 2]) {
        both.iter().for_each(|said| self.tell_all(links, said, None));
        let _ = self.news.send(MeshNews::Rewrote(Box::new(said), both));
    }

    /// Asks those whose newest statements are too far from what we know of them.
    fn ask(&mut self, links: &mut dyn Links) {
        for (face, stream) in &mut self.streams {
            let question = stream.member.and_then(|member| self.heard.question(&member));
            if let Some(question) = question {
                stream.queue(&question.to_bytes());
                stream.write(links, *face);
            }
        }
    }

    /// Shows that our log goes on.
    fn answer(&mut self, links: &mut dyn Links, face: FaceId, asked: &Question) {
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

    /// A member answers.
    fn answered(
        &mut self,
        links: &mut dyn Links,
        from: &PublisherId,
        asked: &Question,
        proof: &[u8],
    ) {
        self.chosen = None;
        match self.heard.answered(from, asked, proof) {
            None => {}
            Some((said, _, Heard::Rewrote(both))) => self.tell_rewrote(links, said, both),
            Some((said, bytes, _)) => {
                self.dial_at(links, said.member, said.link_key, &said.index);
                let _ = self.news.send(MeshNews::Said(Box::new(said), bytes.clone()));
                self.tell_all(links, &bytes, None);
            }
        }
    }

    fn is_up(&self, member: &PublisherId) -> bool {
        self.streams.values().any(|stream| stream.member == Some(*member))
    }

    /// A face came up: if we have dialled it we say who we are, and wait for who is there.
    pub(super) fn came_up(&mut self, links: &mut dyn Links, face: FaceId) {
        let Some(key) = links.peer_key(face) else { return };
        let dialled = self.dials.iter().find(|(_, dial)| dial.faces.contains(&face));
        let Some(member) = dialled.map(|(member, _)| *member) else { return };
        let is_ours = |s: &Stream| s.member.is_some() || s.dialled.is_some();
        let is_here = self.streams.values().any(|s| is_ours(s) && s.key == key);
        if is_here || self.is_up(&member) {
            for dial in self.dials.values_mut() {
                dial.faces.remove(&face);
            }
            links.hang_up(face, "the same member answered before");
            return self.lost(links.now(), member, false);
        }
        let Some(stream) = links.open(face) else { return };
        links.keep(face);
        let mut stream = Stream::new(stream, key, Some(member));
        self.said.iter().for_each(|said| stream.queue(said));
        self.streams.insert(face, stream);
        self.serve(links, face);
    }

    /// The other end speaks for this member: it is told everything, and first who is one.
    fn admit(&mut self, links: &mut dyn Links, face: FaceId, member: PublisherId) {
        let Some(stream) = self.streams.get_mut(&face) else { return };
        stream.member = Some(member);
        let key = stream.key;
        self.turned_away = 0;
        // Others may not have heard yet what the founder says.
        if member == self.group.founder || self.told_turned_away == Some(false) {
            self.told_turned_away = None;
        }
        // Each end begins with its own statement. Who has come may not know that we are a member before it has heard the
        // founder, so that ours comes once more behind that: it costs little.
        let (founder, own) = (&self.group.founder, self.said.iter());
        let first: Vec<&Vec<u8>> = self.heard.of(founder).collect();
        let begins = stream.dialled.is_none() && !first.is_empty();
        let who = own.clone().filter(|_| begins);
        who.chain(first).chain(own).for_each(|said| stream.queue(said));
        let question = self.heard.question(&member);
        question.iter().for_each(|question| stream.queue(&question.to_bytes()));
        // Most of very many are known there.
        if self.heard.members().count() > FULL_MESH {
            stream.list(&self.heard);
        } else {
            let others = self.heard.members().filter(|member| *member != founder);
            stream.owed = others.copied().collect();
        }
        let dialled = stream.dialled;
        self.found(&member, &key);
        if let Some(dial) = self.dials.get_mut(&member) {
            dial.faces.extend(dialled.map(|_| face));
            (dial.again, dial.speaks, dial.is_away) = (None, true, false);
        }
        self.chosen = None;
        if let Some(looked_for) = dialled.filter(|looked_for| *looked_for != member) {
            // Whoever has that key speaks for another one.
            self.dials.get_mut(&looked_for).map(|dial| dial.faces.remove(&face));
            self.lost(links.now(), looked_for, false);
        }
        let _ = self.news.send(MeshNews::Up(member, true));
        self.pay(links, face);
        self.drop_twin(links, key);
    }

    /// Says what is owed to a stream, as fast as it takes that; false if it is of no more use.
    fn pay(&mut self, links: &mut dyn Links, face: FaceId) -> bool {
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

    /// The other end says once which statements it knows: it is told the others.
    fn listed(&mut self, links: &mut dyn Links, face: FaceId, known: &KnownStatements) {
        let Some(stream) = self.streams.get_mut(&face) else { return };
        if std::mem::replace(&mut stream.was_listed, true) {
            return;
        }
        if !stream.has_listed {
            // All that was known here is on its way, or said.
            stream.list(&self.heard);
        } else {
            let lacks = |who: &&PublisherId| self.heard.of(who).any(|said| !known.has(said));
            stream.owed = self.heard.members().filter(lacks).copied().collect();
        }
        self.pay(links, face);
    }

    /// Where two have dialled each other at the same moment one link is too many, on which all would be said once more.
    /// The one that the smaller key has dialled stays: whoever has the larger one hangs up, after the other has come.
    fn drop_twin(&mut self, links: &mut dyn Links, key: [u8; 32]) {
        if links.own_key() <= key {
            return;
        }
        let to_it = self.streams.iter().filter(|(_, s)| s.member.is_some() && s.key == key);
        let (ours, theirs): (Vec<_>, Vec<_>) = to_it.partition(|(_, s)| s.dialled.is_some());
        if !theirs.is_empty() {
            let ours: Vec<FaceId> = ours.into_iter().map(|(face, _)| *face).collect();
            ours.into_iter().for_each(|face| self.give_up(links, face));
        }
    }

    fn tell_all(&mut self, links: &mut dyn Links, said: &[u8], but: Option<FaceId>) {
        let mut slow = Vec::new();
        for (face, stream) in &mut self.streams {
            if stream.member.is_some() && Some(*face) != but {
                stream.queue(said);
                if !stream.write(links, *face) || stream.out.len() > MAX_WAITING {
                    slow.push(*face);
                }
            }
        }
        slow.into_iter().for_each(|face| self.give_up(links, face));
    }

    /// Something happened to a stream of a peer; false if it is none of ours.
    pub(super) fn handle(
        &mut self,
        links: &mut dyn Links,
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
                self.streams.insert(face, Stream::new(stream, key, None));
            }
            _ if self.streams.get(&face).is_none_or(|known| known.stream != stream) => {
                return false;
            }
            StreamEvent::Reset | StreamEvent::Stopped | StreamEvent::Delivered => {
                self.give_up(links, face);
                return true;
            }
            _ => {}
        }
        self.serve(links, face);
        true
    }

    fn serve(&mut self, links: &mut dyn Links, face: FaceId) {
        if !self.pay(links, face) {
            return self.give_up(links, face);
        }
        loop {
            let Some(stream) = self.streams.get_mut(&face) else { return };
            if stream.ends.is_some() {
                return;
            }
            if stream.member.is_none() && self.said.is_none() {
                // Each end says first who it is, which we can't yet.
                return;
            }
            let said = match stream.next(links, face) {
                Ok(Some(said)) => said,
                Ok(None) => return,
                Err(()) => return self.give_up(links, face),
            };
            if let Some(why) = TurnedAway::read(&said) {
                let (by, key) = (stream.member.or(stream.dialled), stream.key);
                if let Some(by) = by {
                    // Whoever answers so is where it is said to be.
                    self.found(&by, &key);
                    self.was_turned_away(&by, why);
                }
                return self.give_up(links, face);
            }
            if let Some(member) = stream.member {
                if self.heard.knows(&said) {
                    stream.inbox.was_known();
                    self.speaks(&member);
                    continue;
                }
                if let Some(asked) = Question::read(&said) {
                    self.answer(links, face, &asked);
                    continue;
                }
                if let Some(known) = KnownStatements::read(&said) {
                    self.listed(links, face, &known);
                    continue;
                }
                if let Some((asked, proof)) = Question::read_answer(&said) {
                    self.answered(links, &member, &asked, proof);
                    continue;
                }
            }
            let statement = match Statement::read(&said, &self.group) {
                Ok(statement) => statement,
                Err(e) => {
                    if e == StatementError::Old && !std::mem::replace(&mut self.told_old, true) {
                        let _ = self.news.send(MeshNews::Old);
                    }
                    return self.give_up(links, face);
                }
            };
            let member = stream.member;
            match member {
                Some(member) => {
                    self.speaks(&member);
                    if self.learn(links, statement, said.clone()) {
                        self.tell_all(links, &said, Some(face));
                    }
                }
                None => self.introduced(links, face, statement, &said),
            }
        }
    }

    /// The first statement on a stream is that of the member for whom the other end speaks: it names the key that the link
    /// has proven, and whoever has that key has sent it.
    fn introduced(&mut self, links: &mut dyn Links, face: FaceId, who: Statement, said: &[u8]) {
        let Some(stream) = self.streams.get_mut(&face) else { return };
        if who.link_key != stream.key {
            return self.give_up(links, face);
        }
        let member = who.member;
        let judged = self.members.hear(&member, &who.shown, links.wall_ms());
        // Whom an invitation names is believed until the founder is heard.
        let invited = stream.dialled == Some(member) && self.members.is_unheard();
        let is_member = judged.is_ok();
        if let Err(why) = judged
            && !invited
        {
            let told = TurnedAway::of(&member, self.members.roles(), &why);
            self.tell_applies(who, why);
            return self.turn_away(links, face, told);
        }
        stream.shown.clone_from(&who.shown);
        self.heard.meet(&member);
        let news = self.learn(links, who, said.to_vec());
        if is_member && member != self.own && !self.heard.has_place(&member) {
            return self.turn_away(links, face, TurnedAway::NoPlace);
        }
        links.keep(face);
        self.admit(links, face, member);
        if news {
            self.tell_all(links, said, Some(face));
        }
    }

    fn speaks(&mut self, member: &PublisherId) {
        if let Some(dial) = self.dials.get_mut(member) {
            dial.speaks = true;
        }
    }

    /// The list of members is the founder's; what a schema says anybody can tell.
    fn tell_applies(&mut self, said: Statement, why: NotAdmitted) {
        let roles = self.members.roles();
        let is_ours = self.own == self.group.founder || roles.schema.is_some();
        if is_ours && self.heard.applies(&said, roles) {
            let _ = self.news.send(MeshNews::Applies(Box::new(said), why));
        }
    }

    /// Tells the other end of a link why it is told nothing else, and ends the stream when it has heard that.
    fn turn_away(&mut self, links: &mut dyn Links, face: FaceId, why: TurnedAway) {
        let now = links.now();
        let Some(stream) = self.streams.get_mut(&face) else { return };
        let member = stream.member.take();
        stream.ends = Some(now + LINGER);
        stream.queue(&why.to_bytes());
        let arrives =
            stream.write(links, face) && stream.out.is_empty() && links.finish(face, stream.stream);
        member.into_iter().for_each(|member| self.lost(now, member, true));
        if !arrives {
            self.give_up(links, face);
        }
    }

    /// The other end of a link, which is this member's, says that we are none. Only who began the group says so for all.
    fn was_turned_away(&mut self, by: &PublisherId, why: TurnedAway) {
        self.turned_away = self.turned_away.saturating_add(1);
        let by_founder = *by == self.group.founder;
        let is_news = self.told_turned_away.is_none_or(|by| by_founder && !by);
        if is_news && (by_founder || self.turned_away >= TURNED_AWAY) {
            self.told_turned_away = Some(by_founder);
            let _ = self.news.send(MeshNews::TurnedAway { by_founder, why });
        }
    }

    fn give_up(&mut self, links: &mut dyn Links, face: FaceId) {
        if let Some(stream) = self.streams.remove(&face) {
            links.abandon(face, stream.stream);
            if stream.dialled.is_some() {
                links.hang_up(face, "the member has nothing more to say");
            }
            self.ended(links.now(), face, Some(&stream));
        }
    }

    /// A face is gone, and its stream with it.
    pub(super) fn face_down(&mut self, now: Duration, face: FaceId) {
        let stream = self.streams.remove(&face);
        self.ended(now, face, stream.as_ref());
    }

    /// Whoever was dialled by this face, or spoke on it, is to be found in another way.
    fn ended(&mut self, now: Duration, face: FaceId, stream: Option<&Stream>) {
        let dials = self.dials.iter_mut();
        let tried: Vec<PublisherId> =
            dials.filter_map(|(who, dial)| dial.faces.remove(&face).then_some(*who)).collect();
        if let Some(member) = stream.and_then(|stream| stream.member) {
            self.lost(now, member, true);
        }
        tried.into_iter().for_each(|member| self.lost(now, member, false));
    }

    /// Does what is due.
    pub(super) fn handle_timeout(&mut self, links: &mut dyn Links, now: Duration) {
        let over = self.streams.iter().filter(|(_, s)| s.ends.is_some_and(|ends| ends <= now));
        let over: Vec<FaceId> = over.map(|(face, _)| *face).collect();
        over.into_iter().for_each(|face| self.give_up(links, face));
        if now >= self.refill {
            self.refill = now + A_WHILE;
            self.begin_a_while(links);
        }
        self.choose(links);
        self.dial_who_is_away(links, now);
    }

    /// What is done once a second.
    fn begin_a_while(&mut self, links: &mut dyn Links) {
        self.expire(links);
        let held: Vec<FaceId> = (self.streams.iter_mut())
            .filter_map(|(face, stream)| stream.inbox.begin().then_some(*face))
            .collect();
        held.into_iter().for_each(|face| self.serve(links, face));
        if self.waits_for_proofs() {
            self.ask(links);
            let there = self.streams.values().filter_map(|stream| stream.member).collect();
            for said in self.heard.silent(&there) {
                let _ = self.news.send(MeshNews::Unproven(Box::new(said)));
            }
        }
    }

    /// Whether somebody is there who is to show that its history goes on.
    fn waits_for_proofs(&self) -> bool {
        let mut there = self.streams.values().filter_map(|stream| stream.member);
        there.any(|member| self.heard.question(&member).is_some())
    }

    /// When [`Mesh::handle_timeout`] has something to do.
    pub(super) fn poll_timeout(&self) -> Option<Duration> {
        let held = self.streams.values().any(|stream| stream.inbox.is_full());
        let may_end = self.members.roles().schema.is_some();
        let held = (held || may_end || self.waits_for_proofs()).then_some(self.refill);
        let speaks = self.said.is_some();
        // They are chosen at once.
        let Some(chosen) = &self.chosen else { return Some(Duration::ZERO) };
        let dials = chosen.iter().filter(|_| speaks).filter_map(|who| self.dials.get(who));
        let ends = self.streams.values().filter_map(|stream| stream.ends);
        dials.filter_map(|dial| dial.again).chain(held).chain(ends).min()
    }
}
