//! What the command and the background node say to each other: a line of JSON for a request, lines of
//! JSON for what comes of it, the last of which is the answer. One request a connection.

use super::listed::BackgroundFolder;
use crate::exit::{Exit, Failure};
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use std::path::PathBuf;
use xylem_library::registry::{Registered, ShareTerms, path_text};
use xylem_node::Event;
use xylem_object::Ticket;

/// Bytes of a request, at most.
pub(crate) const MAX_REQUEST: u64 = 512 * 1024;

/// What the command asks for. Paths are absolute.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
pub(crate) enum Request {
    /// Share this from now on. Its word is not that of versions before terms, which would take it for a share
    /// with everybody.
    #[serde(rename = "share_on_terms")]
    Share {
        /// What.
        #[serde(with = "path_text")]
        path: PathBuf,
        /// How, all of it.
        terms: ShareTerms,
    },
    /// Share it no more.
    Unshare {
        /// By its path,
        #[serde(with = "path_text")]
        path: PathBuf,
        /// or by its id.
        id: String,
    },
    /// Say what is shared.
    Shares,
    /// Keep this folder in step from now on. It is a member of its group already.
    Sync(BackgroundFolder),
    /// Do so no more.
    Unsync {
        /// The folder.
        #[serde(with = "path_text")]
        path: PathBuf,
    },
    /// Say which folders are kept in step.
    Folders,
}

/// What comes back.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "reply", rename_all = "snake_case")]
pub(crate) enum Reply {
    /// So many bytes are read of so many.
    Hashing { done: u64, total: u64 },
    /// Something that the user should know; it goes on.
    Warning { what: String },
    /// The answer to [`Request::Share`].
    Shared(Box<Shared>),
    /// Also an answer to [`Request::Share`]: it does not, for this reason; whoever asks may do it in its own process.
    Declined { why: String },
    /// The answer to [`Request::Unshare`]: what was ended.
    Unshared { shares: Vec<Registered> },
    /// The answer to [`Request::Shares`].
    Shares { shares: Vec<Row> },
    /// The answer to [`Request::Sync`]: with what others join, as soon as it is known.
    Synced { ticket: Option<String> },
    /// The answer to [`Request::Unsync`].
    Unsynced,
    /// The answer to [`Request::Folders`].
    Folders { folders: Vec<FolderRow> },
    /// Any answer, where it cannot be done.
    Failed { exit: u8, message: String },
}

/// What [`Event::Shared`] says, as text.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Shared {
    ticket: String,
    name: String,
    root: String,
    pub(crate) bytes: u64,
    pub(crate) files: u64,
    /// Whether it is signed by whoever it was fetched from, and not by the key of this store.
    #[serde(default)]
    onward: bool,
    listen: Vec<SocketAddr>,
}

impl Shared {
    /// `None` for another event.
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

    /// The event again.
    pub(crate) fn event(self) -> Result<Event, Failure> {
        let strange = || Failure::new(Exit::Local, "the background node says what is no share");
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

/// One share, as `xylem shares` shows it; as JSON an event of `docs/spec/json-events.md`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "event", rename = "share")]
pub(crate) struct Row {
    pub(crate) id: String,
    #[serde(with = "path_text")]
    pub(crate) path: PathBuf,
    /// The name that was asked for.
    pub(crate) name: Option<String>,
    /// Who alone may read it.
    pub(crate) recipients: Option<Vec<String>>,
    /// What of a directory is left out.
    pub(crate) exclude: Vec<String>,
    /// Whether the LAN may be told of it.
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
    /// Why not.
    pub(crate) why: Option<String>,
}

/// A folder that the background node keeps in step.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct FolderRow {
    #[serde(with = "path_text")]
    pub(crate) path: PathBuf,
    /// Why it does not run; it is started again.
    pub(crate) why: Option<String>,
}

impl Row {
    /// As people are told of it: its path, and what tells it from others of the same path.
    pub(crate) fn called(&self) -> String {
        let Self { path, name, recipients, exclude, .. } = self;
        super::called(path, name.as_deref(), recipients.as_deref(), exclude)
    }
}

/// One message as it is written.
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
    fn requests_come_back_and_rows_are_documented() {
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
        let request = Request::Share { path: xylem_library::os_path(b"/a/\xff"), terms };
        let line = line(&request);
        assert_eq!(line.iter().filter(|b| **b == b'\n').count(), 1);
        assert_eq!(serde_json::from_slice::<Request>(&line).unwrap(), request);
        // What another version can ask for and this one can't do is not passed over.
        let text = String::from_utf8(line).unwrap();
        let newer = text.replace(r#""map":false"#, r#""map":false,"by_day":true"#);
        assert!(newer != text && serde_json::from_str::<Request>(&newer).is_err(), "{newer}");
        assert_documented(&Row {
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
