//! Small replicas put together: each gets its own answer, and all of them are there afterwards.

use container::{Durability, Identity, Options, ReplicaError, SmallPut, Volume};
use types::{BlockId, ChecksumSpec, ContainerId, Generation, InodeId};

fn identity(container: u64, index: u32, generation: u64) -> Identity {
    let home = ContainerId(container);
    Identity {
        block: BlockId::new(home, index),
        generation: Generation(generation),
        file: InodeId(16_400),
        home,
        checksum: ChecksumSpec::DEFAULT,
    }
}

/// What a replica with this number holds, and its checksums.
fn content(number: u32) -> (Vec<u8>, Vec<u8>) {
    let data = vec![number as u8; 100 + number as usize * 37];
    let mut sums = Vec::new();
    ChecksumSpec::DEFAULT.compute(&data, &mut sums);
    (data, sums)
}

fn check(durability: Durability) {
    let dir = tempfile::tempdir().unwrap();
    let options = Options { durability, ..Options::default() };
    let volume = Volume::open(dir.path(), options.clone()).unwrap();
    let contents: Vec<_> = (0..60).map(content).collect();
    let put = |index: u32, container, generation| {
        let (data, sums) = &contents[index as usize];
        SmallPut { identity: identity(container, index, generation), data, sums }
    };
    let puts: Vec<SmallPut<'_>> = (0..50).map(|index| put(index, 1 + u64::from(index % 3), 1001)).collect();
    assert!(volume.put_batch(&puts, false).iter().all(Result::is_ok));

    // One that is here already, one that is here with other bytes, one too long, one that says it is younger, one
    // twice, and one as it should be.
    let long = vec![0; options.pack_len_max as usize + 1];
    let mut long_sums = Vec::new();
    ChecksumSpec::DEFAULT.compute(&long, &mut long_sums);
    let other = SmallPut { identity: identity(2, 1, 1001), ..put(2, 2, 1001) };
    let too_long = SmallPut { identity: identity(1, 99, 1001), data: &long, sums: &long_sums };
    let mixed =
        [put(0, 1, 1001), other, too_long, put(3, 1, 1002), put(55, 1, 1001), put(55, 1, 1001), put(56, 2, 1001)];
    let outcomes = volume.put_batch(&mixed, true);
    assert!(matches!(outcomes[1], Err(ReplicaError::Exists { .. })), "{:?}", outcomes[1]);
    assert!(matches!(outcomes[2], Err(ReplicaError::Length { .. })), "{:?}", outcomes[2]);
    assert!(matches!(outcomes[3], Err(ReplicaError::Exists { .. })), "{:?}", outcomes[3]);
    assert!([0, 4, 5, 6].iter().all(|at| outcomes[*at].is_ok()), "{outcomes:?}");

    let look = |volume: &Volume| {
        assert_eq!(volume.usage().unwrap().replica_count, 52);
        for index in (0..50).chain([55, 56]) {
            let container = if index == 55 {
                1
            } else if index == 56 {
                2
            } else {
                1 + u64::from(index % 3)
            };
            let id = identity(container, index, 0);
            let reader = volume.read(id.block, Generation(1001)).unwrap();
            let mut data = vec![0; reader.len() as usize];
            reader.read_at(0, &mut data).unwrap();
            assert_eq!(data, contents[index as usize].0, "replica {index}");
            reader.verify().unwrap();
        }
    };
    look(&volume);
    drop(volume);
    // Without its index, all is found again in the packs.
    std::fs::remove_dir_all(dir.path().join("index")).unwrap();
    look(&Volume::open(dir.path(), options).unwrap());
}

#[test]
fn each_of_a_batch_gets_its_own_answer() {
    check(Durability::Synced);
    check(Durability::Replicated);
}
