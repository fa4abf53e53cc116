//! Contents of packets: the ApplicationParameters of requests and the Content of answers. The two state machines handle
//! names, signatures and permissions.

mod challenge;
mod encrypted;
mod error;
mod fields;
mod info;
mod new;
mod parameters;
mod probe;

pub use challenge::{ChallengeProgress, ChallengeRequest, ChallengeResponse};
pub use encrypted::Encrypted;
pub use error::ErrorMessage;
pub use fields::FormatError;
pub use info::CaInfo;
pub use new::{NewRequest, NewResponse};
pub use parameters::ChallengeParameters;
pub use probe::{ProbeRequest, ProbeResponse};
