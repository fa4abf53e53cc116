//! How many faces there may be, and what is told where they are taken.

use std::time::Duration;

use xylem_forward::FaceId;
use xylem_library::admission::{Admission, Capacity, Kind, Prove};

/// How many faces there may be, and how long an idle one stays.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Faces to other machines; more are ignored or refused. Local ones get a few more.
    pub faces: usize,
    /// A UDP peer that says nothing for this long loses the face that its first packet made.
    pub idle: Duration,
    /// Which UDP peers have to show that they are there.
    pub prove: Prove,
    /// Interests a second from each face.
    pub interests_per_second: Option<u32>,
    /// Pending Interests of each face; for one more its oldest goes out.
    pub pit_quota: Option<usize>,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            faces: 1_024,
            idle: Duration::from_secs(600),
            prove: Prove::default(),
            interests_per_second: None,
            pit_quota: Some(8_192),
        }
    }
}

/// What is told once, however often it happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// All places of this kind are taken.
    Crowded(Kind),
    /// Somebody over UDP wants more than it is sent, and has not answered.
    Unproven,
    /// The system hands over no connection.
    Accepting,
}

/// Nobody is there; the process's limit of open files is raised as far as it may be, and shared out.
pub(crate) fn admission(faces: usize) -> Admission<FaceId> {
    let capacity = Capacity::new(faces, xylem_sockets::descriptors());
    xylem_store::hold_at_most(capacity.files);
    Admission::new(capacity)
}
