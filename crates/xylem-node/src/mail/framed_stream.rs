//! [`FramedStream`]: the mail protocol's frames over one stream of an engine's link.

use xylem_forward::FaceId;
use xylem_link::{StreamId, StreamRead};
use xylem_mail::protocol::{MailFrame, MailFrames};

use xylem_engine::Engine;

/// Most bytes in the output buffer before no more are produced.
const MAX_BUFFERED: usize = 128 * 1024;
/// Error code that resets a stream with invalid frames.
const NOT_UNDERSTOOD: u32 = 1;

/// One stream.
pub(super) struct FramedStream {
    pub(super) face: FaceId,
    pub(super) stream: StreamId,
    out: Vec<u8>,
    frames: MailFrames,
    /// The other side has ended its half.
    pub(super) ended: bool,
    finished: bool,
}

impl FramedStream {
    pub(super) fn new(face: FaceId, stream: StreamId) -> Self {
        let (out, frames) = (Vec::new(), MailFrames::new());
        Self { face, stream, out, frames, ended: false, finished: false }
    }

    /// Queues a frame.
    pub(super) fn send(&mut self, frame: &MailFrame) {
        frame.encode(&mut self.out);
    }

    /// Whether the output buffer has room for more.
    pub(super) fn has_room(&self) -> bool {
        self.out.len() < MAX_BUFFERED
    }

    /// Writes as much as the stream takes. Returns false if the stream is unusable.
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

    /// Ends this half once everything is written.
    pub(super) fn finish(&mut self, engine: &mut Engine) {
        if self.out.is_empty() && !self.finished {
            self.finished = true;
            // A stream that is gone is finished as well.
            let _ = engine.finish_stream(self.face, self.stream);
        }
    }

    /// The next complete frame. An error if the stream is unusable.
    pub(super) fn next_frame(&mut self, engine: &mut Engine) -> Result<Option<MailFrame>, ()> {
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

    /// Resets the stream.
    pub(super) fn abandon(&self, engine: &mut Engine) {
        engine.abandon_stream(self.face, self.stream, NOT_UNDERSTOOD);
    }
}
