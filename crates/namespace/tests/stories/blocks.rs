//! Writing files, block by block.

use crate::world::check;

#[test]
fn a_file_of_three_blocks() {
    check(
        "root:w create /f => file 644 root:supergroup len=0 r=3
         root:w add /f a => a@0+0! g1001 c1
         root:w add /f b a=100 => b@100+0! g1002
         root blocks /f => 100 bytes open last=b false
         root:w add /f c b=100 home=2 => c@200+0! g1003 c2
         root:w complete /f c=42 => true
         root stat /f => len=242
         root blocks /f => 242 bytes closed last=c true: [\"a@0+100 g1001 c1\", \"b@100+100 g1002 c1\", \"c@200+42 g1003 c2\"]
         root leases => []",
    );
}

#[test]
fn an_empty_file_has_no_blocks() {
    check(
        "root:w create /f
         root leases => [w:1]
         root:w complete /f => true
         root:w complete /f => true
         root blocks /f => 0 bytes closed last=none false: []",
    );
}

#[test]
fn create_says_what_is_in_its_way() {
    check(
        "root:w create /f
         root:w complete /f
         root mkdir /d
         root:w create /f => refused AlreadyExists(File { path: '/f', client_host: '10.0.0.1' })
         root:w create /d => refused ExistsAsDirectory { path: '/d', append: false }
         root:w create /d overwrite => refused ExistsAsDirectory
         root:w create / overwrite => refused ExistsAsDirectory
         root:w create /n/f noparent => refused NotFound(Parent('/n'))
         root:w create /n nocreate => refused NotFound(Overwritten('/n'))
         root:w create /f/x => refused ParentNotDirectory { path: '/f' }
         root:w create /x block=9 => refused Limit(BlockLenMin { len: 9, min: 10 })
         root:w create /x r=0 => refused Limit(Replication { replication: 0, path: '/x', client_host: Some
         root:levada-recovery create /x => refused Limit
         root:w create /f nocreate overwrite => file",
    );
}

#[test]
fn overwriting_gives_a_new_inode_and_shuts_the_old_writer_out() {
    check(
        "root:w1 create /f
         root id /f => 16386
         root:w1 add /f a
         root:w2 create /f overwrite => file
         root id /f => 16387
         root leases => [w2:1]
         root:w1 add /f b a=10 id=16386 => refused NotFound(Written(Writing { path: '/f', file: InodeId(16386)
         root:w1 add /f b a=10 => refused LeaseExpired(OtherHolder { holder: 'w2', writing: Writing { path: '/f'
         root reap 10 => more=false [a:g1001:c1]",
    );
}

#[test]
fn a_repeated_request_for_a_block_gets_the_same_block() {
    check(
        "root:w create /f
         root:w add /f a => a@0+0! g1001
         root:w add /f x => a@0+0! g1001
         root:w plan /f => existing=a@0+0! g1001 c1
         root:w plan /f a=100 => r=3 existing=none
         root:w add /f b a=100 => b@100+0! g1002
         root:w add /f x a=100 => b@100+0! g1002
         root:w add /f x => refused Block(NotLast { path: '/f', request: Add, claimed: None, last: Some(BlockName
         root:w fsync /f 7
         root:w add /f x a=100 => refused Block(Written { last: BlockName { block: blk_1048579(1/3), generation:
         root:w complete /f b=7 => true
         root blocks /f => 107 bytes closed last=b true",
    );
}

#[test]
fn an_empty_block_is_dropped_and_its_successor_found_again() {
    check(
        "root:w create /f
         root:w add /f a
         root:w add /f b a=0 => b@0+0! g1002
         root:w add /f x a=0 => b@0+0! g1002
         root doomed => [a:g1001:c1]
         root:w add /f c b=100
         root:w complete /f c=0 => true
         root:w complete /f c=0 => true
         root:w complete /f b=0 => refused LeaseExpired
         root blocks /f => 100 bytes closed last=b true
         root doomed => [a:g1001:c1 c:g1003:c1]
         root forget
         root doomed => []
         root:w complete /f c=0 => true",
    );
}

#[test]
fn what_the_writer_says_of_its_block_must_fit() {
    check(
        "root:w create /f
         root:w add /f a
         root:w fsync /f 50
         root:w add /f b a=40 => refused Block(OtherLen { claimed: BlockName { block: blk_1048577(1/1), generation:
         root:w add /f b a=60@1000 => refused Block(OtherGeneration { have: BlockName { block: blk_1048577(1/1)
         root:w add /f b a=60@1005 => refused Block(OtherGeneration { have: BlockName { block: blk_1048577(1/1)
         root:w complete /f a=9223372036854775808 => refused Block
         root:w complete /f => false
         root:w fsync /f 20
         root stat /f => len=50
         root:w complete /f a=60 => true
         root:w complete /f a=60 => true
         root:w complete /f a=61 => refused LeaseExpired(NotOpen(Writing { path: '/f', file: InodeId(16386), client:
         root:w fsync /f 70 => refused LeaseExpired",
    );
}

#[test]
fn an_abandoned_block_makes_room() {
    check(
        "root:w create /f
         root:w add /f a
         root:w abandon /f a => done
         root:w abandon /f a => done
         root doomed => [a:g1001:c1]
         root:w add /f b => b@0+0! g1002
         root:w add /f c b=100
         root:w fsync /f 30
         root:w abandon /f c
         root stat /f => len=100
         # a committed block stays
         root:w abandon /f b => done
         root:w complete /f b=100 => true
         root:x abandon /f b => refused LeaseExpired",
    );
}

#[test]
fn a_broken_chain_goes_on_under_a_new_generation() {
    check(
        "root:w create /f
         root:w add /f a => g1001
         root:w bump a => generation 1002
         root:w bump a => generation 1003
         # the block itself is as before until the pipeline stands
         root:x bump a => refused LeaseExpired(BlockOfOther { block: BlockName { block: blk_1048577(1/1), generation:
         root:w update a 40 1003 => done
         root:w update a 40 1003 => done
         root stat /f => len=40
         root:w update a 50 1003 => refused Block
         root:w update a 40 1004 => refused Block
         root:w bump a => generation 1004
         root:w update a 30 1004 => refused Block
         root:w complete /f a=60@1004 => true
         root:w bump a => refused Block(FileNotOpen(BlockName { block: blk_1048577(1/1), generation: Generation",
    );
}

#[test]
fn a_block_that_moves_leaves_stale_replicas_to_delete() {
    check(
        "root:w create /f
         root:w add /f a home=1
         root:w bump a
         root:w update a 10 1002 home=7 => done
         root blocks /f => a@0+10! g1002 c7
         root doomed => [a:g1001:c1]
         root:w complete /f a=10 => true
         root delete /f => true
         root reap 9
         root doomed => [a:g1001:c1 a:g1002:c7]",
    );
}

#[test]
fn append_opens_a_partial_last_block_again() {
    check(
        "root:w create /f
         root:w add /f a
         root:w complete /f a=60
         root:v append /f => last=a@0+60! g1001 c1 file 644 root:supergroup len=60
         root blocks /f => 0 bytes open last=a false
         root:v bump a => generation 1002
         root:v update a 60 1002
         root:v add /f b a=100 => b@100+0!
         root:v complete /f b=5 => true
         root stat /f => len=105",
    );
}

#[test]
fn append_and_close_without_a_byte() {
    check(
        "root:w create /f
         root:w add /f a
         root:w complete /f a=60
         root:v append /f => last=a@0+60! g1001
         root:v complete /f a=60 => true
         root:v append /f
         # older clients name no block then
         root:v complete /f => true
         root blocks /f => 60 bytes closed last=a true
         # one that wrote under the old generation, as hdfs-native does
         root:v append /f
         root:v complete /f a=70 => true
         root stat /f => len=70",
    );
}

#[test]
fn append_behind_a_full_block_starts_a_new_one() {
    check(
        "root:w create /f
         root:w add /f a
         root:w complete /f a=100
         root:v append /f => last=none
         root:v add /f b => b@100+0!
         root:v add /f x => refused Block
         root:v complete /f b=1 => true
         root create /empty
         root complete /empty
         root append /empty => last=none
         root complete /empty => true",
    );
}

#[test]
fn append_can_insist_on_a_new_block() {
    check(
        "root:w create /f
         root:w add /f a
         root:w complete /f a=60
         root:v append /f new => last=a@0+60 g1001 c1 file
         root:v add /f b a=60 => b@60+0!
         root:v complete /f b=60 => true
         root blocks /f 0 1 => 120 bytes closed last=b true: [\"a@0+60 g1001 c1\"]
         root:v append /f new
         root:v complete /f b=60 => true",
    );
}

#[test]
fn append_says_what_is_in_its_way() {
    check(
        "root mkdir /d
         root:w append /d => refused ExistsAsDirectory { path: '/d', append: true }
         root:w append /none => refused NotFound(Appended { path: '/none', client_host: '10.0.0.1' })
         root:w create /f
         root:w append /f => refused AlreadyBeingCreated(Held { opening: Append, path: '/f', client: 'w'
         root:v append /f => refused AlreadyBeingCreated(Held { opening: Append, path: '/f', client: 'v'
         root:v create /f => refused AlreadyBeingCreated(Held { opening: Create, path: '/f', client: 'v'",
    );
}

#[test]
fn an_id_given_out_twice_is_refused() {
    let mut world = crate::world::World::new();
    world.tell("root:w create /f\n root:w add /f a");
    let allocated =
        namespace::Allocated { block: types::BlockId::new(types::ContainerId(1), 1), home: types::ContainerId(1) };
    world.tell("root:w create /g");
    let op = namespace::AddBlock {
        path: crate::world::path("/g"),
        client: "w".into(),
        file: None,
        previous: None,
        allocated,
    };
    assert!(world.apply(&crate::world::caller("root"), op).is_err());
}

/// The sources' blocks follow in order under their own ids, also behind a short one, and nothing is left to delete.
#[test]
fn joined_files_keep_their_blocks() {
    check(
        "root mkdir /d
         root chmod /d 777
         alice create /d/a
         alice add /d/a one
         alice complete /d/a one=30
         alice create /d/b
         alice add /d/b two
         alice add /d/b three two=100
         alice complete /d/b three=7
         alice create /d/c
         alice add /d/c four
         alice concat /d/a /d/c => refused Concat(OpenOrEmpty { source: '/d/c' })
         alice complete /d/c four=1
         alice setfattr /d/c user.x y
         carol concat /d/a /d/b => refused AccessDenied
         alice concat /d/a /d/b /d/b => refused Concat(Repeated)
         alice concat /d/a /d/a => refused Concat(SourceIsTarget { source: '/d/a', target: '/d/a' })
         alice concat /d/a /d/none => refused NotFound(Path('/d/none'))
         root concat /d/a /d => refused IsDirectory('/d')
         retry 5 alice concat /d/a /d/b /d/c => done
         retry 5 alice concat /d/a /d/b /d/c => done
         root ls /d => a +0
         root blocks /d/a => 138 bytes closed last=four
         root blocks /d/a 31 1 => two@30+100
         root reap 10 => more=false []",
    );
}

/// Whoever says how long a block became may say anything: it is held against the length of the file's blocks, or what
/// nodes have.
#[test]
fn a_writer_is_believed_up_to_the_length_of_a_block() {
    check(
        "root:w create /f block=100
         root:w add /f a => a@0+0! g1001 c1
         root:w fsync /f 101 => refused Block(TooLong { len: 101, file: InodeId(16386), len_max: 100 })
         root:w add /f b a=101 => refused Block(TooLong { len: 101, file: InodeId(16386), len_max: 100 })
         root:w complete /f a=101 => refused Block(TooLong { len: 101, file: InodeId(16386), len_max: 100 })
         root:w bump a => generation 1002
         root:w update a 101 1002 => refused Block(TooLong { len: 101, file: InodeId(16386), len_max: 100 })
         root:w complete /f a=1099511627777 seen => refused Limit(WrittenLen { len: 1099511627777 })
         root:w complete /f a=250 seen => true
         root blocks /f => 250 bytes closed last=a
         root:w append /f => last=none
         root:w add /f c => c@250+0! g1003 c1
         root:w create /g block=1099511627777 => refused Limit(BlockLenMax { len: 1099511627777 })
         root:w create /g block=1099511627776 => file",
    );
}

/// A writer that goes on in one block, as HBase's does, may die: what its nodes have of it is the file's.
#[test]
fn a_recovery_takes_what_nodes_have() {
    check(
        "root:w create /f block=100
         root:w add /f a => a@0+0! g1001 c1
         root recover /f => recovering a@0+0! g1001 c1 at generation 1002
         root finish /f a 1002 250 => done
         root blocks /f => 250 bytes closed last=a",
    );
}
