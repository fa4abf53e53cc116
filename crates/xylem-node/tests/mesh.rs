//! Members of a group on one machine, over real sockets, each behind a path that delays datagrams and loses one of
//! twenty. All members receive each other's latest statements. src/share/mesh/simulated.rs tests cut paths and crashes
//! under virtual time.

use std::collections::HashMap;
use std::net::{SocketAddr, UdpSocket};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use xylem_base::Stop;
use xylem_files::walk::Selection;
use xylem_folder::{MemberLog, MemberStatement, Past, Roles, SyncGroup};
use xylem_link::StaticKey;
use xylem_node::{
    AnnounceOptions, Event, LinkOptions, MeshNews, MeshStart, Prove, ServiceHandle, ShareOptions,
    serve_group,
};
use xylem_object::{PublisherId, PublisherKey, Ticket};
use xylem_peers::reachable::PeerAddress;

const MEMBERS: u8 = 10;
const UPDATES: u64 = 1_000;
/// One-way delay.
const DELAY: Duration = Duration::from_millis(25);
/// Losses in a hundred datagrams.
const LOST: u64 = 5;

/// Datagrams in transit, in order of arrival.
type Wire = Sender<(Instant, Arc<UdpSocket>, Option<SocketAddr>, Vec<u8>)>;

fn wire() -> Wire {
    let (send, sent) = mpsc::channel::<(Instant, Arc<UdpSocket>, Option<SocketAddr>, Vec<u8>)>();
    thread::spawn(move || {
        let mut chance = 7_u64;
        for (due, socket, to, datagram) in sent {
            thread::sleep(due.saturating_duration_since(Instant::now()));
            chance = chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            if chance >> 33 & 0xFFFF < LOST * 0x10000 / 100 {
                continue;
            }
            let _ = match to {
                Some(to) => socket.send_to(&datagram, to),
                None => socket.send(&datagram),
            };
        }
    });
    send
}

/// An address at which the peer that listens at `to` is reached over such a path.
fn far_from(to: SocketAddr, wire: &Wire) -> SocketAddr {
    let outside = Arc::new(UdpSocket::bind("127.0.0.1:0").unwrap());
    let address = outside.local_addr().unwrap();
    let wire = wire.clone();
    thread::spawn(move || {
        let mut inside: HashMap<SocketAddr, Arc<UdpSocket>> = HashMap::new();
        let mut buffer = vec![0; 1 << 16];
        while let Ok((len, from)) = outside.recv_from(&mut buffer) {
            let socket = inside.entry(from).or_insert_with(|| {
                let socket = Arc::new(UdpSocket::bind("127.0.0.1:0").unwrap());
                socket.connect(to).unwrap();
                let (back, outside, wire) = (socket.clone(), outside.clone(), wire.clone());
                thread::spawn(move || {
                    let mut buffer = vec![0; 1 << 16];
                    while let Ok(len) = back.recv(&mut buffer) {
                        let due = Instant::now() + DELAY;
                        let datagram = buffer[..len].to_vec();
                        let _ = wire.send((due, outside.clone(), Some(from), datagram));
                    }
                });
                socket
            });
            let due = Instant::now() + DELAY;
            let _ = wire.send((due, socket.clone(), None, buffer[..len].to_vec()));
        }
    });
    address
}

struct Member {
    key: PublisherKey,
    link_key: [u8; 32],
    address: SocketAddr,
    handle: ServiceHandle,
    /// The latest number received from each member, and when the last news arrived.
    heard: Arc<Mutex<(HashMap<PublisherId, u64>, Instant)>>,
    up: Arc<Mutex<usize>>,
    log: MemberLog,
    number: u64,
}

impl Member {
    fn start(
        group: &SyncGroup,
        n: u8,
        dir: &std::path::Path,
        first: Option<Ticket>,
        wire: &Wire,
        stop: &Stop,
    ) -> Self {
        std::fs::create_dir_all(dir.join("keys")).unwrap();
        let key = PublisherKey::from_bytes(&xylem_keys::load_or_create(&dir.join("key")).unwrap());
        let link_key = xylem_keys::load_or_create(&dir.join("keys").join("link")).unwrap();
        let options = ShareOptions {
            paths: Vec::new(),
            name: None,
            key_file: Some(dir.join("key")),
            identity: None,
            selection: Selection::default(),
            recipients: None,
            listen: vec![PeerAddress::Link { address: "127.0.0.1:0".parse().unwrap(), key: None }],
            announce: Vec::new(),
            relay_list: None,
            relays: Vec::new(),
            certificate: None,
            plain: Vec::new(),
            web: Vec::new(),
            pages: Vec::new(),
            prove: Prove::default(),
            via: Vec::new(),
            links: LinkOptions::default(),
            accept_open: false,
            follow: None,
            beside: AnnounceOptions::default(),
            code: false,
            code_dht: None,
            witnesses: Vec::new(),
            store: dir.to_path_buf(),
            medium: xylem_base::FileMedium::default(),
        };
        let (tell, news) = mpsc::channel();
        let start = MeshStart {
            group: group.clone(),
            own: key.public(),
            first,
            known: Vec::new(),
            met: Vec::new(),
            roles: Roles::default(),
            history: dir.join("history"),
            rewrote: Vec::new(),
        };
        let (ready, is_ready) = mpsc::channel();
        let (listening, listens) = mpsc::channel();
        let stop = stop.clone();
        thread::Builder::new()
            .name(format!("member {n}"))
            .spawn(move || {
                let ready = |handle, port| ready.send((handle, port)).unwrap();
                let on_event = &mut |event| {
                    if let Event::Listening { uri } = event {
                        let _ = listening.send(uri.to_string());
                    }
                };
                serve_group(&options, None, Some((start, tell)), &stop, ready, on_event).unwrap();
            })
            .unwrap();
        let (handle, port): (ServiceHandle, Option<u16>) = is_ready.recv().unwrap();
        drop(listens);
        let at = SocketAddr::from(([127, 0, 0, 1], port.unwrap()));
        let heard = Arc::new(Mutex::new((HashMap::new(), Instant::now())));
        let up = Arc::new(Mutex::new(0));
        listen(news, heard.clone(), up.clone());
        Self {
            link_key: StaticKey::from_bytes(link_key).public().0,
            key,
            address: far_from(at, wire),
            handle,
            heard,
            up,
            log: MemberLog::open(&dir.join("history")).unwrap(),
            number: 0,
        }
    }

    fn ticket(&self) -> Ticket {
        Ticket {
            publisher: self.key.public(),
            root: xylem_hash::hash(b"index"),
            name: None,
            link_key: Some(self.link_key),
            size: None,
            kind: None,
            addresses: vec![self.address.to_string().parse().unwrap()],
            relays: Vec::new(),
        }
    }

    fn say(&mut self, group: &SyncGroup) {
        self.number += 1;
        let said = MemberStatement {
            member: self.key.public(),
            link_key: self.link_key,
            number: self.number,
            name: "member".to_owned(),
            state: xylem_hash::hash(&self.number.to_be_bytes()),
            index: self.ticket(),
            roles: None,
            shown: Vec::new(),
            past: Past::none(),
        };
        self.handle.send_statement(said.sign(group, &self.key, &mut self.log).unwrap(), None);
    }

    /// When it had received the latest of all these numbers, if it has.
    fn knows(&self, all: &HashMap<PublisherId, u64>) -> Option<Instant> {
        let heard = self.heard.lock().unwrap();
        let known = |(who, number): (&PublisherId, &u64)| {
            *who == self.key.public() || heard.0.get(who) == Some(number)
        };
        all.iter().all(known).then_some(heard.1)
    }
}

fn listen(
    news: Receiver<MeshNews>,
    heard: Arc<Mutex<(HashMap<PublisherId, u64>, Instant)>>,
    up: Arc<Mutex<usize>>,
) {
    thread::spawn(move || {
        for news in news {
            match news {
                MeshNews::Said(said, _) => {
                    let mut heard = heard.lock().unwrap();
                    heard.0.insert(said.member, said.number);
                    heard.1 = Instant::now();
                }
                MeshNews::Up(_, true) => *up.lock().unwrap() += 1,
                MeshNews::Up(_, false) => *up.lock().unwrap() -= 1,
                MeshNews::Rewrote(said, _) => panic!("{} is honest", said.member),
                _ => {}
            }
        }
    });
}

fn until<T>(what: &str, mut done: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        if let Some(done) = done() {
            return done;
        }
        assert!(Instant::now() < deadline, "{what} never happened");
        thread::sleep(Duration::from_millis(2));
    }
}

/// `count` members of one group, with links among all, each with a statement.
fn members(count: u8, dir: &std::path::Path, wire: &Wire, stop: &Stop) -> (SyncGroup, Vec<Member>) {
    let path = |n: u8| dir.join(n.to_string());
    std::fs::create_dir_all(path(0)).unwrap();
    let founder = xylem_keys::load_or_create(&path(0).join("key")).unwrap();
    let group = SyncGroup::new([7; 32], PublisherKey::from_bytes(&founder).public());
    let mut members = vec![Member::start(&group, 0, &path(0), None, wire, stop)];
    for n in 1..count {
        let first = Some(members[0].ticket());
        members.push(Member::start(&group, n, &path(n), first, wire, stop));
    }
    members.iter_mut().for_each(|member| member.say(&group));
    until("all have links to all", || {
        let others = usize::from(count) - 1;
        members.iter().all(|member| *member.up.lock().unwrap() >= others).then_some(())
    });
    (group, members)
}

/// 1,000 statements in ten seconds, the load at which State Vector Sync is measured. Prints the round trips until all
/// members have the last.
#[test]
fn a_thousand_updates_reach_ten_members_over_lossy_paths() {
    let dir = tempfile::tempdir().unwrap();
    let (wire, stop) = (wire(), Stop::new());
    let (group, mut members) = members(MEMBERS, dir.path(), &wire, &stop);
    let start = Instant::now();
    for n in 0..UPDATES {
        let due = start + Duration::from_millis(10) * u32::try_from(n).unwrap();
        thread::sleep(due.saturating_duration_since(Instant::now()));
        let who = usize::try_from(n * 7 % u64::from(MEMBERS)).unwrap();
        members[who].say(&group);
    }
    let last = Instant::now();
    let all = members.iter().map(|member| (member.key.public(), member.number)).collect();
    let known = members.iter().map(|member| until("all know all", || member.knows(&all))).max();
    let took = known.unwrap().saturating_duration_since(last);
    let trips = took.as_secs_f64() / (2.0 * DELAY.as_secs_f64());
    println!("all know all {took:?} after the last, {trips:.1} round trips");
    stop.raise();
}
