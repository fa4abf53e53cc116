//! [`RelayHandle`]: another thread has an engine use relays that it did not know of when it was made.

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
    /// As [`Engine::use_relay`], soon. One that cannot be used is passed over.
    pub fn use_relay(&self, uses: RelayUse) {
        // An engine that has ended needs none.
        let _ = self.tell.send(uses);
        self.wake();
    }

    /// Wakes the engine's loop.
    pub fn wake(&self) {
        // Without it the loop looks within a tenth of a second.
        let _ = self.waker.wake();
    }
}

impl Engine {
    /// A handle for another thread, the only one that is good.
    ///
    /// # Errors
    /// As [`Engine::waker`].
    pub fn relay_handle(&mut self) -> Result<RelayHandle, EngineError> {
        let (tell, told) = channel();
        self.net.reaching.told = Some(told);
        Ok(RelayHandle { tell, waker: self.waker()? })
    }

    /// Uses what the handle has told of.
    pub(crate) fn use_told_relays(&mut self) {
        let next = |told: &Receiver<RelayUse>| told.try_recv().ok();
        while let Some(uses) = self.net.reaching.told.as_ref().and_then(next) {
            if let Err(e) = self.use_relay(uses) {
                tracing::debug!(%e, "a relay");
            }
        }
    }
}
