//! What the leader is told of a change beside its reply.

use crate::world::check;

/// A writer's blocks count for their container as far as they are recorded, and once.
#[test]
fn what_is_written_is_told_once() {
    check(
        "root:w create /f
         root effects => nothing
         root:w add /f a
         root effects => nothing
         root:w fsync /f 30
         root effects => written a:c1 30 +30
         root:w fsync /f 20
         root effects => nothing
         root:w add /f b a=100
         root effects => written a:c1 100 +70, Completed a:c1
         root:w add /f b a=100
         root effects => nothing
         root:w complete /f b=40
         root effects => written b:c1 40 +40, Completed b:c1
         root:w complete /f b=40
         root effects => nothing",
    );
}

#[test]
fn another_home_counts_all_of_a_block() {
    check(
        "root:w create /f
         root:w add /f a home=1
         root:w fsync /f 30
         root:w bump a
         root:w update a 50 1002 home=2
         root effects => doomed [a:g1001:c1], written a:c2 50 +50
         root:w complete /f a=60@1002
         root effects => written a:c2 60 +10, Completed a:c2",
    );
}

#[test]
fn a_block_from_a_lease_is_doubted() {
    check(
        "root reserve 5
         root effects => nothing
         retry 1 root:w put /f x len=7 file=16386 g=1001
         root effects => written x:c1 7 +7, Leased x:c1
         retry 1 root:w put /f x len=7 file=16386 g=1001
         root effects => nothing
         root:w put /f y len=8 file=16387 g=1001 overwrite
         root effects => tree, written y:c1 8 +8, Leased y:c1
         root:w create /g
         root:w add /g a
         root:w add /g b a=100@1002 g=1001
         root effects => written a:c1 100 +100, Completed a:c1, Leased b:c1",
    );
}

#[test]
fn what_is_deleted_is_told_when_it_is_doomed() {
    check(
        "root:w create /f
         root:w add /f a
         root:w add /f b a=100
         root:w abandon /f b
         root effects => doomed [b:g1002:c1]
         root:w add /f c a=100
         root:w complete /f c=100
         root:w truncate /f 100
         root effects => doomed [c:g1003:c1]
         root mkdir /d/e
         root rename2 /f /d/f
         root delete /d -r
         root effects => tree
         root reap 9 => more=false [a:g1001:c1]
         root mkdir /d
         root delete /d
         root effects => nothing",
    );
}

#[test]
fn a_recovery_leaves_a_doubt() {
    check(
        "root:w create /f
         root:w add /f a
         root:w fsync /f 30
         root recover /f => recovering a
         root effects => nothing
         root finish /f a 1002 40
         root effects => Recovered a:c1",
    );
}

#[test]
fn what_waits_for_the_leader_wakes_it() {
    check(
        "root:w create /f
         root setrep /f 2
         root effects => nothing
         root:w add /f a
         root:w complete /f a=100
         root setrep /f 2
         root effects => nothing
         root setrep /f 3
         root effects => resized
         root safemode on
         root effects => nothing
         root safemode off
         root effects => left safe mode
         root safemode off
         root effects => nothing",
    );
}
