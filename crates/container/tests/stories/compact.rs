//! Packs shrink when most of what they hold was deleted, and nobody notices.

use container::{Durability, Identity, Options, Reader, SmallPut, Volume};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use types::random::Seeded;
use types::{BlockId, ChecksumSpec, ContainerId, Generation, InodeId, Random};

const HOME: ContainerId = ContainerId(7);
const COUNT: u32 = 9000;

fn identity(index: u32) -> Identity {
    let block = BlockId::new(HOME, index);
    Identity { block, generation: Generation(1001), file: InodeId(16_400), home: HOME, checksum: ChecksumSpec::DEFAULT }
}

fn content(index: u32) -> Vec<u8> {
    index.to_be_bytes().repeat(700 + index as usize % 600)
}

fn fill(volume: &Volume, indexes: std::ops::Range<u32>) {
    let contents: Vec<(Identity, Vec<u8>, Vec<u8>)> = indexes
        .map(|index| {
            let (data, mut sums) = (content(index), Vec::new());
            ChecksumSpec::DEFAULT.compute(&data, &mut sums);
            (identity(index), data, sums)
        })
        .collect();
    for some in contents.chunks(200) {
        let puts: Vec<_> =
            some.iter().map(|(identity, data, sums)| SmallPut { identity: *identity, data, sums }).collect();
        assert!(volume.put_batch(&puts, false).iter().all(Result::is_ok));
    }
}

fn read(reader: &Reader) -> Vec<u8> {
    let mut data = vec![0; reader.len() as usize];
    reader.read_at(0, &mut data).unwrap();
    data
}

fn taken(dir: &Path) -> u64 {
    std::fs::metadata(dir.join("containers/7/pack")).unwrap().blocks() * 512
}

#[test]
fn a_pack_gives_back_what_was_deleted() {
    let dir = tempfile::tempdir().unwrap();
    // Its own thread does nothing here: the test says when.
    let options = Options {
        durability: Durability::Replicated,
        flush_interval: std::time::Duration::from_secs(3600),
        ..Options::default()
    };
    let volume = Volume::open(dir.path(), options.clone()).unwrap();
    fill(&volume, 0..COUNT);
    let before = taken(dir.path());
    let held = volume.read(identity(17).block, Generation(0)).unwrap();
    let deleted_while_read = volume.read(identity(18).block, Generation(0)).unwrap();
    let mut random = Seeded(3);
    let mut left: Vec<u32> = (0..COUNT).collect();
    left.retain(|index| {
        let stays = *index == 17 || random.below(4) == 0 && *index != 18;
        assert!(stays || volume.delete(identity(*index).block, Generation(1001)).unwrap());
        stays
    });
    assert!(taken(dir.path()) > before / 2, "short records wait");
    // What died is not forgotten with the process.
    drop((held, deleted_while_read, volume));
    let volume = Volume::open(dir.path(), options.clone()).unwrap();
    let held = volume.read(identity(17).block, Generation(0)).unwrap();
    let deleted_while_read = volume.read(identity(left[9]).block, Generation(0)).unwrap();
    let gone = left.remove(9);
    assert!(volume.delete(identity(gone).block, Generation(1001)).unwrap());
    // One is told another owner while its copy is on its way, as far as a test can.
    for _ in 0..20 {
        volume.compact();
        let index = left[random.below(left.len())];
        volume.set_owner(identity(index).block, InodeId(99), HOME).unwrap();
    }
    let after = taken(dir.path());
    assert!(after < before / 2, "{before} bytes before, {after} after");
    assert_eq!((read(&held), read(&deleted_while_read)), (content(17), content(gone)), "who reads keeps the bytes");
    drop((held, deleted_while_read));

    let look = |volume: &Volume| {
        assert_eq!(volume.usage().unwrap().replica_count, left.len() as u64);
        for index in &left {
            let reader = volume.read(identity(*index).block, Generation(1001)).unwrap();
            assert!(read(&reader) == content(*index), "replica {index}");
        }
    };
    look(&volume);
    fill(&volume, COUNT..COUNT + 10);
    left.extend(COUNT..COUNT + 10);
    let look = |volume: &Volume| {
        for index in &left {
            let reader = volume.read(identity(*index).block, Generation(1001)).unwrap();
            assert!(read(&reader) == content(*index), "replica {index}");
        }
        assert_eq!(volume.usage().unwrap().replica_count, left.len() as u64);
    };
    look(&volume);
    drop(volume);
    let volume = Volume::open(dir.path(), options.clone()).unwrap();
    look(&volume);
    drop(volume);
    std::fs::remove_dir_all(dir.path().join("index")).unwrap();
    look(&Volume::open(dir.path(), options).unwrap());
}
