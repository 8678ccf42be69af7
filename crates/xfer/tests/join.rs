//! Who joins, who does not, and who is to blame.

use hdfs::proto::BlockOpResponseProto;
use std::time::Duration;
use wire::{Status, delimited};
use xfer::write::{Join, Limits};

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn answer(status: Status, abilities: Option<u64>, first_bad_link: &str) -> Vec<u8> {
    let first_bad_link = Some(first_bad_link.to_owned());
    let answer = BlockOpResponseProto { status: status.0.into(), abilities, first_bad_link, ..Default::default() };
    let mut bytes = Vec::new();
    delimited::put(&answer, &mut bytes);
    bytes
}

/// Two nodes, `a` with one behind it and `b`, were asked.
fn asked() -> Join {
    let mut join = Join::new(Limits::DEFAULT);
    join.on_asked("a".to_owned(), 1, secs(0));
    join.on_asked("b".to_owned(), 0, secs(0));
    join
}

#[test]
fn all_join_and_what_follows_their_answers_stays() {
    let mut join = asked();
    let mut bytes = [answer(Status::IN_PROGRESS, None, ""), answer(Status::SUCCESS, Some(1), "")].concat();
    bytes.extend([7, 8]);
    for byte in bytes {
        if join.awaits(0) {
            join.on_received(0, secs(1), &[byte]).unwrap();
        }
    }
    assert!(!join.awaits(0) && join.awaits(1));
    join.on_received(1, secs(1), &[&answer(Status::SUCCESS, None, "")[..], &[9]].concat()).unwrap();
    assert_eq!(join.poll_timeout(), None);
    let joined = join.into_joined();
    assert_eq!((joined[0].sends_keepalives, joined[0].behind_count, &joined[0].came[..]), (true, 1, &[][..]));
    assert_eq!((joined[1].sends_keepalives, joined[1].behind_count, &joined[1].came[..]), (false, 0, &[9][..]));
}

#[test]
fn who_says_nothing_for_two_seconds_does_not_join() {
    let mut join = asked();
    assert_eq!(join.poll_timeout(), Some(secs(2)));
    join.on_received(0, secs(1), &answer(Status::IN_PROGRESS, None, "")).unwrap();
    assert_eq!((join.poll_timeout(), join.handle_timeout(Duration::from_millis(1999))), (Some(secs(2)), Ok(())));
    assert_eq!(join.handle_timeout(secs(2)).unwrap_err().first_bad_link, "b");
}

#[test]
fn who_is_at_it_for_too_long_does_not_join() {
    let mut join = asked();
    for second in 1..30 {
        join.on_received(0, secs(second), &answer(Status::IN_PROGRESS, None, "")).unwrap();
        join.on_received(1, secs(second), &answer(Status::IN_PROGRESS, None, "")).unwrap();
    }
    assert_eq!(join.poll_timeout(), Some(secs(30)));
    assert_eq!(join.handle_timeout(secs(30)).unwrap_err().first_bad_link, "b", "a has one behind it");
}

#[test]
fn a_refusal_names_who_is_to_blame() {
    for (said, blamed) in [("c", "c"), ("", "a")] {
        let refusal = asked().on_received(0, secs(1), &answer(Status::ERROR_EXISTS, None, said)).unwrap_err();
        assert_eq!((refusal.status, &refusal.first_bad_link[..]), (Status::ERROR_EXISTS, blamed));
    }
    let nonsense = asked().on_received(1, secs(1), &[255; 6]).unwrap_err();
    assert_eq!((nonsense.status, &nonsense.first_bad_link[..]), (Status::ERROR, "b"));
    assert_eq!(asked().on_closed(1, None).message, "b: closed the connection instead of an answer");
}
