//! Standard input as a growing file.

use std::io::{self, Read};
use std::path::PathBuf;
use std::sync::mpsc::{self, Receiver};
use std::thread;

use xylem_base::UnixTime;
use xylem_files::checkpoint_log;
use xylem_store::{FileRef, OpenHow, Store, StoreError};

use super::grow::FollowInput;

/// Creates the file that takes standard input.
pub(super) fn kept(
    store: &Store,
    input: &FollowInput,
    now: UnixTime,
) -> Result<PathBuf, StoreError> {
    let path = match input {
        FollowInput::Keep(path) => path.clone(),
        FollowInput::Store => {
            let folder = checkpoint_log::folder(store)?;
            folder.join(format!("stdin-{}", now.microseconds()))
        }
    };
    let how = OpenHow::Create { mode: 0o666 };
    FileRef::open(&**store.medium(), &path, how)?;
    Ok(path)
}

/// Starts a thread that appends standard input to `file` and then sends the outcome.
pub(super) fn copy_input(file: FileRef) -> Result<Receiver<io::Result<()>>, StoreError> {
    let mut end = file.metadata()?.size;
    let (send, receive) = mpsc::sync_channel(1);
    let path = file.path().to_path_buf();
    let copying = thread::Builder::new().spawn(move || {
        let mut buffer = vec![0; 256 << 10];
        let mut input = io::stdin().lock();
        let outcome = loop {
            match input.read(&mut buffer) {
                Ok(0) => break Ok(()),
                Ok(got) => {
                    if let Err(e) = file.write_all(&buffer[..got], end) {
                        break Err(io::Error::other(e.to_string()));
                    }
                    end += got as u64;
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => break Err(e),
            }
        };
        let _ = send.send(outcome); // fails after the share has ended
    });
    copying.map_err(|e| StoreError::from_io("start a thread that writes it", &path, None, e))?;
    Ok(receive)
}
