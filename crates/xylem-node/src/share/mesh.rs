//! [`Mesh`]: the members of a group (docs/spec/sync.md, "Folders") over links: each has a stream to each other, on which
//! everybody's newest statements travel. Who they are is theirs to say; what they have is fetched elsewhere.

use std::collections::BTreeMap;
use std::sync::mpsc;
use std::time::Duration;

use xylem_engine::StreamEvent;
use xylem_forward::FaceId;
use xylem_library::folder::{
    Group, Heard, Histories, MAX_MEMBERS, Membership, MeshNews, MeshStart, NotAdmitted, Question,
    Roles, Statement, StatementError,
};
use xylem_link::{StreamId, purpose};
use xylem_object::PublisherId;

mod dial;
mod links;
#[cfg(test)]
mod simulated;
mod stream;

use dial::Dial;
use links::Links;
use stream::Stream;

/// Streams at most.
const MAX_STREAMS: usize = 2 * MAX_MEMBERS;
/// What is too much for a while waits in the stream's window.
const A_WHILE: Duration = Duration::from_secs(1);
/// Bytes that may wait for a link before it is given up: more than all statements of all members.
const MAX_WAITING: usize = 8 << 20;

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
    dials: BTreeMap<[u8; 32], Dial>,
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
        let MeshStart { group, own, first, known, roles, history, rewrote } = start;
        let members = Membership::new(group.founder, roles, links.wall_ms());
        let mut mesh = Self {
            group,
            own,
            said: None,
            heard: Histories::new(history, rewrote),
            members,
            told_old: false,
            streams: BTreeMap::new(),
            dials: BTreeMap::new(),
            refill: Duration::ZERO,
            news,
        };
        if let Some((ticket, key)) = first.and_then(|ticket| Some((ticket.link_key?, ticket))) {
            mesh.dial_at(links, ticket, &key);
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
        self.said = Some(said);
    }

    fn take_roles(&mut self, links: &mut dyn Links, roles: Roles) {
        if self.members.take(roles) {
            self.drop_others(links);
        }
    }

    /// Whose certificates have ended is told nothing of what comes next.
    fn expire(&mut self, links: &mut dyn Links) {
        if self.members.expire(links.wall_ms()) {
            self.drop_others(links);
        }
    }

    /// Who is no member any more is told nothing more.
    fn drop_others(&mut self, links: &mut dyn Links) {
        for key in self.heard.retain(&mut self.members, links.wall_ms()) {
            if let Some(dial) = self.dials.remove(&key) {
                dial.faces.into_iter().for_each(|face| links.hang_up(face, "not a member"));
            }
            let of = |(face, stream): (&FaceId, &Stream)| (stream.key == key).then_some(*face);
            let faces: Vec<FaceId> = self.streams.iter().filter_map(of).collect();
            faces.into_iter().for_each(|face| self.give_up(links, face));
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
        let before = self.heard.link_key(&said.member);
        match self.heard.hear(said.clone(), bytes.clone()) {
            Heard::New => {}
            Heard::Rewrote(both) => {
                self.tell_rewrote(links, said, both);
                return false;
            }
            Heard::Unproven(true) => {
                self.ask(links);
                return false;
            }
            Heard::Unproven(false) | Heard::Nothing => return false,
        }
        let moved = before.filter(|before| *before != said.link_key);
        moved.iter().for_each(|key| drop(self.dials.remove(key)));
        self.dial_at(links, said.link_key, &said.index);
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
        for (face, stream) in self.streams.iter_mut().filter(|(_, stream)| stream.admitted) {
            for question in self.heard.questions(&stream.key) {
                stream.queue(&question.to_bytes());
            }
            stream.write(links, *face);
        }
    }

    /// Shows that our log goes on.
    fn answer(&mut self, links: &mut dyn Links, face: FaceId, asked: &Question) {
        if asked.member == self.own
            && let Some(proof) = self.heard.prove(asked, links.now())
            && let Some(stream) = self.streams.get_mut(&face)
        {
            stream.queue(&asked.answer(&proof));
            stream.write(links, face);
        }
    }

    /// A member answers.
    fn answered(&mut self, links: &mut dyn Links, key: &[u8; 32], asked: &Question, proof: &[u8]) {
        match self.heard.answered(key, asked, proof) {
            None => {}
            Some((said, _, Heard::Rewrote(both))) => self.tell_rewrote(links, said, both),
            Some((said, bytes, _)) => {
                self.dial_at(links, said.link_key, &said.index);
                let _ = self.news.send(MeshNews::Said(Box::new(said), bytes.clone()));
                self.tell_all(links, &bytes, None);
            }
        }
    }

    fn is_up(&self, key: &[u8; 32]) -> bool {
        self.streams.values().any(|stream| stream.admitted && stream.key == *key)
    }

    /// A face came up: if we have dialled it there is somebody to talk to.
    pub(super) fn came_up(&mut self, links: &mut dyn Links, face: FaceId) {
        let Some(key) = links.peer_key(face) else { return };
        if !self.dials.get(&key).is_some_and(|dial| dial.faces.contains(&face)) {
            return;
        }
        if self.is_up(&key) {
            for dial in self.dials.values_mut() {
                dial.faces.remove(&face);
            }
            return links.hang_up(face, "the same member answered before");
        }
        let Some(stream) = links.open(face) else { return };
        links.keep(face);
        self.streams.insert(face, Stream::new(stream, key));
        if let Some((stream, said)) = self.streams.get_mut(&face).zip(self.said.as_ref()) {
            stream.queue(said);
        }
        self.admit(links, face);
    }

    /// The other end is a member: it is told everything, and first who is one.
    fn admit(&mut self, links: &mut dyn Links, face: FaceId) {
        let Some(stream) = self.streams.get_mut(&face) else { return };
        stream.admitted = true;
        let key = stream.key;
        // Whoever comes has said who it is before; said once more that costs little.
        let (founder, own) = (&self.group.founder, self.said.iter());
        let mut all = self.heard.all(founder).peekable();
        let first = if self.own == *founder { None } else { all.next() };
        first.into_iter().chain(own).chain(all).for_each(|said| stream.queue(said));
        for question in self.heard.questions(&key) {
            stream.queue(&question.to_bytes());
        }
        stream.write(links, face);
        if let Some(dial) = self.dials.get_mut(&key) {
            dial.again = None;
        }
        let _ = self.news.send(MeshNews::Up(key, true));
        self.drop_twin(links, key);
    }

    /// Where two have dialled each other at the same moment one link is too many, on which all would be said once more.
    /// The one that the smaller key has dialled stays: whoever has the larger one hangs up, after the other has come.
    fn drop_twin(&mut self, links: &mut dyn Links, key: [u8; 32]) {
        let Some(dial) = self.dials.get(&key).filter(|_| links.own_key() > key) else { return };
        let to_it = self.streams.iter().filter(|(_, stream)| stream.admitted && stream.key == key);
        let (ours, theirs): (Vec<FaceId>, Vec<FaceId>) =
            to_it.map(|(face, _)| *face).partition(|face| dial.faces.contains(face));
        if !theirs.is_empty() {
            ours.into_iter().for_each(|face| self.give_up(links, face));
        }
    }

    fn tell_all(&mut self, links: &mut dyn Links, said: &[u8], but: Option<FaceId>) {
        let mut slow = Vec::new();
        for (face, stream) in &mut self.streams {
            if stream.admitted && Some(*face) != but {
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
                self.streams.insert(face, Stream::new(stream, key));
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
        if !self.streams.get_mut(&face).is_some_and(|stream| stream.write(links, face)) {
            return self.give_up(links, face);
        }
        loop {
            let Some(stream) = self.streams.get_mut(&face) else { return };
            let said = match stream.next(links, face) {
                Ok(Some(said)) => said,
                Ok(None) => return,
                Err(()) => return self.give_up(links, face),
            };
            let (admitted, key) = (stream.admitted, stream.key);
            if admitted {
                if self.heard.knows(&said) {
                    stream.inbox.was_known();
                    self.speaks(&key);
                    continue;
                }
                if let Some(asked) = Question::read(&said) {
                    self.answer(links, face, &asked);
                    continue;
                }
                if let Some((asked, proof)) = Question::read_answer(&said) {
                    self.answered(links, &key, &asked, proof);
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
            self.speaks(&key);
            if !admitted {
                // Whoever comes says first who it is: the owner of the key that the link has proven.
                let (member, shown) = (&statement.member, &statement.shown);
                let judged = self.members.hear(member, shown, links.wall_ms());
                if statement.link_key != key || judged.is_err() {
                    if let Err(why) = judged
                        && statement.link_key == key
                    {
                        self.tell_applies(statement, why);
                    }
                    return self.give_up(links, face);
                }
                links.keep(face);
                let news = self.learn(links, statement, said.clone());
                self.admit(links, face);
                if news {
                    self.tell_all(links, &said, Some(face));
                }
            } else if self.learn(links, statement, said.clone()) {
                self.tell_all(links, &said, Some(face));
            }
        }
    }

    fn speaks(&mut self, key: &[u8; 32]) {
        if let Some(dial) = self.dials.get_mut(key) {
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

    fn give_up(&mut self, links: &mut dyn Links, face: FaceId) {
        if let Some(stream) = self.streams.remove(&face) {
            links.abandon(face, stream.stream);
            let mut ours = false;
            self.dials.values_mut().for_each(|dial| ours |= dial.faces.remove(&face));
            if ours {
                links.hang_up(face, "the member has nothing more to say");
            }
            self.lost(links.now(), stream.key, stream.admitted);
        }
    }

    /// A face is gone, and its stream with it.
    pub(super) fn face_down(&mut self, now: Duration, face: FaceId) {
        let mut keys: Vec<[u8; 32]> = Vec::new();
        for (key, dial) in &mut self.dials {
            if dial.faces.remove(&face) {
                keys.push(*key);
            }
        }
        let stream = self.streams.remove(&face);
        if let Some(stream) = &stream {
            self.lost(now, stream.key, stream.admitted);
        }
        keys.into_iter().for_each(|key| self.lost(now, key, false));
    }

    /// Does what is due.
    pub(super) fn handle_timeout(&mut self, links: &mut dyn Links, now: Duration) {
        self.dial_who_is_away(links, now);
        if now < self.refill {
            return;
        }
        self.refill = now + A_WHILE;
        self.expire(links);
        let held: Vec<FaceId> = (self.streams.iter_mut())
            .filter_map(|(face, stream)| stream.inbox.begin().then_some(*face))
            .collect();
        held.into_iter().for_each(|face| self.serve(links, face));
        if self.waits_for_proofs() {
            self.ask(links);
            for said in self.heard.silent() {
                let _ = self.news.send(MeshNews::Unproven(Box::new(said)));
            }
        }
    }

    /// Whether somebody is there who is to show that its history goes on.
    fn waits_for_proofs(&self) -> bool {
        let mut there = self.streams.values().filter(|stream| stream.admitted);
        there.any(|stream| !self.heard.questions(&stream.key).is_empty())
    }

    /// When [`Mesh::handle_timeout`] has something to do.
    pub(super) fn poll_timeout(&self) -> Option<Duration> {
        let held = self.streams.values().any(|stream| stream.inbox.is_full());
        let may_end = self.members.roles().schema.is_some();
        let held = (held || may_end || self.waits_for_proofs()).then_some(self.refill);
        let dials = self.dials.values().filter(|_| self.said.is_some());
        dials.filter_map(|dial| dial.again).chain(held).min()
    }
}
