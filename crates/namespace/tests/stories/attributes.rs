//! Access lists and extended attributes.

use crate::world::check;

#[test]
fn a_named_user_gets_what_the_mask_lets_through() {
    check(
        "root mkdir /d mode=750
         carol ls /d => refused AccessDenied
         root setfacl /d modify=user:carol:rwx
         root getfacl /d => 770 [user:carol:7 group::5]
         carol mkdir /d/x => true
         root chmod /d 750
         carol ls /d => x +0
         carol mkdir /d/y => refused AccessDenied(Access { user: 'carol', access: Access(2), inode: Guarded { path: '/d'
         root setfacl /d modify=user:carol:rwx,mask::---
         carol ls /d => refused AccessDenied
         root setfacl /d none
         root getfacl /d => 750 []",
    );
}

#[test]
fn a_user_who_is_named_is_none_of_the_others_and_groups_add_up() {
    check(
        "root mkdir /d mode=777
         root setfacl /d set=user::rwx,group::---,group:staff:r-x,user:bob:---,other::rwx
         bob ls /d => refused AccessDenied
         alice ls /d => +0
         alice mkdir /d/x => refused AccessDenied
         carol mkdir /d/x => true",
    );
}

#[test]
fn masks_follow_unless_they_are_given() {
    check(
        "root mkdir /d mode=700
         root setfacl /d modify=user:bob:r--,mask::rwx => done
         root getfacl /d => 770 [user:bob:4 group::0]
         root setfacl /d modify=user:bob:r-x => done
         root getfacl /d => 750 [user:bob:5 group::0]
         root setfacl /d remove=mask: => refused Acl { path: '/d', fault: NoMask }
         root setfacl /d remove=user:bob,mask: => done
         root getfacl /d => 700 []
         root setfacl /d set=user:bob:r-- => refused Acl { path: '/d', fault: NoBase(Access) }
         alice setfacl /d modify=user:alice:rwx => refused AccessDenied(NotOwner { user: 'alice', path: '/d' })
         root setfacl /none modify=user:alice:rwx => refused NotFound",
    );
}

#[test]
fn children_inherit_the_defaults_as_far_as_they_ask() {
    check(
        "root mkdir /d
         root setfacl /d modify=default:user:bob:rwx
         root getfacl /d => 755 [default:user::7 default:user:bob:7 default:group::5 default:mask::7 default:other::5]
         root mkdir /d/sub mode=755 unmasked=777
         root getfacl /d/sub => 775 [user:bob:7 group::5 default:user::7 default:user:bob:7 default:group::5 default:mask::7 default:other::5]
         root create /d/f mode=644
         root getfacl /d/f => 644 [user:bob:7 group::5]
         root complete /d/f
         root setfacl /d/f modify=default:user:bob:r-- => refused Acl { path: '/d/f', fault: DefaultOfFile }
         root setfacl /d nodefault
         root getfacl /d => 755 []
         root mkdir /d/plain mode=755 unmasked=777
         root getfacl /d/plain => 755 []
         root delete /d -r
         root reap 10",
    );
}

#[test]
fn attributes_come_and_go_with_their_file() {
    check(
        "root mkdir /d
         root chmod /d 777
         alice mkdir /d/a
         alice setfattr /d/a user.color blue => done
         alice setfattr /d/a user.color red create => refused Xattr(Exists(XattrName { space: User, name: 'color' }))
         alice setfattr /d/a user.shape round replace => refused Xattr(Missing(XattrName { space: User, name: 'shape'
         alice setfattr /d/a user.color red => done
         root setfattr /d/a trusted.t x => done
         root setfattr /d/a system.t x => refused AccessDenied(XattrSpace(XattrName { space: System, name: 't' }))
         alice getfattr /d/a => [user.color=red]
         alice getfattr /d/a trusted.t => refused AccessDenied
         root getfattr /d/a => [user.color=red trusted.t=x]
         alice getfattr /d/a user.none => refused Xattr(NotFound)
         bob setfattr /d/a user.color green => refused AccessDenied
         alice rename /d/a /d/b => true
         alice getfattr /d/b user.color => [user.color=red]
         alice rmfattr /d/b user.color => done
         alice rmfattr /d/b user.color => refused Xattr(NotThereToRemove)
         root getfattr /d/b => [trusted.t=x]
         alice mkdir /d/b/below
         alice setfattr /d/b/below user.x y
         root delete /d -r
         root reap 1
         root reap 10",
    );
}

#[test]
fn a_file_has_so_many_attributes_and_no_more() {
    let mut story = String::from("root mkdir /d\n");
    for number in 0..32 {
        story += &format!("root setfattr /d user.{number} x\n");
    }
    story += "root setfattr /d user.32 x => refused Xattr(TooMany)
              root setfattr /d user.31 y => done";
    check(&story);
}

#[test]
fn raw_attributes_are_seen_by_raw_paths_alone() {
    check(
        "alice create /f => refused AccessDenied
         root mkdir /d mode=777
         alice create /d/f
         root setfattr /d/f raw.a x => refused AccessDenied(XattrSpace(XattrName { space: Raw, name: 'a' }))
         root setfattr /.reserved/raw/d/f raw.a x => done
         root setfattr /.reserved/raw/d/f user.u y => done
         alice setfattr /.reserved/raw/d/f raw.b x => refused AccessDenied(NotSuperuser { user: 'alice', operation:
         alice getfattr /d/f => user.u=y
         root getfattr /d/f raw.a => refused AccessDenied
         alice getfattr /.reserved/raw/d/f => raw.a=x
         root rmfattr /d/f raw.a => refused AccessDenied
         root rmfattr /.reserved/raw/d/f raw.a => done",
    );
}

#[test]
fn superusers_do_not_read_what_its_owner_keeps_from_them() {
    check(
        "root mkdir /d mode=777
         alice mkdir /d/dir
         alice create /d/f mode=644
         bob setfattr /d/f security.hdfs.unreadable.by.superuser  => refused AccessDenied(NotOwner { user: 'bob'
         alice setfattr /d/dir security.hdfs.unreadable.by.superuser  => refused Xattr(MarkOnDirectory(XattrName
         alice setfattr /d/f security.hdfs.unreadable.by.superuser x => refused AccessDenied(MarkWithValue(XattrName
         root blocks /d/f
         alice setfattr /d/f security.hdfs.unreadable.by.superuser  => done
         root blocks /d/f => refused AccessDenied(UnreadableForSuperusers { user: 'root' })
         root blocks /.reserved/raw/d/f => refused AccessDenied(UnreadableForSuperusers { user: 'root' })
         alice blocks /d/f
         bob blocks /d/f
         root stat /d/f => file 644 alice
         alice rmfattr /d/f security.hdfs.unreadable.by.superuser => refused AccessDenied(MarkRemoved(XattrName
         root setfattr /d/f security.hdfs.other x => refused AccessDenied(XattrSpace(XattrName { space: Security
         root delete /d/f => true",
    );
}
