//! Datagrams to a volunteer relay and to a peer that looks for one. Nothing panics; only a query is answered, with as many bytes;
//! few datagrams are sent; and no volunteer is chosen that has not answered a query.
#![no_main]

use core::net::SocketAddr;
use core::time::Duration;

use libfuzzer_sys::fuzz_target;
use xylem_reach::volunteer::{
    MAX_ASKED_VOLUNTEERS, MAX_VOLUNTEER_QUERIES, VOLUNTEER_LEN, VolunteerAnswers, VolunteerChoice,
    VolunteerReply, VolunteerSearch,
};

fuzz_target!(|data: &[u8]| {
    let Some((&many, mut rest)) = data.split_first() else { return };
    let mut volunteer = VolunteerAnswers::new([7; 32], &[1; 32]);
    let choice = VolunteerChoice::of_code(u32::from(many));
    let mut search = VolunteerSearch::new(&choice, false, &[2; 32]);
    let mut queries: Vec<(SocketAddr, [u8; VOLUNTEER_LEN])> = Vec::new();
    let (mut now, mut sent) = (Duration::ZERO, 0);
    // Each step: what it is, and how many of the following bytes it takes.
    while let [what, length, more @ ..] = rest {
        let (bytes, after) = more.split_at(more.len().min(usize::from(*length)));
        rest = after;
        now += Duration::from_millis(u64::from(*what) * 4);
        let at = SocketAddr::from(([203, 0, 113, *length], 7_348));
        match what % 4 {
            0 => search.add(now, at),
            1 => drop(search.handle_datagram(now, at, bytes)),
            2 => {
                let reply = volunteer.handle_datagram(now, at, bytes);
                assert!(reply == VolunteerReply::NotAQuery || bytes.len() == VOLUNTEER_LEN);
            }
            // A good answer to a query that was sent, with a bit of it changed or not.
            _ => {
                let Some((to, query)) = queries.pop() else { continue };
                if let VolunteerReply::Answer(mut answer) =
                    volunteer.handle_datagram(now, at, &query)
                {
                    if let [place, ..] = bytes {
                        answer[usize::from(*place) % VOLUNTEER_LEN] ^= 1;
                        assert!(!search.handle_datagram(now, to, &answer));
                    } else {
                        assert!(search.handle_datagram(now, to, &answer));
                    }
                }
            }
        }
        while let Some(query) = search.poll_transmit(now) {
            queries.push(query);
            sent += 1;
        }
        assert!(sent <= MAX_ASKED_VOLUNTEERS * MAX_VOLUNTEER_QUERIES);
        for volunteer in search.chosen(now).unwrap_or_default() {
            assert_eq!(volunteer.key, [7; 32]);
        }
    }
});
