//! Shares out of a bucket in a store that is slow, charges for each byte, or hangs: the real program, and a store on
//! loopback.
#![cfg(unix)]

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use crate::common::{Share, assert_exit, file, get, noise, text, until, xylem};
use xylem_object::ObjectId;
use xylem_object::naming::{self, PublicationRequest};
use xylem_packet::{Data, InterestBuilder, Name};
use xylem_tree::SegmentIndex;

const SEGMENT: u64 = 8192;

/// A store with one object, `s3://lab/big`.
struct Store {
    at: SocketAddr,
    state: Arc<State>,
}

struct State {
    content: Vec<u8>,
    /// How long an answer with content takes.
    delay: Mutex<Duration>,
    hangs: AtomicBool,
    asked: AtomicU64,
    sent: AtomicU64,
}

impl Store {
    fn new(content: Vec<u8>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = listener.local_addr().unwrap();
        let state = Arc::new(State {
            content,
            delay: Mutex::default(),
            hangs: AtomicBool::new(false),
            asked: AtomicU64::new(0),
            sent: AtomicU64::new(0),
        });
        let own = state.clone();
        thread::spawn(move || {
            for socket in listener.incoming().map_while(Result::ok) {
                let own = own.clone();
                thread::spawn(move || own.serve(&socket));
            }
        });
        Self { at, state }
    }

    fn command(&self, store: &Path) -> Command {
        let mut command = xylem(store);
        command.env("AWS_ENDPOINT_URL", format!("http://{}", self.at));
        command.env("AWS_SKIP_SIGNATURE", "true").env("AWS_REGION", "us-east-1");
        command
    }

    /// Bytes of content sent since the last call.
    fn sent(&self) -> u64 {
        self.state.sent.swap(0, Relaxed)
    }
}

impl State {
    fn serve(&self, mut socket: &TcpStream) -> Option<()> {
        let mut reader = BufReader::new(socket);
        loop {
            let (mut first, mut range) = (String::new(), None);
            reader.read_line(&mut first).ok().filter(|len| *len > 0)?;
            loop {
                let mut line = String::new();
                reader.read_line(&mut line).ok().filter(|len| *len > 0)?;
                let line = line.trim().to_ascii_lowercase();
                if line.is_empty() {
                    break;
                }
                range = range.or_else(|| line.strip_prefix("range: bytes=").map(str::to_owned));
            }
            let mut words = first.split(' ');
            let (method, target) = (words.next()?, words.next()?);
            let (path, query) = target.split_once('?').unwrap_or((target, ""));
            let answer = match path.trim_end_matches('/') {
                "/lab/big" => self.object(method, range),
                "/lab" => self.list(query),
                _ => answer("404 Not Found", "", b"<Error><Code>NoSuchKey</Code></Error>"),
            };
            socket.write_all(&answer).ok()?;
        }
    }

    fn object(&self, method: &str, range: Option<String>) -> Vec<u8> {
        let size = self.content.len();
        let fields = "ETag: \"1\"\r\nLast-Modified: Mon, 01 Jan 2024 00:00:00 GMT\r\n";
        if method == "HEAD" {
            return format!("HTTP/1.1 200 OK\r\n{fields}Content-Length: {size}\r\n\r\n")
                .into_bytes();
        }
        self.asked.fetch_add(1, Relaxed);
        while self.hangs.load(Relaxed) {
            thread::sleep(Duration::from_millis(10));
        }
        thread::sleep(*self.delay.lock().unwrap());
        let (from, to) = match range.as_deref().and_then(|range| range.split_once('-')) {
            Some((from, to)) => {
                (from.parse().unwrap(), to.parse::<usize>().map_or(size, |last| size.min(last + 1)))
            }
            None => (0, size),
        };
        self.sent.fetch_add((to - from) as u64, Relaxed);
        let fields = format!("{fields}Content-Range: bytes {from}-{}/{size}\r\n", to - 1);
        answer("206 Partial Content", &fields, &self.content[from..to])
    }

    fn list(&self, query: &str) -> Vec<u8> {
        let size = self.content.len();
        let is_there = !query.contains("prefix=big") && !query.contains("start-after");
        let big = match is_there {
            true => format!(
                "<Contents><Key>big</Key><LastModified>2024-01-01T00:00:00.000Z</LastModified>\
                 <ETag>\"1\"</ETag><Size>{size}</Size><StorageClass>STANDARD</StorageClass></Contents>"
            ),
            false => String::new(),
        };
        let list = format!(
            "<?xml version=\"1.0\"?><ListBucketResult><Name>lab</Name><Prefix></Prefix><KeyCount>{}</KeyCount>\
             <MaxKeys>1000</MaxKeys><IsTruncated>false</IsTruncated>{big}</ListBucketResult>",
            usize::from(is_there)
        );
        answer("200 OK", "Content-Type: application/xml\r\n", list.as_bytes())
    }
}

fn answer(status: &str, fields: &str, body: &[u8]) -> Vec<u8> {
    let head = format!("HTTP/1.1 {status}\r\n{fields}Content-Length: {}\r\n\r\n", body.len());
    [head.as_bytes(), body].concat()
}

/// An Interest for one segment of a share under `prefix`.
fn interest(prefix: &Name, segment: u64, nonce: u32) -> Vec<u8> {
    let request =
        PublicationRequest::Segment { object: ObjectId::Root, index: SegmentIndex(segment) };
    let (name, mut wire) = (naming::encode(prefix.as_ref(), &request), Vec::new());
    let builder = InterestBuilder::new(name.as_ref()).nonce(nonce.to_be_bytes());
    builder.encode(&mut wire).unwrap();
    wire
}

/// Segment numbers all over the object, the same in every run.
fn places(segments: u64) -> impl Iterator<Item = u64> {
    let mut random = 1_u64;
    std::iter::from_fn(move || {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        Some((random >> 33) % segments)
    })
}

struct World {
    dir: tempfile::TempDir,
    store: Store,
    content: Vec<u8>,
}

impl World {
    fn new(size: usize) -> Self {
        let content = noise(size, 7);
        let (dir, store) = (tempfile::tempdir().unwrap(), Store::new(content.clone()));
        Self { dir, store, content }
    }

    /// Shares the object and a local file beside it; returns the share and the local file's ticket.
    fn share(&self) -> (Share, String) {
        let local = file(self.dir.path(), "local", &noise(500_000, 8));
        let command = self.store.command(&self.dir.path().join("store"));
        let more = ["--plain-listen", "127.0.0.1:0", "s3://lab/big"];
        let share = Share::run(command, &local, &more);
        until("the local file's ticket", || !share.told("shared").is_empty());
        let ticket = share.told("shared")[0]["ticket"].as_str().unwrap().to_owned();
        self.store.sent();
        (share, ticket)
    }

    /// Fetches the local file and compares it.
    fn fetches_local(&self, ticket: &str, who: &str) {
        let out = self.dir.path().join(format!("{who}.out"));
        let store = self.dir.path().join(who);
        assert_exit(&get(&store, &[ticket, "--timeout", "60", "-o", text(&out)]), 0);
        assert!(fs::read(&out).unwrap() == noise(500_000, 8));
    }
}

fn prefix(share: &Share) -> Name {
    Name::from_uri(share.shared["name"].as_str().unwrap()).unwrap()
}

fn plain(share: &Share) -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(share.plain.as_ref().unwrap()).unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
    socket
}

fn interrupt(pid: u32) {
    let pid = pid.to_string();
    assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
}

fn ends(child: &mut Child) -> Option<i32> {
    let mut code = None;
    until("the end", || {
        code = child.try_wait().unwrap();
        code.is_some()
    });
    code.and_then(|code| code.code())
}

#[test]
fn getters_of_a_slow_store_hold_up_no_other_share() {
    let world = World::new(6 << 20);
    let (share, local) = world.share();
    *world.store.state.delay.lock().unwrap() = Duration::from_secs(1);
    let (socket, prefix) = (plain(&share), prefix(&share));
    let over = Arc::new(AtomicBool::new(false));
    let ends = over.clone();
    let flood = thread::spawn(move || {
        for (nonce, segment) in places(6 << 7).enumerate() {
            if ends.load(Relaxed) {
                break;
            }
            let _ = socket.send(&interest(&prefix, segment, nonce as u32));
            thread::sleep(Duration::from_millis(10));
        }
    });
    until("the store's being asked", || world.store.state.asked.load(Relaxed) > 4);
    for who in ["one", "two"] {
        world.fetches_local(&local, who);
    }
    over.store(true, Relaxed);
    flood.join().unwrap();
}

#[test]
fn little_more_is_asked_of_the_store_than_is_sent() {
    let world = World::new(24 << 20);
    let (share, _) = world.share();
    let (socket, prefix) = (plain(&share), prefix(&share));
    let segments = world.content.len() as u64 / SEGMENT;
    let (mut taken, mut room) = (0, [0; 9_000]);
    for (nonce, at) in places(segments - 1).take(60).enumerate() {
        for segment in [at, at + 1] {
            let asked = interest(&prefix, segment, (2 * nonce as u64 + segment - at) as u32);
            let mut len = 0;
            until("an answer", || {
                socket.send(&asked).unwrap();
                len = socket.recv(&mut room).unwrap_or(0);
                len > 0
            });
            let data = Data::decode(&room[..len]).unwrap();
            let from = (segment * SEGMENT) as usize;
            assert!(data.content() == &world.content[from..from + SEGMENT as usize]);
            taken += data.content().len() as u64;
        }
    }
    let sent = world.store.sent();
    assert!(sent <= taken + taken / 10, "{sent} bytes out of the store for {taken}");
    // Fetches all of it, in order.
    let out = world.dir.path().join("out");
    let store = world.dir.path().join("getter");
    assert_exit(&get(&store, &[&share.ticket, "--timeout", "100", "-o", text(&out)]), 0);
    assert!(fs::read(&out).unwrap() == world.content);
    until("the word that it has come", || !share.told("fetched").is_empty());
    // Bytes in packets, including those lost and sent again.
    let sent = share.told("fetched")[0]["sent"].as_u64().unwrap();
    let read = world.store.sent();
    assert!(read <= sent + sent / 10, "{read} bytes out of the store for {sent}");
}

#[test]
fn a_store_that_hangs_holds_up_neither_others_nor_the_end() {
    let world = World::new(3 << 20);
    let (share, local) = world.share();
    world.store.state.hangs.store(true, Relaxed);
    let (socket, prefix) = (plain(&share), prefix(&share));
    let asked = world.store.state.asked.load(Relaxed);
    for (nonce, segment) in places(3 << 7).take(200).enumerate() {
        socket.send(&interest(&prefix, segment, nonce as u32)).unwrap();
    }
    until("the store's being asked", || world.store.state.asked.load(Relaxed) > asked);
    world.fetches_local(&local, "beside");
    let pid = share.pid();
    interrupt(pid);
    until("the end of the share", || {
        // It stays a zombie until its parent waits for it.
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.rsplit(')')
            .next()
            .is_none_or(|rest| rest.trim_start().starts_with('Z') || rest.is_empty())
    });
    drop(share);
    // A store that hangs while the object is hashed.
    let mut command = world.store.command(&world.dir.path().join("other-store"));
    command.args(["share", "--listen", "127.0.0.1:0", "s3://lab/big"]).stdin(Stdio::null());
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let asked = world.store.state.asked.load(Relaxed);
    until("the store's being asked", || world.store.state.asked.load(Relaxed) > asked);
    interrupt(child.id());
    assert_eq!(ends(&mut child), Some(130));
    world.store.state.hangs.store(false, Relaxed);
}
