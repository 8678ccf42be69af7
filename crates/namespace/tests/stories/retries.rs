//! Calls that arrive twice.

use crate::world::check;

#[test]
fn a_repeat_gets_the_first_answer() {
    check(
        "root mkdir /d
         retry 1 root:w create /f => file
         root id /f => 16387
         retry 1 root:w create /f => file
         root id /f => 16387
         retry 2 root rename /f /g => true
         retry 2 root rename /f /g => true
         retry 3 root delete /g => true
         retry 3 root delete /g => true
         retry 4 root delete /g => false
         # another call under the same number is not a repeat
         retry 3 root rename /d /e => true
         root ls / => e +0",
    );
}

#[test]
fn a_refused_call_runs_again() {
    check(
        "retry 1 root rename2 /a /b => refused NotFound
         root mkdir /a
         retry 1 root rename2 /a /b => done
         retry 1 root rename2 /a /b => done
         root:w create /f
         root:w add /f x
         retry 2 root:v append /f takeover=w => recovering
         root finish /f x 1002
         retry 2 root:v append /f takeover=w => last=none",
    );
}

#[test]
fn outcomes_are_kept_for_ten_minutes() {
    check(
        "root mkdir /a
         at 10000
         retry 1 root rename /a /b => true
         at 609999
         retry 1 root rename /a /b => true
         at 610000
         retry 1 root rename /a /b => false",
    );
}

#[test]
fn old_outcomes_are_purged_bit_by_bit() {
    let mut world = crate::world::World::new();
    let empty = world.rows.len();
    for call in 0..100 {
        world.tell(&format!("retry {call} root delete /none => false"));
    }
    assert_eq!(world.rows.len(), empty + 201, "an outcome and its age for each call, and where the outcomes begin");
    world.tell("at 1000000");
    for _ in 0..26 {
        world.tell("root delete /none");
    }
    assert_eq!(world.rows.len(), empty + 1, "where the outcomes begin");
    // The clock was set back: what comes now is purged all the same.
    world.tell("at 1\n retry 7 root delete /none => false\n at 1000000\n root delete /none");
    assert_eq!(world.rows.len(), empty + 1);
}

#[test]
fn idempotent_calls_leave_no_trace() {
    let mut world = crate::world::World::new();
    let empty = world.rows.len();
    world.tell("retry 1 root mkdir / => true\n retry 2 root chmod / 755");
    assert_eq!(world.rows.len(), empty);
}
