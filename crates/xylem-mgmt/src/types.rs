//! Assigned numbers of the NFD management protocol (NFD wiki: Management, FaceMgmt, FibMgmt, RibMgmt, CsMgmt,
//! StrategyChoice, ForwarderStatus). One number may have several meanings. Each constant is named after the commonest
//! meaning; its documentation lists the others.

/// A Name, as in packets.
pub const NAME: u32 = 0x07;

/// ControlResponse.
pub const CONTROL_RESPONSE: u32 = 0x65;
/// ControlResponse: StatusCode.
pub const STATUS_CODE: u32 = 0x66;
/// ControlResponse: StatusText.
pub const STATUS_TEXT: u32 = 0x67;
/// ControlParameters.
pub const CONTROL_PARAMETERS: u32 = 0x68;

/// FaceId.
pub const FACE_ID: u32 = 0x69;
/// Cost.
pub const COST: u32 = 0x6A;
/// Strategy: holds a Name.
pub const STRATEGY: u32 = 0x6B;
/// Flags.
pub const FLAGS: u32 = 0x6C;
/// ExpirationPeriod, milliseconds.
pub const EXPIRATION_PERIOD: u32 = 0x6D;
/// Origin of a route.
pub const ORIGIN: u32 = 0x6F;
/// Mask: the flags to be changed.
pub const MASK: u32 = 0x70;
/// Uri of the remote end.
pub const URI: u32 = 0x72;
/// One entry of a dataset; in ForwarderStatus, NfdVersion.
pub const ENTRY: u32 = 0x80;
/// LocalUri; in entries, NextHopRecord and Route; in ForwarderStatus, StartTimestamp; in CsInfo, NHits.
pub const LOCAL_URI: u32 = 0x81;
/// ChannelStatus; in ForwarderStatus, CurrentTimestamp; in CsInfo, NMisses.
pub const CHANNEL_STATUS: u32 = 0x82;
/// Capacity; in FaceQueryFilter, UriScheme; in ForwarderStatus, NNameTreeEntries.
pub const CAPACITY: u32 = 0x83;
/// Count; of faces, FaceScope; in ForwarderStatus, NFibEntries.
pub const COUNT: u32 = 0x84;
/// FacePersistency; in ForwarderStatus, NPitEntries.
pub const FACE_PERSISTENCY: u32 = 0x85;
/// LinkType; in ForwarderStatus, NMeasurementsEntries.
pub const LINK_TYPE: u32 = 0x86;
/// BaseCongestionMarkingInterval, nanoseconds; in ForwarderStatus and CsInfo, NCsEntries.
pub const BASE_CONGESTION_MARKING_INTERVAL: u32 = 0x87;
/// DefaultCongestionThreshold, bytes.
pub const DEFAULT_CONGESTION_THRESHOLD: u32 = 0x88;
/// Mtu.
pub const MTU: u32 = 0x89;

/// NInInterests.
pub const N_IN_INTERESTS: u32 = 0x90;
/// NInData.
pub const N_IN_DATA: u32 = 0x91;
/// NOutInterests.
pub const N_OUT_INTERESTS: u32 = 0x92;
/// NOutData.
pub const N_OUT_DATA: u32 = 0x93;
/// NInBytes.
pub const N_IN_BYTES: u32 = 0x94;
/// NOutBytes.
pub const N_OUT_BYTES: u32 = 0x95;
/// FaceQueryFilter.
pub const FACE_QUERY_FILTER: u32 = 0x96;
/// NInNacks.
pub const N_IN_NACKS: u32 = 0x97;
/// NOutNacks.
pub const N_OUT_NACKS: u32 = 0x98;
/// NSatisfiedInterests.
pub const N_SATISFIED_INTERESTS: u32 = 0x99;
/// NUnsatisfiedInterests.
pub const N_UNSATISFIED_INTERESTS: u32 = 0x9A;

/// FaceEventNotification.
pub const FACE_EVENT_NOTIFICATION: u32 = 0xC0;
/// FaceEventKind.
pub const FACE_EVENT_KIND: u32 = 0xC1;

/// Face flag: NextHopFaceId, IncomingFaceId and CachePolicy are understood.
pub const FLAG_LOCAL_FIELDS: u64 = 1;
/// Face flag: link reliability.
pub const FLAG_LP_RELIABILITY: u64 = 2;
/// Face flag: congestion marks.
pub const FLAG_CONGESTION_MARKING: u64 = 4;

/// Route flag: longer prefixes have this route too.
pub const ROUTE_CHILD_INHERIT: u64 = 1;
/// Route flag: this prefix and longer ones have no routes of shorter prefixes.
pub const ROUTE_CAPTURE: u64 = 2;

/// Content store flag: new Data are kept.
pub const CS_ADMIT: u64 = 1;
/// Content store flag: Interests are answered.
pub const CS_SERVE: u64 = 2;

/// Origin of routes that applications register.
pub const ORIGIN_APP: u64 = 0;
/// Origin of routes that a client's library registers.
pub const ORIGIN_CLIENT: u64 = 65;
/// Origin of routes that a routing protocol makes.
pub const ORIGIN_NLSR: u64 = 128;
/// Origin of routes made by prefix announcements.
pub const ORIGIN_PREFIXANN: u64 = 129;
/// Origin of routes that a person sets.
pub const ORIGIN_STATIC: u64 = 255;
