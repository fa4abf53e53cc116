//! Nodes of the DHT met in an earlier run: file `STORE/dht/nodes`, one HOST:PORT a line. Other lines are skipped.

use std::net::SocketAddr;
use std::path::Path;

use xylem_store::{Clobber, DiskMedium, Durability, create_dirs, read_stream, write_whole};

use crate::DhtOptions;

/// Most nodes that are remembered for the next run.
pub const MAX_KEPT_NODES: usize = 32;
/// Most of them that have IPv6 addresses.
const MAX_KEPT_V6: usize = 8;
/// Most bytes of the file that are used. 32 nodes take half of it at most.
const MAX_FILE: u64 = 4096;

/// Options to enter the DHT with this store's nodes; `bootstrap` as in [`DhtOptions`].
pub fn known_nodes(store: &Path, bootstrap: Option<Vec<String>>) -> DhtOptions {
    let mut text = Vec::new();
    // What could be read counts; without it the DHT is entered by its bootstrap nodes.
    let _ = read_stream(&store.join("dht/nodes"), MAX_FILE, &mut text);
    let text = String::from_utf8_lossy(&text);
    let remembered = text.lines().filter_map(|line| line.parse().ok()).collect();
    DhtOptions { bootstrap, remembered, bind: None }
}

/// Whether all first nodes are on this machine. This is a test network, in which loopback addresses may be dialled.
pub fn is_local(options: &DhtOptions) -> bool {
    let named = options.bootstrap.iter().flatten().map(|node| node.parse::<SocketAddr>().ok());
    let mut all = named.chain(options.remembered.iter().copied().map(Some)).peekable();
    all.peek().is_some() && all.all(|node| node.is_some_and(|node| node.ip().is_loopback()))
}

/// Chooses the nodes to remember, of both families.
pub fn nodes_to_keep(nodes: Vec<SocketAddr>) -> Vec<SocketAddr> {
    let (mut kept, mut v4): (Vec<_>, Vec<_>) = nodes.into_iter().partition(SocketAddr::is_ipv6);
    kept.truncate(MAX_KEPT_V6);
    v4.truncate(MAX_KEPT_NODES.saturating_sub(kept.len()));
    kept.extend(v4);
    kept
}

/// Saves nodes for the next run. A failure only slows the next start.
pub fn keep_nodes(store: &Path, nodes: &[SocketAddr]) {
    if nodes.is_empty() {
        return;
    }
    let text: String = nodes.iter().map(|node| format!("{node}\n")).collect();
    let (disk, dir) = (DiskMedium::new(), store.join("dht"));
    let kept = create_dirs(&disk, &dir).and_then(|()| {
        let (path, bytes) = (dir.join("nodes"), text.as_bytes());
        write_whole(&disk, &path, bytes, 0o644, Clobber::Replace, Durability::Cached)
    });
    if let Err(error) = kept {
        tracing::debug!(%error, "cannot save the nodes of the DHT");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn nodes_are_saved_and_invalid_lines_skipped() {
        let dir = tempfile::tempdir().unwrap();
        let nodes = ["192.0.2.1:6881", "[2001:db8::1]:1"].map(|at| at.parse().unwrap());
        keep_nodes(dir.path(), &nodes);
        assert_eq!(known_nodes(dir.path(), None).remembered, nodes);
        fs::write(dir.path().join("dht/nodes"), b"\xff\n192.0.2.1:6881\nnobody:1\n[::1]\n")
            .unwrap();
        assert_eq!(known_nodes(dir.path(), None).remembered, nodes[..1]);
        // As large as a file can be, and nearly all of it a hole: what is read of it has a limit.
        let file = fs::File::options().write(true).open(dir.path().join("dht/nodes")).unwrap();
        file.set_len(1 << 40).unwrap();
        assert_eq!(known_nodes(dir.path(), None).remembered, nodes[..1]);
        assert!(!is_local(&known_nodes(dir.path(), None)));
        assert!(!is_local(&DhtOptions::default()));
        let local =
            DhtOptions { bootstrap: Some(vec!["127.0.0.1:9".into()]), ..Default::default() };
        assert!(is_local(&local));
    }
}
