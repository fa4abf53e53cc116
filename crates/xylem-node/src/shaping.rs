//! What a run reports about the shaping of its encrypted links: the level that a peer agreed to.
//!
//! The shaping itself is `xylem-link`'s.

use xylem_forward::FaceId;
use xylem_link::Level;

use crate::engine::Engine;
use crate::event::Event;
use crate::peer::FaceAddress;

/// Reports which level is in force on the link of a face that has come up, if one is, or was wanted.
pub(crate) fn report(
    engine: &Engine,
    face: FaceId,
    wanted: Level,
    peer: &FaceAddress,
    on_event: &mut dyn FnMut(Event),
) {
    if let Some(level) = engine.shaping_of(face)
        && level.max(wanted) > Level::Off
    {
        on_event(Event::Shaped { peer: peer.clone(), level, wanted });
    }
}
