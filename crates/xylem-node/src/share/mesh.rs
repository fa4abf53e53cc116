//! [`Mesh`]: the members of a group (docs/spec/sync.md, "Folders") over links: each has a stream to each other, on which
//! everybody's newest statements travel. Who they are is theirs to say; what they have is fetched elsewhere.

use std::collections::HashMap;
use std::sync::mpsc;
use std::time::Duration;

use xylem_engine::{Engine, StreamEvent, wall_clock};
use xylem_forward::FaceId;
use xylem_library::folder::{
    Group, Heard, Histories, MAX_MEMBERS, Membership, MeshNews, MeshStart, NotAdmitted, Question,
    Roles, Statement, StatementError,
};
use xylem_link::{StreamId, purpose};
use xylem_object::PublisherId;

mod dial;
mod stream;

use dial::Dial;
use stream::Stream;

/// Streams at most.
const MAX_STREAMS: usize = 2 * MAX_MEMBERS;
/// What is too much for a while waits in the stream's window.
const A_WHILE: Duration = Duration::from_secs(1);
/// Bytes that may wait for a link before it is given up: more than all statements of all members.
const MAX_WAITING: usize = 8 << 20;
/// What a stream that is not understood is reset with.
const NOT_UNDERSTOOD: u32 = 1;

/// See the module's text.
pub(super) struct Mesh {
    group: Group,
    own: PublisherId,
    /// What we say.
    said: Option<Vec<u8>>,
    heard: Histories,
    members: Membership,
    told_old: bool,
    streams: HashMap<FaceId, Stream>,
    dials: HashMap<[u8; 32], Dial>,
    /// When links may send again.
    refill: Duration,
    news: mpsc::Sender<MeshNews>,
}

fn now_ms() -> u64 {
    wall_clock().milliseconds()
}

impl Mesh {
    pub(super) fn new(engine: &mut Engine, start: MeshStart, news: mpsc::Sender<MeshNews>) -> Self {
        let MeshStart { group, own, first, known, roles, history, rewrote } = start;
        let members = Membership::new(group.founder, roles, now_ms());
        let mut mesh = Self {
            group,
            own,
            said: None,
            heard: Histories::new(history, rewrote),
            members,
            told_old: false,
            streams: HashMap::new(),
            dials: HashMap::new(),
            refill: Duration::ZERO,
            news,
        };
        if let Some((ticket, key)) = first.and_then(|ticket| Some((ticket.link_key?, ticket))) {
            mesh.dial_at(engine, ticket, &key);
        }
        for (statement, bytes) in known {
            mesh.learn(engine, statement, bytes);
        }
        mesh
    }

    /// Says something new of ourselves, if it is not empty, and who may do what.
    pub(super) fn say(&mut self, engine: &mut Engine, said: Vec<u8>, roles: Option<Roles>) {
        if let Some(roles) = roles {
            self.take_roles(engine, roles);
        }
        self.expire(engine);
        if said.is_empty() {
            return;
        }
        self.heard.own = Statement::read(&said, &self.group).ok().map(|said| said.past);
        self.tell_all(engine, &said, None);
        self.said = Some(said);
    }

    fn take_roles(&mut self, engine: &mut Engine, roles: Roles) {
        if self.members.take(roles) {
            self.drop_others(engine);
        }
    }

    /// Whose certificates have ended is told nothing of what comes next.
    fn expire(&mut self, engine: &mut Engine) {
        if self.members.expire(now_ms()) {
            self.drop_others(engine);
        }
    }

    /// Who is no member any more is told nothing more.
    fn drop_others(&mut self, engine: &mut Engine) {
        for key in self.heard.retain(&mut self.members, now_ms()) {
            if let Some(dial) = self.dials.remove(&key) {
                dial.faces.into_iter().for_each(|face| engine.drop_face(face, "not a member"));
            }
            let of = |(face, stream): (&FaceId, &Stream)| (stream.key == key).then_some(*face);
            let faces: Vec<FaceId> = self.streams.iter().filter_map(of).collect();
            faces.into_iter().for_each(|face| self.give_up(engine, face));
        }
    }

    /// A member's statement; false if it is nothing new.
    fn learn(&mut self, engine: &mut Engine, said: Statement, bytes: Vec<u8>) -> bool {
        if said.member == self.own {
            if self.heard.is_not_ours(&said) {
                let _ = self.news.send(MeshNews::Twice);
            }
            return false;
        }
        // They hold whatever else is wrong: who is removed is, although the founder can't be asked.
        if let Some(roles) = said.roles.clone() {
            self.take_roles(engine, roles);
        }
        let heard = self.members.hear(&said.member, &said.shown, now_ms());
        self.expire(engine);
        if heard.is_err() {
            return false;
        }
        let before = self.heard.link_key(&said.member);
        match self.heard.hear(said.clone(), bytes.clone()) {
            Heard::New => {}
            Heard::Rewrote(both) => {
                self.tell_rewrote(engine, said, both);
                return false;
            }
            Heard::Unproven(true) => {
                self.ask(engine);
                return false;
            }
            Heard::Unproven(false) | Heard::Nothing => return false,
        }
        let moved = before.filter(|before| *before != said.link_key);
        moved.iter().for_each(|key| drop(self.dials.remove(key)));
        self.dial_at(engine, said.link_key, &said.index);
        // Where nobody keeps the folder any more all is over.
        let _ = self.news.send(MeshNews::Said(Box::new(said), bytes));
        true
    }

    /// All are to know, so that nobody believes it.
    fn tell_rewrote(&mut self, engine: &mut Engine, said: Statement, both: [Vec<u8>; 2]) {
        both.iter().for_each(|said| self.tell_all(engine, said, None));
        let _ = self.news.send(MeshNews::Rewrote(Box::new(said), both));
    }

    /// Asks those whose newest statements are too far from what we know of them.
    fn ask(&mut self, engine: &mut Engine) {
        for (face, stream) in self.streams.iter_mut().filter(|(_, stream)| stream.admitted) {
            for question in self.heard.questions(&stream.key) {
                stream.queue(&question.to_bytes());
            }
            stream.write(engine, *face);
        }
    }

    /// Shows that our log goes on.
    fn answer(&mut self, engine: &mut Engine, face: FaceId, asked: &Question) {
        if asked.member == self.own
            && let Some(proof) = self.heard.prove(asked, engine.now())
            && let Some(stream) = self.streams.get_mut(&face)
        {
            stream.queue(&asked.answer(&proof));
            stream.write(engine, face);
        }
    }

    /// A member answers.
    fn answered(&mut self, engine: &mut Engine, key: &[u8; 32], asked: &Question, proof: &[u8]) {
        match self.heard.answered(key, asked, proof) {
            None => {}
            Some((said, _, Heard::Rewrote(both))) => self.tell_rewrote(engine, said, both),
            Some((said, bytes, _)) => {
                self.dial_at(engine, said.link_key, &said.index);
                let _ = self.news.send(MeshNews::Said(Box::new(said), bytes.clone()));
                self.tell_all(engine, &bytes, None);
            }
        }
    }

    fn is_up(&self, key: &[u8; 32]) -> bool {
        self.streams.values().any(|stream| stream.admitted && stream.key == *key)
    }

    /// A face came up: if we have dialled it there is somebody to talk to.
    pub(super) fn came_up(&mut self, engine: &mut Engine, face: FaceId) {
        let Some(key) = engine.link_peer(face).map(|key| key.0) else { return };
        if !self.dials.get(&key).is_some_and(|dial| dial.faces.contains(&face)) {
            return;
        }
        if self.is_up(&key) {
            for dial in self.dials.values_mut() {
                dial.faces.remove(&face);
            }
            return engine.drop_face(face, "the same member answered before");
        }
        let Ok(stream) = engine.open_stream(face, purpose::SYNC) else { return };
        engine.keep_face(face);
        self.streams.insert(face, Stream::new(stream, key));
        if let Some((stream, said)) = self.streams.get_mut(&face).zip(self.said.as_ref()) {
            stream.queue(said);
        }
        self.admit(engine, face);
    }

    /// The other end is a member: it is told everything, and first who is one.
    fn admit(&mut self, engine: &mut Engine, face: FaceId) {
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
        stream.write(engine, face);
        if let Some(dial) = self.dials.get_mut(&key) {
            dial.again = None;
        }
        let _ = self.news.send(MeshNews::Up(key, true));
    }

    fn tell_all(&mut self, engine: &mut Engine, said: &[u8], but: Option<FaceId>) {
        let mut slow = Vec::new();
        for (face, stream) in &mut self.streams {
            if stream.admitted && Some(*face) != but {
                stream.queue(said);
                if !stream.write(engine, *face) || stream.out.len() > MAX_WAITING {
                    slow.push(*face);
                }
            }
        }
        slow.into_iter().for_each(|face| self.give_up(engine, face));
    }

    /// Something happened to a stream of a peer; false if it is none of ours.
    pub(super) fn handle(
        &mut self,
        engine: &mut Engine,
        face: FaceId,
        stream: StreamId,
        what: &StreamEvent,
    ) -> bool {
        match what {
            StreamEvent::Opened { purpose: purpose::SYNC } => {
                let Some(key) = engine.link_peer(face).map(|key| key.0) else { return false };
                if self.streams.len() >= MAX_STREAMS || self.streams.contains_key(&face) {
                    return false;
                }
                self.streams.insert(face, Stream::new(stream, key));
            }
            _ if self.streams.get(&face).is_none_or(|known| known.stream != stream) => {
                return false;
            }
            StreamEvent::Reset | StreamEvent::Stopped | StreamEvent::Delivered => {
                self.give_up(engine, face);
                return true;
            }
            _ => {}
        }
        self.serve(engine, face);
        true
    }

    fn serve(&mut self, engine: &mut Engine, face: FaceId) {
        if !self.streams.get_mut(&face).is_some_and(|stream| stream.write(engine, face)) {
            return self.give_up(engine, face);
        }
        loop {
            let Some(stream) = self.streams.get_mut(&face) else { return };
            let said = match stream.next(engine, face) {
                Ok(Some(said)) => said,
                Ok(None) => return,
                Err(()) => return self.give_up(engine, face),
            };
            let (admitted, key) = (stream.admitted, stream.key);
            if admitted {
                if self.heard.knows(&said) {
                    stream.inbox.was_known();
                    self.speaks(&key);
                    continue;
                }
                if let Some(asked) = Question::read(&said) {
                    self.answer(engine, face, &asked);
                    continue;
                }
                if let Some((asked, proof)) = Question::read_answer(&said) {
                    self.answered(engine, &key, &asked, proof);
                    continue;
                }
            }
            let statement = match Statement::read(&said, &self.group) {
                Ok(statement) => statement,
                Err(e) => {
                    if e == StatementError::Old && !std::mem::replace(&mut self.told_old, true) {
                        let _ = self.news.send(MeshNews::Old);
                    }
                    return self.give_up(engine, face);
                }
            };
            self.speaks(&key);
            if !admitted {
                // Whoever comes says first who it is: the owner of the key that the link has proven.
                let (member, shown) = (&statement.member, &statement.shown);
                let judged = self.members.hear(member, shown, now_ms());
                if statement.link_key != key || judged.is_err() {
                    if let Err(why) = judged
                        && statement.link_key == key
                    {
                        self.tell_applies(statement, why);
                    }
                    return self.give_up(engine, face);
                }
                engine.keep_face(face);
                let news = self.learn(engine, statement, said.clone());
                self.admit(engine, face);
                if news {
                    self.tell_all(engine, &said, Some(face));
                }
            } else if self.learn(engine, statement, said.clone()) {
                self.tell_all(engine, &said, Some(face));
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

    fn give_up(&mut self, engine: &mut Engine, face: FaceId) {
        if let Some(stream) = self.streams.remove(&face) {
            engine.abandon_stream(face, stream.stream, NOT_UNDERSTOOD);
            let mut ours = false;
            self.dials.values_mut().for_each(|dial| ours |= dial.faces.remove(&face));
            if ours {
                engine.drop_face(face, "the member has nothing more to say");
            }
            self.lost(engine.now(), stream.key, stream.admitted);
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
    pub(super) fn handle_timeout(&mut self, engine: &mut Engine, now: Duration) {
        self.dial_who_is_away(engine, now);
        if now < self.refill {
            return;
        }
        self.refill = now + A_WHILE;
        self.expire(engine);
        let held: Vec<FaceId> = (self.streams.iter_mut())
            .filter_map(|(face, stream)| stream.inbox.begin().then_some(*face))
            .collect();
        held.into_iter().for_each(|face| self.serve(engine, face));
        if self.waits_for_proofs() {
            self.ask(engine);
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
