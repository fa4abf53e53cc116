//! [`Mesh`]: the members of a group (docs/spec/sync.md, "Folders") over links: each has a stream to each other, on which
//! everybody's newest statements travel. Who they are is theirs to say; what they have is fetched elsewhere.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::mpsc;
use std::time::Duration;

use xylem_engine::{Engine, StreamEvent};
use xylem_forward::FaceId;
use xylem_library::folder::{Group, MAX_STATEMENT, Question, Roles, Statement, StatementError};
use xylem_library::reachable::Peer;
use xylem_link::{StreamId, StreamRead, purpose};
use xylem_mgmt::Persistency;
use xylem_object::{PublisherId, Ticket};
use xylem_reach::relay::Target;

use crate::look_up::resolved;
use crate::reaching;

mod heard;

use heard::{Heard, Histories};

/// Members whose statements are known at most.
const MAX_MEMBERS: usize = 256;
/// Streams at most.
const MAX_STREAMS: usize = 2 * MAX_MEMBERS;
/// Statements that are read from one link in [`A_WHILE`]; the rest waits in the stream's window.
const STATEMENTS: u32 = 64;
const A_WHILE: Duration = Duration::from_secs(1);
/// Proofs of our history that are made in [`A_WHILE`].
const PROOFS: u32 = 8;
/// Strangers with the ticket that the founder is told of.
const MAX_APPLICANTS: usize = 64;
/// Pause before a member that is away is dialled again; longer each time.
const REDIAL: Duration = Duration::from_secs(1);
const LONGEST_REDIAL: Duration = Duration::from_secs(60);
/// Bytes that may wait for a link before it is given up: more than all statements of all members.
const MAX_WAITING: usize = 8 << 20;
/// What a stream that is not understood is reset with.
const NOT_UNDERSTOOD: u32 = 1;

/// What a group's members have said, for whoever keeps a folder in step.
#[derive(Debug)]
pub enum MeshNews {
    /// A member's newest statement, and as it was signed.
    Said(Box<Statement>, Vec<u8>),
    /// There is a link to whoever has this key; or none any more.
    Up([u8; 32], bool),
    /// A member has signed two statements that are not of one history: nothing of it is taken any more.
    Rewrote(Box<Statement>, [Vec<u8>; 2]),
    /// A member does not show that what it says goes on where it was: nothing newer of it is taken until it does.
    Unproven(Box<Statement>),
    /// Somebody says other things with our key.
    Twice,
    /// Somebody has the ticket, and is none of those who are members since the group is closed.
    Applies(Box<Statement>),
    /// Somebody has the ticket, and an older program.
    Old,
}

/// How a mesh begins.
pub struct MeshStart {
    /// Which group.
    pub group: Group,
    /// Who we are in it.
    pub own: PublisherId,
    /// Who has invited us.
    pub first: Option<Ticket>,
    /// What members have said before.
    pub known: Vec<(Statement, Vec<u8>)>,
    /// What the founder has said of members.
    pub roles: Roles,
    /// The log of what we have said.
    pub history: PathBuf,
    /// Those who have rewritten theirs, and what shows it.
    pub rewrote: Vec<(PublisherId, [Vec<u8>; 2])>,
}

/// See the module's text.
pub(super) struct Mesh {
    group: Group,
    own: PublisherId,
    /// What we say.
    said: Option<Vec<u8>>,
    heard: Histories,
    roles: Roles,
    /// Strangers that the founder was told of.
    applicants: HashSet<PublisherId>,
    told_old: bool,
    /// Proofs that may still be made until then.
    proofs: (u32, Duration),
    streams: HashMap<FaceId, Stream>,
    dials: HashMap<[u8; 32], Dial>,
    /// When links may send again.
    refill: Duration,
    news: mpsc::Sender<MeshNews>,
}

struct Stream {
    stream: StreamId,
    /// The key that the other end has proven.
    key: [u8; 32],
    /// It is a member's.
    admitted: bool,
    out: Vec<u8>,
    read: Vec<u8>,
    /// Statements that may still be read in this while.
    left: u32,
}

struct Dial {
    peers: Vec<Peer>,
    faces: HashSet<FaceId>,
    again: Option<Duration>,
    pause: Duration,
}

impl Mesh {
    pub(super) fn new(engine: &mut Engine, start: MeshStart, news: mpsc::Sender<MeshNews>) -> Self {
        let MeshStart { group, own, first, known, roles, history, rewrote } = start;
        let mut mesh = Self {
            group,
            own,
            said: None,
            heard: Histories::new(history, rewrote),
            roles,
            applicants: HashSet::new(),
            told_old: false,
            proofs: (PROOFS, Duration::ZERO),
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

    /// Says something new of ourselves, and who may do what.
    pub(super) fn say(&mut self, engine: &mut Engine, said: Vec<u8>, roles: Option<Roles>) {
        if let Some(roles) = roles {
            self.take_roles(engine, roles);
        }
        self.heard.own = Statement::read(&said, &self.group).ok().map(|said| said.past);
        self.tell_all(engine, &said, None);
        self.said = Some(said);
    }

    fn take_roles(&mut self, engine: &mut Engine, roles: Roles) {
        if roles.number <= self.roles.number {
            return;
        }
        self.roles = roles;
        let removed = self.heard.retain(&self.roles);
        for key in removed {
            if let Some(dial) = self.dials.remove(&key) {
                dial.faces.into_iter().for_each(|face| engine.drop_face(face, "not a member"));
            }
            let of = |(face, stream): (&FaceId, &Stream)| (stream.key == key).then_some(*face);
            let faces: Vec<FaceId> = self.streams.iter().filter_map(of).collect();
            faces.into_iter().for_each(|face| self.give_up(engine, face));
        }
    }

    /// Dials whoever has this link key, where the ticket says that it is.
    fn dial_at(&mut self, engine: &mut Engine, key: [u8; 32], ticket: &Ticket) {
        if key == engine.link_key().0 {
            return;
        }
        let mut peers: Vec<Peer> = resolved(&ticket.addresses)
            .0
            .into_iter()
            .map(|address| Peer::Link { address, key: Some(key) })
            .collect();
        if let Some(relay) = ticket.relay.clone()
            && let Ok(relay) = reaching::to_dial(&relay.into())
            && engine.use_relay(relay.clone()).is_ok()
        {
            peers.extend(reaching::through(&relay, Some(key), Target::Key(key)));
        }
        let now = engine.now();
        let dial = self.dials.entry(key).or_insert_with(|| Dial {
            peers: Vec::new(),
            faces: HashSet::new(),
            again: Some(now),
            pause: REDIAL,
        });
        if dial.peers != peers {
            // It is somewhere else now.
            dial.pause = REDIAL;
            dial.again = dial.again.map(|_| now);
            dial.peers = peers;
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
        if !self.roles.admits(&said.member) {
            return false;
        }
        let before = self.heard.link_key(&said.member);
        match self.heard.hear(said.clone(), bytes.clone()) {
            Heard::Nothing => return false,
            Heard::Rewrote(both) => {
                self.tell_rewrote(engine, said, both);
                return false;
            }
            Heard::Unproven(first) => {
                if before == Some(said.link_key) {
                    self.dial_at(engine, said.link_key, &said.index);
                }
                if first {
                    self.ask(engine);
                }
                return false;
            }
            Heard::New => {}
        }
        if let Some(before) = before.filter(|before| *before != said.link_key) {
            self.dials.remove(&before);
        }
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
        let mut lost = Vec::new();
        for (face, stream) in self.streams.iter_mut().filter(|(_, stream)| stream.admitted) {
            for question in self.heard.questions(&stream.key) {
                stream.queue(&question.to_bytes());
            }
            if !stream.write(engine, *face) {
                lost.push(*face);
            }
        }
        lost.into_iter().for_each(|face| self.give_up(engine, face));
    }

    /// Shows that our log goes on; who asks too often is not answered, and asks again.
    fn answer(&mut self, engine: &mut Engine, face: FaceId, asked: &Question) {
        let now = engine.now();
        if now >= self.proofs.1 {
            self.proofs = (PROOFS, now + A_WHILE);
        }
        let Some(left) = self.proofs.0.checked_sub(1).filter(|_| asked.member == self.own) else {
            return;
        };
        self.proofs.0 = left;
        let Some(proof) = self.heard.prove(asked) else { return };
        if let Some(stream) = self.streams.get_mut(&face) {
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

    /// Somebody who has the ticket is no member: the founder may want to know.
    fn refused(&mut self, said: Statement) {
        if self.own == self.group.founder
            && !self.roles.members.contains_key(&said.member)
            && self.applicants.len() < MAX_APPLICANTS
            && self.applicants.insert(said.member)
        {
            let _ = self.news.send(MeshNews::Applies(Box::new(said)));
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
        self.admit(engine, face);
    }

    /// The other end is a member: it is told everything.
    fn admit(&mut self, engine: &mut Engine, face: FaceId) {
        let Some(stream) = self.streams.get_mut(&face) else { return };
        stream.admitted = true;
        let key = stream.key;
        self.said.iter().chain(self.heard.all()).for_each(|said| stream.queue(said));
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
            // It speaks to us: whoever is refused is dialled ever more rarely.
            if let Some(dial) = self.dials.get_mut(&key) {
                dial.pause = REDIAL;
            }
            if !admitted {
                // Whoever comes says first who it is: the owner of the key that the link has proven.
                if statement.link_key != key || !self.roles.admits(&statement.member) {
                    if statement.link_key == key {
                        self.refused(statement);
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

    /// A way to a member is gone: where it was the last one another is looked for.
    fn lost(&mut self, now: Duration, key: [u8; 32], was_up: bool) {
        if self.is_up(&key) {
            return;
        }
        if was_up {
            let _ = self.news.send(MeshNews::Up(key, false));
        }
        if let Some(dial) = self.dials.get_mut(&key)
            && dial.faces.is_empty()
            && dial.again.is_none()
        {
            dial.again = Some(now + dial.pause);
            dial.pause = (dial.pause * 2).min(LONGEST_REDIAL);
        }
    }

    /// Does what is due.
    pub(super) fn handle_timeout(&mut self, engine: &mut Engine, now: Duration) {
        let up: HashSet<[u8; 32]> =
            self.streams.values().filter(|s| s.admitted).map(|s| s.key).collect();
        for (key, dial) in &mut self.dials {
            if dial.again.is_none_or(|again| again > now) {
                continue;
            }
            dial.again = None;
            if up.contains(key) {
                continue;
            }
            let dialled = dial
                .peers
                .iter()
                .filter_map(|peer| engine.dial(peer, Persistency::Persistent).ok());
            dial.faces.extend(dialled);
            if dial.faces.is_empty() {
                dial.again = Some(now + dial.pause);
                dial.pause = (dial.pause * 2).min(LONGEST_REDIAL);
            }
        }
        if now < self.refill {
            return;
        }
        self.refill = now + A_WHILE;
        let held: Vec<FaceId> = (self.streams.iter_mut())
            .filter_map(|(face, stream)| {
                let left = std::mem::replace(&mut stream.left, STATEMENTS);
                (left == 0).then_some(*face)
            })
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
        let held = self.streams.values().any(|stream| stream.left == 0);
        let held = (held || self.waits_for_proofs()).then_some(self.refill);
        self.dials.values().filter_map(|dial| dial.again).chain(held).min()
    }
}

impl Stream {
    fn new(stream: StreamId, key: [u8; 32]) -> Self {
        let (out, read) = (Vec::new(), Vec::new());
        Self { stream, key, admitted: false, out, read, left: STATEMENTS }
    }

    fn queue(&mut self, said: &[u8]) {
        // Statements are far below that.
        self.out.extend_from_slice(&u32::try_from(said.len()).unwrap_or(0).to_be_bytes());
        self.out.extend_from_slice(said);
    }

    /// Writes what the stream takes; false if it is of no more use.
    fn write(&mut self, engine: &mut Engine, face: FaceId) -> bool {
        while !self.out.is_empty() {
            match engine.write_stream(face, self.stream, &self.out) {
                Ok(0) => return true,
                Ok(taken) => drop(self.out.drain(..taken)),
                Err(_) => return false,
            }
        }
        true
    }

    /// The first statement of what was read, if it is whole and may be taken yet; an error for one that is too long.
    fn taken(&mut self) -> Result<Option<Vec<u8>>, ()> {
        let Some((len, rest)) = self.read.split_first_chunk::<4>() else { return Ok(None) };
        let len = usize::try_from(u32::from_be_bytes(*len)).map_err(drop)?;
        if len > MAX_STATEMENT {
            return Err(());
        }
        let said = rest.get(..len).filter(|_| self.left > 0).map(<[u8]>::to_vec);
        if said.is_some() {
            self.read.drain(..4 + len);
            self.left -= 1;
        }
        Ok(said)
    }

    /// The next statement that is here; an error if the stream is of no more use.
    fn next(&mut self, engine: &mut Engine, face: FaceId) -> Result<Option<Vec<u8>>, ()> {
        loop {
            if self.left == 0 {
                return Ok(None);
            }
            if let Some(said) = self.taken()? {
                return Ok(Some(said));
            }
            match engine.read_stream(face, self.stream).map_err(drop)? {
                StreamRead::Data(bytes) => self.read.extend_from_slice(&bytes),
                StreamRead::Pending => return Ok(None),
                StreamRead::Finished => return Err(()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream(read: &[u8]) -> Stream {
        let mut stream = Stream::new(StreamId(4), [1; 32]);
        stream.read.extend_from_slice(read);
        stream
    }

    /// What is more waits in the window of the stream until a second is over.
    #[test]
    fn a_member_that_says_much_is_heard_64_times_a_second() {
        let mut saying = stream(&[]);
        for n in 0..100_u8 {
            saying.queue(&[n; 500]);
        }
        let mut heard = stream(&saying.out);
        for second in [0..64_u8, 64..100] {
            for n in second {
                assert_eq!(heard.taken(), Ok(Some(vec![n; 500])));
            }
            assert_eq!(heard.taken(), Ok(None));
            heard.left = STATEMENTS;
        }
        assert!(heard.read.is_empty());
    }

    #[test]
    fn what_is_too_long_for_a_statement_is_not_waited_for() {
        let longest = u32::try_from(MAX_STATEMENT).unwrap();
        assert_eq!(stream(&longest.to_be_bytes()).taken(), Ok(None));
        assert_eq!(stream(&(longest + 1).to_be_bytes()).taken(), Err(()));
        assert_eq!(stream(&[255; 4]).taken(), Err(()));
    }
}
