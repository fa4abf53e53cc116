//! What management needs of the program that has the sockets and the clock.

use xylem_forward::{FaceId, FaceScope, Forwarder, LinkType};

use crate::{ControlParameters, FaceUri};

/// How long a face lives (NFD wiki, "FaceMgmt").
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Persistency {
    /// Until it fails or is destroyed.
    #[default]
    Persistent,
    /// As [`Self::Persistent`], and not for long without traffic.
    OnDemand,
    /// Until it is destroyed; failures are waited out.
    Permanent,
}

impl Persistency {
    /// Its number in the protocol.
    pub const fn number(self) -> u64 {
        match self {
            Persistency::Persistent => 0,
            Persistency::OnDemand => 1,
            Persistency::Permanent => 2,
        }
    }

    /// Its name in words.
    pub const fn name(self) -> &'static str {
        match self {
            Persistency::Persistent => "persistent",
            Persistency::OnDemand => "on-demand",
            Persistency::Permanent => "permanent",
        }
    }

    /// The persistency of this number.
    pub const fn from_number(number: u64) -> Option<Self> {
        match number {
            0 => Some(Persistency::Persistent),
            1 => Some(Persistency::OnDemand),
            2 => Some(Persistency::Permanent),
            _ => None,
        }
    }
}

/// What is told about a face, beside the forwarder's counters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FaceInfo {
    /// The remote end.
    pub remote: FaceUri,
    /// The local end.
    pub local: FaceUri,
    /// Where it leads.
    pub scope: FaceScope,
    /// How long it lives.
    pub persistency: Persistency,
    /// Who hears it.
    pub link_type: LinkType,
    /// Longest frame in bytes, where there is one.
    pub mtu: Option<u64>,
    /// [`crate::types::FLAG_LOCAL_FIELDS`] and so on.
    pub flags: u64,
    /// Nanoseconds, where congestion is marked.
    pub base_congestion_marking_interval: Option<u64>,
    /// Bytes, where congestion is marked.
    pub default_congestion_threshold: Option<u64>,
    /// Milliseconds until it ends if nothing comes, on demand.
    pub expires_ms: Option<u64>,
}

/// Why something is not done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// As in HTTP: 400 malformed, 404 unknown, 406 unacceptable, 409 exists already, 504 the
    /// socket failed.
    pub code: u64,
    /// For people.
    pub text: String,
    /// With 409: the face that exists already.
    pub face: Option<FaceId>,
}

impl Refusal {
    /// A refusal without face.
    pub fn new(code: u64, text: impl Into<String>) -> Self {
        Refusal { code, text: text.into(), face: None }
    }

    /// 409: this face leads there already.
    pub fn exists(face: FaceId) -> Self {
        Refusal { code: 409, text: "the face exists already".into(), face: Some(face) }
    }
}

/// The forwarder, its faces and the clock.
///
/// Faces that management itself creates and destroys need not be reported to it; all others do, by
/// [`crate::Management::face_up`] and [`crate::Management::face_gone`].
pub trait Host {
    /// The forwarder.
    fn forwarder(&mut self) -> &mut Forwarder;

    /// The forwarder, to be looked at.
    fn forwarder_ref(&self) -> &Forwarder;

    /// Opens a face to `uri`; `parameters` may say persistency, MTU, flags with their mask, and
    /// congestion marking. Both flags and mask are there, or neither.
    ///
    /// # Errors
    /// 406 for what cannot be opened, 409 ([`Refusal::exists`]) if there is such a face, 504 if
    /// the socket fails.
    fn create_face(
        &mut self,
        uri: &FaceUri,
        parameters: &ControlParameters,
    ) -> Result<FaceId, Refusal>;

    /// Changes persistency, MTU, flags and congestion marking of a face that exists.
    ///
    /// # Errors
    /// 406 for what such a face cannot be.
    fn update_face(&mut self, face: FaceId, parameters: &ControlParameters) -> Result<(), Refusal>;

    /// Ends a face and takes it from the forwarder; false if there is none or it has to stay.
    fn destroy_face(&mut self, face: FaceId) -> bool;

    /// Whether a face that was created waits for its connection, which may still fail: whoever asked for
    /// the face is answered when that is known, by [`crate::Management::face_up`] or
    /// [`crate::Management::face_failed`].
    fn is_opening(&self, _face: FaceId) -> bool {
        false
    }

    /// What a face is made of; `None` if there is none.
    fn face_info(&self, face: FaceId) -> Option<FaceInfo>;

    /// Where new faces come from, for faces/channels.
    fn channels(&self) -> Vec<FaceUri> {
        Vec::new()
    }

    /// Name and version of the program, for status/general.
    fn version(&self) -> String {
        concat!("xylem ", env!("CARGO_PKG_VERSION")).into()
    }

    /// Stores what the guard against repeated commands must know after a restart (`ReplayGuard::keep`
    /// of xylem-trust); on the disk when this returns.
    ///
    /// # Errors
    /// 504; the command is not obeyed then.
    fn keep_command_times(&mut self, _times: &[u8]) -> Result<(), Refusal> {
        Ok(())
    }

    /// When the program began, milliseconds since 1970.
    fn started_ms(&self) -> u64;

    /// The time of day, milliseconds since 1970.
    fn now_ms(&self) -> u64;
}
