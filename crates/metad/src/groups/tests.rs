//! Tests with a user database that hangs, fails and answers on command.

use super::*;
use std::io::Error;
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;

/// What the database does, and how often it was asked.
#[derive(Default)]
struct Database {
    gate: Mutex<Option<mpsc::Receiver<()>>>,
    /// For names that begin with "hang".
    gate_of_some: Mutex<Option<mpsc::Receiver<()>>>,
    fails: Mutex<bool>,
    asked: AtomicUsize,
    under_way: AtomicUsize,
    most: AtomicUsize,
}

impl Database {
    fn look_up(&self, user: &str) -> std::io::Result<Vec<String>> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        let under_way = self.under_way.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(under_way, Ordering::SeqCst);
        let gate = if user.starts_with("hang") { &self.gate_of_some } else { &self.gate };
        // Until the test lets go of the other end.
        let _closed = gate.lock().unwrap().as_ref().map(mpsc::Receiver::recv);
        self.under_way.fetch_sub(1, Ordering::SeqCst);
        match *self.fails.lock().unwrap() {
            true => Err(Error::from_raw_os_error(5)),
            false => Ok(vec![format!("group of {user}")]),
        }
    }

    /// From now on look-ups hang until what this returns is dropped.
    fn hang(&self) -> mpsc::Sender<()> {
        let (open, gate) = mpsc::channel();
        *self.gate.lock().unwrap() = Some(gate);
        open
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }
}

fn groups() -> (Arc<Database>, Groups) {
    let database = Arc::new(Database::default());
    let asked = Arc::clone(&database);
    (database, Groups::new(Box::new(move |user| asked.look_up(user))))
}

fn of(user: &str) -> Answer {
    Ok(vec![format!("group of {user}")].into())
}

async fn until(what: impl Fn() -> bool) {
    while !what() {
        tokio::task::yield_now().await;
    }
}

const LATER: Duration = known::FRESH;
const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// Whoever is known is answered at once, for as long as an answer may be served; a hundred calls ask once.
#[tokio::test]
async fn a_database_that_hangs_delays_nobody_who_is_known() {
    let (database, groups) = groups();
    assert_eq!(groups.of("ann", HERE, Duration::ZERO).await, of("ann"));
    assert_eq!(database.asked(), 1);
    let open = database.hang();
    for second in 0..100 {
        let now = LATER + Duration::from_secs(second);
        // Ready when it is first looked at: it waits for nothing.
        let answer = timeout(Duration::ZERO, groups.of("ann", HERE, now)).await;
        assert_eq!(answer.expect("it waits for nobody"), of("ann"));
    }
    until(|| database.asked() == 2).await;
    drop(open);
    let fresh = || groups.shared.lock().known.standing("ann", LATER + LATER / 2) == Standing::Fresh(of("ann").unwrap());
    until(fresh).await;
    assert_eq!(database.asked(), 2, "one look-up a name at a time");
}

/// Calls of one who is unknown share a look-up.
#[tokio::test]
async fn calls_of_a_newcomer_share_a_look_up() {
    let (database, groups) = groups();
    let open = database.hang();
    let both = async { tokio::join!(groups.of("ann", HERE, Duration::ZERO), groups.of("ann", HERE, Duration::ZERO)) };
    let opening = async {
        until(|| database.asked() == 1).await;
        drop(open);
    };
    let (both, ()) = tokio::join!(both, opening);
    assert_eq!(both, (of("ann"), of("ann")));
    assert_eq!(database.asked(), 1);
}

/// A failure takes nobody's groups, and is none: who was never known is told so, and asked for again a moment later.
#[tokio::test]
async fn an_error_is_no_answer() {
    let (database, groups) = groups();
    assert_eq!(groups.of("ann", HERE, Duration::ZERO).await, of("ann"));
    *database.fails.lock().unwrap() = true;
    for now in [LATER, known::SERVED - Duration::from_secs(1)] {
        assert_eq!(groups.of("ann", HERE, now).await, of("ann"));
    }
    assert_eq!(groups.of("bob", HERE, LATER).await, Err(NoAnswer));
    *database.fails.lock().unwrap() = false;
    assert_eq!(groups.of("bob", HERE, LATER).await, Err(NoAnswer), "not asked again at once");
    assert_eq!(groups.of("bob", HERE, LATER + 2 * known::RETRY).await, of("bob"));
    assert_eq!(groups.of("ann", HERE, known::SERVED + known::RETRY).await, of("ann"));
}

/// Of a crowd of newcomers only so many are asked for at a time, so many wait, and the rest goes on without groups.
#[tokio::test]
async fn look_ups_that_hang_are_bounded() {
    let (database, mut groups) = groups();
    groups.wait = Duration::from_millis(50);
    let (open, groups) = (database.hang(), Arc::new(groups));
    let crowd: Vec<_> = (0..2 * WAITING_COUNT_MAX)
        .map(|number| {
            let groups = Arc::clone(&groups);
            io::task::spawn("call", async move {
                groups.of(&format!("user{number}"), [127, 0, 1, (number % 16) as u8].into(), Duration::ZERO).await
            })
        })
        .collect();
    for call in crowd {
        assert_eq!(call.await.unwrap(), Err(NoAnswer));
    }
    {
        let state = groups.shared.lock();
        assert!(state.asked.len() <= WAITING_COUNT_MAX && state.thread_count <= THREAD_COUNT_MAX);
    }
    assert_eq!(groups.of("user1", HERE, groups.wait).await, Err(NoAnswer), "it does not wait again");
    drop(open);
    until(|| groups.shared.lock().thread_count == 0).await;
    assert!(database.most.load(Ordering::SeqCst) <= THREAD_COUNT_MAX);
    assert_eq!(groups.of("user1", HERE, Duration::ZERO).await, of("user1"));
}

/// Names are invented at one machine, and the look-up of each hangs: who is known is asked for again all the same, and
/// a newcomer elsewhere has a place.
#[tokio::test]
async fn who_invents_names_takes_no_place_of_others() {
    let (database, mut groups) = groups();
    groups.wait = Duration::from_millis(50);
    assert_eq!(groups.of("ann", HERE, Duration::ZERO).await, of("ann"));
    let (open, gate) = mpsc::channel::<()>();
    *database.gate_of_some.lock().unwrap() = Some(gate);
    let (stranger, groups) = (IpAddr::from([192, 0, 2, 1]), Arc::new(groups));
    let crowd: Vec<_> = (0..WAITING_COUNT_MAX)
        .map(|number| {
            let groups = Arc::clone(&groups);
            let call = async move { groups.of(&format!("hang{number}"), stranger, Duration::ZERO).await };
            io::task::spawn("call", call)
        })
        .collect();
    for call in crowd {
        assert_eq!(call.await.unwrap(), Err(NoAnswer));
    }
    assert_eq!(groups.shared.lock().newcomer_count, WAITING_PER_ADDRESS_MAX);
    let is_fresh =
        |user: &str| groups.shared.lock().known.standing(user, LATER + LATER / 2) == Standing::Fresh(of(user).unwrap());
    assert_eq!(groups.of("ann", HERE, LATER).await, of("ann"));
    until(|| is_fresh("ann")).await;
    assert_eq!(groups.of("bob", HERE, LATER).await, Err(NoAnswer), "newcomers wait for those before them");
    assert!(groups.shared.lock().asked.contains_key("bob"), "he has a place");
    drop(open);
    until(|| is_fresh("bob")).await;
    until(|| groups.shared.lock().thread_count == 0).await;
    let state = groups.shared.lock();
    assert_eq!((state.newcomer_count, state.newcomer_counts.len(), state.asked.len()), (0, 0, 0));
}

/// What was asked for before all was forgotten is not remembered.
#[tokio::test]
async fn what_is_forgotten_is_asked_for_again() {
    let (database, groups) = groups();
    let open = database.hang();
    let early = groups.of("ann", HERE, Duration::ZERO);
    let forgetting = async {
        until(|| database.asked() == 1).await;
        groups.forget();
        drop(open);
    };
    let (early, ()) = tokio::join!(early, forgetting);
    assert_eq!(early, of("ann"));
    assert_eq!(groups.of("ann", HERE, Duration::ZERO).await, of("ann"));
    assert_eq!(database.asked(), 2);
}

#[test]
fn names_of_users_have_a_form() {
    for name in ["ann", "Ann.Other-2", "1000", "DOMAIN\\ann smith$", "nn/host@REALM", "ä"] {
        assert!(is_name(name), "{name}");
    }
    for name in ["", "a\nb", "a:b", "a\0b", &"n".repeat(NAME_LEN_MAX + 1)] {
        assert!(!is_name(name), "{name}");
    }
}
