//! [`RelayHandle`]: lets another thread add relays to an engine that is running.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use mio::Waker;

use super::state::RelayUse;
use crate::{Engine, EngineError};

/// See the module's documentation.
#[derive(Clone)]
pub struct RelayHandle {
    tell: Sender<RelayUse>,
    waker: Arc<Waker>,
}

impl RelayHandle {
    /// Like [`Engine::use_relay`], soon. A relay that cannot be used is skipped.
    pub fn use_relay(&self, uses: RelayUse) {
        // An engine that has ended needs none.
        let _ = self.tell.send(uses);
        self.wake();
    }

    /// Wakes the engine's loop.
    pub fn wake(&self) {
        // If this fails, the loop still checks within a tenth of a second.
        let _ = self.waker.wake();
    }
}

impl Engine {
    /// Makes a handle for another thread; only the last one works.
    ///
    /// # Errors
    /// As [`Engine::waker`].
    pub fn relay_handle(&mut self) -> Result<RelayHandle, EngineError> {
        let (tell, told) = channel();
        self.net.reaching.added_relays = Some(told);
        Ok(RelayHandle { tell, waker: self.waker()? })
    }

    /// Uses the relays that the handle has sent.
    pub(crate) fn use_added_relays(&mut self) {
        let next = |told: &Receiver<RelayUse>| told.try_recv().ok();
        while let Some(uses) = self.net.reaching.added_relays.as_ref().and_then(next) {
            if let Err(e) = self.use_relay(uses) {
                tracing::debug!(%e, "cannot use a relay");
            }
        }
    }
}
