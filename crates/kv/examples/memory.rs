//! What a change in memory costs: `cargo run --release -p kv --example memory`.

use kv::{Options, Store};
use types::rows::{RowsMut, Table};

const ROW_COUNT: u64 = 500_000;

fn main() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path(), Options { overlay_len_max: usize::MAX, ..Options::default() }).unwrap();
    let before = resident_len();
    for number in 0..ROW_COUNT {
        let mut change = store.change();
        // Keys in no order, as those of inodes; 26 bytes of key, 1 of table and 173 of value make 200.
        let key = [&number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()[..], &[b'n'; 18]].concat();
        change.put(Table(1), &key, vec![7; 173]);
        change.commit();
    }
    let taken = (resident_len() - before) / ROW_COUNT;
    println!("a row of 200 bytes takes {taken}; counted as {}", store.overlay_len() as u64 / ROW_COUNT);
}

fn resident_len() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
}
