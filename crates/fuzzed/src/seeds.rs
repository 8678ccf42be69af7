//! What a target begins with: golden bytes, what was kept of earlier findings, and what our own code writes.

use crate::messages::own_kind;
use crate::target::Target;
use container::{Durability, Identity, Volume};
use kv::{Options, Store};
use namespace::{Caller, Delete, Format, Mkdirs, Op, Request, RetryKey, SetTimes};
use security::joining::JoinToken;
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;
use types::rows::{RowsMut, Table};
use types::{BlockId, ChecksumSpec, ContainerId, FsPath, Generation, InodeId, Millis};

/// The directory of what was found worth keeping for a target: one input a file.
pub fn kept(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/kept").join(name)
}

/// All a target begins with.
pub fn seeds(target: &Target) -> Vec<Vec<u8>> {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let golden = target.golden.iter().flat_map(|place| golden(&crates.join(place)));
    let kept = files(&kept(target.name));
    golden.chain(kept).chain(written(target.name)).collect()
}

fn golden(place: &Path) -> Vec<Vec<u8>> {
    if place.is_dir() {
        return files(place);
    }
    named(place).into_iter().map(|(_, bytes)| bytes).collect()
}

/// The lines of a golden file: name and bytes.
fn named(place: &Path) -> Vec<(String, Vec<u8>)> {
    let text = fs::read_to_string(place).unwrap_or_else(|error| panic!("{}: {error}", place.display()));
    let line = |line: &str| {
        let (name, digits) = line.split_once(' ')?;
        Some((name.to_owned(), hexadecimal(digits)?))
    };
    text.lines().filter_map(line).collect()
}

fn hexadecimal(digits: &str) -> Option<Vec<u8>> {
    let pairs = (0..digits.len()).step_by(2).map(|at| digits.get(at..at + 2));
    pairs.map(|pair| u8::from_str_radix(pair?, 16).ok()).collect()
}

/// In the order of their names, so that a seed gives the same run everywhere.
fn files(dir: &Path) -> Vec<Vec<u8>> {
    let Ok(entries) = fs::read_dir(dir) else { return Vec::new() };
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("a directory can be read").path()).collect();
    paths.sort();
    paths.retain(|path| path.is_file() && path.extension().is_none_or(|ending| ending != "md"));
    paths.iter().map(|path| fs::read(path).expect("a file can be read")).collect()
}

/// What our own code writes today.
fn written(name: &str) -> Vec<Vec<u8>> {
    let with = |first: u8, bytes: &[u8]| [&[first], bytes].concat();
    let kept = |place: &str| named(&Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(place));
    match name {
        "own_messages" => {
            let golden = kept("wire/src/golden.txt");
            let chosen = golden.iter().filter_map(|(name, bytes)| Some(with(own_kind(name)?, bytes)));
            chosen.chain(simple_messages()).collect()
        }
        // A record's kind and body: what seals it is the target's.
        "log_records" | "log_segments" => {
            let plain = |record: &[u8]| [&[record[3], (record.len() - 20) as u8], &record[20..]].concat();
            let records: Vec<Vec<u8>> =
                kept("raft/src/golden_records.txt").iter().map(|(_, record)| plain(record)).collect();
            // One head is enough.
            let whole = records[1..].concat();
            if name == "log_segments" { vec![raft::fuzz::sealed(&whole)] } else { [records, vec![whole]].concat() }
        }
        "hdfs_messages" => simple_messages().collect(),
        "block_rows" => {
            let rows = kept("blocks/src/golden_rows.txt");
            rows.iter().flat_map(|(_, value)| (0..6).map(|kind| with(kind, value))).collect()
        }
        "ring_rows" => kept("security/src/rings/golden_rows.txt").into_iter().map(|(_, value)| value).collect(),
        "joining" => {
            let rows = kept("security/src/joining/golden_rows.txt").into_iter().map(|(_, value)| value);
            let token = JoinToken { authority: [7; 32], number: 9, secret: [5; 16] };
            rows.chain([token.text().into_bytes()]).collect()
        }
        "kv_store" => vec![fs::read(store().path().join("data.mdb")).expect("the store's file")],
        "kv_chunks" => {
            let dir = store();
            let store = Store::open(dir.path(), STORE).expect("a store of ours");
            let mut export = store.export().expect("a store of ours");
            std::iter::from_fn(|| export.chunk(500).expect("a store of ours")).collect()
        }
        "volume_identities" => {
            let text = "# Levada volume\nformat = 2\nsalt = 8899aabbccddeeff0011223344556677\n\
                        volume = 00112233-4455-4677-8899-aabbccddeeff\nnode = 00112233-4455-4677-8899-aabbccddeef0\n\
                        pool = BP-1-10.0.0.1-1\n";
            vec![text.into()]
        }
        "packs" => volume("pack").iter().flat_map(|pack| [with(0, pack), with(1, pack)]).collect(),
        "replica_headers" => volume("sums")
            .into_iter()
            .chain(volume("pack"))
            .map(|mut file| {
                file.truncate(64);
                file
            })
            .collect(),
        "namespace_rows" => {
            let rows = kept("namespace/src/golden_rows.txt");
            rows.iter().flat_map(|(_, value)| (0..7).map(|kind| with(kind, value))).collect()
        }
        "commands" => {
            let command = |request| types::encoding::encode(&request, Vec::new());
            let requests = requests().into_iter().map(|request| with(0, &command(request)));
            let blocks = kept("blocks/src/golden_commands.txt");
            let rings = kept("security/src/rings/golden_commands.txt");
            let blocks = blocks.iter().map(|(_, command)| with(1, command));
            requests.chain(blocks).chain(rings.iter().map(|(_, command)| with(2, command))).collect()
        }
        // How it is read, then what real datanodes sent: 20,000 bytes, in buffers of a chunk and of more than a packet.
        "reads_received" => {
            let recorded = files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../wire/tests/golden"));
            let fronts =
                [[0, 0, 0x4e, 0x20, 0, 4, 2, 0], [0, 0, 0x0b, 0xb8, 1, 255, 255, 255], [0x4a, 0x20, 4, 0, 0, 9, 0, 9]];
            recorded.iter().flat_map(|bytes| fronts.map(|front| [&front[..], bytes].concat())).collect()
        }
        // The length of the pieces in which a connection comes, then what real clients sent.
        "xrootd_sessions" => {
            let recorded = files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../xroot/tests/golden/clients"));
            recorded.iter().flat_map(|bytes| [with(0, bytes), with(255, bytes)]).collect()
        }
        // A replica and what is asked of it, then a verdict, or keepalives and an answer.
        "reads_sent" => {
            let front = |flags: u8, offset: u64, len: u64| {
                [&[0, 0, 1, 255, 255, 2, flags, 255][..], &offset.to_be_bytes(), &len.to_be_bytes()].concat()
            };
            let words = [&[2u8, 8, 6][..], &[2, 8, 12, 2, 8, 12, 4, 8, 0, 18, 0], &[4, 8, 1, 42, 0]];
            let asked = [front(0, 0, 1 << 20), front(2, 1000, 0), front(225, 300_000, 70_000)];
            asked.iter().flat_map(|front| words.map(|word| [&front[..], word].concat())).collect()
        }
        "small_writes" => {
            let header = wire::small::SmallWrite { data_len: 9, checksum_kind: 2, chunk_len: 4, ..Default::default() };
            vec![[&header.front()[..], &[7; 12 + 9]].concat()]
        }
        "writer_answers" => {
            let mut acks = Vec::new();
            for seqno in 0..9 {
                wire::PipelineAck { seqno, replies: vec![wire::Status::SUCCESS; 3] }.put(&mut acks);
            }
            // Three nodes in a chain and in a star, whose answer comes before, or is among the bytes.
            let answered = [2 | 16, 2 | 4 | 8 | 16].map(|how| with(how, &with(8, &acks)));
            let answers = [&[2, 0x08, 12][..], &[2, 0x08, 0], &acks].concat();
            answered.into_iter().chain([with(2 | 8, &with(8, &answers))]).collect()
        }
        "layouts_of_parquet" | "layouts_of_root" | "layouts_of_ntuples" | "layouts_of_arrow" | "layouts_of_orc" => {
            crate::layouts::seeds(name)
        }
        "root_objects" | "root_trees" | "layout_records" | "layouts_asked" => crate::layouts::seeds(name),
        "ranges_asked" | "ranges_received" => crate::ranges::seeds(name),
        name => crate::auth::seeds(name),
    }
}

/// A string and a number, which most messages begin with.
fn simple_messages() -> impl Iterator<Item = Vec<u8>> {
    (0..120).map(|kind| vec![kind, 0x0a, 4, b'/', b'a', b'/', b'b', 0x10, 1])
}

const STORE: Options = Options { overlay_len_max: 1 << 20, map_len: 4 << 20 };

/// A store with pages in two levels, a long value, and a list of free pages.
fn store() -> TempDir {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let store = Store::open(dir.path(), STORE).expect("a new store");
    for round in 0..3u8 {
        let mut change = store.change();
        for number in 0..60u32 {
            change.put(Table(3), &number.to_be_bytes(), vec![round; 90]);
        }
        change.put(Table(4), b"long", vec![round; 5000]);
        change.commit();
        store.flush().expect("a disk with room");
    }
    dir
}

/// The files of a volume whose names end so.
fn volume(ending: &str) -> Vec<Vec<u8>> {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let options = container::Options { durability: Durability::Replicated, ..container::Options::default() };
    let volume = Volume::open(dir.path(), options).expect("a new volume");
    let checksum = ChecksumSpec::DEFAULT;
    for (index, len) in [(1, 10), (2, 600), (3, 100_000)] {
        let identity = Identity {
            block: BlockId::new(ContainerId(7), index),
            generation: Generation(1001),
            file: InodeId(16_400),
            home: ContainerId(7),
            checksum,
        };
        let (data, mut sums) = (vec![index as u8; len], Vec::new());
        checksum.compute(&data, &mut sums);
        let mut writer = volume.create(identity).expect("a new replica");
        writer.write(0, &data, &sums).expect("a disk with room");
        writer.put(len as u64).expect("a disk with room");
    }
    drop(volume);
    let found = below(dir.path()).into_iter().filter(|path| path.to_string_lossy().ends_with(ending));
    found.map(|path| fs::read(path).expect("a file can be read")).collect()
}

fn below(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).expect("a directory can be read").map(|entry| entry.expect("an entry").path());
    entries.flat_map(|path| if path.is_dir() { below(&path) } else { vec![path] }).collect()
}

/// Some requests, as the log has them.
fn requests() -> Vec<Request> {
    let path = |text: &str| FsPath::parse(text).expect("a path");
    let format = Format { owner: "root".into(), group: "supergroup".into() };
    let mkdirs = |text: &str| Mkdirs { path: path(text), mode: 0o755, unmasked: None, create_parent: true };
    let attribute = SetTimes { path: path("/a/b"), modified: Some(Millis(7)), accessed: None };
    let ops = [
        Op::from(format),
        mkdirs("/a/b").into(),
        mkdirs("/a/a long name, and a längeres").into(),
        attribute.into(),
        Delete { path: path("/a/b"), recursive: true, examined: None }.into(),
    ];
    let retry = Some(RetryKey { client: [7; 16], call: 3 });
    ops.into_iter().map(|op| Request { now: Millis(1000), caller: Caller::system(), retry, op }).collect()
}
