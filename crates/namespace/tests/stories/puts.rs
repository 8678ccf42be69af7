//! Small files that are put whole, under ids that were reserved.

use crate::world::check;

#[test]
fn a_file_is_there_whole_or_not_at_all() {
    check(
        "root reserve 10 => from 16386 g1001
         root:w put /d/f x len=7 file=16386 g=1001 => file
         root id /d/f => 16386
         root blocks /d/f => 7 bytes closed last=x true
         root holder /d/f => nobody
         root:w put /d/empty => file
         root id /d/empty => 16397
         root du / => 7 bytes 2 files 2 dirs 21 space",
    );
}

#[test]
fn rights_parents_and_what_is_there_count_as_for_create() {
    check(
        "root reserve 10
         root:w put /none/f x len=7 file=16386 g=1001 noparent => refused NotFound
         alice:a put /f x len=7 file=16386 g=1001 => refused AccessDenied
         root:w put / x len=7 file=16386 g=1001 => refused ExistsAsDirectory
         root:w put /f x len=7 file=16386 g=1001
         root:w put /f y len=8 file=16387 g=1001 => refused AlreadyExists
         root:w put /f y len=8 file=16387 g=1001 overwrite => file
         root blocks /f => 8 bytes closed last=y
         root reap 9 => [x:g1001:c1]
         root:w put /g z len=101 file=16388 g=1001 => refused Limit
         root:v create /h
         root:w put /h z len=9 file=16388 g=1001 => refused AlreadyBeingCreated
         root:w put /h z len=9 file=16388 g=1001 overwrite => file",
    );
}

/// A client that was cut off, and whose ids went to somebody else meanwhile, does not get through with them.
#[test]
fn ids_serve_once() {
    check(
        "root reserve 2 => from 16386 g1001
         root:w put /f x len=7 file=16386 g=1001
         root:w put /g x len=7 file=16387 g=1001 => refused LeaseExpired
         root:w put /g y len=7 file=16386 g=1001 => refused LeaseExpired
         root:w put /g y len=7 file=16388 g=1001 => refused LeaseExpired
         root:w put /g y len=7 file=16387 g=1002 => refused LeaseExpired
         root delete /f
         root:w put /g x len=7 file=16387 g=1001 => refused LeaseExpired
         root:w put /g y len=7 file=16386 g=1001 => refused LeaseExpired
         root reap 9 => [x:g1001:c1]
         root:w put /g x len=7 file=16387 g=1001 => refused LeaseExpired
         root reserve 0 => refused Limit
         root reserve 65537 => refused Limit",
    );
}

#[test]
fn a_repeat_gets_the_first_answer_and_later_writers_go_on() {
    check(
        "root reserve 5
         retry 1 root:w put /f x len=7 file=16386 g=1001 => file
         retry 1 root:w put /f x len=7 file=16386 g=1001 => file
         root ls / => f +0
         root:v append /f => last=x
         root:v bump x => 1002
         root:v complete /f x=9@1002 => true
         root blocks /f => 9 bytes closed",
    );
}

/// A writer has its next block in hand, and says later that it is the file's.
#[test]
fn a_block_on_lease_becomes_the_next_of_an_open_file() {
    check(
        "root reserve 1 => from 16386 g1001
         root:w create /f => file
         root:w add /f a => a
         root:w add /f b a=100@1002 g=1001 => b
         root:v add /f c b=100@1001 g=1001 => refused LeaseExpired
         root:w add /f c b=100@1001 g=1003 => refused LeaseExpired
         root:w add /f c b=100@1001 g=0 => refused LeaseExpired
         root:w bump b => 1003
         root:w complete /f b=50@1003 => true
         root blocks /f => 150 bytes closed last=b true",
    );
}

/// The defaults of a directory take the place of the client's umask, for a file put whole as for others.
#[test]
fn a_file_put_whole_takes_what_the_directory_grants() {
    check(
        "root mkdir /d
         root setfacl /d modify=default:user:bob:rw,default:group::rw,default:mask::rw
         root:w put /d/a A mode=644 unmasked=666
         root getfacl /d/a => 664 [user:bob:6 group::6]
         root:w put /d/b B mode=644
         root getfacl /d/b => 644 [user:bob:6 group::6]",
    );
}
