//! [`FramedStream`]: the mail protocol's frames over one stream of an engine's link.

use xylem_forward::FaceId;
use xylem_link::{StreamId, StreamRead};
use xylem_mail::protocol::{Frame, Frames};

use xylem_engine::Engine;

/// Bytes that may wait to be written before more is made.
const ENOUGH: usize = 128 * 1024;
/// What a stream that is not understood is reset with.
const NOT_UNDERSTOOD: u32 = 1;

/// One stream.
pub(super) struct FramedStream {
    pub(super) face: FaceId,
    pub(super) stream: StreamId,
    out: Vec<u8>,
    frames: Frames,
    /// The other side ends its half.
    pub(super) ended: bool,
    finished: bool,
}

impl FramedStream {
    pub(super) fn new(face: FaceId, stream: StreamId) -> Self {
        let (out, frames) = (Vec::new(), Frames::new());
        Self { face, stream, out, frames, ended: false, finished: false }
    }

    /// Takes in a frame to be written.
    pub(super) fn send(&mut self, frame: &Frame) {
        frame.encode(&mut self.out);
    }

    /// Whether there is room for more.
    pub(super) fn has_room(&self) -> bool {
        self.out.len() < ENOUGH
    }

    /// Writes what the stream takes; false if it is of no more use.
    pub(super) fn write(&mut self, engine: &mut Engine) -> bool {
        while !self.out.is_empty() {
            match engine.write_stream(self.face, self.stream, &self.out) {
                Ok(0) => return true,
                Ok(taken) => drop(self.out.drain(..taken)),
                Err(_) => return false,
            }
        }
        true
    }

    /// Ends this half, once everything is written.
    pub(super) fn finish(&mut self, engine: &mut Engine) {
        if self.out.is_empty() && !self.finished {
            self.finished = true;
            // One that is gone is as good as finished.
            let _ = engine.finish_stream(self.face, self.stream);
        }
    }

    /// The next frame that has arrived; an error if the stream is of no more use.
    pub(super) fn next_frame(&mut self, engine: &mut Engine) -> Result<Option<Frame>, ()> {
        loop {
            if let Some(frame) = self.frames.next_frame().map_err(drop)? {
                return Ok(Some(frame));
            }
            if self.ended {
                return Ok(None);
            }
            match engine.read_stream(self.face, self.stream).map_err(drop)? {
                StreamRead::Data(bytes) => self.frames.push(&bytes),
                StreamRead::Pending => return Ok(None),
                StreamRead::Finished => self.ended = true,
            }
            if self.ended && !self.frames.is_between() {
                return Err(());
            }
        }
    }

    /// Gives the stream up.
    pub(super) fn abandon(&self, engine: &mut Engine) {
        engine.abandon_stream(self.face, self.stream, NOT_UNDERSTOOD);
    }
}
