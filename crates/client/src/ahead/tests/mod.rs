//! Stories of one file that is read ahead. Its bytes come from [`Place`], which answers when it is told to, fails when
//! it is told to, and counts.

mod orc;
mod parquet;
mod place;

use super::layout;
use super::learned::Learned;
use super::shell::Shell;
use crate::error::{Error, Result};
use crate::read::RangeRead;
use crate::{Client, Options, Url};
use ::layout::{Answer, Boundless, Format, Limits, Want};
use orc::Stripes;
use parquet::{Table, garbage};
use place::Place;
use prefetch::profile::ProfileName;
use prefetch::{Link, Settings};
use std::path::Path;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use types::random::{Random, Seeded};

/// Across an ocean.
const ROUND_TRIP: Duration = Duration::from_millis(240);

fn client(profile_dir: Option<&Path>) -> Client {
    let url = Url::parse("hdfs://127.0.0.1:1/").unwrap();
    let profile_dir = profile_dir.map(Path::to_owned);
    Client::with_options(&url, "me", Options { round_trip: Some(ROUND_TRIP), profile_dir, ..Options::default() })
}

/// The files here are short: less than may be fetched in vain, and some longer than what is kept of one read.
const SETTINGS: Settings = Settings { cache_len: 10_000_000, waste_floor_len: 8 << 20, ..Settings::DEFAULT };

fn opened(client: &Client, bytes: Vec<u8>) -> Arc<Shell<Place>> {
    opened_with(client, bytes, false)
}

/// `has_store`: that knows where columns lie.
fn opened_with(client: &Client, bytes: Vec<u8>, has_store: bool) -> Arc<Shell<Place>> {
    let link = Link { bytes_per_s: 125_000_000, ..Link::default() };
    let learned = Learned::new(Some("set".to_owned()));
    let place = Place::new(bytes);
    if has_store {
        place.store.set(client.clone()).unwrap();
    }
    let shell = Shell::new(place, client.clone(), SETTINGS, link, learned);
    layout::open(&shell, client.store().profiles().get(ProfileName::of("set", None)).as_ref());
    shell
}

async fn read(shell: &Arc<Shell<Place>>, offset: u64, len: usize) -> Result<Vec<u8>> {
    let mut dest = vec![0; len];
    layout::read(shell, &mut [RangeRead { offset, dest: &mut dest }]).await?;
    shell.check();
    Ok(dest)
}

/// Reads a part, and holds it against the file.
async fn see(shell: &Arc<Shell<Place>>, (offset, len): (u64, u64)) {
    let found = read(shell, offset, len as usize).await.unwrap();
    assert!(found == shell.origin.bytes[offset as usize..][..len as usize], "{len} bytes at {offset}");
}

/// As pyarrow opens a file: its end, and then all of its footer.
async fn open_table(shell: &Arc<Shell<Place>>, table: &Table) {
    let tail_len = table.len().min(65_536);
    see(shell, (table.len() - tail_len, tail_len)).await;
    see(shell, table.footer()).await;
}

fn polled<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

fn save(shell: &Arc<Shell<Place>>) {
    let mut state = shell.lock();
    let observed = state.machine.observed();
    let runs = state.learned.take(&observed);
    runs.into_iter().for_each(|run| run.keep(&shell.client.store().profiles()));
}

#[tokio::test]
async fn two_columns_take_a_flight_each() {
    let table = Table::new(30, 20, 500);
    let shell = opened(&client(None), table.bytes());
    open_table(&shell, &table).await;
    for group in 0..20 {
        for column in [3, 17] {
            see(&shell, table.chunk(group, column)).await;
        }
    }
    let found = shell.statistics();
    // The end with the footer in it, and each column.
    assert!(found.has_layout && found.turn_around_count == 3, "{found:?}");
    assert_eq!((found.wait_count(), found.wasted_len), (3, 0), "{found:?}");
}

#[tokio::test]
async fn the_next_run_has_its_columns_with_the_footer() {
    let (dir, table) = (tempfile::tempdir().unwrap(), Table::new(30, 20, 500));
    let mut waits = Vec::new();
    // Another process each time.
    for _ in 0..3 {
        let shell = opened(&client(Some(dir.path())), table.bytes());
        open_table(&shell, &table).await;
        for group in 0..20 {
            for column in [3, 17] {
                see(&shell, table.chunk(group, column)).await;
            }
        }
        // Saved twice, it is one run.
        save(&shell);
        save(&shell);
        let found = shell.statistics();
        waits.push((found.has_profile, found.turn_around_count, found.wasted_len));
    }
    assert_eq!(waits, [(false, 3, 0), (true, 2, 0), (true, 2, 0)]);
}

/// Opens a file of a store that knows where its columns lie, and reads two columns as far as `groups`.
async fn opened_by_store(dir: &Path, table: &Table, fault_count: usize, groups: usize) -> Arc<Shell<Place>> {
    let place = Place::new(table.bytes());
    place.fail_next(fault_count);
    opened_from(place, dir, table, groups).await
}

async fn opened_from(place: Place, dir: &Path, table: &Table, groups: usize) -> Arc<Shell<Place>> {
    let client = client(Some(dir));
    let link = Link { bytes_per_s: 125_000_000, ..Link::default() };
    place.store.set(client.clone()).unwrap();
    let shell = Shell::new(place, client.clone(), SETTINGS, link, Learned::new(Some("set".to_owned())));
    layout::open(&shell, client.store().profiles().get(ProfileName::of("set", None)).as_ref());
    open_table(&shell, table).await;
    for group in 0..groups {
        for column in [3, 17] {
            see(&shell, table.chunk(group, column)).await;
        }
    }
    shell.origin.settle().await;
    shell.check();
    shell
}

/// Footer and columns leave with the opening: the store finds the columns by their numbers.
#[tokio::test]
async fn a_store_that_knows_the_columns_sends_them_with_the_opening() {
    let (dir, table) = (tempfile::tempdir().unwrap(), Table::new(30, 20, 500));
    let mut turns = Vec::new();
    for _ in 0..3 {
        let shell = opened_by_store(dir.path(), &table, 0, 20).await;
        save(&shell);
        let found = shell.statistics();
        turns.push((found.turn_around_count, found.wasted_len, shell.origin.windows()));
    }
    assert_eq!(turns, [(3, 0, 0), (1, 0, 1), (1, 0, 1)]);
    // A run that stops early: the rest is in vain, and the next one asks for no more than this.
    let shell = opened_by_store(dir.path(), &table, 0, 5).await;
    save(&shell);
    assert!(shell.statistics().wasted_len > 0);
    let shell = opened_by_store(dir.path(), &table, 0, 5).await;
    assert_eq!((shell.statistics().wasted_len, shell.statistics().turn_around_count), (0, 1));
}

/// The footer is wanted first, so it comes before the columns; what does not come so comes by itself.
#[tokio::test]
async fn a_footer_comes_before_its_columns() {
    let (dir, table) = (tempfile::tempdir().unwrap(), Table::new(300, 100, 10));
    save(&opened_by_store(dir.path(), &table, 0, 100).await);
    let shell = opened_by_store(dir.path(), &table, 0, 100).await;
    let footer_len: u64 = shell.origin.openings().iter().map(|(_, len)| len).sum();
    assert!(footer_len >= table.footer().1);
    let found = shell.statistics();
    assert_eq!((shell.origin.fills(), found.turn_around_count, found.failure_count), (0, 1, 0));
    let place = Place::new(table.bytes());
    place.has_opening.store(false, Ordering::SeqCst);
    let shell = opened_from(place, dir.path(), &table, 100).await;
    assert_eq!((shell.origin.fills(), shell.statistics().failure_count), (1, 1));
}

/// Parts that do not come are read as they are asked for.
#[tokio::test]
async fn parts_of_a_window_that_fail_cost_a_flight() {
    let (dir, table) = (tempfile::tempdir().unwrap(), Table::new(30, 20, 500));
    save(&opened_by_store(dir.path(), &table, 0, 20).await);
    for fault_count in 1..=3 {
        let found = opened_by_store(dir.path(), &table, fault_count, 20).await.statistics();
        assert_eq!(found.failure_count as usize, fault_count, "{found:?}");
    }
}

/// The file was replaced by one of other columns: what comes is in vain, and bounded; what is read is right.
#[tokio::test]
async fn a_window_of_other_columns_is_bounded() {
    let (dir, table) = (tempfile::tempdir().unwrap(), Table::new(30, 20, 500));
    save(&opened_by_store(dir.path(), &table, 0, 20).await);
    let other = Table::new(25, 40, 700);
    let shell = opened_by_store(dir.path(), &other, 0, 3).await;
    for group in 0..40 {
        see(&shell, other.chunk(group, 9)).await;
    }
    let found = shell.statistics();
    assert!(found.wasted_len <= SETTINGS.waste_floor_len + found.used_len / 10, "{found:?}");
}

/// As pyarrow reads ORC: the end of the file, and of each stripe its footer and the streams of two columns.
async fn read_stripes(shell: &Arc<Shell<Place>>, file: &Stripes, stripes: usize) {
    see(shell, file.tail()).await;
    for stripe in 0..stripes {
        see(shell, file.footer(stripe)).await;
        for column in [3, 17] {
            see(shell, file.stream(stripe, column)).await;
        }
    }
}

/// Each stripe says by itself where its streams are: they are all asked in one flight.
#[tokio::test]
async fn columns_of_stripes_take_few_flights() {
    let (dir, file) = (tempfile::tempdir().unwrap(), Stripes::new(30, 40, 500));
    let mut turns = Vec::new();
    for has_store in [false, false, true] {
        let client = client(Some(dir.path()));
        let shell = opened_with(&client, file.bytes(), has_store);
        read_stripes(&shell, &file, 40).await;
        save(&shell);
        let found = shell.statistics();
        assert!(found.has_layout && found.wasted_len == 0, "{found:?}");
        turns.push(found.turn_around_count);
    }
    // The end, the footers of the stripes, and each column. The next run has the end and the first footer at once;
    // while the others come, the first column is read; then all is known. A store that knows it sends all with the
    // opening.
    assert_eq!(turns, [4, 4, 1]);
}

/// Of a tree whose name says that it is one, the ends are on their way before anybody reads.
#[tokio::test]
async fn a_tree_is_opened_in_one_flight() {
    let file = std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("../layout/tests/golden/root-zstd.root"));
    let (file, client) = (file.unwrap(), client(None));
    let link = Link { bytes_per_s: 125_000_000, ..Link::default() };
    let mut place = Place::new(file.clone());
    place.path = "/events.root";
    let shell = Shell::new(place, client, SETTINGS, link, Learned::new(None));
    layout::open(&shell, None);
    shell.origin.settle().await;
    assert_eq!(shell.origin.fills(), 1, "both ends leave together");
    see(&shell, (0, 403)).await;
    see(&shell, (file.len() as u64 - 500, 400)).await;
    let found = shell.statistics();
    assert!(!found.has_profile && found.has_layout, "{found:?}");
    assert_eq!((found.turn_around_count, found.hit_count), (1, 2), "{found:?}");
}

/// A stranger chose how many pieces there are.
#[tokio::test]
async fn layouts_share_the_memory_that_the_store_has_for_them() {
    let table = Table::new(30, 400, 50);
    let client_with = |layout_memory| {
        let url = Url::parse("hdfs://127.0.0.1:1/").unwrap();
        let options = Options { round_trip: Some(ROUND_TRIP), profile_dir: None, layout_memory, ..Options::default() };
        Client::with_options(&url, "me", options)
    };
    // 12,000 chunks, of which each is 24 bytes of a layout and 16 of its index; the parser has several times as much.
    let memory = 8 << 20;
    let client = client_with(memory);
    let one = opened(&client, table.bytes());
    open_table(&one, &table).await;
    see(&one, table.chunk(0, 3)).await;
    assert!(one.statistics().has_layout);
    assert!(!client.store().layout_room().set(memory - (400 << 10)), "it is kept");
    assert!(client.store().layout_room().set(memory - (800 << 10)), "what the parser had is free again");
    drop(one);
    assert!(client.store().layout_room().set(memory));

    let client = client_with(1 << 20);
    let other = opened(&client, table.bytes());
    open_table(&other, &table).await;
    see(&other, table.chunk(0, 3)).await;
    assert!(!other.statistics().has_layout);
    assert!(client.store().layout_room().set(1 << 20), "what could not be used is not kept");
}

/// In a few bytes each: what comes with the first is a list that is made for each of them.
#[test]
fn footers_that_are_asked_for_at_once_have_a_limit() {
    let bytes = Stripes::new(1, 3000, 1).bytes();
    let mut inquiry =
        ::layout::begin_at_end(Format::Orc, bytes.len() as u64, Limits::default(), Box::new(Boundless)).unwrap();
    while inquiry.coming().next().is_none() {
        let Want { offset, len } = inquiry.want();
        let Answer::Ask(more) = inquiry.give(&bytes[offset as usize..][..len as usize]).unwrap() else { panic!() };
        inquiry = more;
    }
    assert_eq!((inquiry.coming().count(), layout::coming(&inquiry).len()), (2999, 1024));
}

/// Longer than what a guess may cost on a link that was not measured.
#[tokio::test]
async fn a_long_footer_comes_with_the_opening_of_the_next_run() {
    let (dir, table) = (tempfile::tempdir().unwrap(), Table::new(300, 100, 10));
    let mut turns = Vec::new();
    for _ in 0..2 {
        let shell = opened(&client(Some(dir.path())), table.bytes());
        open_table(&shell, &table).await;
        for group in 0..100 {
            see(&shell, table.chunk(group, 3)).await;
        }
        save(&shell);
        turns.push(shell.statistics().turn_around_count);
    }
    assert_eq!(turns[1], 2, "{turns:?}");
}

/// The file was replaced between two runs by one of other columns, and by garbage: neither profile nor layout fits.
#[tokio::test]
async fn a_file_that_was_replaced_is_read_as_it_is() {
    let (dir, table) = (tempfile::tempdir().unwrap(), Table::new(30, 20, 500));
    let shell = opened(&client(Some(dir.path())), table.bytes());
    open_table(&shell, &table).await;
    see(&shell, table.chunk(0, 3)).await;
    save(&shell);
    let other = Table::new(4, 3, 70);
    let shell = opened(&client(Some(dir.path())), other.bytes());
    open_table(&shell, &other).await;
    for group in 0..3 {
        see(&shell, other.chunk(group, 1)).await;
    }
    for bytes in [garbage(1), garbage(0), b"PAR1".to_vec(), vec![7]] {
        let shell = opened(&client(Some(dir.path())), bytes);
        let len = shell.origin.bytes.len() as u64;
        for start in [len.saturating_sub(8), 0, len / 2] {
            see(&shell, (start, len - start)).await;
        }
        assert!(!shell.statistics().has_layout);
    }
}

/// A program that changes its columns half-way, one that goes back, and one that jumps: correct bytes, bounded waste.
#[tokio::test]
async fn wrong_guesses_cost_what_the_settings_allow() {
    let table = Table::new(30, 60, 300);
    let mut random = Seeded(5);
    let changing = (0..60).map(|group| (group, if group < 30 { 3 } else { 20 })).collect::<Vec<_>>();
    let rewinding = (0..3).flat_map(|_| (0..40).map(|group| (group, 7))).collect();
    let jumping = (0..100).map(|_| (random.below(60), random.below(30))).collect();
    for reads in [changing, rewinding, jumping] {
        let shell = opened(&client(None), table.bytes());
        open_table(&shell, &table).await;
        for (group, column) in reads {
            see(&shell, table.chunk(group, column)).await;
            let found = shell.statistics();
            let allowed = SETTINGS.waste_floor_len + found.used_len / 10;
            assert!(found.wasted_len <= allowed && found.memory_len <= found.memory_len_max, "{found:?}");
        }
    }
}

/// Any reads by several threads, some ranges together, while now and then a request fails.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn any_reads_by_several_threads_are_those_of_the_file() {
    let table = Table::new(30, 20, 500);
    let shell = opened(&client(None), table.bytes());
    open_table(&shell, &table).await;
    shell.origin.fail_every(7);
    let readers = (0..4).map(|seed| {
        let shell = Arc::clone(&shell);
        io::task::spawn("reads", async move {
            let mut random = Seeded(seed);
            for _ in 0..200 {
                let len = shell.origin.bytes.len();
                let mut asked = Vec::new();
                for _ in 0..=random.below(4) {
                    let offset = random.below(len);
                    asked.push((offset as u64, random.below(30_000).min(len - offset)));
                }
                let mut found: Vec<Vec<u8>> = asked.iter().map(|(_, len)| vec![0; *len]).collect();
                let reads = asked.iter().zip(&mut found);
                let mut reads: Vec<RangeRead<'_>> =
                    reads.map(|((offset, _), dest)| RangeRead { offset: *offset, dest }).collect();
                match layout::read(&shell, &mut reads).await {
                    Ok(()) => {}
                    // The plain read in place of a fetch may be the seventh as well.
                    Err(Error::NotDone(_)) => continue,
                    Err(error) => panic!("{error}"),
                }
                for ((offset, len), found) in asked.iter().zip(&found) {
                    assert!(*found == shell.origin.bytes[*offset as usize..][..*len]);
                }
            }
        })
    });
    for reader in readers.collect::<Vec<_>>() {
        reader.await.unwrap();
    }
    shell.origin.settle().await;
    shell.check();
    assert!(shell.statistics().failure_count > 0);
}

#[tokio::test]
async fn a_fetch_that_fails_is_a_plain_read_and_its_error_that_of_one() {
    let shell = opened(&client(None), garbage(9));
    shell.origin.fail_next(1);
    see(&shell, (1000, 50)).await;
    assert_eq!((shell.origin.fills(), shell.statistics().failure_count), (2, 1));
    shell.origin.fail_next(2);
    assert!(matches!(read(&shell, 5000, 50).await, Err(Error::NotDone(place::FAULT))));
    see(&shell, (5000, 50)).await;
    shell.check();
}

/// Who gives up waiting harms nobody, and what it asked for is there for the next.
#[tokio::test]
async fn a_reader_that_gives_up_leaves_all_in_order() {
    let shell = opened(&client(None), garbage(10_000));
    shell.origin.hold();
    for len in [100, 5_000_000] {
        // Into the cache, and past it.
        let mut dest = vec![0; len];
        let mut reads = [RangeRead { offset: 0, dest: &mut dest }];
        let mut reading = Box::pin(shell.read(&mut reads));
        assert!(polled(reading.as_mut()).is_pending());
    }
    shell.check();
    shell.origin.release();
    see(&shell, (0, 200)).await;
    shell.origin.settle().await;
    shell.check();
    // What was given up past the cache has failed; the rest arrived.
    assert_eq!(shell.statistics().failure_count, 1);
}

#[tokio::test]
async fn tasks_end_with_the_file_and_with_the_store() {
    for by_store in [false, true] {
        let client = client(None);
        let shell = opened(&client, garbage(10_000));
        shell.origin.hold();
        let mut dest = [0; 10];
        let mut reads = [RangeRead { offset: 50, dest: &mut dest }];
        let mut reading = Box::pin(client.run(shell.read(&mut reads)));
        assert!(polled(reading.as_mut()).is_pending());
        // Let the task begin.
        tokio::task::yield_now().await;
        assert_eq!(shell.origin.under_way(), 1);
        match by_store {
            true => client.store().close().await,
            false => shell.close(),
        }
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
        assert_eq!(shell.origin.under_way(), 0);
        match (by_store, polled(reading.as_mut())) {
            (true, Poll::Ready(Err(Error::Closed))) => {}
            // It reads by itself what will not come.
            (false, Poll::Pending) => assert_eq!(shell.origin.under_way(), 1),
            (_, other) => panic!("{other:?}"),
        }
        drop(reading);
        assert_eq!(shell.origin.under_way(), 0);
        assert_eq!(Arc::strong_count(&shell), 1, "no task holds it");
    }
}

/// A footer longer than what is fetched unasked is the program's to ask for: who only looks at the end pays nothing
/// more.
#[tokio::test]
async fn a_long_footer_comes_with_the_program_that_reads_it() {
    let table = Table::new(300, 100, 10);
    let (start, len) = table.footer();
    assert!(len > 200_000 && table.len() - start < 512 << 10);
    let shell = opened(&client(None), table.bytes());
    see(&shell, (table.len() - 8, 8)).await;
    shell.origin.settle().await;
    let before = shell.statistics();
    assert!(!before.has_layout && before.asked_len < 100_000, "{before:?}");
    see(&shell, (start, len)).await;
    see(&shell, (0, 4)).await;
    assert!(shell.statistics().has_layout);
    assert!(shell.statistics().asked_len <= 65_536 + len, "no byte of it came twice");
}

/// The parser has only begun when the program asks for the footer, and finds that on its way when it wants it.
#[tokio::test]
async fn a_long_footer_that_the_program_asked_for_first_is_parsed() {
    let table = Table::new(300, 100, 10);
    let shell = opened(&client(None), table.bytes());
    see(&shell, (0, 4)).await;
    shell.origin.hold();
    let (start, len) = table.footer();
    let mut reading = pin!(see(&shell, (start, len - 100)));
    while shell.origin.under_way() < 2 {
        assert!(polled(reading.as_mut()).is_pending());
        tokio::task::yield_now().await;
    }
    shell.origin.release();
    reading.await;
    let parsed = async {
        while !shell.statistics().has_layout {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), parsed).await.expect("the footer is parsed");
    assert!(shell.statistics().asked_len <= 65_536 + len, "no byte of it came twice");
}
