//! placeholder
mod authority;
mod chance;
mod numbers;
pub mod packets;
mod request;
mod session;

pub use authority::{Answer, Authority, AuthorityError, Config, Event, Limits, Policy, Standard};
pub use numbers::{ErrorCode, Kind, Status};
pub use request::{Believe, Choice, Lookup, Profile, Request, RequestError, State};
pub use session::{
    Agreement, Derivation, KEY_LEN, POINT_LEN, RequestId, SALT_LEN, SESSION_CONTEXT, Session,
    SessionError,
};
