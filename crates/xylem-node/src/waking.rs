//! [`wake_of`]: lets threads wake a program's loop.

use std::sync::Arc;

use xylem_base::Wake;
use xylem_engine::{Engine, EngineError};

/// Makes a function that wakes this engine's loop.
pub(crate) fn wake_of(engine: &mut Engine) -> Result<Wake, EngineError> {
    let waker = engine.waker()?;
    // If waking fails, the loop looks again soon anyway.
    Ok(Arc::new(move || drop(waker.wake())))
}
