//! What a role tells the service manager that started it, as `sd_notify(3)` defines it.
//!
//! ```text
//! READY=1  ──▶ WATCHDOG=1, at half of the interval that the manager sets ──▶ STOPPING=1
//! ```
//!
//! Promise: where no manager asks for it (`NOTIFY_SOCKET`), every call does nothing; and a manager that does not read
//! delays the role by [`SEND_MAX`] at most. `WATCHDOG=1` is sent only after the role has answered a probe, so a manager
//! restarts a server whose runtime or whose lock hangs.

use io::task::Owned;
use std::ffi::OsStr;
use std::io::Result;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::Arc;
use std::time::Duration;

/// A guess: a manager that reads takes microseconds.
const SEND_MAX: Duration = Duration::from_secs(1);
/// More of a status than a line of `systemctl status` shows helps nobody.
const STATUS_LEN_MAX: usize = 200;

/// The service manager, if one asked to be told.
#[derive(Clone, Debug)]
pub(crate) struct Service {
    manager: Option<Arc<Manager>>,
    /// So long the manager waits for a sign of life.
    watchdog: Option<Duration>,
}

#[derive(Debug)]
struct Manager {
    socket: UnixDatagram,
    addr: SocketAddr,
}

impl Service {
    /// As the environment of this process has it.
    pub(crate) fn of_environment() -> Self {
        let number = |name| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
        let is_for_us = number("WATCHDOG_PID").is_none_or(|pid| pid == u64::from(std::process::id()));
        let watchdog = number("WATCHDOG_USEC").filter(|interval| is_for_us && *interval > 0).map(Duration::from_micros);
        match std::env::var_os("NOTIFY_SOCKET") {
            Some(socket) if !socket.is_empty() => Self::at(&socket, watchdog),
            _ => Self { manager: None, watchdog: None },
        }
    }

    fn at(socket: &OsStr, watchdog: Option<Duration>) -> Self {
        let manager = Manager::at(socket);
        let manager = manager.inspect_err(|error| tracing::warn!(?socket, %error, "no way to the service manager"));
        Self { manager: manager.ok().map(Arc::new), watchdog }
    }

    /// The role serves; or it waits for another machine, and nothing that it could do itself is left.
    pub(crate) fn ready(&self, status: &str) {
        self.tell(&format!("READY=1\nSTATUS={}", line(status)));
    }

    /// The role was asked to stop, or cannot go on.
    pub(crate) fn stopping(&self) {
        self.tell("STOPPING=1");
    }

    /// Shows the manager that the role lives, until the returned guard is dropped. `probe` may wait for locks: it runs
    /// on a thread of its own, and while it does not return the manager hears nothing.
    pub(crate) fn watch(&self, probe: impl Fn() + Send + Sync + 'static) -> Option<Owned<()>> {
        let (interval, service, probe) = (self.watchdog? / 2, self.clone(), Arc::new(probe));
        Some(io::task::spawn_owned("watchdog", async move {
            loop {
                let probe = Arc::clone(&probe);
                io::task::blocking(move || probe()).await;
                service.tell("WATCHDOG=1");
                tokio::time::sleep(interval).await;
            }
        }))
    }

    fn tell(&self, message: &str) {
        if let Some(manager) = &self.manager {
            let sent = manager.socket.send_to_addr(message.as_bytes(), &manager.addr);
            let _ = sent.inspect_err(|error| tracing::warn!(message, %error, "the service manager was not told"));
        }
    }
}

impl Manager {
    /// A path or, after an `@`, a name in Linux's abstract namespace.
    fn at(socket: &OsStr) -> Result<Self> {
        let addr = match socket.as_bytes().strip_prefix(b"@") {
            Some(name) => SocketAddr::from_abstract_name(name)?,
            None => SocketAddr::from_pathname(socket)?,
        };
        let socket = UnixDatagram::unbound()?;
        socket.set_write_timeout(Some(SEND_MAX))?;
        Ok(Self { socket, addr })
    }
}

/// A message has a fact on each line, so what is told of one must not have several.
fn line(text: &str) -> String {
    text.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).take(STATUS_LEN_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Mutex, mpsc};

    /// The manager's end: a socket in a directory of its own.
    struct Played {
        socket: UnixDatagram,
        dir: tempfile::TempDir,
    }

    impl Played {
        fn new() -> Self {
            let dir = tempfile::tempdir().unwrap();
            Self { socket: UnixDatagram::bind(dir.path().join("notify")).unwrap(), dir }
        }

        fn service(&self, watchdog: Option<Duration>) -> Service {
            Service::at(self.dir.path().join("notify").as_os_str(), watchdog)
        }

        fn heard(&self) -> String {
            let mut bytes = [0; 4096];
            let len = self.socket.recv(&mut bytes).unwrap();
            String::from_utf8(bytes[..len].to_vec()).unwrap()
        }
    }

    #[test]
    fn a_manager_is_told_what_it_knows_words_for() {
        let manager = Played::new();
        let service = manager.service(None);
        service.ready("datanode\nREADY=0 on 127.0.0.1:9866");
        assert_eq!(manager.heard(), "READY=1\nSTATUS=datanode READY=0 on 127.0.0.1:9866");
        service.stopping();
        assert_eq!(manager.heard(), "STOPPING=1");
        assert!(service.watch(|| ()).is_none(), "nobody asked for signs of life");
    }

    #[test]
    fn a_manager_may_have_an_abstract_name() {
        let name = format!("levada-service-{}", std::process::id());
        let socket = UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
        Service::at(OsStr::new(&format!("@{name}")), None).stopping();
        let mut bytes = [0; 100];
        let len = socket.recv(&mut bytes).unwrap();
        assert_eq!(&bytes[..len], b"STOPPING=1");
    }

    #[test]
    fn a_manager_that_is_gone_is_none() {
        let gone = Service::at(OsStr::new("/nowhere/notify"), Some(Duration::from_secs(1)));
        gone.ready("");
        let unheard_of = "x".repeat(4000);
        assert!(Service::at(OsStr::new(&unheard_of), None).manager.is_none(), "longer than an address may be");
    }

    /// What hangs says nothing, so the manager finds out.
    #[tokio::test]
    async fn signs_of_life_follow_answers() {
        let manager = Arc::new(Played::new());
        let service = manager.service(Some(Duration::from_millis(2)));
        // A probe hangs until somebody lets it through.
        let (door, waiting) = mpsc::channel();
        let waiting = Mutex::new(waiting);
        let watch = service.watch(move || {
            let _ = waiting.lock().unwrap().recv();
        });
        let heard = |manager: &Arc<Played>| {
            let manager = Arc::clone(manager);
            io::task::blocking(move || manager.heard())
        };
        for _ in 0..3 {
            door.send(()).unwrap();
            assert_eq!(heard(&manager).await, "WATCHDOG=1");
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
        manager.socket.set_nonblocking(true).unwrap();
        assert!(manager.socket.recv(&mut [0; 100]).is_err(), "the fourth probe hangs");
        manager.socket.set_nonblocking(false).unwrap();
        door.send(()).unwrap();
        assert_eq!(heard(&manager).await, "WATCHDOG=1");
        drop(watch);
    }
}
