//! A program at the other end of a Unix socket, in place of an NDN forwarder.

use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;

use xylem_packet::{Interest, frame_len};

/// The bytes written back for each Interest received.
pub(crate) type Answers = dyn Fn(&Interest<'_>) -> Vec<u8> + Send + Sync;

/// Answers every connection at `path`; returns its URI.
pub(crate) fn answering(
    path: &Path,
    answers: impl Fn(&Interest<'_>) -> Vec<u8> + Send + Sync + 'static,
) -> String {
    let listener = UnixListener::bind(path).unwrap();
    let answers: Arc<Answers> = Arc::new(answers);
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let answers = answers.clone();
            std::thread::spawn(move || serve(stream, &*answers));
        }
    });
    format!("unix://{}", path.display())
}

fn serve(mut stream: UnixStream, answers: &Answers) {
    let (mut held, mut chunk) = (Vec::new(), [0; 4096]);
    while let Ok(read @ 1..) = stream.read(&mut chunk) {
        held.extend_from_slice(&chunk[..read]);
        while let Ok(Some(len)) = frame_len(&held) {
            let frame: Vec<u8> = held.drain(..len).collect();
            let Ok(asked) = Interest::decode(&frame) else { continue };
            if stream.write_all(&answers(&asked)).is_err() {
                return;
            }
        }
    }
}
