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

/// The thread that ends the process may still call: another handler, which was registered before, runs after ours.
extern "C" fn log_in() {
    assert!(initiator().login().is_err(), "there is no ticket");
}

fn initiator() -> Initiator {
    Initiator::new(Tickets::Cache("MEMORY:none".into()), None).expect("the library")
}

#[expect(unsafe_code, reason = "a call of the C library")]
fn end_under_calls() {
    // SAFETY: the handler has no state of its own; where it panics, the process ends by a signal.
    assert_eq!(unsafe { libc::atexit(log_in) }, 0);
    let initiator = initiator();
    for _ in 0..4 {
        let initiator = initiator.clone();
        let calling = move || {
            loop {
                assert!(initiator.login().is_err(), "there is no ticket");
            }
        };
        io::task::thread("calling", calling).expect("a thread");
    }
    assert!(initiator.login().is_err(), "there is no ticket");
    std::process::exit(CODE);
}
