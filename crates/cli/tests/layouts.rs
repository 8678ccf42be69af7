//! Layouts of files, which real datanodes read for our client.

#[path = "../../client/src/ahead/tests/parquet.rs"]
#[allow(dead_code, reason = "each test program uses a part")]
mod parquet;
mod store;

use client::{Client, Create, LayoutReport, LayoutWanted, LayoutWindow, Options, layout};
use parquet::Table;
use std::collections::BTreeSet;
use store::Store;

fn golden(name: &str) -> Vec<u8> {
    let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/../layout/tests/golden/");
    std::fs::read(format!("{dir}{name}")).unwrap()
}

/// In blocks of this length: what is appended begins another one.
async fn write(client: &Client, path: &str, replication: u16, data: &[u8], piece_len: usize) {
    for (number, piece) in data.chunks(piece_len).enumerate() {
        write_piece(client, path, replication, number == 0, piece).await;
    }
}

async fn write_piece(client: &Client, path: &str, replication: u16, is_first: bool, piece: &[u8]) {
    let create = Create { replication: Some(replication), ..Create::default() };
    let mut writer =
        if is_first { client.create(path, &create).await.unwrap() } else { client.append(path).await.unwrap() };
    writer.write(piece).await.unwrap();
    writer.close().await.unwrap();
}

async fn found(client: &Client, path: &str, wanted: &LayoutWanted) -> layout::Layout {
    let reader = client.open(path).await.unwrap();
    match reader.layout_report(wanted, LayoutWindow::default()).await.unwrap() {
        LayoutReport::Found { layout, .. } => layout,
        LayoutReport::None { reason } => panic!("{path}: {reason}"),
    }
}

fn kept_count(store: &Store, node_count: usize) -> usize {
    let of_node = |number: usize| std::fs::read_dir(store.dir(number).join("layouts")).map_or(0, Iterator::count);
    (0..node_count).map(of_node).sum()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_gets_the_layout_and_moves_no_header() {
    let mut store = Store::new(3, |_| {}, |_, _| {}).await;
    let client = store.client(Options::default());
    for name in ["pyarrow-pages.parquet", "uproot-nested.root", "pyarrow.arrow"] {
        let (data, path) = (golden(name), format!("/{name}"));
        write(&client, &path, 3, &data, data.len().div_ceil(3)).await;
        let whole = layout::of_bytes(&data).unwrap();
        assert_eq!(found(&client, &path, &LayoutWanted::All).await, whole, "{name}");
        let at = whole.tables[0].columns[0].pieces[0].offset;
        for wanted in [LayoutWanted::Columns(vec![(0, 1)]), LayoutWanted::At(vec![at])] {
            assert_eq!(found(&client, &path, &wanted).await, whole.clone().with_pieces_of(&wanted), "{name}");
        }
    }
    // The first bytes of a column come along.
    let reader = client.open("/pyarrow-pages.parquet").await.unwrap();
    let (column, window) = (LayoutWanted::Columns(vec![(0, 1)]), LayoutWindow { first: 0, len_max: 1 << 20 });
    let report = reader.layout_report(&column, window).await.unwrap();
    let LayoutReport::Found { layout, window, .. } = report else { panic!("{report:?}") };
    let (data, pieces) = (golden("pyarrow-pages.parquet"), &layout.tables[0].columns[1].pieces);
    let mut file = vec![None; data.len()];
    for (offset, bytes) in &window {
        let places = file[*offset as usize..].iter_mut().zip(bytes);
        places.for_each(|(place, byte)| *place = Some(*byte));
    }
    for piece in pieces {
        let range = piece.offset as usize..piece.offset as usize + piece.len as usize;
        assert!(file[range.clone()].iter().copied().eq(data[range].iter().copied().map(Some)), "{piece:?}");
    }
    assert_eq!(
        window.iter().map(|(_, bytes)| bytes.len() as u64).sum::<u64>(),
        pieces.iter().map(|piece| u64::from(piece.len)).sum::<u64>()
    );
    // A file that is replaced has another one.
    let (first, second) = (golden("polars.parquet"), golden("pyarrow-chunks.parquet"));
    for data in [&first, &second] {
        let create = Create { overwrite: true, ..Create::default() };
        let mut writer = client.create("/f", &create).await.unwrap();
        writer.write(data).await.unwrap();
        writer.close().await.unwrap();
        assert_eq!(found(&client, "/f", &LayoutWanted::All).await, layout::of_bytes(data).unwrap());
    }
    // Any node that is left says so.
    for left in 0..3 {
        store.stop_all_but(left).await;
        assert_eq!(found(&client, "/f", &LayoutWanted::All).await, layout::of_bytes(&second).unwrap(), "node {left}");
        store.start().await;
    }
    // And what has none says why.
    for (path, data) in [("/none", &b""[..]), ("/garbage.parquet", &[7; 5000])] {
        write(&client, path, 3, data, 2000).await;
        if data.is_empty() {
            client.create(path, &Create { overwrite: true, ..Create::default() }).await.unwrap().close().await.unwrap();
        }
        let reader = client.open(path).await.unwrap();
        assert_eq!(reader.layout(&LayoutWanted::All).await.unwrap(), None);
        let LayoutReport::None { reason } =
            reader.layout_report(&LayoutWanted::All, LayoutWindow::default()).await.unwrap()
        else {
            panic!()
        };
        assert!(reason.contains(if data.is_empty() { "empty" } else { "no known format" }), "{reason}");
    }
}

/// Each block is on one of three nodes: the one that has the end reads the others.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_reads_what_it_needs_from_the_others() {
    let mut store = Store::new(3, |_| {}, |_, _| {}).await;
    let data = golden("uproot-nested.root");
    for (number, piece) in data.chunks(data.len().div_ceil(3)).enumerate() {
        store.stop_all_but(number).await;
        write_piece(&store.client(Options::default()), "/scattered", 1, number == 0, piece).await;
        store.start().await;
    }
    let client = store.client(Options::default());
    let places = client.locations("/scattered").await.unwrap();
    let nodes: BTreeSet<_> = places.iter().map(|place| place.addrs.clone()).collect();
    assert_eq!((places.len(), nodes.len()), (3, 3), "{places:?}");
    assert_eq!(found(&client, "/scattered", &LayoutWanted::All).await, layout::of_bytes(&data).unwrap());
    assert_eq!(kept_count(&store, 3), 1);
}

/// `PAR1`, at both ends of a Parquet file.
const MAGIC_LEN: usize = 4;

/// A file as a reader across an ocean reads it: both its ends, and then two columns, piece by piece. Each run is a
/// client of its own, which shares but a directory with the others.
async fn run(store: &Store, profiles: &std::path::Path, path: &str, table: &Table) -> client::AheadStatistics {
    let options = Options {
        round_trip: Some(std::time::Duration::from_millis(240)),
        profile_dir: Some(profiles.to_owned()),
        local_reads: false,
        ..Options::default()
    };
    let client = store.client(options);
    let ahead = client::AheadOptions::default();
    client.prepare(path, &ahead);
    let file = client.open(path).await.unwrap().ahead(&ahead).await.unwrap();
    let data = table.bytes();
    let whole = layout::of_bytes(&data).unwrap();
    let columns = [0, 1].map(|number| &whole.tables[0].columns[number].pieces);
    let pieces = columns.iter().flat_map(|pieces| pieces.iter().map(|piece| (piece.offset, u64::from(piece.len))));
    for (offset, len) in [(0, MAGIC_LEN as u64), table.footer()].into_iter().chain(pieces) {
        let mut bytes = vec![0; len as usize];
        assert_eq!(file.read_at(offset, &mut bytes).await.unwrap(), bytes.len());
        assert!(bytes == data[offset as usize..][..bytes.len()], "{len} bytes at {offset}");
    }
    file.save().await;
    file.share().await;
    let found = file.statistics();
    drop(file);
    client.store().close().await;
    found
}

/// Columns of four blocks by hundreds of requests in parts; the footer and they are one flight from the second run on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_columns_of_an_earlier_run_come_with_the_opening() {
    let store = Store::new(3, |_| {}, |_, _| {}).await;
    let (client, dir) = (store.client(Options::default()), tempfile::tempdir().unwrap());
    let table = Table::new(5, 40, 1000);
    let data = table.bytes();
    write(&client, "/table.parquet", 3, &data, data.len().div_ceil(4)).await;
    let mut runs = Vec::new();
    for _ in 0..3 {
        runs.push(run(&store, dir.path(), "/table.parquet", &table).await);
    }
    assert!(runs[0].turn_around_count > 1 && !runs[0].has_profile, "{:?}", runs[0]);
    for later in &runs[1..] {
        let found = (later.turn_around_count, later.failure_count, later.wasted_len);
        assert!(found == (1, 0, 0) && later.has_profile && later.has_layout, "{later:?}");
    }
    // Another user, who has read nothing so far: the store knows what others read.
    let home = tempfile::tempdir().unwrap();
    let stranger = run(&store, home.path(), "/table.parquet", &table).await;
    let found = (stranger.turn_around_count, stranger.failure_count, stranger.wasted_len);
    assert!(found == (1, 0, 0) && stranger.has_profile && stranger.has_layout, "{stranger:?}");
    // Another file of the data set, of which nobody has asked before.
    let other = Table::new(5, 60, 500);
    write(&client, "/other.parquet", 3, &other.bytes(), usize::MAX).await;
    let found = run(&store, dir.path(), "/other.parquet", &other).await;
    assert_eq!(found.failure_count, 0, "{found:?}");
}

/// The node of the end asks the other one for what it needs to know the columns, and sends them; what of the opening it
/// does not have comes from there, too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_opening_on_two_nodes_does_not_cost_the_columns() {
    let mut store = Store::new(2, |_| {}, |_, _| {}).await;
    let (table, dir) = (Table::new(5, 40, 1000), tempfile::tempdir().unwrap());
    let data = table.bytes();
    let (magic, rest) = data.split_at(MAGIC_LEN);
    for (number, piece) in [magic, rest].into_iter().enumerate() {
        store.stop_all_but(number).await;
        write_piece(&store.client(Options::default()), "/apart.parquet", 1, number == 0, piece).await;
        store.start().await;
    }
    run(&store, dir.path(), "/apart.parquet", &table).await;
    let later = run(&store, dir.path(), "/apart.parquet", &table).await;
    assert_eq!((later.turn_around_count, later.failure_count), (1, 1), "{later:?}");
}
