//! `levada`: the store's servers, and the commands that use any store.

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

mod admin;
mod bench;
mod certificate;
mod config;
mod doctor;
mod edge;
mod fs;
mod gateway;
mod hadoop;
mod log;
mod manual;
mod own_dir;
mod ports;
mod reach;
mod reload;
mod roles;
mod secure;
mod server_file;
mod service;
mod shell;
mod up;
mod welcome;

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser, Subcommand};
use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;

/// A distributed store that stock HDFS clients use as they are
#[derive(Debug, Parser)]
#[command(name = "levada", version = host::version::VERSION, subcommand_required = true, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run a whole store on this machine
    Up(up::Args),
    /// Run a metadata server
    Meta(roles::MetaArgs),
    /// Run a datanode
    Data(roles::DataArgs),
    /// Run a gateway: one address for a whole store, for clients that reach no other
    Gateway(gateway::Args),
    /// Look after a store: its servers and what they do
    #[command(subcommand)]
    Admin(admin::Command),
    /// Look for what is wrong, or will be: with a configuration file before a server starts, or with a running store
    Doctor(doctor::Args),
    /// Make certificates by which servers of a store prove who they are
    #[command(subcommand)]
    Certificate(certificate::Command),
    /// What was removed: list it, put it back, or delete it
    #[command(subcommand)]
    Trash(fs::trash::Command),
    #[command(flatten)]
    Fs(fs::Command),
    /// Print a script that completes commands in a shell, as in `source <(levada completion bash)`
    Completion { shell: clap_complete::Shell },
    /// Write the pages for `man` of all commands into a directory
    #[command(hide = true)]
    Manual(manual::Args),
}

fn main() -> ExitCode {
    let words: Vec<OsString> = fs::rm::in_our_words(std::env::args_os());
    let cli = Cli::try_parse_from(&words).unwrap_or_else(|error| refused(error, &words).exit());
    log::init();
    match cli.command {
        Command::Up(args) => up::run(args),
        Command::Meta(args) => roles::run_meta(args),
        Command::Data(args) => roles::run_data(args),
        Command::Gateway(args) => gateway::run(args),
        Command::Admin(command) => admin::run(command),
        Command::Doctor(args) => doctor::run(args),
        Command::Certificate(command) => certificate::run(command),
        Command::Trash(command) => fs::trash::run(command),
        Command::Fs(command) => fs::run(command),
        Command::Manual(args) => manual::run::<Cli>(&args),
        Command::Completion { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "levada", &mut script);
            // Whoever reads only its beginning has what it wanted.
            let _ = std::io::stdout().write_all(&script);
            ExitCode::SUCCESS
        }
    }
}

/// `error`, with the usage line as it is without environment variables. Clap treats an option whose variable is set
/// (`LEVADA_URL`) as one that was given, and would show it there as required.
fn refused(error: clap::Error, words: &[OsString]) -> clap::Error {
    if matches!(
        error.kind(),
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
    ) {
        return error;
    }
    let text = |error: &clap::Error| error.to_string().split("Usage:").next().unwrap_or_default().to_owned();
    let of_words = without_environment(Cli::command()).try_get_matches_from(words).err();
    // Without the environment something else may be wrong, or nothing.
    of_words.filter(|other| text(other) == text(&error)).unwrap_or(error)
}

fn without_environment(command: clap::Command) -> clap::Command {
    command.mut_args(|arg| arg.env(None)).mut_subcommands(without_environment)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Doubled options and the like.
    #[test]
    fn the_command_line_is_sound() {
        Cli::command().debug_assert();
    }

    /// README.md names each command, and none that there is not.
    #[test]
    fn the_first_page_names_every_command() {
        let page = include_str!("../../../README.md");
        let cli = Cli::command();
        let commands: Vec<&str> =
            cli.get_subcommands().filter(|command| !command.is_hide_set()).map(|command| command.get_name()).collect();
        for name in &commands {
            let is_named = page.contains(&format!("`{name}`")) || page.contains(&format!("levada {name}"));
            assert!(is_named, "README.md does not name levada {name}");
        }
        let called = page.split("`levada ").skip(1);
        let called: Vec<&str> =
            called.filter_map(|rest| rest.split(|sign: char| !sign.is_alphanumeric()).next()).collect();
        assert!(called.len() > 5, "{called:?}");
        assert_eq!(called.into_iter().find(|word| !commands.contains(word)), None, "README.md names no other command");
    }
}
