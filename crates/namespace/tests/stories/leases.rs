//! Taking files from silent writers.

use crate::world::check;

#[test]
fn a_recovery_shuts_the_writer_out_and_cuts_the_block() {
    check(
        "root:w create /f
         root:w add /f a
         root:w fsync /f 50
         root:w bump a => generation 1002
         root recover /f => recovering a@0+50! g1001 c1 at generation 1003
         root holder /f => levada-recovery recovering
         root leases => [levada-recovery:1]
         root:w fsync /f 60 => refused LeaseExpired(OtherHolder { holder: 'levada-recovery', writing: Writing { path:
         root:w complete /f a=60 => refused LeaseExpired
         root:w update a 60 1002 => refused LeaseExpired
         root:levada-recovery complete /f a=60 => refused LeaseExpired
         root is_closed /f => false
         root finish /f a 1002 45 => refused Block
         at 9000
         root finish /f a 1003 45 => done
         root finish /f a 1003 45 => done
         root is_closed /f => true
         root stat /f => len=45 r=3 a=1000 m=9000
         root blocks /f => a@0+45 g1003
         root:w complete /f a=60@1001 => refused LeaseExpired
         root:w complete /f a=45@1003 => true
         root recover /f => closed",
    );
}

#[test]
fn a_file_whose_blocks_are_whole_is_closed_at_once() {
    check(
        "root:w create /e
         root recover /e => closed
         root:w create /f
         root:w add /f a
         root:w complete /f a=100
         root:v append /f
         root holder /f => v
         root recover /f holder=w => not held
         root recover /f holder=v => closed
         root stat /f => len=100
         root leases => []
         root recover /none => refused NotFound(Path('/none'))
         root recover / => refused IsDirectory('/')",
    );
}

#[test]
fn a_recovery_begun_again_overtakes_the_first() {
    check(
        "root:w create /f
         root:w add /f a
         root recover /f => at generation 1002
         root recover /f => at generation 1003
         root finish /f a 1002 1 => refused Block(RecoveryOver { block: blk_1048577(1/1), generation: Generation
         root finish /f a 1003 1 => done",
    );
}

#[test]
fn a_block_nobody_has_goes() {
    check(
        "root:w create /f
         root:w add /f a
         root:w add /f b a=100
         root recover /f => recovering b@100+0!
         root finish /f b 1003 => done
         root finish /f b 1003 => done
         root stat /f => len=100
         root doomed => [b:g1003:c1]",
    );
}

/// Bytes that were recorded were acknowledged: whoever has them was not asked yet.
#[test]
fn a_block_with_recorded_bytes_stays_until_somebody_shows_them() {
    check(
        "root:w create /f
         root:w add /f a
         root:w fsync /f 5
         root recover /f => recovering a@0+5!
         root finish /f a 1002 => refused Block
         root is_closed /f => false
         root finish /f a 1002 5 => done
         root stat /f => len=5",
    );
}

#[test]
fn append_and_create_take_over_a_silent_holder() {
    check(
        "root:w create /f
         root:v append /f takeover=x => refused AlreadyBeingCreated
         # nothing to recover: the append goes on at once
         root:v append /f takeover=w => last=none
         root:v add /f a
         root:u append /f takeover=v => recovering a@0+0! g1001 c1 at generation 1002
         root:u append /f takeover=v => refused RecoveryInProgress(Held { opening: Append, path: '/f', client: 'u'
         root:u create /f => refused RecoveryInProgress
         root finish /f a 1002 30
         root:u append /f => last=a@0+30! g1002
         root:t create /f takeover=u => recovering a@0+30!
         # overwriting needs no recovery
         root:s create /f overwrite => file
         root leases => [s:1]",
    );
}

#[test]
fn deleting_an_open_file_ends_its_lease() {
    check(
        "root:w create /d/f
         root:w add /d/f a
         root:w create /d/g
         root open_files => [\"/d/f\", \"/d/g\"]
         root delete /d/f => true
         root leases => [w:1]
         root:w add /d/f b a=1 => refused NotFound(Written(Writing { path: '/d/f', file: InodeId(0), client: 'w'
         root:w bump a => refused Block(FileNotOpen(BlockName { block: blk_1048577(1/1), generation: Generation(1001)
         # with a whole directory it ends when the tree is freed, but nobody gets at the file before
         root delete /d -r => true
         root open_files => []
         root:w complete /d/g id=16388 => refused NotFound
         root reap 100 => more=false
         root leases => []
         root:w bump a => refused Block(Unknown(blk_1048577(1/1)))",
    );
}

#[test]
fn the_leases_of_all_are_listed() {
    check(
        "root:w1 create /a
         root:w1 create /b
         root:w create /c
         root:w10 create /d
         root leases => [w:1 w1:2 w10:1]
         root:w1 complete /a
         root leases => [w:1 w1:1 w10:1]",
    );
}
