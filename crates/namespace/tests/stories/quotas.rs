//! Limits on names and space, and what is counted against them. After every line `check` adds up what each directory
//! has counted.

use crate::world::check;

#[test]
fn names_are_counted_wherever_they_come_from() {
    check(
        "root mkdir /q
         root mkdir /d/tree/below
         root quota /q => no quota
         root setquota /q names=4
         root quota /q => 1 of 4 names, 0 of none space
         root mkdir /q/1
         root mkdir /q/2
         root:w create /q/3
         root:w create /q/4 => refused Quota { path: '/q', passed: Names { limit: 4, count: 5 } }
         root mkdir /q/1/2/3/4 => refused Quota { path: '/q', passed: Names { limit: 4, count: 5 } }
         root rename /d/tree /q/tree => refused Quota { path: '/q', passed: Names { limit: 4, count: 6 } }
         root rename2 /q/3 /q/1/3
         root quota /q => 4 of 4
         root delete /q/1 -r => true
         root quota /q => 2 of 4
         root rename2 /d/tree /q/tree
         root quota /q => 4 of 4
         root rename2 /q/tree/below /below
         root quota /q => 3 of 4
         root setquota /q names=none
         root quota /q => no quota
         root mkdir /q/as/many/as/you/like",
    );
}

#[test]
fn space_is_full_blocks_while_they_are_written_and_then_what_is_in_them() {
    check(
        "root mkdir /q
         root setquota /q space=350
         root:w create /q/f
         root:w add /q/f a
         root quota /q => 2 of none names, 300 of 350 space
         root:w add /q/f b a=100 => refused Quota { path: '/q', passed: Space { limit: 350, space: 600 } }
         root:w complete /q/f a=10 => true
         root quota /q => 30 of 350
         root setrep /q/f 2 => true
         root quota /q => 20 of 350
         root setrep /q/f 40 => refused Quota
         root:w append /q/f => last=a
         root quota /q => 200 of 350
         root:w bump a => 1002
         root:w update a 10 1002 => done
         root:w fsync /q/f 60
         root quota /q => 200 of 350
         root recover /q/f => recovering
         root finish /q/f a 1003 60 => done
         root quota /q => 120 of 350
         root:w create /q/g r=1
         root:w add /q/g c
         root quota /q => 220 of 350
         root:w abandon /q/g c
         root quota /q => 120 of 350
         root du /q => 60 bytes 2 files 1 dirs 120 space
         root delete /q/f => true
         root quota /q => 2 of none names, 0 of 350 space",
    );
}

#[test]
fn a_file_put_whole_and_files_that_are_joined_are_charged_as_others() {
    check(
        "root mkdir /q
         root setquota /q names=3 space=400
         root reserve 3 => from 16387 g1001
         root:w put /q/a A len=60 file=16387 g=1001
         root quota /q => 2 of 3 names, 180 of 400 space
         root:w put /q/b B len=90 file=16388 g=1001 => refused Quota
         root:w put /q/b B len=90 file=16388 g=1001 r=2
         root quota /q => 3 of 3 names, 360 of 400 space
         root:w put /q/c C len=1 file=16389 g=1001 r=1 => refused Quota
         root concat /q/a /q/b => refused Quota { path: '/q', passed: Space { limit: 400, space: 450 } }
         root setquota /q space=450
         root concat /q/a /q/b => done
         root quota /q => 2 of 3 names, 450 of 450 space",
    );
}

#[test]
fn directories_with_limits_stand_in_one_another_and_move_with_what_they_counted() {
    check(
        "root mkdir /q/deep
         root mkdir /d
         root setquota /q names=10
         root setquota /q/deep names=2
         root:w create /q/deep/1
         root:w create /q/deep/2 => refused Quota { path: '/q/deep', passed: Names { limit: 2, count: 3 } }
         root quota /q => 3 of 10
         root rename2 /q/deep /d/deep
         root quota /q => 1 of 10
         root quota /d/deep => 2 of 2
         root:w create /d/deep/2 => refused Quota
         root setquota / names=5
         root quota / => 5 of 5
         root mkdir /more => refused Quota { path: '/', passed: Names { limit: 5, count: 6 } }
         root delete /d -r => true
         root quota / => 2 of 5
         root setquota / names=none space=none
         root quota / => no quota",
    );
}

#[test]
fn a_limit_below_what_is_there_keeps_more_from_coming_and_nothing_from_going() {
    check(
        "root mkdir /q/a/b
         root setquota /q names=1 space=1
         root quota /q => 3 of 1
         root mkdir /q/c => refused Quota { path: '/q', passed: Names { limit: 1, count: 4 } }
         root rename2 /q/a/b /q/b
         root delete /q/a -r => true
         root setquota /q names=2
         root rename2 /q/b /q/c
         root quota /q => 2 of 2",
    );
}

#[test]
fn limits_of_one_type_of_storage_count_on_disks_alone() {
    check(
        "root mkdir /q
         root setquota /q space=299 type=1
         root setquota /q space=1 type=2
         root:w create /q/f
         root:w add /q/f a => refused Quota { path: '/q', passed: DiskSpace { limit: 299, space: 300 } }
         root setquota /q space=none type=1
         root:w add /q/f a
         root setquota /q space=none type=2
         root quota /q => no quota",
    );
}

#[test]
fn only_the_superuser_sets_limits_and_on_directories_alone() {
    check(
        "root:w create /f
         alice setquota / names=5 => refused AccessDenied(NotSuperuser { user: 'alice', operation: 'setQuota' })
         alice setquota / space=none => refused AccessDenied(NotSuperuser { user: 'alice', operation:
         root setquota /f names=5 => refused NotDirectory('/f')
         root setquota /missing names=5 => refused NotFound(Limited('/missing'))
         root setquota / names=none => done
         root quota / => no quota",
    );
}
