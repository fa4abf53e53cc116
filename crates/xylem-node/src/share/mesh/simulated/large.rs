//! Groups of up to a thousand members, each linked to only some others: how soon a change reaches all, and what it
//! costs each. `XYLEM_MEMBERS=1000` sets the size of the largest group.

use super::super::chosen::LINKS;
use super::*;

/// One way takes 25 to 30 ms, and one datagram of a hundred is lost.
const FAR: Conditions =
    Conditions { delay: ms(25), jitter: ms(5), loss: 0.01, mtu: 1500, ..Conditions::PERFECT };
const ROUND_TRIP: Duration = ms(50);
/// Interval of checks.
const STEP: Duration = ms(5);

/// The cost of a change.
#[derive(Debug)]
struct ChangeCost {
    /// Round trips until the last member had it.
    rounds: f64,
    /// Copies that a member sends on average. `most_copies`: at most.
    copies: f64,
    most_copies: f64,
    /// Most bytes that a member sends.
    most_bytes: usize,
}

impl MeshMember {
    /// Whether all members to which it has links have this state, as far as it knows.
    fn sees_at_neighbours(&self, state: Hash) -> bool {
        let links: BTreeSet<[u8; 32]> = self.links().into_iter().collect();
        let mut near = self.heard.values().filter(|known| links.contains(&known.0.link_key));
        !links.is_empty() && near.all(|known| known.0.state == state)
    }
}

impl MeshWorld {
    /// A closed group of members that know each other from an earlier run. They start one after another within a
    /// second.
    fn large(count: usize, seed: u64) -> Self {
        let mut world = Self::new(count, FAR, seed);
        let members = world.members.iter().map(|member| (member.key.public(), MemberRole::Member));
        let roles = Roles { number: 1, closed: true, members: members.collect(), schema: None };
        world.members.iter_mut().for_each(|member| member.roles.clone_from(&roles));
        (0..count).for_each(|n| world.say(n));
        let said = |member: &MeshMember| {
            let read = MemberStatement::read(&member.said, &world.group).unwrap();
            (read.member, Rc::new((read, member.said.clone())))
        };
        let all: BTreeMap<_, _> = world.members.iter().map(said).collect();
        for n in 0..count {
            world.members[n].heard.clone_from(&all);
            let own = world.members[n].key.public();
            world.members[n].heard.remove(&own);
            world.begin(n);
            let now = world.queue.now();
            world.run_until(now + Duration::from_secs(1) / u32::try_from(count).unwrap());
        }
        world.run(Duration::from_secs(20));
        world
    }

    /// Starts a member again with its earlier state.
    fn begin(&mut self, n: usize) {
        self.start(n, None);
        self.members[n].say_again();
        self.touched.insert(n);
    }

    fn running(&self) -> impl Iterator<Item = &MeshMember> {
        self.members.iter().filter(|member| member.running.is_some())
    }

    /// Links of a running member to other running ones: minimum, mean, maximum.
    fn degrees(&self) -> (usize, f64, usize) {
        let keys = self.running().filter_map(|member| Some(member.running.as_ref()?.wires.own));
        let keys: BTreeSet<[u8; 32]> = keys.collect();
        let links = |member: &MeshMember| {
            let links: BTreeSet<_> = member.links().into_iter().collect();
            links.intersection(&keys).count()
        };
        let all: Vec<usize> = self.running().map(links).collect();
        let mean = all.iter().sum::<usize>() as f64 / all.len() as f64;
        (*all.iter().min().unwrap(), mean, *all.iter().max().unwrap())
    }

    fn until(&mut self, what: &str, done: impl Fn(&Self) -> bool) -> Duration {
        let begin = self.queue.now();
        self.run(Duration::ZERO);
        while !done(self) {
            let now = self.queue.now();
            assert!(now < begin + Duration::from_secs(60), "{what} never happened");
            self.run_until(now + STEP);
        }
        self.queue.now() - begin
    }

    fn all_have_heard(&self, of: usize) -> bool {
        let (key, number) = (self.members[of].key.public(), self.members[of].number);
        self.running()
            .filter(|member| member.n != of)
            .all(|member| member.heard.get(&key).is_some_and(|known| known.0.number == number))
    }

    /// A member sends a new statement.
    fn change(&mut self, n: usize) -> ChangeCost {
        let before: Vec<usize> = self.members.iter().map(MeshMember::sent).collect();
        self.say(n);
        let took = self.until("all know it", |world| world.all_have_heard(n));
        self.run(Duration::from_secs(1));
        let sent = self.running().map(|member| member.sent() - before[member.n]);
        let sent: Vec<usize> = sent.collect();
        let copy = (self.members[n].said.len() + 4) as f64;
        let most = *sent.iter().max().unwrap();
        ChangeCost {
            rounds: took.as_secs_f64() / ROUND_TRIP.as_secs_f64(),
            copies: sent.iter().sum::<usize>() as f64 / copy / sent.len() as f64,
            most_copies: most as f64 / copy,
            most_bytes: most,
        }
    }

    /// Asserts that a change reaches all in time, and costs each member no more than its links.
    fn change_soon(&mut self, n: usize, what: &str) {
        let count = self.members.len();
        let (cost, degrees) = (self.change(n), self.degrees());
        let ChangeCost { rounds, copies, most_copies, most_bytes } = cost;
        println!(
            "{count:5} members, {what:20} {rounds:4.1} round trips; copies that a member sends {copies:4.1}, at most \
             {most_copies:4.1} ({most_bytes} bytes); links {} to {}, {:.1} on average",
            degrees.0, degrees.2, degrees.1
        );
        let bound = 3.0 + (count as f64).log2();
        assert!(
            rounds <= bound,
            "{count}, {what}: {rounds:.1} round trips, the bound is {bound:.1}"
        );
        // Each member has chosen LINKS others, is chosen by as many, and few have far more links.
        let mean = (2 * LINKS + 1).min(count) as f64;
        assert!(copies <= mean, "{count}, {what}: {copies:.1} copies");
        assert!(most_copies <= 5.0 * LINKS as f64, "{count}, {what}: {most_copies:.1} copies");
    }
}

/// Runs three changes; after a tenth of the members have crashed, one change at once and one 45 seconds later; after
/// their return, one more and a removal.
fn a_life_of(count: usize, seed: u64) {
    let mut world = MeshWorld::large(count, seed);
    assert!(world.degrees().0 >= LINKS.min(count - 1), "{:?}", world.degrees());
    for n in [1, count / 2, count - 1] {
        world.change_soon(n, "a change");
    }
    let gone: Vec<usize> = (0..count).filter(|n| n % 10 == 3).collect();
    gone.iter().for_each(|n| world.members[*n].running = None);
    world.change_soon(2, "a tenth just gone");
    // By then a link that ended with its member is noticed.
    world.run(Duration::from_secs(45));
    let there = world.running().count();
    assert!(world.degrees().0 >= LINKS.min(there - 1), "{:?}", world.degrees());
    world.change_soon(2, "a tenth away");
    gone.iter().for_each(|n| world.begin(*n));
    world.until("who is back knows all", |world| world.all_have_heard(2));
    world.run(Duration::from_secs(30));
    world.change_soon(2, "all back");
    world.remove(1);
    let removed = link_key(1).public().0;
    let took = world.until("the removal is known", |world| {
        let mut others = world.members.iter().filter(|member| member.n != 1);
        others.all(|other| other.roles.number == 2 && !other.links().contains(&removed))
    });
    let rounds = took.as_secs_f64() / ROUND_TRIP.as_secs_f64();
    println!("{count:5} members, a removal: {rounds:.1} round trips until nobody has a link to it");
    assert!(rounds <= 3.0 + (count as f64).log2(), "{rounds:.1}");
    world.run(Duration::from_secs(5));
    assert!(world.members[1].links().is_empty() && !world.members[1].turned_away.is_empty());
}

#[test]
fn cost_of_a_change_does_not_grow_with_the_group() {
    let largest = std::env::var("XYLEM_MEMBERS").ok();
    let largest = largest.map_or(200, |count| count.parse().unwrap());
    for count in [10, 100, largest] {
        a_life_of(count, 21);
    }
}

/// The bytes that members send, on average and at most, for a change that all take over, until each knows that its
/// neighbours have.
fn cost_of_taking_over(world: &mut MeshWorld, n: usize, how: TakesOver) -> (usize, usize) {
    world.members.iter_mut().for_each(|member| member.takes_over = Some(how));
    let before: Vec<usize> = world.members.iter().map(MeshMember::sent).collect();
    world.say(n);
    world.until("all have it and know that of their neighbours", |world| {
        let state = world.members[n].state;
        world.running().all(|member| member.state == state && member.sees_at_neighbours(state))
    });
    world.run(Duration::from_secs(2));
    world.members.iter_mut().for_each(|member| member.takes_over = None);
    let sent: Vec<usize> = world.running().map(|member| member.sent() - before[member.n]).collect();
    (sent.iter().sum::<usize>() / sent.len(), *sent.iter().max().unwrap())
}

#[test]
fn a_change_that_all_take_over_costs_a_member_its_links_alone() {
    let largest = std::env::var("XYLEM_MEMBERS").ok();
    let largest = largest.map_or(150, |count| count.parse().unwrap());
    for count in [40, largest] {
        let mut world = MeshWorld::large(count, 25);
        if count <= 300 {
            let (mean, most) = cost_of_taking_over(&mut world, 1, TakesOver::BySigning);
            println!("{count:5} members, each signs: a member sends {mean} bytes, at most {most}");
        }
        let (mean, most) = cost_of_taking_over(&mut world, 2, TakesOver::ByMessage);
        println!("{count:5} members, by messages: a member sends {mean} bytes, at most {most}");
        let message = world.members[2].said.len() + 200;
        let mean_links = world.degrees().1.ceil() as usize;
        assert!(mean <= 2 * mean_links * message, "{mean} bytes over {mean_links} links");

        // A member that was away, and knows no statement with that state, learns the state of its neighbours.
        let (state, origin) = (world.members[2].state, world.members[2].key.public());
        world.members[3].running = None;
        world.members[3].heard.remove(&origin);
        let group = world.group.clone();
        for known in world.members[3].heard.values_mut() {
            let bytes = known.1.clone();
            *known = Rc::new((MemberStatement::read(&bytes, &group).unwrap(), bytes));
        }
        assert!(world.members[3].heard.values().all(|known| known.0.state != state));
        world.begin(3);
        world.until("it sees the state", |world| world.members[3].sees_at_neighbours(state));

        // A member's own change after that is a statement like any other.
        world.say(5);
        world.until("all know it", |world| world.all_have_heard(5));
        assert!(world.running().all(|member| {
            let known = member.heard.get(&world.members[5].key.public());
            member.n == 5 || known.is_some_and(|known| known.0.state == world.members[5].state)
        }));
    }
}

/// All join by the founder's ticket. Afterwards the founder has no more work than others.
#[test]
fn members_that_join_by_one_ticket_spread_their_links() {
    let mut world = MeshWorld::new(50, FAR, 22);
    world.start(0, None);
    for n in 1..50 {
        let first = Some(world.members[0].ticket());
        world.start(n, first);
        world.run(ms(100));
    }
    (0..50).for_each(|n| world.say(n));
    let took = world.converge();
    println!("50 members know each other {took:?} after the last has joined");
    world.run(Duration::from_secs(60));
    let (fewest, mean, most) = world.degrees();
    println!("links: {fewest} to {most}, {mean:.1} on average");
    assert!(fewest >= LINKS && most <= 4 * LINKS, "{fewest} to {most}");
    // When the founder closes the group, it lists only members with which it had a link.
    let Some(founder) = &world.members[0].running else { panic!("it runs") };
    assert_eq!(founder.mesh.heard.met().len(), 49);
    world.change_soon(7, "a change");
}

/// A member's next statement has to continue its history. If the gap is too large, the member has to prove it.
#[test]
fn a_returning_member_asks_for_proofs_of_unlinked_members() {
    let mut world = MeshWorld::large(40, 23);
    let linked = |world: &MeshWorld, n: usize| {
        let links = world.members[n].links();
        move |other: usize| links.contains(&link_key(other).public().0)
    };
    let is_linked = linked(&world, 1);
    let far = (2..40).find(|n| !is_linked(*n)).unwrap();
    world.members[1].running = None;
    for _ in 0..50 {
        world.say(far);
        world.run(ms(100));
    }
    world.begin(1);
    let took = world.until("it has proven it", |world| world.all_have_heard(far));
    println!("proven {took:?} after the start");
    assert!(took < Duration::from_secs(10), "{took:?}");
    world.run(Duration::from_secs(60));
    assert!(!linked(&world, 1)(far), "it is not asked any more");
}

/// Nothing is fetched from members that only read. The few that may write are linked with all.
#[test]
fn readers_link_to_all_writers() {
    let mut world = MeshWorld::large(40, 24);
    let readers: Vec<_> = world.members[4..].iter().map(|member| member.key.public()).collect();
    let roles = &mut world.members[0].roles;
    roles.number += 1;
    roles.members.extend(readers.into_iter().map(|key| (key, MemberRole::ReadOnly)));
    world.say(0);
    world.run(Duration::from_secs(10));
    for member in &world.members {
        let links = member.links();
        for writer in (0..4).filter(|n| *n != member.n) {
            assert!(links.contains(&link_key(writer).public().0), "{} and {writer}", member.n);
        }
    }
    let rounds = world.change(3).rounds;
    assert!(rounds <= 1.5, "all are one link away: {rounds:.1}");
}
