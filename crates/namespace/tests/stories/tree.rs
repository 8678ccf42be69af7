//! Directories, modes, owners, times.

use crate::world::check;

#[test]
fn mkdir_makes_all_that_is_missing() {
    check(
        "root mkdir /a/b/c mode=1750 => true
         root stat /a/b/c => dir 1750 root:supergroup children=0
         # parents get u+wx, and no sticky bit
         root stat /a/b => dir 750 root:supergroup children=1
         root mkdir /x/y mode=444 => true
         root stat /x => dir 744
         root stat /x/y => dir 444
         root mkdir /a => true
         root mkdir /n/m noparent => refused NotFound(Parent('/n'))
         root mkdir /a/n noparent => true
         root stat / => children=2",
    );
}

#[test]
fn mkdir_meets_files() {
    check(
        "root create /f
         root mkdir /f => refused AlreadyExists(NotADirectory('/f'))
         root mkdir /f/a => refused ParentNotDirectory { path: '/f' }
         alice stat /f/a => refused ThroughFile { path: '/f' }
         root stat /f/a => nothing
         root delete /f/a => refused ThroughFile { path: '/f' }",
    );
}

#[test]
fn names_hdfs_refuses_are_refused_for_new_inodes_only() {
    check(
        "root mkdir /a:b => refused InvalidPath
         root mkdir /a/.snapshot => refused ReservedName(Snapshot)
         root mkdir /a:b => refused InvalidPath { path: '/a:b', purpose: Make }
         root create /a:b => refused InvalidPath { path: '/a:b', purpose: Create }
         root mkdir /a
         root rename /a /b:c => refused InvalidPath
         root stat /a:b => nothing
         root stat /a/.snapshot => nothing
         root ls / => a +0",
    );
}

#[test]
fn reserved_paths_are_ways_to_what_stands_elsewhere() {
    check(
        "root mkdir /d
         root create /d/f
         alice stat /.reserved => dir 1770 :
         alice ls /.reserved => .inodes raw +0
         alice ls /.reserved 9 .inodes => raw +0
         alice stat /.reserved/raw => dir 755 root:supergroup
         alice stat /.reserved/raw/d/f => file 644 root
         alice ls /.reserved/raw => d +0
         alice ls /.reserved/raw/d => f +0
         alice stat /.reserved/raw/.reserved/raw => nothing
         alice stat /.reserved/.inodes/16385/.reserved => nothing
         root mkdir /.reserved/.inodes/16385/.reserved/x => refused NotFound(Reserved
         alice stat /.reserved/.inodes => nothing
         alice stat /.reserved/x => nothing
         root mkdir /.reserved/x => refused ReservedName(Reserved)
         root create /.reserved/x => refused InvalidPath { path: '/.reserved/x', purpose: Create }
         root rename /d/f /.reserved/x => false
         root rename2 /d/f /.reserved/x => refused NotFound(RenameParent('/.reserved/x'))
         root rename /.reserved /x => false
         root delete /.reserved -r => refused InvalidPath { path: '/.reserved', purpose: Find }
         root chmod /.reserved 777 => refused InvalidPath { path: '/.reserved', purpose: Find }
         root delete /.reserved/raw -r => false
         root ls / => d +0",
    );
}

#[test]
fn raw_paths_change_what_they_mean_for_superusers_alone() {
    check(
        "root mkdir /pub mode=777
         alice mkdir /.reserved/raw/pub/d => refused AccessDenied(NotSuperuser { user: 'alice', operation: 'mkdirs' })
         alice create /.reserved/raw/pub/f => refused AccessDenied
         alice create /pub/f
         alice rename /pub/f /.reserved/raw/pub/g => refused AccessDenied
         alice delete /.reserved/raw/pub/f => refused AccessDenied
         alice blocks /.reserved/raw/pub/f
         root mkdir /.reserved/raw/pub/d => true
         root rename2 /.reserved/raw/pub/f /.reserved/raw/pub/d/g
         root stat /pub/d/g => file 644 alice
         root delete /.reserved/raw/pub/d -r => true
         root ls /pub => +0",
    );
}

#[test]
fn group_comes_from_the_parent_and_owner_from_the_caller() {
    check(
        "root mkdir /pub mode=777
         root chown /pub :staff
         carol mkdir /pub/c
         carol stat /pub/c => dir 755 carol:staff
         carol create /pub/c/d/f mode=640
         carol stat /pub/c/d/f => file 640 carol:staff len=0 r=3
         # parents made by create are like the directory above
         carol stat /pub/c/d => dir 755 carol:staff",
    );
}

#[test]
fn directory_times_change_with_their_children_only() {
    check(
        "at 2000
         root mkdir /d
         root stat / => m=2000
         at 3000
         root create /d/f
         root stat / => m=2000
         root stat /d => m=3000
         at 4000
         root complete /d/f => true
         root stat /d => m=3000
         root stat /d/f => m=4000
         at 5000
         root delete /d/f => true
         root stat /d => children=0 a=0 m=5000",
    );
}

#[test]
fn an_open_file_is_modified_at_create_and_complete_only() {
    check(
        "at 2000
         root create /f => m=2000
         at 3000
         root add /f a
         root fsync /f 5
         at 4000
         root complete /f a=7 => true
         root stat /f => len=7 r=3 a=2000 m=4000
         at 5000
         root append /f => m=4000
         root stat /f => m=4000",
    );
}

#[test]
fn times_can_be_set() {
    check(
        "root create /f
         root touch /f m=5 a=6
         root stat /f => a=6 m=5
         root touch /f a=7
         root stat /f => a=7 m=5
         root touch /f
         root mkdir /d
         root stat /d => a=0 m=1000
         root touch /d m=9 a=8
         root stat /d => a=8 m=9
         root touch /none m=1 => refused NotFound(Timed('/none'))
         at 1500
         root was_read /f
         root stat /f => a=1500 m=5
         at 1400
         root was_read /f
         root stat /f => a=1500
         root was_read /none
         root was_read /f/x",
    );
}

#[test]
fn mode_owner_and_replication_can_be_set() {
    check(
        "root create /f
         root chmod /f 7777
         root stat /f => file 1777
         root chown /f alice:staff
         root stat /f => alice:staff
         root chown /f bob:
         root stat /f => bob:staff
         root setrep /f 5 => true
         root stat /f => r=5
         root setrep /f 0 => refused Limit(Replication { replication: 0, path: '/f', client_host: None })
         root setrep /f 513 => refused Limit
         root setrep / 2 => false
         root setrep /none 2 => false
         root chmod /none 1 => refused NotFound(Owned('/none'))
         root chown /none a:b => refused NotFound",
    );
}

#[test]
fn delete_tells_false_from_refused() {
    check(
        "root delete /none => false
         root delete / -r => false
         root mkdir /d/e
         root create /d/f
         root delete /d => refused NotEmpty('/d')
         root delete / => refused NotEmpty
         alice delete / -r => refused AccessDenied(Access { user: 'alice', access: Access(7), inode: Guarded { path: '/'
         root delete /d/e => true
         root stat /d => children=1
         root delete /d -r => true
         root stat /d/f => nothing
         root stat / => children=0",
    );
}

#[test]
fn a_path_by_inode_id_follows_the_inode() {
    check(
        "root mkdir /a/b
         root id /a => 16386
         root stat /.reserved/.inodes/16386 => dir 755 root:supergroup children=1
         root stat /.reserved/.inodes/16386/b => dir
         root rename /a /c
         root ls /.reserved/.inodes/16386 => b +0
         root create /.reserved/.inodes/16386/f
         root stat /c/f => file
         root stat /.reserved/.inodes/16385/c => dir
         root stat /.reserved/.inodes/99999 => nothing
         root stat /.reserved/.inodes/x => nothing
         root mkdir /.reserved/.inodes/99999 => refused NotFound(Reserved('/.reserved/.inodes/99999'))
         root create /.reserved/.inodes/99999/f => refused NotFound
         root rename /c /.reserved/.inodes/99999 => refused NotFound
         root delete /c -r => true
         root stat /.reserved/.inodes/16386 => nothing
         root stat /.reserved/.inodes/16387 => nothing",
    );
}
