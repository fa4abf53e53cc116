//! Limits on faces, and the warnings when they are reached.

use std::time::Duration;

use xylem_forward::FaceId;
use xylem_peers::admission::{Admission, Capacity, FaceKind, Prove, UNPROVEN_BYTES};

/// Limits on the number of faces, and on how long an idle one stays.
#[derive(Clone, Copy, Debug)]
pub struct FaceLimits {
    /// Most faces to other machines; further ones are ignored or refused. Local programs get a few more.
    pub faces: usize,
    /// A UDP peer that is silent for this long loses the face that its first packet made.
    pub idle: Duration,
    /// The UDP peers that must prove their address.
    pub prove: Prove,
    /// Bytes beyond three for one for each address that has not been proven, and again over 20 minutes; 0: none.
    pub unproven_bytes: u32,
    /// Limit of Interests a second from each face.
    pub interests_per_second: Option<u32>,
    /// Limit of pending Interests of each face; a further one replaces the oldest.
    pub pit_quota: Option<usize>,
}

impl Default for FaceLimits {
    fn default() -> Self {
        Self {
            faces: 1_024,
            idle: Duration::from_secs(600),
            prove: Prove::default(),
            unproven_bytes: UNPROVEN_BYTES,
            interests_per_second: None,
            pit_quota: Some(8_192),
        }
    }
}

/// A problem that is reported once, however often it happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaceTrouble {
    /// All places of this kind are taken.
    Crowded(FaceKind),
    /// An unproven UDP peer needs more than it may be sent, and has not answered the challenge.
    Unproven,
    /// The system refuses to accept connections.
    Accepting,
}

/// Makes an empty admission; raises the process's limit of open files as far as allowed, and divides it.
pub(crate) fn admission(faces: usize) -> Admission<FaceId> {
    let capacity = Capacity::new(faces, xylem_sockets::descriptors());
    xylem_store::limit_open_files(capacity.files);
    Admission::new(capacity)
}
