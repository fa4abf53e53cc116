use super::*;

fn choice() -> VolunteerChoice {
    VolunteerChoice::of_code(NUMBER)
}

const NUMBER: u32 = 41_234;
const ASKER: &str = "198.51.100.7:4000";

fn at(text: &str) -> SocketAddr {
    text.parse().expect("an address")
}

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn relay(n: u8) -> SocketAddr {
    SocketAddr::from(([192, 0, 2, n], 7_348))
}

fn key(n: u8) -> [u8; 32] {
    [n; 32]
}

/// Sends all that is due, and has those volunteers answer that `answers` names, after 40 ms and a millisecond for each number.
fn ask(search: &mut VolunteerSearch, now: Duration, answers: impl Fn(u8) -> bool) -> usize {
    let mut sent = 0;
    while let Some((to, query)) = search.poll_transmit(now) {
        sent += 1;
        let IpAddr::V4(ip) = to.ip() else { continue };
        let n = ip.octets()[3];
        let mut volunteer = VolunteerAnswers::new(key(n), &[n; 32]);
        let reply = volunteer.handle_datagram(now, at(ASKER), &query);
        if let VolunteerReply::Answer(answer) = reply
            && answers(n)
        {
            assert!(search.handle_datagram(now + ms(40 + u64::from(n)), to, &answer));
        }
    }
    sent
}

fn searched(listed: &[u8], seed: u8, answers: impl Fn(u8) -> bool) -> Vec<VolunteerRelay> {
    let mut search = VolunteerSearch::new(&choice(), false, &[seed; 32]);
    listed.iter().for_each(|n| search.add(ms(0), relay(*n)));
    ask(&mut search, ms(300), &answers);
    ask(&mut search, ms(800), &answers);
    search.chosen(ms(1_500)).expect("it is settled")
}

#[test]
fn an_answer_is_not_longer_than_its_query_and_both_look_random() {
    let mut search = VolunteerSearch::new(&choice(), false, &[1; 32]);
    search.add(ms(0), relay(1));
    assert_eq!((search.poll_transmit(ms(299)), search.poll_timeout()), (None, Some(ms(300))));
    let (to, query) = search.poll_transmit(ms(300)).unwrap();
    let mut volunteer = VolunteerAnswers::new(key(1), &[2; 32]);
    let mut answered = || match volunteer.handle_datagram(ms(300), at(ASKER), &query) {
        VolunteerReply::Answer(answer) => answer,
        other => panic!("{other:?}"),
    };
    let (one, two) = (answered(), answered());
    assert_eq!((to, query.len(), one.len()), (relay(1), VOLUNTEER_LEN, VOLUNTEER_LEN));
    // No byte is the same in all of them but by chance, and the key is not to be seen.
    let same = |a: &[u8], b: &[u8]| a.iter().zip(b).filter(|(a, b)| a == b).count();
    assert!(same(&one, &two) < 8 && same(&query, &one) < 8);
    assert!(!one.windows(4).any(|four| four == [1; 4]) && !query.windows(4).any(|it| it == [0; 4]));
}

#[test]
fn only_queries_are_answered() {
    let mut search = VolunteerSearch::new(&choice(), false, &[1; 32]);
    search.add(ms(0), relay(1));
    let (_, query) = search.poll_transmit(ms(300)).unwrap();
    let mut volunteer = VolunteerAnswers::new(key(1), &[2; 32]);
    let VolunteerReply::Answer(answer) = volunteer.handle_datagram(ms(0), at(ASKER), &query) else {
        panic!("it is a query")
    };
    let mut wrong = vec![answer.to_vec(), query[..63].to_vec(), [&query[..], &[0]].concat()];
    for place in 0..VOLUNTEER_LEN {
        let mut changed = query;
        changed[place] ^= 1;
        wrong.push(changed.to_vec());
    }
    for datagram in wrong {
        let reply = volunteer.handle_datagram(ms(0), at(ASKER), &datagram);
        assert_eq!(reply, VolunteerReply::NotAQuery);
    }
}

#[test]
fn a_host_gets_few_answers_and_others_get_theirs() {
    let mut search = VolunteerSearch::new(&choice(), false, &[1; 32]);
    search.add(ms(0), relay(1));
    let (_, query) = search.poll_transmit(ms(300)).unwrap();
    let mut volunteer = VolunteerAnswers::new(key(1), &[2; 32]);
    let mut answers = |now, from: &str| {
        let mut reply = || volunteer.handle_datagram(now, at(from), &query);
        (0..100).filter(|_| matches!(reply(), VolunteerReply::Answer(_))).count()
    };
    assert!((16..=17).contains(&answers(ms(0), "203.0.113.5:1")));
    assert!(answers(ms(0), "203.0.113.6:1") > 0);
    assert_eq!(answers(ms(1_000), "203.0.113.5:2"), 4);
}

#[test]
fn a_listed_victim_gets_two_small_datagrams() {
    let mut search = VolunteerSearch::new(&choice(), false, &[1; 32]);
    for port in 1_000..2_000 {
        search.add(ms(0), SocketAddr::from(([203, 0, 113, 9], port)));
    }
    let mut sent = 0;
    for step in 0..100 {
        let now = ms(step * 100);
        while let Some((to, query)) = search.poll_transmit(now) {
            assert_eq!((to.ip(), query.len()), (IpAddr::from([203, 0, 113, 9]), VOLUNTEER_LEN));
            sent += 1;
        }
    }
    assert_eq!(sent, MAX_VOLUNTEER_QUERIES);
    assert_eq!((search.chosen(ms(1_600)), search.poll_timeout()), (Some(Vec::new()), None));
    // Nor are many hosts asked, nor any that are not of the internet.
    let mut search = VolunteerSearch::new(&choice(), false, &[1; 32]);
    (0..200).for_each(|n| search.add(ms(0), relay(n)));
    assert_eq!(ask(&mut search, ms(300), |_| false), MAX_ASKED_VOLUNTEERS);
    assert_eq!(ask(&mut search, ms(900), |_| false), MAX_ASKED_VOLUNTEERS);
    assert_eq!(ask(&mut search, ms(9_000), |_| false), 0);
    let mut search = VolunteerSearch::new(&choice(), false, &[1; 32]);
    for other in ["127.0.0.1:1", "10.0.0.1:1", "224.0.0.1:1", "192.0.2.1:0", "[fe80::1]:1"] {
        search.add(ms(0), at(other));
    }
    assert!(!search.has_listed());
}

/// Each side hears of other volunteers, in another order, and some answer one of them alone.
#[test]
fn both_sides_choose_the_same_volunteers() {
    let all: Vec<u8> = (1..=20).collect();
    let back: Vec<u8> = (1..=20).rev().collect();
    let keys = |relays: &[VolunteerRelay]| {
        let mut keys: Vec<u8> = relays.iter().map(|it| it.key[0]).collect();
        keys.sort_unstable();
        keys
    };
    let ours = searched(&all, 1, |_| true);
    assert_eq!((ours.len(), keys(&ours)), (3, keys(&searched(&back, 2, |_| true))));
    assert!(ours.is_sorted_by_key(|it| it.round_trip), "{ours:?}");
    // One of the three is silent for one side, and the lists differ by half: they still share a relay.
    let silent = ours[0].key[0];
    let theirs = searched(&back, 3, |n| n != silent);
    assert!(keys(&theirs).iter().filter(|n| keys(&ours).contains(n)).count() >= 2);
    // Another number has another order, so that not all codes depend on the same three.
    let mut other = VolunteerSearch::new(&VolunteerChoice::of_code(NUMBER + 1), false, &[1; 32]);
    all.iter().for_each(|n| other.add(ms(0), relay(*n)));
    ask(&mut other, ms(300), |_| true);
    assert_ne!(keys(&other.chosen(ms(400)).unwrap()), keys(&ours));
}

/// More are listed than are asked: the best of them are, on both sides.
#[test]
fn the_best_of_many_are_asked() {
    let all: Vec<u8> = (1..=60).collect();
    let back: Vec<u8> = (1..=60).rev().collect();
    assert_eq!(searched(&all, 1, |_| true), searched(&back, 2, |_| true));
}

#[test]
fn a_choice_waits_for_better_ones_and_not_for_worse_ones() {
    let mut search = VolunteerSearch::new(&choice(), false, &[1; 32]);
    let listed: Vec<u8> = (1..=8).collect();
    listed.iter().for_each(|n| search.add(ms(0), relay(*n)));
    assert_eq!(search.chosen(ms(0)), None);
    let order: Vec<u8> = search.listed.iter().map(|it| it.key_of_test()).collect();
    // All but the best answer at once.
    ask(&mut search, ms(300), |n| n != order[0]);
    assert_eq!(search.chosen(ms(400)), None);
    assert_eq!(search.settles_at(), Some(ms(1_500)));
    let chosen = search.chosen(ms(1_500)).unwrap();
    let mut keys: Vec<u8> = chosen.iter().map(|it| it.key[0]).collect();
    let mut wanted = order[1..4].to_vec();
    keys.sort_unstable();
    wanted.sort_unstable();
    assert_eq!(keys, wanted);
    // The worst is silent: it is not waited for.
    let mut search = VolunteerSearch::new(&choice(), false, &[1; 32]);
    listed.iter().for_each(|n| search.add(ms(0), relay(*n)));
    ask(&mut search, ms(300), |n| n != order[7]);
    assert_eq!(search.chosen(ms(400)).map(|it| it.len()), Some(3));
}

impl ListedVolunteer {
    fn key_of_test(&self) -> u8 {
        let IpAddr::V4(ip) = self.at[0].ip() else { panic!("IPv4") };
        ip.octets()[3]
    }
}

#[test]
fn a_forged_or_repeated_answer_changes_nothing() {
    let mut search = VolunteerSearch::new(&choice(), false, &[1; 32]);
    search.add(ms(0), relay(1));
    let (_, query) = search.poll_transmit(ms(300)).unwrap();
    let mut liar = VolunteerAnswers::new(key(9), &[9; 32]);
    let VolunteerReply::Answer(good) = liar.handle_datagram(ms(0), at(ASKER), &query) else {
        panic!("it is a query")
    };
    // From another address, and to a query that was not sent.
    assert!(search.handle_datagram(ms(310), relay(2), &good));
    let mut other = VolunteerSearch::new(&choice(), false, &[3; 32]);
    other.add(ms(0), relay(1));
    let (_, foreign) = other.poll_transmit(ms(300)).unwrap();
    let VolunteerReply::Answer(blind) = liar.handle_datagram(ms(0), at(ASKER), &foreign) else {
        panic!("it is a query")
    };
    assert!(search.handle_datagram(ms(310), relay(1), &blind));
    assert_eq!(search.chosen(ms(320)), None);
    assert!(!search.handle_datagram(ms(310), relay(1), &query));
    assert!(!search.handle_datagram(ms(310), relay(1), &good[..63]));
    // The right one counts once.
    assert!(search.handle_datagram(ms(350), relay(1), &good));
    assert!(search.handle_datagram(ms(900), relay(1), &good));
    let chosen = search.chosen(ms(900)).unwrap();
    assert_eq!((chosen[0].key, chosen[0].round_trip), (key(9), ms(50)));
}

/// A relay with both families is one relay. Which of its addresses has the key, the handshake shows.
#[test]
fn one_relay_has_all_addresses_that_answer_with_its_key() {
    let mut search = VolunteerSearch::new(&choice(), false, &[1; 32]);
    let v6 = [at("[2001:db8::1]:7348"), at("[2001:db8:0:1::1]:7348")];
    [relay(1), v6[0], v6[1]].into_iter().for_each(|it| search.add(ms(0), it));
    let mut volunteer = VolunteerAnswers::new(key(1), &[2; 32]);
    while let Some((to, query)) = search.poll_transmit(ms(300)) {
        let reply = volunteer.handle_datagram(ms(300), at(ASKER), &query);
        let VolunteerReply::Answer(answer) = reply else { panic!("{reply:?}") };
        search.handle_datagram(ms(330), to, &answer);
    }
    let chosen = search.chosen(ms(330)).unwrap();
    assert_eq!((chosen.len(), chosen[0].at.len()), (1, 3));
    assert_eq!(chosen[0].at[0], relay(1));
}

/// Bytes of anybody: few datagrams, and no choice without an answer to a query.
#[test]
fn arbitrary_datagrams_are_no_answers() {
    let mut state = 1_u64;
    let mut search = VolunteerSearch::new(&choice(), true, &[1; 32]);
    let mut volunteer = VolunteerAnswers::new(key(1), &[2; 32]);
    search.add(ms(0), at("127.0.0.1:9"));
    search.poll_transmit(ms(300)).unwrap();
    for _ in 0..20_000 {
        let mut bytes = [0; 80];
        for byte in &mut bytes {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            *byte = state as u8;
        }
        let datagram = &bytes[..if state.is_multiple_of(4) { 64 } else { (state % 80) as usize }];
        assert!(!search.handle_datagram(ms(300), at("127.0.0.1:9"), datagram));
        let reply = volunteer.handle_datagram(ms(300), at(ASKER), datagram);
        assert_eq!(reply, VolunteerReply::NotAQuery);
    }
}

/// A node lists a volunteer's host under another port first: an old one, or a liar's.
#[test]
fn another_port_of_its_host_does_not_hide_a_volunteer() {
    let mut search = VolunteerSearch::new(&choice(), false, &[1; 32]);
    let silent = SocketAddr::new(relay(1).ip(), 1);
    let listed = [silent, relay(1), SocketAddr::new(relay(1).ip(), 2)];
    listed.into_iter().for_each(|at| search.add(ms(0), at));
    let mut asked = Vec::new();
    for now in [ms(300), ms(800), ms(5_000)] {
        while let Some((to, query)) = search.poll_transmit(now) {
            asked.push(to);
            let mut volunteer = VolunteerAnswers::new(key(1), &[1; 32]);
            if to == relay(1)
                && let VolunteerReply::Answer(answer) =
                    volunteer.handle_datagram(now, at(ASKER), &query)
            {
                assert!(search.handle_datagram(now, to, &answer));
            }
        }
    }
    assert_eq!(asked, [silent, relay(1)], "two queries to a host");
    let chosen = search.chosen(ms(5_000)).unwrap();
    assert_eq!(chosen.iter().map(|it| it.at.clone()).collect::<Vec<_>>(), [[relay(1)]]);
}

/// A volunteer's key is no secret. Another host that answers with it does not take its place.
#[test]
fn a_volunteer_with_anothers_key_does_not_remove_that_one() {
    let mut search = VolunteerSearch::new(&choice(), false, &[1; 32]);
    for n in 1..=3 {
        search.add(ms(0), relay(n));
    }
    while let Some((to, query)) = search.poll_transmit(ms(300)) {
        let mut volunteer = VolunteerAnswers::new(key(7), &[1; 32]);
        let reply = volunteer.handle_datagram(ms(300), at(ASKER), &query);
        let VolunteerReply::Answer(answer) = reply else { panic!("it is a query") };
        assert!(search.handle_datagram(ms(340), to, &answer));
    }
    let chosen = search.chosen(ms(340)).unwrap();
    assert_eq!((chosen.len(), chosen[0].key), (1, key(7)));
    let mut all = chosen[0].at.clone();
    all.sort();
    assert_eq!(all, [relay(1), relay(2), relay(3)]);
}

#[test]
fn each_shard_of_volunteers_has_its_key_and_each_code_and_root_one_of_them() {
    let keys: Vec<_> = (0..VOLUNTEER_SHARDS).map(volunteers_key).collect();
    let mut of_roots = [0; VOLUNTEER_SHARDS as usize];
    for (i, key) in keys.iter().enumerate() {
        assert_eq!(keys.iter().position(|other| other == key), Some(i));
        assert_eq!(VolunteerChoice::of_code(41_232 + i as u32).listed_under, *key);
    }
    for i in 0..=255 {
        let choice = VolunteerChoice::of_root(&Hash::from_bytes([i; 32]));
        let shard = keys.iter().position(|key| *key == choice.listed_under);
        of_roots[shard.expect("one of the keys")] += 1;
    }
    // 256 roots over 16 shards: 16 each on average, and a shard without any would be a mistake.
    assert!(of_roots.iter().all(|roots| *roots > 2), "{of_roots:?}");
}
