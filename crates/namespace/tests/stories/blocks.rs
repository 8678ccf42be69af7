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
         root:w create /f => refused AlreadyExists: /f for client 10.0.0.1 already exists
         root:w create /d => refused ExistsAsDirectory: /d already exists as a directory
         root:w create /d overwrite => refused ExistsAsDirectory
         root:w create / overwrite => refused ExistsAsDirectory
         root:w create /n/f noparent => refused NotFound: Parent directory doesn't exist: /n
         root:w create /n nocreate => refused NotFound: Can't overwrite non-existent /n
         root:w create /f/x => refused ParentNotDirectory: /f (is not a directory)
         root:w create /x block=9 => refused Other: Specified block size 9 is less than configured minimum value dfs.namenode.fs-limits.min-block-size=10
         root:w create /x r=0 => refused Other: Requested replication factor of 0 is less than the required minimum of 1 for /x, clientName=10.0.0.1
         root:levada-recovery create /x => refused IllegalArgument
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
         root:w1 add /f b a=10 id=16386 => refused NotFound: File does not exist: /f (inode 16386) Holder w1 does not have any open files.
         root:w1 add /f b a=10 => refused LeaseExpired: Client (=w1) is not the lease owner (=w2: /f (inode 16387) Holder w1
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
         root:w add /f x => refused Other: Cannot allocate block in /f: passed 'previous' block null does not match
         root:w fsync /f 7
         root:w add /f x a=100 => refused Other: Request looked like a retry to allocate block
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
         root blocks /f => 100 bytes closed last=b true
         root doomed => [a:g1001:c1 c:g1003:c1]
         root forget
         root doomed => []",
    );
}

#[test]
fn what_the_writer_says_of_its_block_must_fit() {
    check(
        "root:w create /f
         root:w add /f a
         root:w fsync /f 50
         root:w add /f b a=40 => refused Other: Commit block
         root:w add /f b a=60@1000 => refused Other: Commit block with mismatching GS
         root:w add /f b a=60@1005 => refused Other: Commit block with mismatching GS
         root:w complete /f a=9223372036854775808 => refused Other
         root:w complete /f => false
         root:w fsync /f 20
         root stat /f => len=50
         root:w complete /f a=60 => true
         root:w complete /f a=60 => true
         root:w complete /f a=61 => refused LeaseExpired: File is not open for writing: /f (inode 16386)
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
         root:x bump a => refused LeaseExpired: Lease mismatch: blk_1048577_1001 is accessed by a non lease holder x
         root:w update a 40 1003 => done
         root:w update a 40 1003 => done
         root stat /f => len=40
         root:w update a 50 1003 => refused Other
         root:w update a 40 1004 => refused Other
         root:w bump a => generation 1004
         root:w update a 30 1004 => refused Other
         root:w complete /f a=60@1004 => true
         root:w bump a => refused Other: The file blk_1048577_1004 belonged to does not exist or it is not under construction.",
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
         root:v add /f x => refused Other
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
         root:w append /d => refused ExistsAsDirectory: Cannot append to directory /d; already exists as a directory.
         root:w append /none => refused NotFound: Failed to append to non-existent file /none for client 10.0.0.1
         root:w create /f
         root:w append /f => refused AlreadyBeingCreated: Failed to APPEND_FILE /f for w on 10.0.0.1 because w is already the current lease holder.
         root:v append /f => refused AlreadyBeingCreated: Failed to APPEND_FILE /f for v on 10.0.0.1 because this file lease is currently owned by w on 10.0.0.1
         root:v create /f => refused AlreadyBeingCreated: Failed to CREATE_FILE /f for v",
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
         alice concat /d/a /d/c => refused IllegalArgument: concat: source file /d/c is invalid or empty or underConstruction
         alice complete /d/c four=1
         alice setfattr /d/c user.x y
         carol concat /d/a /d/b => refused AccessDenied
         alice concat /d/a /d/b /d/b => refused IllegalArgument: concat: at least two of the source files are the same
         alice concat /d/a /d/a => refused IllegalArgument: concat: the src file /d/a is the same with the target file /d/a
         alice concat /d/a /d/none => refused NotFound: File does not exist: /d/none
         root concat /d/a /d => refused IsDirectory: Path is not a file: /d
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
         root:w fsync /f 101 => refused Other: A block of 101 bytes in inode 16386, whose blocks have at most 100 bytes, and no datanode
         root:w add /f b a=101 => refused Other: A block of 101 bytes
         root:w complete /f a=101 => refused Other: A block of 101 bytes
         root:w bump a => generation 1002
         root:w update a 101 1002 => refused Other: A block of 101 bytes
         root:w complete /f a=1099511627777 seen => refused Other: A block of 1099511627777 bytes is too long; it may have 1099511627776 at most
         root:w complete /f a=250 seen => true
         root blocks /f => 250 bytes closed last=a
         root:w append /f => last=none
         root:w add /f c => c@250+0! g1003 c1
         root:w create /g block=1099511627777 => refused IllegalArgument: A block size of 1099511627777 bytes is too large; ask for at most 1099511627776
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
