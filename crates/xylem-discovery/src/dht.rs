//! [`Dht`]: the BitTorrent mainline DHT (BEP 5, BEP 44), through `mainline`. It queries and announces there, and
//! answers no queries: the node is only ever a client.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use mainline::{
    DEFAULT_BOOTSTRAP_NODES, Id, MutableItem, RequestFilter, RequestSpecific, ServerSettings,
};
use xylem_reach::names::{DHT_KEY_LEN, NewestRoot};

use crate::{DiscoveryError, Wake};

/// Most questions in progress; each has a thread.
pub const MAX_QUESTIONS: usize = 8;
/// Most addresses from one question.
const MAX_PEERS: usize = 64;
/// Most values of one item that are examined. Each node may send one, and so may many that lie.
const MAX_VALUES: usize = 256;
/// Most events that wait; beyond that, addresses are dropped.
const MAX_WAITING: usize = 256;
/// Most nodes remembered for the next start.
const MAX_NODES: usize = 32;
/// Time limit for a node's answer.
const TIMEOUT: Duration = Duration::from_secs(1);

/// How to enter the DHT.
#[derive(Clone, Debug, Default)]
pub struct DhtOptions {
    /// First nodes, HOST:PORT. `None`: the library's own, if no remembered node answers.
    pub bootstrap: Option<Vec<String>>,
    /// Nodes met in an earlier run ([`DhtEvent::Nodes`]).
    pub remembered: Vec<SocketAddrV4>,
    /// Address of its socket; `None`: all IPv4 addresses.
    pub bind: Option<Ipv4Addr>,
}

/// A query or announcement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DhtQuestion {
    /// Find the peers listed under this key.
    Find([u8; DHT_KEY_LEN]),
    /// List us under this key, at this UDP port of the address that nodes see.
    Announce([u8; DHT_KEY_LEN], u16),
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

/// A result of a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DhtEvent {
    /// Addresses listed under the requested key. It is not proven that a peer is there.
    Peers([u8; DHT_KEY_LEN], Vec<SocketAddrV4>),
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
    Nodes(Vec<SocketAddrV4>),
    /// A question has ended, with an error if it failed.
    Done(DhtQuestion, Option<String>),
}

/// A handle to the DHT. After it is dropped, no more queries are sent; nodes forget its announcements within the hour.
pub struct Dht {
    inside: Arc<DhtInner>,
    events: Receiver<DhtEvent>,
}

struct DhtInner {
    options: DhtOptions,
    node: Mutex<Option<mainline::Dht>>,
    under_way: AtomicUsize,
    events: SyncSender<DhtEvent>,
    wake: Wake,
}

impl Dht {
    /// Makes a handle. Nothing is sent before the first question.
    pub fn new(options: DhtOptions, wake: Wake) -> Self {
        let (events, taken) = sync_channel(MAX_WAITING);
        let (node, under_way) = (Mutex::new(None), AtomicUsize::new(0));
        Self {
            inside: Arc::new(DhtInner { options, node, under_way, events, wake }),
            events: taken,
        }
    }

    /// Starts a question; [`DhtEvent::Done`] reports its end.
    ///
    /// # Errors
    /// [`DiscoveryError::Busy`] while [`MAX_QUESTIONS`] are in progress; [`DiscoveryError::Thread`].
    pub fn ask(&self, question: DhtQuestion) -> Result<(), DiscoveryError> {
        if self.inside.under_way.fetch_add(1, Ordering::Relaxed) >= MAX_QUESTIONS {
            self.inside.under_way.fetch_sub(1, Ordering::Relaxed);
            return Err(DiscoveryError::Busy);
        }
        let guard = QuestionGuard(self.inside.clone());
        let work = move || {
            let failed = guard.0.work(&question).err();
            // Block until there is room, as the end must be reported. An error means that the handle was dropped.
            let _ = guard.0.events.send(DhtEvent::Done(question, failed));
            (guard.0.wake)();
        };
        thread::Builder::new().name("xylem-dht".to_owned()).spawn(work)?;
        Ok(())
    }

    /// The next event, if there is one.
    pub fn poll(&mut self) -> Option<DhtEvent> {
        self.events.try_recv().ok()
    }
}

/// Counts a question as in progress until dropped, even if a library panics.
struct QuestionGuard(Arc<DhtInner>);

impl Drop for QuestionGuard {
    fn drop(&mut self) {
        self.0.under_way.fetch_sub(1, Ordering::Relaxed);
    }
}

#[expect(
    deprecated,
    reason = "the asynchronous calls would need crates and a runtime for what a thread does"
)]
impl DhtInner {
    fn work(&self, question: &DhtQuestion) -> Result<(), String> {
        let node = self.node(&self.options.remembered)?;
        let stranded =
            |node: &mainline::Dht, anything: bool| !anything && node.to_bootstrap().is_empty();
        let mut alone = stranded(&node, self.send_to(&node, question)?);
        if alone && self.options.bootstrap.is_none() && !self.options.remembered.is_empty() {
            // None of the remembered nodes answers.
            let old = self.node.lock().unwrap_or_else(PoisonError::into_inner).take();
            drop(old);
            let node = self.node(&[])?;
            alone = stranded(&node, self.send_to(&node, question)?);
        }
        if alone { Err("no node of the DHT answers".to_owned()) } else { Ok(()) }
    }

    /// Sends a question to the network. Returns whether there was any result.
    fn send_to(&self, node: &mainline::Dht, question: &DhtQuestion) -> Result<bool, String> {
        match question {
            DhtQuestion::Find(key) => {
                let mut known = Vec::new();
                for mut fresh in node.get_peers(Id::from(*key)) {
                    fresh.retain(|peer| !known.contains(peer));
                    fresh.truncate(MAX_PEERS.saturating_sub(known.len()));
                    known.extend_from_slice(&fresh);
                    if !fresh.is_empty() {
                        self.emit(DhtEvent::Peers(*key, fresh));
                    }
                    if known.len() >= MAX_PEERS {
                        break;
                    }
                }
                Ok(!known.is_empty())
            }
            DhtQuestion::Announce(key, port) => {
                let told = node.announce_peer(Id::from(*key), Some(*port));
                told.map(|_| true).map_err(|e| e.to_string())
            }
            DhtQuestion::Newest { publisher, salt } => {
                let mut best: Option<NewestRoot> = None;
                for item in node.get_mutable(publisher, Some(salt), None).take(MAX_VALUES) {
                    // The library has checked the signature, with this key and salt.
                    let Some(newest) = NewestRoot::decode(item.seq(), item.value()) else {
                        continue;
                    };
                    if best.is_none_or(|best| best.version < newest.version) {
                        best = Some(newest);
                        let (publisher, salt) = (*publisher, *salt);
                        self.emit(DhtEvent::Newest { publisher, salt, newest });
                    }
                }
                Ok(best.is_some())
            }
            DhtQuestion::Publish(item) => {
                let SignedItem { publisher, salt, newest, signature } = item;
                let seq = i64::try_from(newest.version).map_err(|e| e.to_string())?;
                let value = newest.encode();
                let item = MutableItem::new_signed_unchecked(
                    *publisher,
                    *signature,
                    &value,
                    seq,
                    Some(salt),
                );
                node.put_mutable(item, None).map(|_| true).map_err(|e| e.to_string())
            }
            DhtQuestion::Nodes => {
                let nodes = node.to_bootstrap();
                let nodes = nodes.iter().filter_map(|node| node.parse().ok()).take(MAX_NODES);
                self.emit(DhtEvent::Nodes(nodes.collect()));
                Ok(true)
            }
        }
    }

    /// The node. It is made at the first question, as host names of first nodes have to be resolved.
    fn node(&self, remembered: &[SocketAddrV4]) -> Result<mainline::Dht, String> {
        let mut node = self.node.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(node) = &*node {
            return Ok(node.clone());
        }
        let mut begin: Vec<String> =
            remembered.iter().take(MAX_NODES).map(SocketAddrV4::to_string).collect();
        match &self.options.bootstrap {
            Some(named) => begin.extend_from_slice(named),
            None if begin.is_empty() => {
                begin.extend(DEFAULT_BOOTSTRAP_NODES.map(str::to_owned));
            }
            None => {}
        }
        let server = ServerSettings { filter: Box::new(AnswerNobody), ..ServerSettings::default() };
        let mut builder = mainline::Dht::builder();
        builder.port(0).bootstrap(&begin).request_timeout(TIMEOUT).server_settings(server);
        if let Some(bind) = self.options.bind {
            builder.bind_address(bind);
        }
        let made = builder.build().map_err(|e| e.to_string())?;
        *node = Some(made.clone());
        Ok(made)
    }

    fn emit(&self, event: DhtEvent) {
        let sent = self.events.try_send(event);
        if sent.is_ok() {
            (self.wake)();
        }
    }
}

/// Leaves strangers' queries unanswered: no packet to us makes us send more.
#[derive(Clone, Debug)]
struct AnswerNobody;

impl RequestFilter for AnswerNobody {
    fn allow_request(&self, _: &RequestSpecific, _: SocketAddrV4) -> bool {
        false
    }
}
