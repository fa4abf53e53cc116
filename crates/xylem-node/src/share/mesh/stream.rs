//! [`Stream`]: what goes to and comes from one other member.

use std::collections::VecDeque;
use std::time::Duration;

use xylem_forward::FaceId;
use xylem_library::folder::{Histories, Inbox};
use xylem_link::{StreamId, StreamRead};
use xylem_object::PublisherId;

use super::links::Links;

/// A stream to another member.
pub(super) struct Stream {
    pub(super) stream: StreamId,
    /// The key that the other end has proven.
    pub(super) key: [u8; 32],
    /// The member that we have dialled, if it was us.
    pub(super) dialled: Option<PublisherId>,
    /// The member that the other end speaks for. Its statement names the key of this link, and whoever has that key has
    /// sent the statement as its own: both have said it. Before that it is told nothing but who we are.
    pub(super) member: Option<PublisherId>,
    /// What it has shown of itself where a schema says who is a member.
    pub(super) shown: Vec<u8>,
    pub(super) out: Vec<u8>,
    /// Members whose statements are to be said to it.
    pub(super) owed: VecDeque<PublisherId>,
    /// Which statements we know was said on it.
    pub(super) has_listed: bool,
    /// The other end has said which it knows.
    pub(super) was_listed: bool,
    pub(super) inbox: Inbox,
    /// The other end was told that it is no member: until then it may still read that.
    pub(super) ends: Option<Duration>,
}

impl Stream {
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
            inbox: Inbox::default(),
            ends: None,
        }
    }

    /// Says which statements are known, so that the other end says those that are not.
    pub(super) fn list(&mut self, heard: &Histories) {
        self.has_listed = true;
        self.queue(&heard.list());
    }

    pub(super) fn queue(&mut self, said: &[u8]) {
        Inbox::framed(said, &mut self.out);
    }

    /// Writes what the stream takes; false if it is of no more use.
    pub(super) fn write(&mut self, links: &mut dyn Links, face: FaceId) -> bool {
        while !self.out.is_empty() {
            match links.write(face, self.stream, &self.out) {
                Ok(0) => return true,
                Ok(taken) => drop(self.out.drain(..taken)),
                Err(_) => return false,
            }
        }
        true
    }

    /// The next statement that is here; an error if the stream is of no more use.
    pub(super) fn next(
        &mut self,
        links: &mut dyn Links,
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
