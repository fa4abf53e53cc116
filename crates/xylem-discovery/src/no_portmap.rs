//! [`PortMap`] of a build without the feature `portmap`: no router is asked.

use crate::{DiscoveryError, MapEvent, PortMapOptions, Wake};

/// Why no router maps a port.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PortMapError {
    /// This program cannot ask one.
    #[error("port mapping is not built into this program (the feature `portmap`)")]
    NotBuilt,
}

/// A handle to a mapping that is never made.
pub struct PortMap {
    reported: bool,
}

impl PortMap {
    /// Makes a handle. Its one event reports that no router is asked.
    ///
    /// # Errors
    /// None.
    pub fn start(_: PortMapOptions, wake: Wake) -> Result<Self, DiscoveryError> {
        wake();
        Ok(Self { reported: false })
    }

    /// The next event, if there is one.
    pub fn poll(&mut self) -> Option<MapEvent> {
        let is_new = !std::mem::replace(&mut self.reported, true);
        is_new.then_some(MapEvent::Failed(PortMapError::NotBuilt))
    }
}
