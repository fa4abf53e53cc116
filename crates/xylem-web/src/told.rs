//! [`PageReport`]: reports to the page, as JSON objects or as bytes to keep.

use std::fmt::Write as _;

use crate::layout::{FileLayout, LayoutError};
use crate::runs::ProvenRun;
use xylem_object::Manifest;
use xylem_transfer::{AddError, FailReason, PeerStats, PeerStatus};

/// A report to the page.
#[derive(Debug, PartialEq, Eq)]
pub enum PageReport {
    /// A JSON object with the field `is`.
    Text(String),
    /// Proven bytes, to be kept at their place.
    Run(ProvenRun),
    /// Records of proven nodes, to be appended to those before.
    Nodes(Vec<u8>),
}

/// Reasons for which a fetch ends without success.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DownloadError {
    #[error("it is encrypted for its recipients: they can fetch it with xylem get")]
    Encrypted,
    #[error("no reachable peer has it")]
    NotShared,
    #[error("{0}")]
    Transfer(FailReason),
    #[error(transparent)]
    Layout(#[from] LayoutError),
    #[error(transparent)]
    Object(#[from] AddError),
}

impl From<FailReason> for DownloadError {
    fn from(why: FailReason) -> Self {
        match why {
            FailReason::NobodyHasIt { .. } => Self::NotShared,
            why => Self::Transfer(why),
        }
    }
}

impl DownloadError {
    /// A word for scripts (docs/spec/web.md).
    fn code(&self) -> &'static str {
        match self {
            Self::Encrypted => "encrypted",
            Self::NotShared => "not-shared",
            Self::Transfer(FailReason::AllPeersMisbehaved { .. }) => "lying",
            Self::Transfer(_) => "no-progress",
            Self::Layout(_) | Self::Object(_) => "unfit",
        }
    }
}

/// A text in quotes.
struct Quoted<'a>(&'a str);

impl std::fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_char('"')?;
        for c in self.0.chars() {
            match c {
                '"' | '\\' => write!(f, "\\{c}")?,
                c if c < ' ' || c == '\u{7f}' => write!(f, "\\u{:04x}", c as u32)?,
                c => f.write_char(c)?,
            }
        }
        f.write_char('"')
    }
}

impl PageReport {
    pub(crate) fn failed(why: &DownloadError) -> Self {
        let (code, why) = (why.code(), why.to_string());
        Self::Text(format!("{{\"is\":\"failed\",\"code\":\"{code}\",\"why\":{}}}", Quoted(&why)))
    }

    pub(crate) fn manifest(manifest: &Manifest) -> Self {
        let name = String::from_utf8_lossy(&manifest.file_name);
        let (name, bytes, files) = (Quoted(&name), manifest.total_size, manifest.file_count);
        let directory = manifest.kind == xylem_object::PublicationKind::Directory;
        Self::Text(format!(
            "{{\"is\":\"manifest\",\"name\":{name},\"bytes\":{bytes},\"files\":{files},\"directory\":{directory}}}"
        ))
    }

    pub(crate) fn layout(layout: &FileLayout) -> Self {
        let mut text = format!("{{\"is\":\"layout\",\"bytes\":{},\"files\":[", layout.bytes);
        for (i, file) in layout.files.iter().enumerate() {
            let comma = if i == 0 { "" } else { "," };
            let (path, size) = (Quoted(&file.path), file.geometry.size());
            let (base, mode, (secs, nanos)) = (file.base, file.mode, file.mtime);
            let _ = write!(text, "{comma}[{path},{size},{base},{mode},{secs},{nanos}]");
        }
        text.push_str("]}");
        Self::Text(text)
    }

    pub(crate) fn file(number: usize) -> Self {
        Self::Text(format!("{{\"is\":\"file\",\"number\":{number}}}"))
    }

    pub(crate) fn bad(peer: u32, what: &str) -> Self {
        Self::Text(format!("{{\"is\":\"bad\",\"peer\":{peer},\"what\":{}}}", Quoted(what)))
    }

    pub(crate) fn dropped(peer: u32) -> Self {
        Self::Text(format!("{{\"is\":\"dropped\",\"peer\":{peer}}}"))
    }

    pub(crate) fn done() -> Self {
        Self::Text("{\"is\":\"done\"}".to_owned())
    }
}

/// The state of the fetch.
pub(crate) fn state(verified: u64, total: u64, peers: impl Iterator<Item = PeerStats>) -> String {
    let mut text = format!("{{\"verified\":{verified},\"total\":{total},\"peers\":[");
    for (i, peer) in peers.enumerate() {
        let comma = if i == 0 { "" } else { "," };
        let standing = match peer.standing {
            PeerStatus::Active => "active",
            PeerStatus::Stalled => "stalled",
            PeerStatus::Dropped => "dropped",
        };
        let ms = peer.round_trip.map_or(0.0, |rtt| rtt.as_secs_f64() * 1e3);
        let (id, bytes, bad) = (peer.peer.0, peer.bytes, peer.misbehaviour);
        let _ = write!(text, "{comma}[{id},\"{standing}\",{bytes},{bad},{ms:.1}]");
    }
    text.push_str("]}");
    text
}

#[cfg(test)]
mod tests {
    use xylem_object::listing::{Entry, EntryKind, ListingWriter, Totals};

    use super::*;

    /// Offered files have the published modes and times, also those before 1970.
    #[test]
    fn files_come_with_their_modes_and_times() {
        let (mut listing, root) = (Vec::new(), xylem_hash::hash(b"a"));
        let mut writer = ListingWriter::new(|piece: &[u8]| listing.extend_from_slice(piece));
        for (path, mode, mtime_s, mtime_ns) in [("a", 0o750, 1_700_000_000, 5), ("b", 0o644, -2, 9)]
        {
            let kind = EntryKind::File { size: 1, root };
            let path = path.as_bytes().to_vec();
            writer.push(&Entry { path, kind, mode, mtime_s, mtime_ns }).unwrap();
        }
        writer.finish();
        let totals = Totals { entries: 2, files: 2, bytes: 2 };
        let manifest = Manifest::directory(root, listing.len() as u64, totals, b"d");
        let layout = FileLayout::of_listing(&manifest, &listing).unwrap();
        let PageReport::Text(text) = PageReport::layout(&layout) else { panic!("a text") };
        assert!(text.contains(r#"["a",1,0,488,1700000000,5]"#), "{text}");
        assert!(text.contains(r#"["b",1,1,420,-2,9]"#), "{text}");
    }
}
