//! Programs of one home: run to their end, or serving until they are dropped.

use std::path::Path;
use std::process::{Child, Output, Stdio};

use super::{assert_exit, file, finish, text, xylem};

/// Runs the program in `dir`, with the store there.
pub(crate) fn run(dir: &Path, args: &[&str]) -> Output {
    let mut command = xylem(&dir.join("store"));
    command.args(args).current_dir(dir).stdin(Stdio::null());
    finish(command)
}

/// A file with the certificate of one of the store's keys.
pub(crate) fn certificate(dir: &Path, args: &[&str], named: &str) -> String {
    let output = run(dir, &[&["key", "cert"], args].concat());
    assert_exit(&output, 0);
    text(&file(dir, named, &output.stdout)).to_owned()
}

/// A tool that serves, killed when it is dropped.
pub(crate) struct Serving(Child);

impl Serving {
    /// Starts it with the store in `dir`.
    pub(crate) fn start(dir: &Path, args: &[&str]) -> Self {
        let mut command = xylem(&dir.join("store"));
        command.args(args).current_dir(dir);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Serving(command.spawn().expect("the program starts"))
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
