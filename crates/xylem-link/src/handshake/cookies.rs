//! [`Cookies`] that a dialer received: valid ones, and forged ones of an attacker that sees its datagrams.

use std::collections::VecDeque;

use crate::kdf::LinkRng;
use crate::message::COOKIE_LEN;

/// Cookies kept that were tried and may yet be valid: the initials with them may have been lost.
const KEPT: usize = 4;

type Cookie = [u8; COOKIE_LEN];

/// Chooses the cookie of the next initial. A random one of the cookies that come between two initials is tried. So a
/// valid one among forged ones gets its share, whether it came first or last, and no untried one is displaced by newer
/// ones in order of arrival.
#[derive(Default)]
pub(super) struct Cookies {
    /// Newest first.
    tried: VecDeque<Cookie>,
    /// The cookie to try next.
    untried: Option<Cookie>,
    /// How many came since the last one was tried.
    received: usize,
    turn: usize,
}

impl Cookies {
    /// Takes a received cookie; false if it is known.
    pub(super) fn receive(&mut self, cookie: &Cookie, rng: &mut LinkRng) -> bool {
        if self.tried.contains(cookie) || self.untried.as_ref() == Some(cookie) {
            return false;
        }
        self.received = self.received.saturating_add(1);
        if rng.below(self.received) == 0 {
            self.untried = Some(*cookie);
        }
        true
    }

    /// The cookie of the next initial: an untried one if there is one, else the tried ones and none (zeros), in turn.
    pub(super) fn next(&mut self) -> Cookie {
        if let Some(cookie) = self.untried.take() {
            self.tried.push_front(cookie);
            self.tried.truncate(KEPT);
            (self.received, self.turn) = (0, 0);
            return cookie;
        }
        let turn = self.turn % (self.tried.len() + 1);
        self.turn = turn + 1;
        self.tried.get(turn).copied().unwrap_or([0; COOKIE_LEN])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cookie(n: u8) -> Cookie {
        [n; COOKIE_LEN]
    }

    #[test]
    fn an_untried_cookie_goes_first_then_all_in_turn() {
        let (mut cookies, mut rng) = (Cookies::default(), LinkRng::new(&[1; 32]));
        assert_eq!([cookies.next(), cookies.next()], [cookie(0); 2]);
        assert!(cookies.receive(&cookie(1), &mut rng));
        assert!(!cookies.receive(&cookie(1), &mut rng), "known");
        let sent: Vec<_> = (0..5).map(|_| cookies.next()[0]).collect();
        assert_eq!(sent, [1, 1, 0, 1, 0]);
        for n in 2..=6 {
            assert!(cookies.receive(&cookie(n), &mut rng));
            assert_eq!(cookies.next(), cookie(n));
        }
        let sent: Vec<_> = (0..6).map(|_| cookies.next()[0]).collect();
        assert_eq!(sent, [6, 5, 4, 3, 0, 6], "the last four, and none");
    }

    /// The valid one may be the first or the last of nine: it is tried in a ninth of all cases.
    #[test]
    fn a_valid_cookie_among_forged_ones_is_tried() {
        for place in [0, 4, 8] {
            let mut good = 0;
            for seed in 0..900u16 {
                let mut rng =
                    LinkRng::new(&core::array::from_fn(|i| (seed >> (8 * (i % 2))) as u8));
                let mut cookies = Cookies::default();
                for n in 0..9 {
                    cookies.receive(&cookie(n + 1), &mut rng);
                }
                good += usize::from(cookies.next() == cookie(place + 1));
            }
            assert!((60..140).contains(&good), "{good} of 900");
        }
    }
}
