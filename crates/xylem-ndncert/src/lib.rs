//! placeholder
mod authority;
mod chance;
mod numbers;
pub mod packets;
mod session;

pub use authority::{Answer, Authority, AuthorityError, Config, Event, Limits, Policy, Standard};
pub use numbers::{ErrorCode, Kind, Status};
pub use session::{
    Agreement, Derivation, KEY_LEN, POINT_LEN, RequestId, SALT_LEN, SESSION_CONTEXT, Session,
    SessionError,
};
