//! Co-signatures of witnesses as text.

use xylem_files::Testimony;

use super::text::{bytes, clean, duration};
use std::time::Duration;

/// A witness's co-signature in words.
pub(crate) fn cosigned(said: &Testimony) -> String {
    let Testimony { witness, version, bytes: size, proven, time_ms, since_ms, first } = said;
    let now = xylem_node::wall_clock().milliseconds();
    let ago = |then: u64| duration(Duration::from_millis(now.saturating_sub(then)));
    let how = match (proven, first == version) {
        (_, true) => "it attests no earlier version".to_owned(),
        (true, _) => {
            format!("it begins with every version since v={first}, {} ago", ago(*since_ms))
        }
        (false, _) => {
            format!("it saw the versions in order since v={first}, {} ago", ago(*since_ms))
        }
    };
    let (size, when) = (bytes(*size), ago(*time_ms));
    clean(&format!("{witness} has co-signed v={version}, {size}, {when} ago; {how}")).into_owned()
}
