//! A whole group loses power at once, while a member takes over another's state: everything that was acknowledged is
//! there when the power is back, once, and the group goes on.

use crate::support::net::Group;
use testkit::power::{self, Disk, Mood};
use types::random::{Random, Seeded};

/// Cuts of the usual run: each needs an election. `LEVADA_TEST_CUTS=1000` for a long one.
const CUTS: usize = 15;

/// Not a test by itself: does nothing unless it was started as the victim.
#[tokio::test]
async fn victim() {
    let Some(dir) = power::victim_dir() else { return };
    let mut group = Group::at(&dir, 3).await;
    power::tell("founded");
    let mut numbers = 0u64..;
    let mut go_on = async |group: &Group, count, ballast| {
        for number in numbers.by_ref().take(count) {
            power::tell(&format!("proposes {number}"));
            let (_, leader) = group.leader().await;
            // On a busy machine it may lead no more; then nobody knows what becomes of this one.
            if leader.propose((number, "x".repeat(ballast))).await.is_ok() {
                power::tell(&format!("has {number}"));
            }
        }
    };
    go_on(&group, 8, 10).await;
    let (leader, _) = group.leader().await;
    let absent = (1..=3).find(|id| *id != leader).unwrap();
    group.crash(absent);
    // Until the others have cut what the absent one lacks.
    while group.leader().await.1.first_kept() < 15 {
        go_on(&group, 4, 2_000).await;
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    power::tell("returns");
    group.start(absent).await;
    go_on(&group, 6, 10).await;
    let all = group.lists[&group.leader().await.0].numbers();
    group.settle(&all).await;
    assert!(group.chunk_count() > 0, "the state itself was sent");
    power::tell("settled");
    // The one that took it over leads next: what it has must hold.
    let (leader, _) = group.leader().await;
    group.crash(leader);
    go_on(&group, 3, 10).await;
}

fn numbers(disk: &Disk, cut: usize, word: &str) -> Vec<u64> {
    disk.told(cut).filter_map(|told| told.strip_prefix(word)?.trim().parse().ok()).collect()
}

/// Moments at which to cut: some of all, most of those between the return and its end.
fn cuts(disk: &Disk) -> Vec<usize> {
    let when = |word: &str| (1..=disk.calls()).find(|cut| disk.told(*cut).any(|told| told == word)).unwrap();
    let (founded, returns, settled) = (when("founded"), when("returns"), when("settled"));
    let count = std::env::var("LEVADA_TEST_CUTS").ok().and_then(|count| count.parse().ok()).unwrap_or(CUTS);
    let mut random = Seeded(1);
    let mut cuts: Vec<usize> = (0..count)
        .map(|number| match number % 3 {
            0 => founded + random.below(disk.calls() - founded),
            _ => returns + random.below(settled - returns),
        })
        .collect();
    cuts.sort_unstable();
    cuts
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_group_that_loses_power_has_what_it_acknowledged() {
    let dirs = tempfile::tempdir().unwrap();
    let root = dirs.path().to_owned();
    let disk = io::task::blocking(move || power::life("power::victim", &root.join("life"))).await;
    for (place, cut) in cuts(&disk).into_iter().enumerate() {
        let mood = Mood::ALL[place % Mood::ALL.len()];
        let left = dirs.path().join(format!("left {place}"));
        std::fs::create_dir(&left).unwrap();
        disk.leave(cut, mood, cut as u64, &left);
        let what = format!("call {cut} of {}, {mood:?}", disk.calls());
        let (has, proposed) = (numbers(&disk, cut, "has"), numbers(&disk, cut, "proposes"));
        let mut group = Group::at(&left, 3).await;
        group.propose(1_000_000).await;
        let (leader, _) = group.leader().await;
        let mut found = group.lists[&leader].numbers();
        assert_eq!(found.pop(), Some(1_000_000), "{what}");
        assert!(found.is_sorted_by(|one, next| one < next), "{what}: some are there twice: {found:?}");
        assert!(has.iter().all(|number| found.contains(number)), "{what}: {found:?}, acknowledged were {has:?}");
        assert!(found.iter().all(|number| proposed.contains(number)), "{what}: {found:?}, proposed were {proposed:?}");
        // One that is merely dropped may still be writing its state down where nothing is any more.
        for id in 1..=3 {
            group.stop(id).await;
        }
        std::fs::remove_dir_all(left).unwrap();
    }
}
