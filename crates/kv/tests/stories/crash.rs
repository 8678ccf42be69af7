//! The store under SIGKILL: a child process changes and flushes until it is killed, and what it leaves is some flush.

use kv::{Options, Store};
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use types::rows::{Rows, RowsMut, Table};

const KEYS: u32 = 50;

fn options() -> Options {
    Options { overlay_len_max: 1 << 20, map_len: 256 << 20 }
}

/// Not a test by itself: what the child runs. Every change writes its number under all keys; each flush is announced.
#[test]
fn child() {
    let Ok(dir) = std::env::var("LEVADA_KV_CRASH_DIR") else { return };
    let store = Store::open(dir.as_ref(), options()).unwrap();
    for round in 1u64.. {
        let mut change = store.change();
        for key in 0..KEYS {
            change.put(Table(1), &key.to_be_bytes(), round.to_be_bytes().to_vec());
        }
        change.commit();
        if round % 7 == 0 {
            store.flush().unwrap();
            println!("flushed {round}");
        }
    }
}

#[test]
fn after_a_kill_the_store_is_as_of_some_flush() {
    let dir = tempfile::tempdir().unwrap();
    for kill_after in [3, 10, 25] {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["crash::child", "--exact", "--nocapture"])
            .env("LEVADA_KV_CRASH_DIR", dir.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
        let mut flushed =
            lines.filter_map(|line| line.strip_prefix("flushed ").map(|round| round.parse::<u64>().unwrap()));
        let announced = flushed.nth(kill_after).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        let last = flushed.last().unwrap_or(announced);

        let store = Store::open(dir.path(), options()).unwrap();
        let view = store.view();
        let round = |key: u32| {
            let value = view.get(Table(1), &key.to_be_bytes()).unwrap().unwrap();
            u64::from_be_bytes(value.try_into().unwrap())
        };
        let found = round(0);
        assert!((0..KEYS).all(|key| round(key) == found), "a torn flush");
        assert!(found >= last && found % 7 == 0, "found {found}, announced {last}");
    }
}
