//! Groups of up to a thousand members, of whom each has links to some alone: how soon a change reaches all, and what it costs
//! each. `XYLEM_MEMBERS=1000` has the largest one be that large.

use super::super::chosen::LINKS;
use super::*;

/// Half of a round trip takes 25 to 30 ms, and a datagram of a hundred is lost.
const FAR: Conditions =
    Conditions { delay: ms(25), jitter: ms(5), loss: 0.01, mtu: 1500, ..Conditions::PERFECT };
const ROUND_TRIP: Duration = ms(50);
/// What is looked at so often.
const STEP: Duration = ms(5);

/// What a change has cost.
#[derive(Debug)]
struct Cost {
    /// Round trips until the last member had it.
    rounds: f64,
    /// Copies that a member has sent, on average and at most.
    copies: f64,
    most_copies: f64,
    /// Bytes that a member has sent at most.
    most_bytes: usize,
}

impl World {
    /// Members that know each other from an earlier run, in a closed group, and begin one after another within a second.
    fn large(count: usize, seed: u64) -> Self {
        let mut world = Self::new(count, FAR, seed);
        let members = world.members.iter().map(|member| (member.key.public(), Role::Member));
        let roles = Roles { number: 1, closed: true, members: members.collect(), schema: None };
        world.members.iter_mut().for_each(|member| member.roles.clone_from(&roles));
        (0..count).for_each(|n| world.say(n));
        let said = |member: &Member| {
            let read = Statement::read(&member.said, &world.group).unwrap();
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

    /// This member goes on where it was.
    fn begin(&mut self, n: usize) {
        self.start(n, None);
        self.members[n].say_again();
        self.touched.insert(n);
    }

    fn running(&self) -> impl Iterator<Item = &Member> {
        self.members.iter().filter(|member| member.running.is_some())
    }

    /// The fewest links of a member that runs to others that do, how many they are on average, and the most.
    fn degrees(&self) -> (usize, f64, usize) {
        let keys = self.running().filter_map(|member| Some(member.running.as_ref()?.wires.own));
        let keys: BTreeSet<[u8; 32]> = keys.collect();
        let links = |member: &Member| {
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

    /// One member says something new.
    fn change(&mut self, n: usize) -> Cost {
        let before: Vec<usize> = self.members.iter().map(Member::sent).collect();
        self.say(n);
        let took = self.until("all know it", |world| world.all_have_heard(n));
        self.run(Duration::from_secs(1));
        let sent = self.running().map(|member| member.sent() - before[member.n]);
        let sent: Vec<usize> = sent.collect();
        let copy = (self.members[n].said.len() + 4) as f64;
        let most = *sent.iter().max().unwrap();
        Cost {
            rounds: took.as_secs_f64() / ROUND_TRIP.as_secs_f64(),
            copies: sent.iter().sum::<usize>() as f64 / copy / sent.len() as f64,
            most_copies: most as f64 / copy,
            most_bytes: most,
        }
    }

    /// A change reaches all in time, and costs nobody more than its links.
    fn change_soon(&mut self, n: usize, what: &str) {
        let count = self.members.len();
        let (cost, degrees) = (self.change(n), self.degrees());
        let Cost { rounds, copies, most_copies, most_bytes } = cost;
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
        // Each has chosen some, as many others have chosen it, and few have far more.
        let mean = (2 * LINKS + 1).min(count) as f64;
        assert!(copies <= mean, "{count}, {what}: {copies:.1} copies");
        assert!(most_copies <= 5.0 * LINKS as f64, "{count}, {what}: {most_copies:.1} copies");
    }
}

/// Three changes; then, as a tenth of all have gone without a word, one at once and one a minute later; then, as they are back,
/// a removal.
fn a_life_of(count: usize, seed: u64) {
    let mut world = World::large(count, seed);
    assert!(world.degrees().0 >= LINKS.min(count - 1), "{:?}", world.degrees());
    for n in [1, count / 2, count - 1] {
        world.change_soon(n, "a change");
    }
    let gone: Vec<usize> = (0..count).filter(|n| n % 10 == 3).collect();
    gone.iter().for_each(|n| world.members[*n].running = None);
    world.change_soon(2, "a tenth just gone");
    // A link that died with its member is noticed by then.
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
fn a_change_reaches_a_large_group_soon_and_costs_each_as_much_as_in_a_small_one() {
    let largest = std::env::var("XYLEM_MEMBERS").ok();
    let largest = largest.map_or(200, |count| count.parse().unwrap());
    for count in [10, 100, largest] {
        a_life_of(count, 21);
    }
}

/// All join by the ticket of the first; then that has no more to do than others.
#[test]
fn who_joins_a_large_group_finds_its_way_to_others_than_who_invited_it() {
    let mut world = World::new(50, FAR, 22);
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
    // Only those whom the founder has had a link to are named when it closes the group.
    let Some(founder) = &world.members[0].running else { panic!("it runs") };
    assert_eq!(founder.mesh.heard.met().len(), 49);
    world.change_soon(7, "a change");
}

/// What a member says next has to go on where it was; what is too far from that it has to prove itself.
#[test]
fn who_was_away_for_long_asks_members_to_whom_it_has_no_link() {
    let mut world = World::large(40, 23);
    let linked = |world: &World, n: usize| {
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

/// Nothing is fetched of who only reads: of the few who may write each has links to all.
#[test]
fn who_only_reads_is_linked_to_those_who_may_write() {
    let mut world = World::large(40, 24);
    let readers: Vec<_> = world.members[4..].iter().map(|member| member.key.public()).collect();
    let roles = &mut world.members[0].roles;
    roles.number += 1;
    roles.members.extend(readers.into_iter().map(|key| (key, Role::ReadOnly)));
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
