//! Files that are made shorter.

use crate::world::check;

/// Two full blocks and one of ten bytes, closed.
const FILE: &str = "root:w create /f
         root:w add /f a
         root:w add /f b a=100
         root:w add /f c b=100
         root:w complete /f c=10 => true\n";

fn check_file(story: &str) {
    check(&format!("{FILE}{story}"));
}

#[test]
fn at_the_border_of_a_block_it_is_done_at_once() {
    check_file(
        "at 5000
         root:w truncate /f 210 => true
         root stat /f => m=1000
         root:w truncate /f 200 => true
         root stat /f => file 644 root:supergroup len=200 r=3 a=1000 m=5000
         root blocks /f => 200 bytes closed last=b true
         root doomed => [c:g1003:c1]
         root:w truncate /f 201 => refused Limit(TruncateLen { have: 200, wanted: 201 })
         root:w truncate /f 0 => true
         root blocks /f => 0 bytes closed last=none false
         root:w truncate /f 0 => true",
    );
}

#[test]
fn inside_a_block_its_replicas_are_cut_first() {
    check_file(
        "root:w truncate /f 130 => cutting b@100+100! g1002 c1 at generation 1004
         root doomed => [c:g1003:c1]
         root is_closed /f => false
         root stat /f => len=200
         root blocks /f => 100 bytes open last=b false
         root:v truncate /f 130 => false
         root:v truncate /f 120 => refused AlreadyBeingCreated(Held { opening: Truncate, path: '/f', client: 'v'
         root:v append /f => refused RecoveryInProgress
         root:w complete /f b=100 => refused LeaseExpired
         at 7000
         root finish /f b 1004 30 => done
         root stat /f => len=130 r=3 a=1000 m=7000
         root blocks /f => 130 bytes closed last=b true
         root:w append /f => last=b@100+30! g1004
         root:w bump b => 1005
         root:w update b 30 1005
         root:w complete /f b=90@1005 => true
         root blocks /f => 190 bytes closed last=b true",
    );
}

/// The server fell, or somebody asks for the lease: a higher generation, and the same end.
#[test]
fn what_was_interrupted_begins_again_and_ends_at_the_same_length() {
    check_file(
        "root:w truncate /f 50 => cutting a@0+100! g1001 c1 at generation 1004
         root recover /f => recovering a@0+100! g1001 c1 at generation 1005
         root finish /f a 1004 50 => refused Block
         root:w truncate /f 50 => false
         root finish /f a 1005 50 => done
         root blocks /f => 50 bytes closed last=a true
         root leases => []",
    );
}

/// However few nodes answer: what was recorded is not given up.
#[test]
fn a_recovery_that_found_nothing_takes_no_bytes_away() {
    check_file(
        "root:w truncate /f 150 => cutting b
         root finish /f b 1004 => refused Block(Lost { block: blk_1048578(1/2), len: 100 })
         root finish /f b 1004 0 => refused Block
         root finish /f b 1004 50 => done
         root:w append /f => last=b
         root recover /f => recovering b@100+50! g1004 c1 at generation 1005
         root finish /f b 1005 => refused Block
         root finish /f b 1005 50 => done
         root blocks /f => 150 bytes closed last=b true",
    );
}

#[test]
fn an_open_file_is_cut_by_nobody_before_its_writer_is_out() {
    check(
        "root:w create /f
         root:w add /f a
         root:w truncate /f 0 => refused AlreadyBeingCreated(Held { opening: Truncate, path: '/f', client: 'w'
         root:v truncate /f 0 => refused AlreadyBeingCreated
         root:v truncate /f 0 takeover=w => recovering a
         root:v truncate /f 0 => refused RecoveryInProgress
         root finish /f a 1002 70 => done
         root:v truncate /f 60 => cutting a@0+70! g1002 c1 at generation 1003
         root delete /f => true
         root leases => []",
    );
}

#[test]
fn it_takes_the_right_to_write_and_a_file() {
    check_file(
        "root mkdir /d
         alice:w truncate /f 0 => refused AccessDenied(Access { user: 'alice', access: Access(2), inode: Guarded { path: '/f'
         root:w truncate /d 0 => refused IsDirectory('/d')
         root:w truncate /missing 0 => refused NotFound(Path('/missing'))",
    );
}

#[test]
fn a_block_that_is_cut_is_charged_as_before_until_that_is_done() {
    check_file(
        "root mkdir /q
         root rename2 /f /q/f
         root setquota /q space=630
         root quota /q => 2 of none names, 630 of 630 space
         root:w truncate /q/f 150 => cutting b
         root quota /q => 600 of 630
         root finish /q/f b 1004 50 => done
         root quota /q => 450 of 630
         root:w truncate /q/f 100 => true
         root quota /q => 300 of 630",
    );
}
