//! Asks the user before another member's removal of a large part of the folder is carried out. The answer is a file
//! beside the roles, in the directory that is watched.

use std::io;

use super::error::at;
use super::home::{HomeError, SyncHome};

const ACCEPTED: &str = "accept-removals";

impl SyncHome {
    /// Confirms the removals that wait for this member's answer.
    ///
    /// # Errors
    /// The system's.
    pub fn accept_removals(&self) -> Result<(), HomeError> {
        Ok(self.files.replace(&self.roles_dir().join(ACCEPTED), b"yes\n")?)
    }

    /// Returns whether [`SyncHome::accept_removals`] was called since the last call of this function.
    ///
    /// # Errors
    /// The system's.
    pub fn takes_accepted_removals(&self) -> Result<bool, HomeError> {
        let path = self.roles_dir().join(ACCEPTED);
        match self.files.medium().remove_file(&path) {
            Ok(()) => Ok(true),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(e) => Err(at(&path)(e).into()),
        }
    }
}
