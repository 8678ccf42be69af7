//! The file commands, one file each. Each takes its operands one after the other and goes on after a failure.

mod cat;
mod checksum;
mod chmod;
mod chown;
mod count;
mod cp;
mod df;
mod du;
mod explain;
mod explain_blocks;
mod get;
mod ls;
mod mkdir;
mod mv;
mod put;
pub(crate) mod rm;
mod setrep;
mod stat;
mod tail;
mod test;
mod touch;
pub(crate) mod trash;

use crate::bench;
use crate::shell::failure::USAGE;
use crate::shell::{Common, Session, Stop};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Spells the commands out once: their names, their arguments, and where they are run.
macro_rules! commands {
    ($($(#[$doc:meta])* $name:literal $variant:ident $module:ident,)*) => {
        #[derive(Debug, clap::Subcommand)]
        pub(crate) enum Command {
            $($(#[$doc])* #[command(name = $name)] $variant($module::Args),)*
        }

        impl Command {
            fn parts(&self) -> (&'static str, &Common) {
                match self {
                    $(Self::$variant(args) => ($name, &args.common),)*
                }
            }

            async fn perform(self, session: Arc<Session>) -> Result<(), Stop> {
                match self {
                    $(Self::$variant(args) => $module::run(args, &session).await,)*
                }
            }
        }
    };
}

commands! {
    /// List files and directories
    "ls" Ls ls,
    /// Show what is known of a file or directory
    "stat" Stat stat,
    /// Make directories
    "mkdir" Mkdir mkdir,
    /// Copy local files into the store; - is standard input
    "put" Put put,
    /// Copy files of the store to the local disk; - is standard output
    "get" Get get,
    /// Print files
    "cat" Cat cat,
    /// Print the end of a file
    "tail" Tail tail,
    /// Copy files within the store, or from one store to another
    "cp" Cp cp,
    /// Move or rename files and directories
    "mv" Mv mv,
    /// Remove files and directories
    "rm" Rm rm,
    /// Show how much space files and directories take
    "du" Du du,
    /// Show how full the store is
    "df" Df df,
    /// Count directories, files and bytes
    "count" Count count,
    /// Set the times of files, or make empty ones
    "touch" Touch touch,
    /// Change the modes of files and directories
    "chmod" Chmod chmod,
    /// Change the owner and group of files and directories
    "chown" Chown chown,
    /// Change the number of replicas of files
    "setrep" Setrep setrep,
    /// Print the checksums of files, as `hdfs dfs -checksum` does
    "checksum" Checksum checksum,
    /// Say where the blocks of files are, why, and what is done about them; or what helps who reads columns of them
    "explain" Explain explain,
    /// Ask about a path; the answer is the exit code
    "test" Test test,
    /// Measure a store: write files, verify every byte, tell what it took
    "bench" Bench bench,
}

/// What a shell reports of a program that Ctrl-C ended: 128 and the signal's number.
const INTERRUPTED: u8 = 130;
const TERMINATED: u8 = 143;

pub(crate) fn run(command: Command) -> ExitCode {
    let (name, common) = command.parts();
    let common = common.clone();
    run_session(name, &common, |session| command.perform(session))
}

/// Runs what `command` makes of a session, in a runtime of its own, to its end or until somebody interrupts it.
pub(crate) fn run_session<F>(name: &'static str, common: &Common, command: impl FnOnce(Arc<Session>) -> F) -> ExitCode
where
    F: Future<Output = Result<(), Stop>> + Send + 'static,
{
    let session = match Session::new(name, common) {
        Ok(session) => session,
        Err(failure) => {
            eprintln!("levada: {name}: {failure}");
            return ExitCode::from(USAGE);
        }
    };
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("levada: {name}: {error}");
            return ExitCode::FAILURE;
        }
    };
    // A runtime of its own hears the signals and tidies up: the command may sit in a write to a pipe that nobody reads,
    // on the very thread that would have told its runtime of them.
    let watch = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(watch) => watch,
        Err(error) => {
            eprintln!("levada: {name}: {error}");
            return ExitCode::FAILURE;
        }
    };
    let code = watch.block_on(watched(&runtime, command(Arc::clone(&session)), session));
    // A thread may still wait for standard input; nobody waits for it.
    runtime.shutdown_background();
    code
}

/// The command, until it ends or somebody interrupts it.
async fn watched<F>(runtime: &tokio::runtime::Runtime, command: F, session: Arc<Session>) -> ExitCode
where
    F: Future<Output = Result<(), Stop>> + Send + 'static,
{
    // From here on a signal is heard, so nothing that the command makes can be left behind.
    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt()), signal(SignalKind::terminate()));
    let mut running = {
        let _entered = runtime.enter();
        io::task::spawn_owned("command", command)
    };
    let code = tokio::select! {
        ended = &mut running => match ended {
            Ok(outcome) => return finish(outcome, &session),
            Err(_) => return ExitCode::FAILURE, // a panic, and it was logged
        },
        () = received(&mut interrupt) => INTERRUPTED,
        () = received(&mut terminate) => TERMINATED,
    };
    running.abort();
    // It may hang in a write to a pipe: then it makes no temporary files either.
    let _ = tokio::time::timeout(STOP_MAX, alone(running, &session)).await;
    session.progress.finish();
    session.temps.discard_all().await;
    ExitCode::from(code)
}

/// How long a command may take to let go after an interrupt.
const STOP_MAX: Duration = Duration::from_secs(1);

/// Returns when nobody makes further temporary files: the command is gone, and so are the copies it ran side by side,
/// each of which holds the session and may have been making its file at the moment of the signal.
async fn alone<T>(running: io::task::Owned<T>, session: &Arc<Session>) {
    let _ = running.await;
    while Arc::strong_count(session) > 1 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

fn finish(outcome: Result<(), Stop>, session: &Session) -> ExitCode {
    session.progress.finish();
    match outcome.and_then(|()| session.output.flush()) {
        // `| head` has what it wanted.
        Ok(()) | Err(Stop::PipeClosed) => {}
        Err(Stop::Failed(failure)) => session.report(&failure),
    }
    session.exit_code()
}

async fn received(signal: &mut std::io::Result<Signal>) {
    match signal {
        Ok(stream) => drop(stream.recv().await),
        Err(_) => std::future::pending().await,
    }
}
