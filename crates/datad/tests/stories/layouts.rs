//! Where the columns of a file lie, as a node says that has its blocks.

use crate::support::{Ask, Cluster, Connection, GENERATION, POOL, pattern};
use crate::tokens::{FILE, Keys, token};
use hdfs::proto::{BlockOpResponseProto, TokenProto};
use layout::{Layout, Wanted};
use metrics::Format;
use security::block_token::Mode;
use std::path::PathBuf;
use types::InodeId;
use wire::layouts::{Answer, LayoutAnswer, LayoutBlock, RangesToken, ReadLayout, Wish};
use wire::{Op, Status};

/// Enough for a stream of one block, and for the bytes of a small file.
const SCARCE_LEN: u64 = 200 << 10;

fn golden(name: &str) -> Vec<u8> {
    let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/../layout/tests/golden/");
    std::fs::read(format!("{dir}{name}")).unwrap()
}

/// A file in blocks, as a reader knows it.
struct InBlocks {
    request: ReadLayout,
    data: Vec<u8>,
}

impl InBlocks {
    /// Blocks of this length, numbered from `first` on.
    fn of(data: Vec<u8>, block_len: usize, first: u64) -> Self {
        let mut request = ReadLayout { pool: POOL.into(), client: "reader".into(), ..ReadLayout::default() };
        request.tokens.push(RangesToken::default());
        for (block, piece) in (first..).zip(data.chunks(block_len)) {
            let (offset, len) = (request.file_len, piece.len() as u64);
            request.blocks.push(LayoutBlock { offset, block, generation: GENERATION, len, token: 0 });
            request.file_len += len;
        }
        Self { request, data }
    }

    fn piece(&self, number: usize) -> &[u8] {
        let LayoutBlock { offset, len, .. } = self.request.blocks[number];
        &self.data[offset as usize..][..len as usize]
    }

    fn write(self, cluster: &Cluster, nodes: &[usize]) -> Self {
        for (number, block) in self.request.blocks.iter().enumerate() {
            cluster.write(nodes, block.block, self.piece(number));
        }
        self
    }

    fn layout(&self) -> Layout {
        layout::of_bytes(&self.data).unwrap()
    }

    fn ask(&self, cluster: &Cluster, wish: &Wish) -> Answer {
        said(&mut cluster.connect(0), &self.request.clone().with_wish(wish)).unwrap()
    }
}

#[expect(clippy::result_large_err, reason = "a refusal is HDFS's own message")]
fn said(connection: &mut Connection, request: &ReadLayout) -> Result<Answer, BlockOpResponseProto> {
    connection.send_op(Op::ReadLayout, request);
    let answer = connection.answer();
    if answer.status != 0 {
        return Err(answer);
    }
    Ok(Answer::of(connection.message::<LayoutAnswer>().unwrap()).unwrap())
}

fn found(answer: &Answer) -> Layout {
    let Answer::Found(record) = answer else { panic!("{answer:?}") };
    layout::decode(record).unwrap()
}

/// How many requests were answered so.
fn count(cluster: &Cluster, result: &str) -> u64 {
    let text = cluster.node(0).metrics().render(Format::Prometheus);
    let series = format!("levada_layout_requests_total{{result=\"{result}\"}} ");
    let value = text.lines().find_map(|line| line.strip_prefix(&series)).unwrap_or_else(|| panic!("{text}"));
    value.parse::<f64>().unwrap() as u64
}

fn kept(cluster: &Cluster) -> Vec<PathBuf> {
    let files = std::fs::read_dir(cluster.dir().join("0/layouts"));
    files.map_or(Vec::new(), |files| files.map(|entry| entry.unwrap().path()).collect())
}

#[test]
fn a_file_over_three_blocks_is_asked_once() {
    let mut cluster = Cluster::new(1);
    for (name, first) in [("pyarrow-pages.parquet", 10), ("uproot-flat.root", 20), ("pyarrow.arrow", 30)] {
        let data = golden(name);
        let block_len = data.len().div_ceil(3);
        let file = InBlocks::of(data, block_len, first).write(&cluster, &[0]);
        assert_eq!(file.request.blocks.len(), 3);
        assert_eq!(found(&file.ask(&cluster, &Wish::All)), file.layout(), "{name}");
        let some = vec![(0, 1), (0, 99)];
        let expected = file.layout().with_pieces_of(&Wanted::Columns(some.clone()));
        assert_eq!(found(&file.ask(&cluster, &Wish::Columns(some))), expected);
        let of_second = file.layout().tables[0].columns[1].pieces[0].offset;
        let at = vec![of_second + 1, 0];
        let expected = file.layout().with_pieces_of(&Wanted::At(at.clone()));
        assert_eq!(found(&file.ask(&cluster, &Wish::At(at))), expected);
        assert!(expected.tables[0].columns[1].pieces.len() > 1 || name.ends_with("arrow"));
    }
    assert_eq!((count(&cluster, "asked"), count(&cluster, "in_memory"), kept(&cluster).len()), (3, 6, 3));
    // Another process knows them too, and asks again what was spoilt.
    cluster.stop(0);
    let data = golden("uproot-flat.root");
    let spoilt = kept(&cluster).into_iter().find(|path| path.file_name().unwrap().to_str().unwrap().starts_with("16-"));
    std::fs::write(spoilt.unwrap(), "no entry").unwrap();
    cluster.start(0);
    let block_len = data.len().div_ceil(3);
    let file = InBlocks::of(data, block_len, 20);
    assert_eq!(found(&file.ask(&cluster, &Wish::All)), file.layout());
    let data = golden("pyarrow.arrow");
    let block_len = data.len().div_ceil(3);
    let file = InBlocks::of(data, block_len, 30);
    assert_eq!(found(&file.ask(&cluster, &Wish::All)), file.layout());
    assert_eq!((count(&cluster, "asked"), count(&cluster, "on_disk"), kept(&cluster).len()), (1, 1, 3));
}

/// The blocks of a file never change; what it is made of does.
#[test]
fn a_file_that_grows_has_another_layout() {
    let cluster = Cluster::new(1);
    let before = InBlocks::of(golden("polars.parquet"), 1 << 20, 1).write(&cluster, &[0]);
    assert_eq!(found(&before.ask(&cluster, &Wish::All)), before.layout());
    // A table that was written behind it: the footer at the end counts.
    let more = golden("pyarrow-chunks.parquet");
    let mut grown = InBlocks::of([before.data.clone(), more.clone()].concat(), before.data.len(), 1);
    grown.request.blocks.truncate(1);
    let (offset, len) = (before.data.len() as u64, more.len() as u64);
    grown.request.blocks.push(LayoutBlock { offset, block: 2, generation: GENERATION, len, token: 0 });
    cluster.write(&[0], 2, &more);
    let answer = grown.ask(&cluster, &Wish::All);
    match layout::of_bytes(&grown.data) {
        Ok(layout) => assert_eq!(found(&answer), layout),
        Err(error) => assert!(matches!(&answer, Answer::Damaged(text) if *text == error.to_string()), "{answer:?}"),
    }
    assert_eq!(found(&before.ask(&cluster, &Wish::All)), before.layout(), "who opened it before reads what it was");
    assert_eq!((count(&cluster, "asked"), count(&cluster, "in_memory")), (2, 1));
}

#[test]
fn a_garbage_file_is_refused_politely_and_asked_once() {
    let cluster = Cluster::new(1);
    let garbage = InBlocks::of(pattern(1, 5000), 2000, 1).write(&cluster, &[0]);
    let torn = [b"PAR1", &pattern(2, 3000)[..], b"\xff\x00\x00\x00PAR1"].concat();
    let torn = InBlocks::of(torn, 1000, 11).write(&cluster, &[0]);
    for _ in 0..3 {
        let answer = garbage.ask(&cluster, &Wish::All);
        assert!(matches!(&answer, Answer::Unknown(text) if text.contains("no known format")), "{answer:?}");
        let answer = torn.ask(&cluster, &Wish::All);
        assert!(matches!(&answer, Answer::Damaged(_)), "{answer:?}");
    }
    assert_eq!((count(&cluster, "asked"), count(&cluster, "in_memory")), (2, 4));
}

/// What is made of a file takes memory as all else does; where there is none, the reader does without.
#[test]
fn a_layout_for_which_there_is_no_memory_is_not_made() {
    let of = |memory| {
        let cluster = Cluster::with(1, |config| config.memory = memory);
        let file = InBlocks::of(golden("root-zlib.root"), 1 << 20, 1).write(&cluster, &[0]);
        (file.ask(&cluster, &Wish::All), cluster)
    };
    let (answer, cluster) = of(SCARCE_LEN);
    assert!(matches!(&answer, Answer::Busy(text) if text.contains("memory")), "{answer:?}");
    assert_eq!((count(&cluster, "busy"), kept(&cluster).len()), (1, 0), "it may be asked again");
    let (answer, _cluster) = of(100 * SCARCE_LEN);
    assert!(matches!(answer, Answer::Found(_)), "{answer:?}");
}

#[test]
fn a_node_says_what_it_cannot_read() {
    let cluster = Cluster::new(1);
    let data = golden("pyarrow-pages.parquet");
    let mut file = InBlocks::of(data, 2000, 1).write(&cluster, &[0]);
    let whole = file.request.clone();
    // Of the footer and of what it points to the reader names the first and the last block alone.
    file.request.blocks.drain(1..3);
    let answer = file.ask(&cluster, &Wish::All);
    let Answer::NotHere { offset, len } = answer else { panic!("{answer:?}") };
    assert!(offset >= 2000 && offset + len <= whole.file_len, "{answer:?}");
    file.request = whole;
    assert_eq!(found(&file.ask(&cluster, &Wish::All)), file.layout());
    // It is known now; and yet each block has to be named that it was made of.
    let mut some = file.request.clone();
    some.blocks.remove(0);
    assert_eq!(said(&mut cluster.connect(0), &some), Ok(Answer::NotHere { offset: 0, len: 2000 }));
    // A replica that is not here.
    let elsewhere = InBlocks::of(golden("polars.parquet"), 1 << 20, 77);
    let answer = elsewhere.ask(&cluster, &Wish::All);
    assert!(matches!(answer, Answer::NotHere { offset: 0, .. }), "{answer:?}");
    assert_eq!(count(&cluster, "not_here"), 3);
}

/// Stripes of ORC say by themselves where their columns are, in all blocks of the file: they are not named one by one.
#[test]
fn a_node_says_at_once_where_all_stripes_are() {
    let cluster = Cluster::new(1);
    let mut file = InBlocks::of(golden("pyarrow-long.orc"), 1100, 1).write(&cluster, &[0]);
    let whole = file.request.clone();
    // The reader names both ends, and in the last 16 KiB is the footer.
    file.request.blocks.drain(1..7);
    let answer = file.ask(&cluster, &Wish::All);
    let Answer::NotHere { offset, len } = answer else { panic!("{answer:?}") };
    assert!((1100..2200).contains(&offset) && offset + len > 7700 && offset + len <= whole.file_len, "{answer:?}");
    let some = std::mem::replace(&mut file.request, whole);
    assert_eq!(found(&file.ask(&cluster, &Wish::All)), file.layout());
    // It is known now, and the blocks that it was made of are missing still.
    assert_eq!(said(&mut cluster.connect(0), &some), Ok(Answer::NotHere { offset: 1100, len: 6600 }));
}

/// What one reader says of the order of blocks is believed for that one alone.
#[test]
fn who_lies_about_blocks_fools_nobody_else() {
    let cluster = Cluster::new(1);
    let file = InBlocks::of(golden("pyarrow-pages.parquet"), 2000, 1).write(&cluster, &[0]);
    let other = InBlocks::of(golden("pyarrow-chunks.parquet"), 2000, 11).write(&cluster, &[0]);
    let mut lying = file.request.clone();
    lying.blocks[0] = LayoutBlock { block: other.request.blocks[1].block, ..lying.blocks[0] };
    let lie = said(&mut cluster.connect(0), &lying).unwrap();
    assert!(matches!(lie, Answer::Unknown(_)), "{lie:?}");
    assert_eq!(found(&file.ask(&cluster, &Wish::All)), file.layout());
}

#[test]
fn a_request_that_is_not_understood_gets_an_answer() {
    let cluster = Cluster::new(1);
    let mut file = InBlocks::of(golden("polars.parquet"), 1 << 20, 1).write(&cluster, &[0]);
    file.request.file_len += 1;
    let refused = said(&mut cluster.connect(0), &file.request).unwrap_err();
    assert_eq!(refused.status, i32::from(Status::ERROR_INVALID.0));
    assert!(refused.message().contains("end with the file"), "{}", refused.message());
}

/// What rotted is no layout.
#[test]
fn bytes_that_do_not_match_their_checksum_are_not_parsed() {
    let cluster = Cluster::new(1);
    let file = InBlocks::of(golden("polars.parquet"), 1 << 20, 1).write(&cluster, &[0]);
    let path = cluster.dir().join("0/containers/0/1.data");
    let pack = cluster.dir().join("0/containers/0/pack");
    let path = if path.exists() { path } else { pack };
    let mut stored = std::fs::read(&path).unwrap();
    let place = stored.windows(100).position(|window| window == &file.data[..100]).unwrap();
    stored[place + 50] ^= 1;
    std::fs::write(&path, stored).unwrap();
    let answer = file.ask(&cluster, &Wish::All);
    assert!(matches!(answer, Answer::NotHere { offset: 0, .. }), "{answer:?}");
    assert_eq!(kept(&cluster).len(), 0);
}

/// Many readers open the same file at the same moment.
#[test]
fn many_at_once_ask_the_file_once() {
    let cluster = Cluster::new(1);
    let file = InBlocks::of(golden("uproot-nested.root"), 20_000, 1).write(&cluster, &[0]);
    let mut connections: Vec<_> = (0..60).map(|_| cluster.connect(0)).collect();
    connections.iter_mut().for_each(|connection| connection.send_op(Op::ReadLayout, &file.request));
    for connection in &mut connections {
        assert_eq!(connection.answer().status, 0);
        let answer = Answer::of(connection.message().unwrap()).unwrap();
        assert_eq!(found(&answer), file.layout());
    }
    assert_eq!(count(&cluster, "asked"), 1);
    // And the connections carry on.
    assert_eq!(connections[0].read(1, 5, 10).unwrap(), file.data[5..15]);
}

#[test]
fn what_is_known_is_shown_to_those_alone_who_may_read_the_file() {
    let (cluster, keys) = (Cluster::new(1), Keys::new());
    cluster.node(0).join_pool(POOL);
    cluster.node(0).hear_token_rules(&keys.said());
    let mut file = InBlocks::of(golden("polars.parquet"), 1 << 20, 1);
    let to_write = token(&keys.ring, FILE, &[Mode::Write], Some(1));
    let ask = Ask { token: to_write.identifier.to_vec(), password: to_write.password.to_vec(), ..Ask::create(1) };
    let mut chain = cluster.chain(&[0], &ask).unwrap();
    chain.send_all(&file.data);
    chain.finish();
    let mut with = |token: TokenProto| {
        file.request.tokens[0] = RangesToken { identifier: token.identifier, password: token.password };
        said(&mut cluster.connect(0), &file.request).map_err(|refused| refused.status)
    };
    let refused = Err(i32::from(Status::ERROR_ACCESS_TOKEN.0));
    let to_read = || token(&keys.ring, FILE, &[Mode::Read], None);
    assert_eq!(with(TokenProto::none()), refused);
    assert!(matches!(with(to_read()), Ok(Answer::Found(_))));
    // Now it is known.
    for bad in [
        TokenProto::none(),
        TokenProto { password: vec![7; 32].into(), ..to_read() },
        token(&keys.ring, FILE, &[Mode::Write, Mode::Copy], Some(1)),
        token(&keys.ring, InodeId(16_401), &[Mode::Read], None),
    ] {
        assert_eq!(with(bad), refused);
    }
    assert!(matches!(with(to_read()), Ok(Answer::Found(_))));
    assert_eq!((count(&cluster, "asked"), count(&cluster, "in_memory")), (1, 1));
}

/// Who has no token for a file names its last block behind one of his own, which is no table.
#[test]
fn who_may_not_read_a_file_learns_nothing_of_it_and_changes_nothing() {
    const OTHER: InodeId = InodeId(16_401);
    let (cluster, keys) = (Cluster::new(1), Keys::new());
    cluster.node(0).join_pool(POOL);
    cluster.node(0).hear_token_rules(&keys.said());
    let write = |file: &InBlocks, owner: InodeId| {
        for (number, block) in file.request.blocks.iter().enumerate() {
            let token = token(&keys.ring, owner, &[Mode::Write], Some(block.block));
            let create = Ask::create(block.block);
            let ask = Ask { token: token.identifier.to_vec(), password: token.password.to_vec(), ..create };
            let mut chain = cluster.chain(&[0], &ask).unwrap();
            chain.send_all(file.piece(number));
            chain.finish();
        }
    };
    let file = InBlocks::of(golden("pyarrow-pages.parquet"), 2000, 1);
    let garbage = InBlocks::of(pattern(1, 2000), 2000, 900);
    write(&file, FILE);
    write(&garbage, OTHER);
    let with = |request: &ReadLayout, token: TokenProto| {
        let mut request = request.clone();
        request.tokens[0] = RangesToken { identifier: token.identifier, password: token.password };
        said(&mut cluster.connect(0), &request).map_err(|refused| refused.status)
    };
    let refused = Err(i32::from(Status::ERROR_ACCESS_TOKEN.0));
    let to_read = |file| token(&keys.ring, file, &[Mode::Read], None);
    assert!(matches!(with(&file.request, to_read(FILE)), Ok(Answer::Found(_))));
    let mut lying = file.request.clone();
    lying.blocks.drain(1..lying.blocks.len() - 1);
    lying.blocks[0] = garbage.request.blocks[0];
    assert_eq!(with(&lying, to_read(OTHER)), refused);
    let mut last_alone = file.request.clone();
    last_alone.blocks.drain(..last_alone.blocks.len() - 1);
    assert_eq!(with(&last_alone, TokenProto::none()), refused);
    assert_eq!(with(&last_alone, to_read(OTHER)), refused);
    assert!(matches!(with(&last_alone, to_read(FILE)), Ok(Answer::NotHere { offset: 0, .. })));
    assert!(matches!(with(&file.request, to_read(FILE)), Ok(Answer::Found(_))));
    assert_eq!((count(&cluster, "asked"), count(&cluster, "in_memory"), kept(&cluster).len()), (1, 1, 1));
}

/// Only the replica of the last block says whose file it is, and which.
#[test]
fn what_is_found_without_the_last_block_is_not_kept() {
    let cluster = Cluster::new(1);
    let garbage = InBlocks::of(pattern(1, 5000), 2000, 1);
    cluster.write(&[0], 1, garbage.piece(0));
    for _ in 0..2 {
        let answer = garbage.ask(&cluster, &Wish::All);
        assert!(matches!(&answer, Answer::Unknown(_)), "{answer:?}");
    }
    // It is here now, but not as long as is said.
    cluster.write(&[0], 3, garbage.piece(2));
    let mut said_longer = garbage.request.clone();
    said_longer.blocks[2].len += 1;
    said_longer.file_len += 1;
    assert!(matches!(said(&mut cluster.connect(0), &said_longer), Ok(Answer::Unknown(_))));
    assert_eq!((count(&cluster, "asked"), kept(&cluster).len()), (3, 0));
    assert!(matches!(garbage.ask(&cluster, &Wish::All), Answer::Unknown(_)));
    assert_eq!((count(&cluster, "asked"), kept(&cluster).len()), (4, 1));
}
