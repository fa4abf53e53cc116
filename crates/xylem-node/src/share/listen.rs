//! Binding the carriers of a share.

use super::ShareError;
use xylem_engine::{Engine, EngineError};
use xylem_library::reachable::{FaceAddress, Peer};

/// Face URIs of the carriers among `asked`, once they are bound.
pub(super) fn bind_carriers(
    engine: &mut Engine,
    asked: &[Peer],
) -> Result<Vec<FaceAddress>, ShareError> {
    let carried = |peer: &&Peer| !matches!(peer, Peer::Link { .. });
    asked
        .iter()
        .filter(carried)
        .map(|peer| match peer {
            Peer::Carried { address, .. } => {
                Ok(engine.listen(peer).map_err(EngineError::listen(*address))?)
            }
            other => Err(ShareError::NotEncrypted(other.into())),
        })
        .collect()
}
