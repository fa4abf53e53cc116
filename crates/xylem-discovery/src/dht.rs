//! [`Dht`]: the BitTorrent mainline DHT (BEP 5, BEP 44), by `xylem-dht` over two UDP sockets of its own, on one thread.
//! It queries and announces there, and answers no queries: it is only ever a client.

use std::collections::VecDeque;
use std::future::{Future as _, poll_fn};
use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs as _};
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use tokio::io::ReadBuf;
use tokio::net::UdpSocket;
use tokio::runtime::Builder;
use xylem_dht::{
    AnnouncedPort, AnnouncedPorts, DhtClient, DhtConfig, DhtError, DhtId, LookupEnd, LookupError,
    LookupId, LookupKind, MutableItem,
};
use xylem_reach::names::{DHT_KEY_LEN, NewestRoot};

use crate::nodes::{MAX_KEPT_NODES, nodes_to_keep};
use crate::{DiscoveryError, Wake};

/// Most questions in progress, or ended and not polled yet.
pub const MAX_QUESTIONS: usize = 8;
/// Most events that wait; beyond that, addresses and values are dropped.
const MAX_WAITING: usize = 256;
/// Longest datagram that is received whole.
const MAX_DATAGRAM: usize = 4_096;
/// Datagrams received between two looks at timers and questions.
const MAX_RECEIVED: usize = 64;
/// Longest sleep without a timer.
const IDLE: Duration = Duration::from_secs(3_600);
/// Where BitTorrent programs enter the DHT.
pub(crate) const WELL_KNOWN: [&str; 4] = [
    "router.bittorrent.com:6881",
    "dht.transmissionbt.com:6881",
    "dht.libtorrent.org:25401",
    "relay.pkarr.org:6881",
];

/// How to enter the DHT.
#[derive(Clone, Debug, Default)]
pub struct DhtOptions {
    /// First nodes, HOST:PORT. `None`: well-known ones, if no remembered node answers.
    pub bootstrap: Option<Vec<String>>,
    /// Nodes met in an earlier run ([`DhtEvent::Nodes`]).
    pub remembered: Vec<SocketAddr>,
    /// Address of its socket, which is then its only one; `None`: all IPv4 and all IPv6 addresses.
    pub bind: Option<IpAddr>,
}

/// A query or announcement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DhtQuestion {
    /// Find the peers listed under this key.
    Find([u8; DHT_KEY_LEN]),
    /// List us under this key, at these UDP ports of the addresses that nodes see.
    Announce([u8; DHT_KEY_LEN], ListenPorts),
    /// Find the newest root of a publisher's name.
    Newest {
        /// Ed25519 key.
        publisher: [u8; 32],
        /// Salt derived from the name.
        salt: [u8; 32],
    },
    /// Publish the newest root of a name.
    Publish(SignedItem),
    /// List known nodes, for the next start.
    Nodes,
}

/// The UDP ports at which other peers reach us, by family.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ListenPorts {
    /// Over IPv4: a router's, if it maps one.
    pub v4: Option<u16>,
    /// Over IPv6.
    pub v6: Option<u16>,
}

/// An item of BEP 44 with its publisher's signature.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignedItem {
    /// Ed25519 key.
    pub publisher: [u8; 32],
    /// Salt derived from the name.
    pub salt: [u8; 32],
    /// The name's newest value; its version is the sequence number.
    pub newest: NewestRoot,
    /// Signature over `xylem_reach::names::signable`.
    pub signature: [u8; 64],
}

/// Why a question has no result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DhtFailure {
    /// The network gave none.
    #[error(transparent)]
    Lookup(#[from] LookupError),
    /// The question cannot be put.
    #[error(transparent)]
    Refused(#[from] DhtError),
    /// The system gives no UDP socket.
    #[error("cannot open a UDP socket for the DHT: {0}")]
    Socket(ErrorKind),
}

/// A result of a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DhtEvent {
    /// Addresses listed under the requested key. It is not proven that a peer is there.
    Peers([u8; DHT_KEY_LEN], Vec<SocketAddr>),
    /// A value that the publisher has signed. Each is newer than those before it.
    Newest {
        /// Ed25519 key.
        publisher: [u8; 32],
        /// Salt derived from the name.
        salt: [u8; 32],
        /// The newest so far.
        newest: NewestRoot,
    },
    /// Nodes that have answered, 32 at most.
    Nodes(Vec<SocketAddr>),
    /// A question has ended, with an error if it failed.
    Done(DhtQuestion, Option<DhtFailure>),
}

/// A handle to the DHT. After it is dropped, no more queries are sent; nodes forget its announcements within the hour.
pub struct Dht {
    options: DhtOptions,
    seed: [u8; 32],
    wake: Wake,
    shared: Arc<Mutex<DhtShared>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// What the handle and the thread share.
#[derive(Default)]
struct DhtShared {
    questions: VecDeque<DhtQuestion>,
    events: VecDeque<DhtEvent>,
    /// Questions with an end that was not polled yet.
    under_way: usize,
    stop: bool,
    /// Wakes the thread.
    waker: Option<Waker>,
}

impl DhtShared {
    fn wake(&mut self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

fn locked(shared: &Mutex<DhtShared>) -> MutexGuard<'_, DhtShared> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Dht {
    /// Makes a handle. `seed`: 32 random bytes. Nothing is sent before the first question.
    pub fn new(options: DhtOptions, seed: [u8; 32], wake: Wake) -> Self {
        let (shared, thread) = (Arc::default(), Mutex::new(None));
        Self { options, seed, wake, shared, thread }
    }

    /// Starts a question; [`DhtEvent::Done`] reports its end.
    ///
    /// # Errors
    /// [`DiscoveryError::Busy`] while [`MAX_QUESTIONS`] are in progress; [`DiscoveryError::Thread`].
    pub fn ask(&self, question: DhtQuestion) -> Result<(), DiscoveryError> {
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        if locked(&self.shared).under_way >= MAX_QUESTIONS {
            return Err(DiscoveryError::Busy);
        }
        if thread.is_none() {
            let (options, shared) = (self.options.clone(), self.shared.clone());
            let (seed, wake) = (self.seed, self.wake.clone());
            let work = move || run(&options, seed, &shared, &wake);
            *thread = Some(thread::Builder::new().name("xylem-dht".to_owned()).spawn(work)?);
        }
        let mut shared = locked(&self.shared);
        shared.under_way += 1;
        shared.questions.push_back(question);
        shared.wake();
        Ok(())
    }

    /// The next event, if there is one.
    pub fn poll(&mut self) -> Option<DhtEvent> {
        let mut shared = locked(&self.shared);
        let event = shared.events.pop_front()?;
        if matches!(event, DhtEvent::Done(..)) {
            shared.under_way = shared.under_way.saturating_sub(1);
        }
        Some(event)
    }
}

impl Drop for Dht {
    fn drop(&mut self) {
        let mut shared = locked(&self.shared);
        shared.stop = true;
        shared.wake();
    }
}

/// The thread: until the handle is dropped.
fn run(options: &DhtOptions, seed: [u8; 32], shared: &Mutex<DhtShared>, wake: &Wake) {
    let runtime = match Builder::new_current_thread().enable_io().enable_time().build() {
        Ok(runtime) => runtime,
        Err(error) => return refuse_all(shared, wake, error.kind()),
    };
    runtime.block_on(async {
        match DhtSockets::bind(options.bind).await {
            Ok(sockets) => DhtDriver::new(options, seed, sockets, shared, wake).run().await,
            Err(error) => refuse_all(shared, wake, error.kind()),
        }
    });
}

/// Ends all questions, these and later ones, with an error of the system.
fn refuse_all(shared: &Mutex<DhtShared>, wake: &Wake, error: ErrorKind) {
    let waits = || {
        let mut shared = locked(shared);
        while let Some(question) = shared.questions.pop_front() {
            let failed = Some(DhtFailure::Socket(error));
            shared.events.push_back(DhtEvent::Done(question, failed));
        }
        !shared.stop
    };
    while waits() {
        wake();
        thread::park_timeout(Duration::from_millis(200));
    }
}

/// The sockets of both families, as far as the system has them.
struct DhtSockets {
    v4: Option<UdpSocket>,
    v6: Option<UdpSocket>,
}

impl DhtSockets {
    async fn bind(bind: Option<IpAddr>) -> io::Result<Self> {
        let sockets = Self::bind_now(bind).await?;
        for socket in [&sockets.v4, &sockets.v6].into_iter().flatten() {
            // Until tokio has seen that a socket is writable, sending without a wait fails, and first datagrams are lost.
            socket.writable().await?;
        }
        Ok(sockets)
    }

    async fn bind_now(bind: Option<IpAddr>) -> io::Result<Self> {
        if let Some(ip) = bind {
            let socket = Some(UdpSocket::bind((ip, 0)).await?);
            let none = None;
            return Ok(match ip {
                IpAddr::V4(_) => Self { v4: socket, v6: none },
                IpAddr::V6(_) => Self { v4: none, v6: socket },
            });
        }
        let v4 = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).await;
        let v6 = UdpSocket::bind((Ipv6Addr::UNSPECIFIED, 0)).await.ok();
        match (v4, v6) {
            (Err(error), None) => Err(error),
            (v4, v6) => Ok(Self { v4: v4.ok(), v6 }),
        }
    }

    fn of(&self, to: SocketAddr) -> Option<&UdpSocket> {
        if to.is_ipv4() { self.v4.as_ref() } else { self.v6.as_ref() }
    }
}

struct ActiveQuestion {
    id: LookupId,
    question: DhtQuestion,
    newest: Option<NewestRoot>,
}

struct DhtDriver<'a> {
    client: DhtClient,
    sockets: DhtSockets,
    epoch: Instant,
    active: Vec<ActiveQuestion>,
    /// Whether the well-known nodes are still to be tried, if no other answers.
    has_more: bool,
    shared: &'a Mutex<DhtShared>,
    wake: &'a Wake,
}

impl<'a> DhtDriver<'a> {
    fn new(
        options: &DhtOptions,
        seed: [u8; 32],
        sockets: DhtSockets,
        shared: &'a Mutex<DhtShared>,
        wake: &'a Wake,
    ) -> Self {
        let mut bootstrap: Vec<_> =
            options.remembered.iter().take(MAX_KEPT_NODES).copied().collect();
        let has_more = options.bootstrap.is_none() && !bootstrap.is_empty();
        match &options.bootstrap {
            Some(named) => bootstrap.extend(resolve(named.iter().map(String::as_str))),
            None if bootstrap.is_empty() => bootstrap.extend(resolve(WELL_KNOWN)),
            None => {}
        }
        let (ipv4, ipv6) = (sockets.v4.is_some(), sockets.v6.is_some());
        let client = DhtClient::new(DhtConfig { bootstrap, ipv4, ipv6 }, seed);
        let (epoch, active) = (Instant::now(), Vec::new());
        Self { client, sockets, epoch, active, has_more, shared, wake }
    }

    async fn run(mut self) {
        let mut buffer = vec![0; MAX_DATAGRAM];
        loop {
            loop {
                let next = {
                    let mut shared = locked(self.shared);
                    if shared.stop {
                        return;
                    }
                    shared.questions.pop_front()
                };
                let Some(question) = next else { break };
                self.put(question);
            }
            self.send();
            while let Some(event) = self.client.poll_event() {
                self.handle_event(event);
            }
            if self.client.poll_timeout().is_some_and(|due| due <= self.epoch.elapsed()) {
                continue;
            }
            self.wait(&mut buffer).await;
        }
    }

    fn put(&mut self, question: DhtQuestion) {
        match self.begin(&question) {
            Ok(Some(id)) => self.active.push(ActiveQuestion { id, question, newest: None }),
            Ok(None) => self.finish(question, None),
            Err(refused) => self.finish(question, Some(refused.into())),
        }
    }

    /// Begins the lookup of a question; `None`: it was answered at once.
    fn begin(&mut self, question: &DhtQuestion) -> Result<Option<LookupId>, DhtError> {
        let kind = match question {
            DhtQuestion::Find(key) => LookupKind::Peers(DhtId(*key)),
            DhtQuestion::Announce(key, ports) => {
                let (v4, v6) =
                    (ports.v4.map(AnnouncedPort::Port), ports.v6.map(AnnouncedPort::Port));
                LookupKind::Announce(DhtId(*key), AnnouncedPorts { v4, v6 })
            }
            DhtQuestion::Newest { publisher, salt } => {
                LookupKind::Item { key: *publisher, salt: salt.to_vec() }
            }
            DhtQuestion::Publish(item) => {
                let seq = i64::try_from(item.newest.version).map_err(|_| DhtError::OutOfRange)?;
                let item = MutableItem {
                    key: item.publisher,
                    salt: item.salt.to_vec(),
                    seq,
                    value: item.newest.encode().to_vec(),
                    signature: item.signature,
                };
                LookupKind::Put(item, None)
            }
            DhtQuestion::Nodes => {
                let nodes = nodes_to_keep(self.client.known_nodes(MAX_KEPT_NODES));
                self.emit(DhtEvent::Nodes(nodes));
                return Ok(None);
            }
        };
        self.client.lookup(self.epoch.elapsed(), kind).map(Some)
    }

    fn send(&mut self) {
        while let Some(transmit) = self.client.poll_transmit(self.epoch.elapsed()) {
            let socket = self.sockets.of(transmit.to);
            let sent = socket.map(|socket| socket.try_send_to(&transmit.bytes, transmit.to));
            match sent {
                // A full queue loses the datagram, as the network may.
                Some(Ok(_)) => {}
                Some(Err(error)) if error.kind() == ErrorKind::WouldBlock => {}
                Some(Err(_)) | None => {
                    self.client.handle_unreachable(self.epoch.elapsed(), transmit.to);
                }
            }
        }
    }

    /// Receives datagrams, until a timer is due or the handle wants something.
    async fn wait(&mut self, buffer: &mut [u8]) {
        let now = self.epoch.elapsed();
        let due = self.client.poll_timeout().map_or(IDLE, |due| due.saturating_sub(now));
        let mut sleep = pin!(tokio::time::sleep(due));
        poll_fn(|cx| {
            {
                let mut shared = locked(self.shared);
                if shared.stop || !shared.questions.is_empty() {
                    return Poll::Ready(());
                }
                shared.waker = Some(cx.waker().clone());
            }
            let mut received = 0;
            for socket in [&self.sockets.v4, &self.sockets.v6].into_iter().flatten() {
                while received < MAX_RECEIVED {
                    let mut into = ReadBuf::new(buffer);
                    let Poll::Ready(came) = socket.poll_recv_from(cx, &mut into) else { break };
                    received += 1;
                    // Errors are those of datagrams sent before: Windows reports closed ports.
                    if let Ok(from) = came {
                        self.client.handle_datagram(self.epoch.elapsed(), from, into.filled());
                    }
                }
            }
            if received > 0 { Poll::Ready(()) } else { sleep.as_mut().poll(cx) }
        })
        .await;
    }

    fn handle_event(&mut self, event: xylem_dht::DhtEvent) {
        match event {
            xylem_dht::DhtEvent::Peers(id, peers) if !peers.new.is_empty() => {
                if let Some(DhtQuestion::Find(key)) = self.question(id).map(|a| &a.question) {
                    let key = *key;
                    self.emit(DhtEvent::Peers(key, peers.new));
                }
            }
            xylem_dht::DhtEvent::Item(id, item) => {
                let Some(newest) = NewestRoot::decode(item.seq, &item.value) else { return };
                let Some(active) = self.question(id) else { return };
                let DhtQuestion::Newest { publisher, salt } = active.question else { return };
                if active.newest.is_none_or(|known| known.version < newest.version) {
                    active.newest = Some(newest);
                    self.emit(DhtEvent::Newest { publisher, salt, newest });
                }
            }
            xylem_dht::DhtEvent::Done(id, end) => self.handle_end(id, end),
            _ => {}
        }
    }

    fn question(&mut self, id: LookupId) -> Option<&mut ActiveQuestion> {
        self.active.iter_mut().find(|active| active.id == id)
    }

    fn handle_end(&mut self, id: LookupId, end: LookupEnd) {
        let Some(place) = self.active.iter().position(|active| active.id == id) else { return };
        let question = self.active.swap_remove(place).question;
        let error = end.error;
        if error == Some(LookupError::NoNode) && std::mem::take(&mut self.has_more) {
            // None of the remembered nodes answers.
            self.client.set_bootstrap(resolve(WELL_KNOWN).collect());
            return self.put(question);
        }
        self.finish(question, error.map(DhtFailure::from));
    }

    fn finish(&self, question: DhtQuestion, failed: Option<DhtFailure>) {
        locked(self.shared).events.push_back(DhtEvent::Done(question, failed));
        (self.wake)();
    }

    fn emit(&self, event: DhtEvent) {
        let mut shared = locked(self.shared);
        if shared.events.len() < MAX_WAITING {
            shared.events.push_back(event);
            drop(shared);
            (self.wake)();
        }
    }
}

/// The addresses of names, both families; those that cannot be resolved are skipped. It waits for the resolver.
pub(crate) fn resolve<'a>(
    names: impl IntoIterator<Item = &'a str>,
) -> impl Iterator<Item = SocketAddr> {
    names.into_iter().filter_map(|name| name.to_socket_addrs().ok()).flatten()
}
