//! Messages between the command and the background node: a request is one line of JSON; the replies are lines of JSON,
//! of which the last one is the answer. Each connection carries one request.

use super::listed::BackgroundFolder;
use crate::exit::{CommandFailure, Exit};
use serde::{Deserialize, Serialize};
use std::net::IpAddr;
use std::net::SocketAddr;
use std::path::PathBuf;
use xylem_node::{Event, RelayLoad};
use xylem_object::Ticket;
use xylem_publish::registry::{Registered, ShareTerms, path_text};

/// Longest request in bytes.
pub(crate) const MAX_REQUEST: u64 = 512 * 1024;

/// A request of the command. Paths are absolute.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
pub(crate) enum ServiceRequest {
    /// Share this path from now on. The tag differs from that of old versions without terms, which would ignore the
    /// terms and share it publicly.
    #[serde(rename = "share_on_terms")]
    Share {
        /// The path.
        #[serde(with = "path_text")]
        path: PathBuf,
        /// All its terms.
        terms: ShareTerms,
    },
    /// End a share.
    Unshare {
        /// Its path,
        #[serde(with = "path_text")]
        path: PathBuf,
        /// or by its id.
        id: String,
    },
    /// List the shares.
    Shares,
    /// Keep this folder in step from now on. It is a member of its group already.
    Sync(BackgroundFolder),
    /// Stop keeping a folder in step.
    Unsync {
        /// The folder.
        #[serde(with = "path_text")]
        path: PathBuf,
    },
    /// List the folders in step.
    Folders,
    /// Have a relay report its load, with so many lines of each table.
    RelayLoad { rows: u16 },
    /// Have a relay keep a link key, an address or a network away.
    RelayBan { who: String },
    /// Have a relay end a ban.
    RelayUnban { who: String },
    /// Have a relay list its bans.
    RelayBans,
    /// Have a relay take no more clients, and end after this time at the latest.
    RelayDrain { seconds: u64 },
}

/// A reply of the background node.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "reply", rename_all = "snake_case")]
pub(crate) enum ServiceReply {
    /// Progress: bytes read, and bytes in total.
    Hashing { done: u64, total: u64 },
    /// A warning for the user; the request continues.
    Warning { what: String },
    /// The answer to [`Request::Share`].
    Shared(Box<SharedReply>),
    /// An answer to [`Request::Share`]: the node does not share it, for this reason. The client may serve it from its
    /// own process.
    Declined { why: String },
    /// The answer to [`Request::Unshare`]: the shares that were ended.
    Unshared { shares: Vec<Registered> },
    /// The answer to [`Request::Shares`].
    Shares { shares: Vec<ShareRow> },
    /// The answer to [`Request::Sync`]: the ticket to join, as soon as it is known.
    Synced { ticket: Option<String> },
    /// The answer to [`Request::Unsync`].
    Unsynced,
    /// The answer to [`Request::Folders`].
    Folders { folders: Vec<FolderRow> },
    /// The load of a relay.
    RelayLoad(RelayLoadReply),
    /// A ban is in force, and so many registrations were removed.
    RelayBanned { removed: u64 },
    /// A ban has ended.
    RelayUnbanned,
    /// The bans of a relay.
    RelayBans { bans: Vec<String> },
    /// A relay takes no more clients.
    RelayDraining,
    /// The answer to a request that failed.
    Failed { exit: u8, message: String },
}

/// The content of [`Event::Shared`] as text.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct SharedReply {
    ticket: String,
    name: String,
    root: String,
    pub(crate) bytes: u64,
    pub(crate) files: u64,
    /// Whether it is the signed publication of another publisher, and not signed by the key of this store.
    #[serde(default)]
    onward: bool,
    listen: Vec<SocketAddr>,
}

impl SharedReply {
    /// Converts an event; `None` if it is another one.
    pub(crate) fn of(event: &Event) -> Option<Self> {
        let Event::Shared { ticket, name, root, bytes, files, signed_by, listen, .. } = event
        else {
            return None;
        };
        Some(Self {
            ticket: ticket.to_string(),
            name: name.to_string(),
            root: root.to_string(),
            bytes: *bytes,
            files: *files,
            onward: signed_by.is_some(),
            listen: listen.clone(),
        })
    }

    /// The ticket's text.
    pub(crate) fn ticket(&self) -> &str {
        &self.ticket
    }

    /// Converts back into the event.
    pub(crate) fn event(self) -> Result<Event, CommandFailure> {
        let strange = || {
            let what = "the background node's answer is not a share: it may run another version of xylem; restart it";
            CommandFailure::new(Exit::Local, what)
        };
        let ticket: Ticket = self.ticket.parse().map_err(|_| strange())?;
        Ok(Event::Shared {
            signed_by: self.onward.then_some(ticket.publisher),
            ticket: Box::new(ticket),
            name: xylem_packet::Name::from_uri(&self.name).map_err(|_| strange())?,
            root: self.root.parse().map_err(|_| strange())?,
            bytes: self.bytes,
            files: self.files,
            listen: self.listen,
            plain: Vec::new(),
            web: Vec::new(),
            carriers: Vec::new(),
        })
    }
}

/// The load of a relay, as `xylem relay top` shows it; as JSON an event of `docs/spec/json-events.md`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "event", rename = "relay_load")]
pub(crate) struct RelayLoadReply {
    pub(crate) registrations: u64,
    pub(crate) circuits: u64,
    /// Bytes forwarded in the last whole second.
    pub(crate) bytes_per_second: u64,
    pub(crate) dropped: u64,
    pub(crate) sites: Vec<SiteLoadReply>,
    pub(crate) clients: Vec<ClientLoadReply>,
}

/// A network at a relay.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct SiteLoadReply {
    pub(crate) site: String,
    pub(crate) registrations: u64,
    pub(crate) bytes_per_second: u64,
}

/// A client at a relay.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct ClientLoadReply {
    pub(crate) key: String,
    pub(crate) host: String,
    pub(crate) circuits: u64,
    pub(crate) bytes_per_second: u64,
}

impl RelayLoadReply {
    pub(crate) fn of(load: &RelayLoad) -> Self {
        let network = |site: IpAddr| format!("{site}/{}", if site.is_ipv4() { 24 } else { 48 });
        let sites = load.sites.iter().map(|one| SiteLoadReply {
            site: network(one.site),
            registrations: one.registrations as u64,
            bytes_per_second: one.bytes_per_second,
        });
        let clients = load.clients.iter().map(|one| ClientLoadReply {
            key: one.key.iter().map(|byte| format!("{byte:02x}")).collect(),
            host: one.host.to_string(),
            circuits: one.circuits as u64,
            bytes_per_second: one.bytes_per_second,
        });
        Self {
            registrations: load.counters.registrations as u64,
            circuits: load.counters.circuits as u64,
            bytes_per_second: load.bytes_per_second,
            dropped: load.counters.dropped,
            sites: sites.collect(),
            clients: clients.collect(),
        }
    }
}

/// One share, as `xylem shares` shows it; as JSON an event of `docs/spec/json-events.md`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "event", rename = "share")]
pub(crate) struct ShareRow {
    pub(crate) id: String,
    #[serde(with = "path_text")]
    pub(crate) path: PathBuf,
    /// The name that was asked for.
    pub(crate) name: Option<String>,
    /// The only keys that can read it, if it is encrypted.
    pub(crate) recipients: Option<Vec<String>>,
    /// The patterns that are left out of a directory.
    pub(crate) exclude: Vec<String>,
    /// Whether it is announced on the LAN.
    pub(crate) lan: bool,
    pub(crate) ticket: String,
    pub(crate) bytes: u64,
    pub(crate) files: u64,
    pub(crate) since_s: u64,
    pub(crate) sent: u64,
    pub(crate) peers: u64,
    pub(crate) fetched: u64,
    /// Whether all of it can be fetched now.
    pub(crate) served: bool,
    /// Why it cannot.
    pub(crate) why: Option<String>,
}

/// A folder that the background node keeps in step.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct FolderRow {
    #[serde(with = "path_text")]
    pub(crate) path: PathBuf,
    /// Why it does not run now; it will be started again.
    pub(crate) why: Option<String>,
}

impl ShareRow {
    /// The name of a share in messages: its path, and what distinguishes it from others of the same path.
    pub(crate) fn called(&self) -> String {
        let Self { path, name, recipients, exclude, .. } = self;
        super::called(path, name.as_deref(), recipients.as_deref(), exclude)
    }
}

/// Encodes one message as a line.
pub(crate) fn line(message: &impl Serialize) -> Vec<u8> {
    let mut line = serde_json::to_vec(message).expect("plain fields");
    line.push(b'\n');
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::assert_documented;

    #[test]
    fn requests_round_trip_and_rows_are_documented() {
        let terms = ShareTerms {
            name: Some("/x".to_owned()),
            portable: true,
            strict: true,
            exclude: Some(vec!["*.o".to_owned()]),
            recipients: Some(vec!["00".repeat(32)]),
            padded: true,
            lan: false,
            map: false,
        };
        let request = ServiceRequest::Share { path: xylem_base::os_path(b"/a/\xff"), terms };
        let line = line(&request);
        assert_eq!(line.iter().filter(|b| **b == b'\n').count(), 1);
        assert_eq!(serde_json::from_slice::<ServiceRequest>(&line).unwrap(), request);
        // A term that this version does not know is an error and not ignored.
        let text = String::from_utf8(line).unwrap();
        let newer = text.replace(r#""map":false"#, r#""map":false,"by_day":true"#);
        assert!(
            newer != text && serde_json::from_str::<ServiceRequest>(&newer).is_err(),
            "{newer}"
        );
        assert_documented(&ShareRow {
            id: "0".into(),
            path: "/a".into(),
            name: None,
            recipients: None,
            exclude: Vec::new(),
            lan: true,
            ticket: "t".into(),
            bytes: 1,
            files: 1,
            since_s: 1,
            sent: 1,
            peers: 1,
            fetched: 1,
            served: false,
            why: Some("w".into()),
        });
    }
}
