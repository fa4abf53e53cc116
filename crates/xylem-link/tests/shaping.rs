//! An observer's view of a shaped link, and its effect on the two sides, over a simulated network under virtual time.

mod sim;

use core::net::SocketAddr;
use core::time::Duration;

use sim::{FAIR, MS, Net, S, addr};
use xylem_link::{
    CloseReason, Cover, Level, LinkConfig, LinkId, LinkSendError, Padding, SendTiming, Shaping,
    ShapingProfile, StreamRead, purpose,
};
use xylem_sim::{Conditions, Rng, percent};

/// Sizes that path MTU discovery tries; its probes are not reshaped.
const PROBES: [usize; 7] = [1_392, 1_452, 1_472, 8_952, 16_384, 32_768, 65_507];

fn at(level: Level) -> LinkConfig {
    LinkConfig { shaping: Shaping::at(level), ..LinkConfig::default() }
}

fn with(profile: ShapingProfile) -> LinkConfig {
    let shaping = Shaping { custom: Some(profile), ..Shaping::at(Level::High) };
    LinkConfig { shaping, ..LinkConfig::default() }
}

/// Times and lengths of the datagrams that this node sent, from the first on record.
fn seen(net: &Net, from: SocketAddr) -> Vec<(Duration, usize)> {
    let all = net.tap.iter().zip(&net.times);
    all.filter(|((f, ..), _)| *f == from).map(|((.., d), t)| (*t, d.len())).collect()
}

fn numbered(n: u32, len: usize) -> Vec<u8> {
    let mut packet = vec![n as u8; len.max(4)];
    packet[..4].copy_from_slice(&n.to_be_bytes());
    packet
}

/// Sends packets of all sizes both ways, one each in `pause`; returns how many of each side's arrived. None may be
/// changed or arrive twice.
fn talk(
    net: &mut Net,
    links: (LinkId, LinkId),
    count: u32,
    max: u64,
    pause: Duration,
) -> [usize; 2] {
    let mut rng = Rng::new(u64::from(count));
    net.nodes.iter_mut().for_each(|node| node.packets.clear());
    for n in 0..count {
        for (node, link) in [(0, links.0), (1, links.1)] {
            let packet = numbered(n, rng.below(max) as usize);
            net.nodes[node].endpoint.send(link, &packet).unwrap();
        }
        net.run(pause);
    }
    net.run(S);
    [1, 0].map(|node: usize| {
        let mut seen = vec![false; count as usize];
        for packet in &net.nodes[node].packets {
            let n = u32::from_be_bytes(packet[..4].try_into().unwrap());
            assert!(packet[4..].iter().all(|b| *b == n as u8), "changed");
            assert!(!core::mem::replace(&mut seen[n as usize], true), "packet {n} came twice");
        }
        net.nodes[node].packets.len()
    })
}

/// WRAITH: padding appended after the tag with no length: the peer cannot remove it. Here, at every level and on a path
/// that loses, doubles and reorders, packets arrive unchanged.
#[test]
fn the_peer_removes_all_padding() {
    for level in Level::ALL {
        for (loss, least) in [(0, 200), (5, 170)] {
            let conditions = Conditions {
                loss: percent(loss),
                duplicate: percent(loss),
                jitter: 5 * MS,
                mtu: 1_472,
                ..FAIR
            };
            let mut net = Net::pair(loss + 1, &at(level), conditions);
            let links = net.connect();
            net.run(3 * S);
            let arrived = talk(&mut net, links, 200, 1_000, 3 * MS);
            assert!(arrived.iter().all(|n| *n >= least), "{level}, loss {loss} %: {arrived:?}");
            for (node, link) in [(0, links.0), (1, links.1)] {
                let stats = net.nodes[node].endpoint.stats(link).unwrap();
                assert_eq!(stats.shaping, level);
                assert_eq!(stats.padding_sent > 0, level > Level::Off);
                assert_eq!(stats.cover_sent > 0, level >= Level::High);
                assert_eq!((stats.forged, stats.replayed > 0), (0, loss > 0));
            }
            assert!(net.nodes.iter().all(|node| node.closed.is_empty()), "{level}");
        }
    }
}

/// Large packets are cut to the sizes of the profile and put together again.
#[test]
fn large_packets_come_through_every_level() {
    for level in Level::ALL {
        let mut net = Net::pair(7, &at(level), Conditions { mtu: 1_472, ..FAIR });
        let links = net.connect();
        net.run(S);
        assert_eq!(talk(&mut net, links, 30, 65_536, 150 * MS), [30, 30], "{level}");
    }
}

/// Every datagram after the handshake, from the first to the last, has one of the sizes that the padding allows: acks,
/// pings, announcements, challenges, closes too. Probes have their own.
#[test]
fn sizes_are_of_the_allowed_classes_only() {
    let full = 1_472;
    let low = vec![128, 256, 512, 1_024, 1_232, 1_392, 1_452, full];
    let cases = [
        (at(Level::Low), low.clone(), true),
        (at(Level::Medium), vec![512, 1_232, 1_392, 1_452, full], true),
        (at(Level::High), vec![256, 512, 768, 1_024, 1_232], false),
        (at(Level::Paranoid), vec![1_232], false),
        (
            with(ShapingProfile { padding: Padding::PowerOfTwo, ..ShapingProfile::default() }),
            vec![64, 128, 256, 512, 1_024, 1_232, 1_392, 1_452, full],
            true,
        ),
        (
            with(ShapingProfile { padding: Padding::Constant(700), ..ShapingProfile::default() }),
            vec![700],
            false,
        ),
    ];
    for (config, allowed, searches) in cases {
        let what = format!("{:?}", config.shaping);
        let mut net = Net::pair(3, &config, Conditions { mtu: 1_472, ..FAIR });
        let links = net.connect();
        net.record = true;
        net.run(5 * S);
        assert_eq!(talk(&mut net, links, 300, 3_000, 7 * MS), [300, 300], "{what}");
        net.nodes[0].at = addr(77);
        net.run(20 * S);
        assert_eq!(net.nodes[1].endpoint.link(links.1).unwrap().remote(), addr(77));
        net.nodes[1].endpoint.close(links.1);
        net.run(2 * S);
        assert!(net.tap.len() > 500);
        for (.., datagram) in &net.tap {
            let len = datagram.len();
            // A size tried by the search, lost on this path.
            let probe = searches && PROBES.contains(&len) && len > full;
            assert!(allowed.contains(&len) || probe, "{len} of {what}");
        }
        let distinct: std::collections::HashSet<_> = net.tap.iter().map(|t| t.2.len()).collect();
        assert!(distinct.len() >= allowed.len().min(3), "the test sees {distinct:?}");
    }
}

/// Sizes of a statistical padding follow its table, whether a link is busy with large packets, with small ones, or only
/// with cover. Chi-square, 4 degrees of freedom: 23.5 is passed once in 10,000 times.
#[test]
fn drawn_sizes_do_not_depend_on_what_is_sent() {
    let table = [(256, 15), (512, 10), (768, 10), (1_024, 15), (1_232, 50)];
    for (packets, len) in [(0, 0), (600, 20), (600, 8_000)] {
        let mut config = at(Level::High);
        let mut profile = Level::High.profile();
        profile.cover = Cover::Poisson { mean: 10 * MS, rest: None };
        config.shaping.custom = Some(profile);
        let mut net = Net::pair(4, &config, FAIR);
        let (a, _) = net.connect();
        net.run(S);
        net.record = true;
        for n in 0..packets {
            net.nodes[0].endpoint.send(a, &numbered(n, len)).unwrap();
            net.run(10 * MS);
        }
        net.run((800 - packets) * 10 * MS);
        let seen = seen(&net, addr(0));
        let n = seen.len() as f64;
        let chi: f64 = table
            .iter()
            .map(|(size, percent)| {
                let count = seen.iter().filter(|(_, len)| len == size).count() as f64;
                let expected = n * f64::from(*percent) / 100.0;
                (count - expected).powi(2) / expected
            })
            .sum();
        assert!(n > 500.0 && chi < 23.5, "packets of {len}: chi-square {chi} of {n}");
    }
}

/// The largest distance between the gaps (in milliseconds) and a distribution, times the square root of their number:
/// above 2 once in 1,500 times (Kolmogorov, Smirnov).
fn kolmogorov(times: &[Duration], cdf: impl Fn(f64) -> f64) -> f64 {
    let gaps = times.windows(2).map(|pair| (pair[1] - pair[0]).as_secs_f64() * 1_000.0);
    let mut gaps: Vec<f64> = gaps.collect();
    gaps.sort_by(f64::total_cmp);
    let n = gaps.len() as f64;
    let distance = gaps.iter().enumerate().map(|(i, gap)| {
        (cdf(*gap) - i as f64 / n).abs().max((cdf(*gap) - (i + 1) as f64 / n).abs())
    });
    distance.fold(0.0, f64::max) * n.sqrt()
}

/// The datagram times of a side with this timing that always has something to send.
fn busy(timing: SendTiming) -> Vec<Duration> {
    let profile = ShapingProfile { timing, burst: 1, ..ShapingProfile::default() };
    let mut net = Net::pair(5, &with(profile), Conditions { mtu: 1_232, ..FAIR });
    let (a, _) = net.connect();
    net.run(5 * S);
    net.record = true;
    for n in 0..4_000 {
        while net.nodes[0].endpoint.send(a, &numbered(n, 1_100)).is_ok() {}
        net.run(3 * MS);
    }
    seen(&net, addr(0)).into_iter().map(|(t, _)| t).collect()
}

#[test]
fn gaps_follow_the_profile_s_distribution() {
    let uniform = busy(SendTiming::Uniform { min: 2 * MS, max: 6 * MS });
    assert!(uniform.len() > 2_500);
    assert!(kolmogorov(&uniform, |t| ((t - 2.0) / 4.0).clamp(0.0, 1.0)) < 2.0);
    let exponential = busy(SendTiming::Exponential { mean: 3 * MS });
    assert!(kolmogorov(&exponential, |t| 1.0 - (-t / 3.0).exp()) < 2.0);
    assert!(kolmogorov(&uniform, |t| 1.0 - (-t / 4.0).exp()) > 10.0, "it notices another one");
    // The logistic curve is within 0.0095 of the normal one (Bowling 2009).
    let normal = busy(SendTiming::Normal { mean: 5 * MS, deviation: MS });
    let logistic = |x: f64| 1.0 / (1.0 + (-0.07056 * x.powi(3) - 1.5976 * x).exp());
    assert!(kolmogorov(&normal, |t| logistic(t - 5.0)) < 2.0);
    let fixed = busy(SendTiming::Fixed(4 * MS));
    assert!(fixed.windows(2).all(|pair| pair[1] - pair[0] == 4 * MS));
}

/// A single datagram, long after the last, waits for a drawn moment too.
#[test]
fn a_packet_after_a_silence_waits_as_drawn() {
    let timing = SendTiming::Uniform { min: 10 * MS, max: 30 * MS };
    let config = with(ShapingProfile { timing, ..ShapingProfile::default() });
    // No pings: a waiting ping would already have drawn a moment.
    let config = LinkConfig { keep_alive: None, idle_timeout: 600 * S, ..config };
    let mut net = Net::pair(6, &config, FAIR);
    let (a, _) = net.connect();
    net.run(9 * S);
    net.record = true;
    let mut waits = Vec::new();
    for n in 0..300 {
        net.nodes[0].endpoint.send(a, &numbered(n, 300)).unwrap();
        let (began, at) = (net.now(), net.times.len());
        net.run(100 * MS);
        let sent = (at..net.times.len()).find(|i| net.tap[*i].2.len() > 300).unwrap();
        waits.push(net.times[sent] - began);
    }
    assert!(waits.iter().all(|wait| (10 * MS..=30 * MS).contains(wait)), "{waits:?}");
    waits.sort();
    assert!((18 * MS..22 * MS).contains(&waits[150]), "{:?}", waits[150]);
}

/// The use of the link in a session.
#[derive(Clone, Copy)]
enum Use {
    Idle,
    Packets(u32),
    Stream,
}

/// An observer's record of a session at the highest level.
fn paranoid(loss: u64, what: Use) -> Vec<(SocketAddr, Duration, usize)> {
    let mut net = Net::pair(8, &at(Level::Paranoid), Conditions { loss: percent(loss), ..FAIR });
    net.record = true;
    let links = net.connect();
    net.run(S);
    let stream = match what {
        Use::Stream => Some(net.nodes[0].endpoint.open_stream(links.0, purpose::BENCH).unwrap()),
        _ => None,
    };
    let packets = if let Use::Packets(packets) = what { packets } else { 0 };
    let mut read = 0;
    for n in 0..600 {
        if n < packets {
            let len = [3, 100, 5_000, 40_000][n as usize % 4];
            let _ = net.nodes[0].endpoint.send(links.0, &numbered(n, len));
            let _ = net.nodes[1].endpoint.send(links.1, &numbered(n, 50));
        }
        if let Some(stream) = stream {
            let _ = net.nodes[0].endpoint.write_stream(links.0, stream, &[7; 20_000]).unwrap();
            while let Ok(StreamRead::Data(bytes)) =
                net.nodes[1].endpoint.read_stream(links.1, stream)
            {
                read += bytes.len();
            }
        }
        net.run(20 * MS);
    }
    net.run(15 * S);
    assert!(net.nodes[1].packets.len() >= packets as usize / 2);
    assert!(stream.is_none() || read > 1_000_000, "{read} bytes of the stream");
    assert!(net.nodes.iter().all(|node| node.closed.is_empty()));
    let all = net.tap.into_iter().zip(net.times);
    all.map(|((from, _, datagram), time)| (from, time, datagram.len())).collect()
}

/// Idle or busy with packets or a stream: the same datagrams, at the same times, of the same lengths, both ways.
#[test]
fn with_a_constant_rate_idle_and_busy_look_the_same() {
    for loss in [0, 5] {
        let idle = paranoid(loss, Use::Idle);
        assert!(idle.len() > 30_000, "{}", idle.len());
        for what in [Use::Packets(60), Use::Packets(600), Use::Stream] {
            assert!(idle == paranoid(loss, what), "loss {loss} %");
        }
        let rate = idle.iter().filter(|(from, time, _)| *from == addr(0) && *time > S).count();
        let last = idle.last().unwrap().1;
        let wanted = (last - S).as_millis() as usize / 5 * 4;
        assert!(rate.abs_diff(wanted) <= 8, "{rate} datagrams where {wanted} are stated");
    }
}

/// The level in force is the one that a side wants and both agree to; a peer that wants more does not get it.
#[test]
fn a_peer_does_not_get_more_than_our_limit() {
    let of = |level, limit| LinkConfig {
        shaping: Shaping { level, limit, custom: None },
        ..LinkConfig::default()
    };
    for (theirs, ours, in_force) in [
        (at(Level::Paranoid), LinkConfig::default(), Level::Medium),
        (at(Level::Low), LinkConfig::default(), Level::Low),
        (at(Level::Paranoid), of(Level::Off, Level::Off), Level::Off),
        (at(Level::Paranoid), at(Level::High), Level::High),
        (at(Level::Low), at(Level::Paranoid), Level::Medium),
        (at(Level::Off), of(Level::High, Level::Low), Level::Low),
        (LinkConfig::default(), LinkConfig::default(), Level::Off),
    ] {
        for configs in [[theirs.clone(), ours.clone()], [ours, theirs]] {
            let mut net = Net::new(9, &configs, FAIR);
            let (a, b) = net.connect();
            net.run(5 * S);
            net.record = true;
            net.run(20 * S);
            for (node, link) in [(0, a), (1, b)] {
                assert_eq!(net.nodes[node].endpoint.stats(link).unwrap().shaping, in_force);
                // On an idle link there are pings and their answers, and no cover below the level that has it.
                let sent = seen(&net, addr(node as u8)).len();
                assert_eq!(sent > 100, in_force >= Level::High, "{in_force}: {sent}");
            }
        }
    }
}

/// A custom profile replaces this side's own level, not a higher one of the peer's.
#[test]
fn a_custom_profile_replaces_its_level_only() {
    let custom =
        Some(ShapingProfile { padding: Padding::Constant(600), ..ShapingProfile::default() });
    let shaping = Shaping { custom, ..Shaping::at(Level::Low) };
    let ours = LinkConfig { shaping, ..LinkConfig::default() };
    for (theirs, only) in [(Level::Off, 600), (Level::Medium, 512)] {
        let mut net = Net::new(10, &[ours.clone(), at(theirs)], FAIR);
        net.connect();
        net.run(5 * S);
        net.record = true;
        net.run(60 * S);
        let seen = seen(&net, addr(0));
        assert!(!seen.is_empty() && seen.iter().all(|(_, len)| *len == only), "{seen:?}");
    }
}

/// Cover is no sign of life: without pings both sides' idle timeouts expire although cover keeps arriving, and no side
/// goes on sending to a peer that is gone.
#[test]
fn cover_keeps_no_link_alive() {
    let config = LinkConfig { keep_alive: None, idle_timeout: 5 * S, ..at(Level::Paranoid) };
    let mut net = Net::pair(11, &config, FAIR);
    let (a, b) = net.connect();
    net.run(3 * S);
    assert!(net.nodes.iter().all(|node| node.closed.is_empty()));
    net.run(4 * S);
    assert_eq!(net.nodes[0].closed, [(a, CloseReason::IdleTimeout)]);
    assert_eq!(net.nodes[1].closed, [(b, CloseReason::IdleTimeout)]);

    let mut net = Net::pair(12, &at(Level::Paranoid), FAIR);
    let (a, _) = net.connect();
    net.run(60 * S);
    assert!(net.nodes.iter().all(|node| node.closed.is_empty()), "pings keep it up");
    net.conditions.loss = 1.0;
    net.run(31 * S);
    assert_eq!(net.nodes[0].closed, [(a, CloseReason::IdleTimeout)]);
    net.record = true;
    net.run(60 * S);
    assert_eq!(net.tap.len(), 0);
    assert!(net.nodes.iter().all(|node| node.endpoint.poll_timeout().is_none()));
}

/// Cover stops when the profile's rest begins, resumes with the next packet, and keeps to its rate.
#[test]
fn cover_rests_and_keeps_to_its_rate() {
    let mut net = Net::pair(13, &at(Level::High), FAIR);
    let (a, _) = net.connect();
    let sent_within = |net: &mut Net, time: Duration| {
        (net.record, net.tap, net.times) = (true, vec![], vec![]);
        net.run(time);
        seen(net, addr(0)).len()
    };
    let first = sent_within(&mut net, 10 * S);
    // 40 a second and never more than twice that; pings and announcements come on top.
    assert!((300..=800 + 16 + 10).contains(&first), "{first}");
    net.run(S);
    let resting = sent_within(&mut net, 60 * S);
    assert!(resting < 60, "{resting}: pings only");
    net.nodes[0].endpoint.send(a, b"something").unwrap();
    let woken = sent_within(&mut net, 10 * S);
    assert!((300..=800 + 16 + 10).contains(&woken), "{woken}");
    net.run(S);
    assert!(sent_within(&mut net, 60 * S) < 60);
}

/// Packets that cannot leave yet wait in the send queue. It is bounded, and shorter than usual: it holds what leaves
/// within a quarter of a second.
#[test]
fn a_slow_profile_has_a_short_queue() {
    let mut net = Net::pair(14, &at(Level::Paranoid), FAIR);
    let (a, _) = net.connect();
    let mut taken = 0;
    let full = loop {
        match net.nodes[0].endpoint.send(a, &numbered(taken, 1_000)) {
            Ok(()) => taken += 1,
            Err(error) => break error,
        }
    };
    assert_eq!(full, LinkSendError::Full);
    assert!((150..300).contains(&taken), "{taken}");
    net.run(S / 2);
    assert_eq!(net.nodes[1].packets.len(), taken as usize, "what was taken arrives, soon");
}

/// An unproven address gets no more bytes than came from it, padding or not.
#[test]
fn padding_does_not_amplify() {
    for level in [Level::Low, Level::High, Level::Paranoid] {
        let mut net = Net::pair(15, &at(level), FAIR);
        let links = net.connect();
        net.record = true;
        net.run(S);
        assert_eq!(talk(&mut net, links, 20, 1_000, 10 * MS), [20, 20]);
        // An attacker forwards the newest datagrams from elsewhere, faster than they arrive by themselves.
        let copier = addr(66);
        let (mut came, mut copied) = (0, net.tap.len());
        for n in 0..200 {
            net.nodes[0].endpoint.send(links.0, &numbered(n, 30)).unwrap();
            net.conditions.loss = 1.0;
            net.run(10 * MS);
            net.conditions.loss = 0.0;
            for i in copied..net.tap.len() {
                if net.tap[i].0 == addr(0) {
                    came += net.tap[i].2.len();
                    net.inject(copier, addr(1), net.tap[i].2.clone());
                }
            }
            net.run(MS);
            copied = net.tap.len();
        }
        net.run(5 * S);
        let went: usize = net.outside.get(&copier).map_or(0, |d| d.iter().map(Vec::len).sum());
        assert!(went > 0 && went <= came, "{level}: {went} bytes for {came}");
        assert_eq!(net.nodes[1].endpoint.link(links.1).unwrap().remote(), addr(0));
    }
}

/// The handshake of a dialer that wants shaping has datagrams of one class of length.
#[test]
fn handshake_datagrams_are_padded() {
    let mut net = Net::pair(16, &at(Level::Low), FAIR);
    net.record = true;
    net.connect();
    let lengths: Vec<usize> = net.tap.iter().map(|(.., d)| d.len()).collect();
    // Initial, rest, response, finish; the first sealed ones may be among them.
    let handshake = lengths.iter().take(4);
    assert!(handshake.clone().all(|len| (1_168..=1_232).contains(len)), "{lengths:?}");
}
