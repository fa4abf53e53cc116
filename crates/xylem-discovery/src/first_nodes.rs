//! [`FirstNodes`]: addresses at which to enter the DHT, for a program with a client of its own.

use std::net::SocketAddr;
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::thread;

use crate::dht::{WELL_KNOWN, resolve};
use crate::nodes::MAX_KEPT_NODES;
use crate::{DhtOptions, Wake};

/// Looks names up on a thread of its own, as that may take seconds. Addresses and remembered nodes need none.
pub struct FirstNodes {
    state: FirstNodesState,
    /// Whether the well-known nodes are still to be tried, if no other answers.
    has_more: bool,
    wake: Wake,
}

enum FirstNodesState {
    Known(Vec<SocketAddr>),
    LooksUp(Vec<SocketAddr>, Receiver<Vec<SocketAddr>>),
    Taken,
}

impl FirstNodes {
    /// Begins to look up what has to be; `wake` is called when it is known.
    pub fn new(options: &DhtOptions, wake: Wake) -> Self {
        let remembered: Vec<_> = options.remembered.iter().take(MAX_KEPT_NODES).copied().collect();
        let has_more = options.bootstrap.is_none() && !remembered.is_empty();
        let named = match &options.bootstrap {
            Some(named) => named.clone(),
            None if has_more => Vec::new(),
            None => well_known(),
        };
        let mut made = Self { state: FirstNodesState::Taken, has_more, wake };
        let numbers: Option<Vec<SocketAddr>> = named.iter().map(|name| name.parse().ok()).collect();
        match numbers {
            Some(numbers) => {
                // What the user names comes first: the client takes only so many.
                let all = numbers.into_iter().chain(remembered).collect();
                made.state = FirstNodesState::Known(all);
            }
            None => made.look_up(remembered, named),
        }
        made
    }

    fn look_up(&mut self, known: Vec<SocketAddr>, names: Vec<String>) {
        let (tell, told) = channel();
        let wake = self.wake.clone();
        let work = move || {
            // The program may have ended meanwhile.
            let _ = tell.send(resolve(names.iter().map(String::as_str)).collect());
            wake();
        };
        self.state = match thread::Builder::new().name("xylem-dht-names".to_owned()).spawn(work) {
            Ok(_) => FirstNodesState::LooksUp(known, told),
            Err(_) => FirstNodesState::Known(known),
        };
    }

    /// The addresses, once. `None` while names are looked up, and afterwards.
    pub fn poll(&mut self) -> Option<Vec<SocketAddr>> {
        match std::mem::replace(&mut self.state, FirstNodesState::Taken) {
            FirstNodesState::Known(all) => Some(all),
            FirstNodesState::LooksUp(known, told) => match told.try_recv() {
                Ok(found) => Some(found.into_iter().chain(known).collect()),
                Err(TryRecvError::Disconnected) => Some(known),
                Err(TryRecvError::Empty) => {
                    self.state = FirstNodesState::LooksUp(known, told);
                    None
                }
            },
            FirstNodesState::Taken => None,
        }
    }

    /// After all of them were silent: looks up the well-known nodes. Returns whether [`FirstNodes::poll`] will have them.
    pub fn more(&mut self) -> bool {
        let more = std::mem::take(&mut self.has_more);
        if more {
            self.look_up(Vec::new(), well_known());
        }
        more
    }
}

fn well_known() -> Vec<String> {
    WELL_KNOWN.map(str::to_owned).to_vec()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn addresses_are_known_at_once_and_names_later() {
        let wake: Wake = Arc::new(|| {});
        let remembered = vec!["192.0.2.1:6881".parse().unwrap()];
        let bootstrap = Some(vec!["127.0.0.1:9".to_owned()]);
        let options = DhtOptions { bootstrap, remembered: remembered.clone(), bind: None };
        let mut first = FirstNodes::new(&options, wake.clone());
        assert_eq!(first.poll().map(|all| all.len()), Some(2));
        assert!(first.poll().is_none() && !first.more());
        let mut first = FirstNodes::new(&DhtOptions { bootstrap: None, ..options }, wake.clone());
        assert_eq!(first.poll(), Some(remembered));
        let bootstrap = Some(vec!["localhost:9".to_owned()]);
        let mut first = FirstNodes::new(&DhtOptions { bootstrap, ..DhtOptions::default() }, wake);
        let found = (0..1_000).find_map(|_| {
            thread::sleep(std::time::Duration::from_millis(10));
            first.poll()
        });
        assert!(found.unwrap().iter().all(|at| at.ip().is_loopback() && at.port() == 9));
    }
}
