//! [`damaged`]: lists damaged files of the mail store. Readers skip such files, so this makes the loss visible. It
//! changes nothing, and needs no key.

use std::io;
use std::path::{Path, PathBuf};

use xylem_base::{disk, hex};
use xylem_mail::{Card, MailSession, Prekeys};
use xylem_store::read_stream;
use zeroize::Zeroizing;

use super::entries::{Letter, MAX_FILE, Parcel};
use super::letters::PENDING;
use super::store::MAX_SESSION;

/// A damaged file of the mail store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DamagedMail {
    /// Its path.
    pub path: PathBuf,
    /// Its meaning for the user, and the remedy.
    pub what: &'static str,
}

/// Checks the content of a file with a name.
type IsRight = fn(&str, &[u8]) -> bool;

const KINDS: [(&str, usize, &str, IsRight); 4] = [
    (
        "inbox",
        MAX_FILE,
        "a received message is damaged; ask its sender to send it again",
        |_, bytes| Letter::decode(bytes).is_some(),
    ),
    (
        "outbox",
        MAX_FILE,
        "a message that waits for delivery is damaged; send it again",
        |name, bytes| Parcel::decode(bytes).is_some_and(|parcel| hex(&parcel.id().0) == name),
    ),
    (
        "sessions",
        MAX_SESSION,
        "the state of a conversation is damaged; the next message starts a new one",
        |_, bytes| MailSession::restore(bytes, [0; 32]).is_some(),
    ),
    (
        "people",
        4_096,
        "a card is damaged, so its owner has no name here; name it again (`xylem inbox trust NAME CARD`)",
        |_, bytes| std::str::from_utf8(bytes).is_ok_and(|text| text.parse::<Card>().is_ok()),
    ),
];

/// Returns every damaged file of a store's mail, by name; none if there is no mail.
///
/// # Errors
/// A directory cannot be listed.
pub fn damaged(store: &Path) -> io::Result<Vec<DamagedMail>> {
    let mail = store.join("mail");
    let mut found = Vec::new();
    for (directory, limit, what, is_right) in KINDS {
        let directory = mail.join(directory);
        let names = match disk().list_dir(&directory) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => continue,
            other => other?,
        };
        for name in names {
            let name = name.name;
            // An unfinished file of a crashed write begins with a dot, and belongs to no message.
            let hidden = name.to_string_lossy().starts_with('.');
            if !hidden || name.to_string_lossy().starts_with(PENDING) {
                look(directory.join(name), limit, what, is_right, &mut found);
            }
        }
    }
    let what = "the keys for first messages are damaged; move the file away, and new keys are made";
    let prekeys = mail.join("prekeys");
    look(prekeys, 4_096, what, |_, bytes| Prekeys::restore(bytes).is_some(), &mut found);
    found.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(found)
}

fn look(
    path: PathBuf,
    limit: usize,
    what: &'static str,
    is_right: IsRight,
    found: &mut Vec<DamagedMail>,
) {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let mut bytes = Zeroizing::new(Vec::with_capacity(limit));
    let read = read_stream(&path, limit as u64, &mut bytes);
    match read {
        // The file was removed meanwhile, or never existed.
        Err(e) if e.kind() == io::ErrorKind::NotFound => {}
        Ok(()) if is_right(&name, &bytes) => {}
        _ => found.push(DamagedMail { path, what }),
    }
}
