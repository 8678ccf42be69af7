//! Both renames.

use crate::world::check;

#[test]
fn the_old_rename_answers_false_for_almost_everything() {
    check(
        "root mkdir /a/b
         root create /f
         root create /g
         root rename /none /x => false
         root rename / /x => false
         root rename /f /g => false
         root rename /f /none/x => false
         root rename /a /a/b/c => false
         root rename /a /a => false
         root rename /f /f => true
         root rename /none /none => false
         root rename /a /f/x => refused ParentNotDirectory { path: '/f' }
         root rename /f/x /a => refused ThroughFile
         root rename /f /h:x => refused InvalidPath
         root ls / => a f g +0",
    );
}

#[test]
fn the_old_rename_moves_into_directories() {
    check(
        "root mkdir /d
         root create /f
         root create /d/g
         root create /g
         root rename /f /d => true
         root ls /d => f g +0
         root rename /g /d => false
         root rename /d/f / => true
         root ls / => d f g +0
         root stat /d => children=1
         root rename /none /d => false",
    );
}

#[test]
fn a_renamed_tree_keeps_everything_below() {
    check(
        "root mkdir /a/b/c
         root create /a/b/f
         root mkdir /z
         at 7000
         root rename /a/b /z/y => true
         root ls /z/y => c f +0
         root stat /a => children=0 a=0 m=7000
         root stat /z => children=1 a=0 m=7000
         root stat /z/y => children=2 a=0 m=1000
         # an open file goes on at its new path, by id and by path
         root add /z/y/f x
         root add /a/b/f y x=100 id=16389 => y@100
         root complete /gone y=1 id=16389 => true
         root stat /z/y/f => len=101",
    );
}

#[test]
fn a_rename_in_the_same_directory_keeps_the_count() {
    check(
        "root mkdir /d
         root create /d/a
         root create /d/b
         root rename /d/a /d/c => true
         root stat /d => children=2
         root rename2 /d/b /d/c overwrite
         root stat /d => children=1
         root ls /d => c +0",
    );
}

#[test]
fn rename2_says_why_not() {
    check(
        "root mkdir /d/e
         root mkdir /empty
         root create /f
         root create /g
         root rename2 /none /x => refused NotFound(RenameSource('/none'))
         root rename2 / /x => refused Rename(SourceIsRoot)
         root rename2 /d / => refused Rename(TargetIsRoot)
         root rename2 /f /f => refused AlreadyExists(RenameSource { from: '/f', to: '/f' })
         root rename2 /d /d/e/x => refused Rename(TargetBelowSource { from: '/d', to: '/d/e/x' })
         root rename2 /f /d overwrite => refused Rename
         root rename2 /d /f overwrite => refused Rename
         root rename2 /f /g => refused AlreadyExists(RenameTarget('/g'))
         root rename2 /empty /d overwrite => refused Rename(TargetNotEmpty('/d'))
         root rename2 /f /no/x => refused NotFound(RenameParent('/no/x'))
         root rename2 /f /g/x => refused ParentNotDirectory
         root rename2 /f /d => refused Rename
         root rename2 /d /empty overwrite => done
         root ls / => empty f g +0
         root ls /empty => e +0",
    );
}

#[test]
fn rename2_replaces_at_once_and_frees_the_old_blocks() {
    check(
        "root:w create /old
         root:w add /old a
         root:w complete /old a=10 => true
         root:w create /new
         root:w add /new b
         root:w complete /new b=20 => true
         root rename2 /new /old overwrite => done
         root stat /old => len=20
         root stat /new => nothing
         root reap 10 => more=false [a:g1001:c1]
         root doomed => [a:g1001:c1]",
    );
}

#[test]
fn rename2_replaces_what_somebody_has_seen_and_nothing_else() {
    check(
        "root create /f
         root create /g
         root create /new
         root mkdir /empty
         root rename2 /new /f overwrite replaces=/g => refused Rename(OtherTarget('/f'))
         root rename2 /new /none overwrite replaces=/g => refused Rename(OtherTarget('/none'))
         root rename2 /new /f overwrite replaces=/empty => refused Rename(OtherTarget('/f'))
         root rename2 /new /f overwrite replaces=/f => done
         root ls / => empty f g +0
         root create /later
         root rename /f /g2
         root rename /later /f
         root rename2 /g /f overwrite replaces=/g2 => refused Rename(OtherTarget('/f'))
         root rename2 /g /f overwrite replaces=/f => done
         root ls / => empty f g2 +0",
    );
}
