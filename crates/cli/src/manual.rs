//! `levada manual DIR`: a page for `man` of the program and of each of its commands, made of the same words as
//! `--help`.
//!
//! For those who make packages, so `--help` does not name it.

use crate::roles::StartError;
use clap::CommandFactory;
use host::version::VERSION;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Where the pages go; must exist
    #[arg(value_name = "DIR")]
    dir: PathBuf,
}

pub(crate) fn run<C: CommandFactory>(args: &Args) -> ExitCode {
    match write_pages(C::command(), &args.dir) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("levada: {}", error.0);
            ExitCode::FAILURE
        }
    }
}

fn write_pages(program: clap::Command, dir: &Path) -> Result<(), StartError> {
    // A page names those of its commands, and there is none of `help`.
    let mut program = program.disable_help_subcommand(true);
    program.build();
    let mut commands = vec![program];
    while let Some(command) = commands.pop() {
        let nested = command.get_subcommands().filter(|nested| !nested.is_hide_set());
        commands.extend(nested.cloned());
        let name = command.get_display_name().unwrap_or_else(|| command.get_name()).to_owned();
        let mut page = Vec::new();
        let path = dir.join(format!("{name}.1"));
        // No date: the same program makes the same page.
        let rendered = clap_mangen::Man::new(command.version(VERSION)).date("").render(&mut page);
        let written = rendered.and_then(|()| std::fs::write(&path, page));
        written.map_err(|error| StartError::new(&path.display().to_string(), &error))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_command_has_a_page() {
        let dir = tempfile::tempdir().unwrap();
        write_pages(crate::Cli::command(), dir.path()).unwrap();
        let page = |name: &str| std::fs::read_to_string(dir.path().join(name)).unwrap();
        assert!(page("levada.1").contains("levada\\-put(1)") && page("levada-put.1").contains("SYNOPSIS"));
        assert!(page("levada-admin-datanode-drain.1").contains("drain"));
        assert!(!dir.path().join("levada-manual.1").exists() && !dir.path().join("levada-help.1").exists());
    }

    #[test]
    fn each_page_that_a_page_names_is_there() {
        let dir = tempfile::tempdir().unwrap();
        write_pages(crate::Cli::command(), dir.path()).unwrap();
        let mut count = 0;
        for page in std::fs::read_dir(dir.path()).unwrap().map(|page| page.unwrap().path()) {
            let text = std::fs::read_to_string(&page).unwrap().replace("\\-", "-");
            let names = text.split_whitespace().filter_map(|word| word.split_once("(1)")).map(|(name, _)| name);
            for name in names.filter(|name| name.starts_with("levada")) {
                count += 1;
                assert!(dir.path().join(format!("{name}.1")).exists(), "{} names {name}", page.display());
            }
        }
        assert!(count > 50, "{count}");
    }
}
