//! [`MemberStream`]: the statements to and from one other member.

use std::collections::VecDeque;
use std::time::Duration;

use xylem_folder::{AdoptedState, Histories, StatementInbox};
use xylem_forward::FaceId;
use xylem_link::{StreamId, StreamRead};
use xylem_object::PublisherId;

use super::links::MeshLinks;

/// A stream to another member.
pub(super) struct MemberStream {
    pub(super) stream: StreamId,
    /// The key that the other end has proven.
    pub(super) key: [u8; 32],
    /// The member that we have dialled, if it was us.
    pub(super) dialled: Option<PublisherId>,
    /// The member that the other end speaks for. Its statement names the key of this link, and the owner of that key
    /// has sent the statement as its own: each confirms the other. Before that we send nothing but our own statement.
    pub(super) member: Option<PublisherId>,
    /// The certificates that it has presented, in a group with a schema.
    pub(super) shown: Vec<u8>,
    pub(super) out: Vec<u8>,
    /// Members with statements still to be sent to it.
    pub(super) owed: VecDeque<PublisherId>,
    /// Whether we have sent the list of the statements that we have.
    pub(super) has_listed: bool,
    /// Whether the other end has sent its list.
    pub(super) was_listed: bool,
    pub(super) inbox: StatementInbox,
    /// Whether the other end has shown a statement of ours that our log has.
    pub(super) has_shown_ours: bool,
    /// The state that the other end has adopted, as long as no statement with it is known here.
    pub(super) adopted: Option<AdoptedState>,
    /// Set after a refusal was sent: time until which the other end may still read it.
    pub(super) ends: Option<Duration>,
}

impl MemberStream {
    pub(super) fn new(stream: StreamId, key: [u8; 32], dialled: Option<PublisherId>) -> Self {
        Self {
            stream,
            key,
            dialled,
            member: None,
            shown: Vec::new(),
            out: Vec::new(),
            owed: VecDeque::new(),
            has_listed: false,
            was_listed: false,
            inbox: StatementInbox::default(),
            has_shown_ours: false,
            adopted: None,
            ends: None,
        }
    }

    /// Sends the list of the statements that we have, so that the other end sends those that we lack.
    pub(super) fn list(&mut self, heard: &Histories) {
        self.has_listed = true;
        self.queue(&heard.list());
    }

    pub(super) fn queue(&mut self, said: &[u8]) {
        StatementInbox::put_framed(said, &mut self.out);
    }

    /// Writes as much as the stream takes. Returns false if the stream is unusable.
    pub(super) fn write(&mut self, links: &mut dyn MeshLinks, face: FaceId) -> bool {
        while !self.out.is_empty() {
            match links.write(face, self.stream, &self.out) {
                Ok(0) => return true,
                Ok(taken) => drop(self.out.drain(..taken)),
                Err(_) => return false,
            }
        }
        true
    }

    /// The next complete statement. An error if the stream is unusable.
    pub(super) fn next(
        &mut self,
        links: &mut dyn MeshLinks,
        face: FaceId,
    ) -> Result<Option<Vec<u8>>, ()> {
        loop {
            if self.inbox.is_full() {
                return Ok(None);
            }
            if let Some(said) = self.inbox.take()? {
                return Ok(Some(said));
            }
            match links.read(face, self.stream).map_err(drop)? {
                StreamRead::Data(bytes) => self.inbox.push(&bytes),
                StreamRead::Pending => return Ok(None),
                StreamRead::Finished => return Err(()),
            }
        }
    }
}
