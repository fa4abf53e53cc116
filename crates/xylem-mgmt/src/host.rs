//! [`ManagementHost`]: the program with the sockets and the clock, as management needs it.

use xylem_forward::{FaceId, FaceScope, Forwarder, LinkType};

use crate::{ControlParameters, FaceUri};

/// How long a face lives (NFD wiki, "FaceMgmt").
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Persistency {
    /// Until it fails or is destroyed.
    #[default]
    Persistent,
    /// As [`Self::Persistent`], but it ends after a time without traffic.
    OnDemand,
    /// Until it is destroyed; failures only interrupt it.
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

/// The description of a face, except the forwarder's counters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FaceInfo {
    /// The remote end.
    pub remote: FaceUri,
    /// The local end.
    pub local: FaceUri,
    /// Whether it is local.
    pub scope: FaceScope,
    /// How long it lives.
    pub persistency: Persistency,
    /// How many peers it reaches.
    pub link_type: LinkType,
    /// Maximum frame in bytes, where there is a limit.
    pub mtu: Option<u64>,
    /// [`crate::types::FLAG_LOCAL_FIELDS`] and so on.
    pub flags: u64,
    /// Interval of congestion marks in nanoseconds, where they are on.
    pub base_congestion_marking_interval: Option<u64>,
    /// Threshold of congestion marks in bytes, where they are on.
    pub default_congestion_threshold: Option<u64>,
    /// Milliseconds until it ends without traffic, for faces on demand.
    pub expires_ms: Option<u64>,
}

/// A refusal of a command, with its reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandRefusal {
    /// Status code as in HTTP: 400 malformed, 404 unknown, 406 unacceptable, 409 exists already, 504 the socket failed.
    pub code: u64,
    /// The reason for people.
    pub text: String,
    /// With 409: the face that exists already.
    pub face: Option<FaceId>,
}

impl CommandRefusal {
    /// A refusal without face.
    pub fn new(code: u64, text: impl Into<String>) -> Self {
        CommandRefusal { code, text: text.into(), face: None }
    }

    /// 409: this face leads there already.
    pub fn exists(face: FaceId) -> Self {
        CommandRefusal { code: 409, text: "the face exists already".into(), face: Some(face) }
    }
}

/// The forwarder, its faces and the clock.
///
/// Management knows the faces that it creates and destroys itself. All other changes of faces have to be reported by
/// [`crate::Management::face_up`] and [`crate::Management::face_gone`].
pub trait ManagementHost {
    /// The forwarder.
    fn forwarder(&mut self) -> &mut Forwarder;

    /// The forwarder, for reading.
    fn forwarder_ref(&self) -> &Forwarder;

    /// Opens a face to `uri`. `parameters` may contain persistency, MTU, flags with their mask, and congestion marking.
    /// Flags and mask are either both present or both absent. Their Uri may also state how to dial it
    /// ([`FaceUri::of_dialled`]).
    ///
    /// # Errors
    /// 406 for a face that cannot be opened, 409 ([`CommandRefusal::exists`]) if there is such a face, 504 if the socket
    /// fails.
    fn create_face(
        &mut self,
        uri: &FaceUri,
        parameters: &ControlParameters,
    ) -> Result<FaceId, CommandRefusal>;

    /// Changes persistency, MTU, flags and congestion marking of a face that exists.
    ///
    /// # Errors
    /// 406 for properties that such a face cannot have.
    fn update_face(
        &mut self,
        face: FaceId,
        parameters: &ControlParameters,
    ) -> Result<(), CommandRefusal>;

    /// Reports that a command of this machine has led a prefix to this face. Its peer's address needs no further proof.
    fn vouch_for_face(&mut self, _face: FaceId) {}

    /// Ends a face and removes it from the forwarder; false if there is none or it has to stay.
    fn destroy_face(&mut self, face: FaceId) -> bool;

    /// Whether a created face still waits for its connection, which may fail. The command is answered once that is
    /// known, by [`crate::Management::face_up`] or [`crate::Management::face_failed`].
    fn is_opening(&self, _face: FaceId) -> bool {
        false
    }

    /// The description of a face; `None` if there is none.
    fn face_info(&self, face: FaceId) -> Option<FaceInfo>;

    /// The listening sockets, for faces/channels.
    fn channels(&self) -> Vec<FaceUri> {
        Vec::new()
    }

    /// Name and version of the program, for status/general.
    fn version(&self) -> String {
        concat!("xylem ", env!("CARGO_PKG_VERSION")).into()
    }

    /// Stores the state that the guard against repeated commands needs after a restart (`ReplayGuard::keep` of
    /// xylem-trust). It has to be on the disk when this returns.
    ///
    /// # Errors
    /// 504; the command is not obeyed then.
    fn keep_command_times(&mut self, _times: &[u8]) -> Result<(), CommandRefusal> {
        Ok(())
    }

    /// Start of the program, in milliseconds since 1970.
    fn started_ms(&self) -> u64;

    /// The time of day, milliseconds since 1970.
    fn now_ms(&self) -> u64;
}
