//! A node's repository: packets that commands insert, on disk, which answer Interests before the cache does.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use xylem_base::FileMedium;
use xylem_cache::{DiskCache, RepoAndCache, RepoStore, RepoStoreError};
use xylem_engine::{Engine, now_ms};
use xylem_forward::FaceId;
use xylem_mgmt::{RepoFailure, RepoHost, RepoHostError, RepoProtocol, RepoReport, RepoSettings};
use xylem_packet::{Name, NameRef};
use xylem_trust::Signer;

use super::error::NodeError;
use crate::event::{Event, RepositoryChange};
use crate::waking::wake_of;

/// Refused commands are reported no more often.
const REFUSALS_EVERY: Duration = Duration::from_secs(1);

/// Options of a repository.
#[derive(Clone, Debug)]
pub struct RepoOptions {
    /// The name under which it takes commands.
    pub prefix: Name,
    /// Where its packets are.
    pub directory: PathBuf,
    /// Most bytes of packets.
    pub bytes: u64,
    /// Certificates of keys that may insert and remove what they may sign.
    pub anchors: Vec<PathBuf>,
    /// Certificates of further keys, signed by the anchors'.
    pub certificates: Vec<PathBuf>,
    /// Trust schema: which names these keys may sign. `None`: those under their identities.
    pub schema: Option<PathBuf>,
}

/// A running repository.
pub(super) struct NodeRepo {
    protocol: RepoProtocol,
    store: RepoStore,
    inserted: u64,
    removed: u64,
    refused: u64,
    /// When a refused command was reported last.
    reported: Option<Duration>,
}

impl NodeRepo {
    /// Opens the repository; this waits for the disk.
    pub(super) fn open(
        options: &RepoOptions,
        medium: &FileMedium,
        engine: &mut Engine,
    ) -> Result<Self, NodeError> {
        let trust =
            super::trust_store(&options.anchors, &options.certificates, options.schema.as_deref())?;
        let directory = &options.directory;
        let store =
            RepoStore::open(&*medium.shared(), directory, options.bytes, xylem_base::random()?)
                .map_err(|why| NodeError::Repository { path: directory.clone(), why })?;
        store.wake_by(wake_of(engine)?);
        let settings = RepoSettings {
            prefix: options.prefix.clone(),
            trust,
            signer: Signer::digest_sha256(),
            seed: u64::from_le_bytes(xylem_base::random()?),
        };
        let protocol = RepoProtocol::new(settings);
        engine.serve(protocol.prefix().as_ref())?;
        Ok(Self { protocol, store, inserted: 0, removed: 0, refused: 0, reported: None })
    }

    /// Has the forwarder answer from the repository, before `cache`.
    pub(super) fn answer_from(&self, cache: Option<DiskCache>, engine: &mut Engine) {
        let repo = self.store.clone();
        engine.forwarder.set_second_level(Some(match cache {
            Some(cache) => Box::new(RepoAndCache { repo, cache }),
            None => Box::new(repo),
        }));
    }

    /// Handles a packet that the forwarder sent to the program; false if it does not concern the repository.
    pub(super) fn handle_packet(
        &mut self,
        engine: &mut Engine,
        now: Duration,
        from: FaceId,
        packet: &[u8],
    ) -> bool {
        let mut out = Vec::new();
        let mut host = StoreAndEngine { store: &self.store, engine };
        let is_ours = match xylem_packet::Interest::decode(packet) {
            Ok(interest) => {
                self.protocol.handle_interest(now, from, &interest, &mut host, &mut out)
            }
            Err(_) => self.protocol.handle_reply(now, packet, &mut host, &mut out),
        };
        out.iter().for_each(|packet| engine.send(packet));
        is_ours
    }

    /// Handles an Interest of the repository that came back.
    pub(super) fn handle_nack(&mut self, engine: &mut Engine, now: Duration, packet: &[u8]) {
        let mut out = Vec::new();
        let mut host = StoreAndEngine { store: &self.store, engine };
        self.protocol.handle_reply(now, packet, &mut host, &mut out);
        out.iter().for_each(|packet| engine.send(packet));
    }

    pub(super) fn poll_timeout(&self) -> Option<Duration> {
        self.protocol.poll_timeout()
    }

    pub(super) fn handle_timeout(&mut self, engine: &mut Engine, now: Duration) {
        if self.protocol.poll_timeout().is_some_and(|due| due <= now) {
            let mut out = Vec::new();
            let mut host = StoreAndEngine { store: &self.store, engine };
            self.protocol.handle_timeout(now, &mut host, &mut out);
            out.iter().for_each(|packet| engine.send(packet));
        }
    }

    /// Reports what is there at the start.
    pub(super) fn report_opened(&self, on_event: &mut dyn FnMut(Event)) {
        let (name, counts) = (self.protocol.prefix().clone(), self.counts());
        let change = RepositoryChange::Opened;
        on_event(Event::Repository { change, name, packets: 0, failed: None, counts });
    }

    /// Reports what has happened.
    pub(super) fn report(&mut self, now: Duration, on_event: &mut dyn FnMut(Event)) {
        for report in self.protocol.take_reports() {
            let text = |failed: Option<RepoFailure>| failed.map(|why| why.to_string());
            let (change, name, packets, failed) = match report {
                RepoReport::Inserted { name, packets, failed } => {
                    self.inserted = self.inserted.saturating_add(packets);
                    (RepositoryChange::Inserted, name, packets, text(failed))
                }
                RepoReport::Removed { name, packets, failed } => {
                    self.removed = self.removed.saturating_add(packets);
                    (RepositoryChange::Removed, name, packets, text(failed))
                }
                RepoReport::Refused { command, why } => {
                    self.refused = self.refused.saturating_add(1);
                    tracing::debug!(%command, %why, "a command of the repository was refused");
                    // Strangers cause them.
                    let is_due = |last| now >= REFUSALS_EVERY.saturating_add(last);
                    if !self.reported.is_none_or(is_due) {
                        continue;
                    }
                    self.reported = Some(now);
                    (RepositoryChange::Refused, command, 0, Some(why.to_string()))
                }
            };
            on_event(Event::Repository { change, name, packets, failed, counts: self.counts() });
        }
    }

    fn counts(&self) -> BTreeMap<&'static str, u64> {
        let usage = self.store.usage();
        BTreeMap::from([
            ("stored_packets", usage.packets),
            ("stored_bytes", usage.bytes),
            ("quota_bytes", usage.capacity),
            ("inserted", self.inserted),
            ("removed", self.removed),
            ("refused", self.refused),
        ])
    }
}

/// The packets, and the forwarder that caches some of them.
struct StoreAndEngine<'a> {
    store: &'a RepoStore,
    engine: &'a mut Engine,
}

/// The protocol's word for a refusal of the store. Without a thread that writes there is no room, either.
fn host_error(error: RepoStoreError) -> RepoHostError {
    match error {
        RepoStoreError::Busy => RepoHostError::Busy,
        RepoStoreError::Full | RepoStoreError::Failed => RepoHostError::Full,
    }
}

impl RepoHost for StoreAndEngine<'_> {
    fn store(&mut self, name: NameRef<'_>, packet: &[u8]) -> Result<(), RepoHostError> {
        self.store.store(name, packet).map_err(host_error)
    }

    fn contains(&self, name: NameRef<'_>) -> bool {
        self.store.contains(name)
    }

    fn remove(&mut self, name: NameRef<'_>) -> Result<bool, RepoHostError> {
        self.store.remove(name).map_err(host_error)
    }

    fn remembers(&self, digest: &[u8; 32]) -> bool {
        self.store.remembers(digest)
    }

    fn remember(&mut self, digest: [u8; 32]) -> Result<(), RepoHostError> {
        self.store.remember(digest).map_err(host_error)
    }

    fn flush(&mut self) -> u64 {
        self.store.flush()
    }

    fn latest_flush(&self) -> u64 {
        self.store.latest_flush()
    }

    fn flushed(&self, since: u64, flush: u64) -> Option<bool> {
        self.store.flushed(since, flush)
    }

    fn forget_cached(&mut self, name: NameRef<'_>) {
        // In memory and in the cache on disk.
        self.engine.forwarder.erase_cs(name, None);
    }

    fn now_ms(&self) -> u64 {
        now_ms()
    }
}
