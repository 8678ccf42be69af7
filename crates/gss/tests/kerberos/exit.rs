//! The process ends while threads call the library.

use gss::{Initiator, Tickets};
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};

const ENDING: &str = "LEVADA_ENDS_WITH";
const CODE: i32 = 7;
const PROCESSES: usize = 40;

/// What its exit code is does not depend on who looks for a ticket at that moment.
#[test]
fn a_process_ends_under_calls_of_its_threads() {
    if std::env::var_os(ENDING).is_some() {
        return end_under_calls();
    }
    let this = std::env::current_exe().expect("this program");
    for _ in 0..PROCESSES {
        let mut command = Command::new(&this);
        command.args(["--exact", "exit::a_process_ends_under_calls_of_its_threads", "--nocapture"]);
        let ended = command.env(ENDING, "").stdout(Stdio::null()).output().expect("it runs");
        let said = String::from_utf8_lossy(&ended.stderr);
        assert_eq!((ended.status.code(), ended.status.signal()), (Some(CODE), None), "{said}");
    }
}

fn end_under_calls() {
    let initiator = Initiator::new(Tickets::Cache("MEMORY:none".into()), None).expect("the library");
    for _ in 0..4 {
        let initiator = initiator.clone();
        std::thread::spawn(move || {
            loop {
                assert!(initiator.login().is_err(), "there is no ticket");
            }
        });
    }
    assert!(initiator.login().is_err(), "there is no ticket");
    std::process::exit(CODE);
}
