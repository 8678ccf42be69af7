//! What the archive and the Debian package hold, each in the places of its own.

use super::gzip;
use super::output::{Result, output};
use super::program::Program;
use super::tree::{Owner, Tree};
use std::fs;
use std::path::Path;
use std::process::Command;

/// As in the package's control file.
pub(super) const MAINTAINER: &str = "The Levada developers <levada@localhost>";

/// Everything but the places.
pub(super) struct Parts {
    binary: Vec<u8>,
    /// By name, as levada-put.1.
    manual: Vec<(String, Vec<u8>)>,
    /// Scripts for shells: the last part of their place below share/, and their text.
    completions: Vec<(&'static str, String)>,
    units: Vec<(String, Vec<u8>)>,
    /// Configuration files with every key.
    settings: Vec<(String, Vec<u8>)>,
    /// For Prometheus and Grafana.
    monitoring: Vec<(String, Vec<u8>)>,
    copyright: Vec<u8>,
    /// What lintian finds and need not.
    overrides: Vec<u8>,
    changelog: Vec<u8>,
    license: Vec<u8>,
    /// The pages of docs/, which settings, alerts and commands name as `docs/PAGE`.
    pages: Vec<(String, Vec<u8>)>,
    install: String,
}

impl Parts {
    /// `tool` runs on this machine and prints what the program would.
    pub(super) fn collect(root: &Path, program: &Program, tool: &Path, scratch: &Path) -> Result<Self> {
        let pages = scratch.join("man");
        fs::create_dir_all(&pages)?;
        output(Command::new(tool).arg("manual").arg(&pages))?;
        let completion = |shell| output(Command::new(tool).args(["completion", shell]));
        let completions = vec![
            ("bash-completion/completions/levada", completion("bash")?),
            ("zsh/vendor-completions/_levada", completion("zsh")?),
            ("fish/vendor_completions.d/levada.fish", completion("fish")?),
        ];
        Ok(Self {
            binary: program.bytes.clone(),
            manual: files_in(&pages)?,
            completions,
            units: files_in(&root.join("packaging/systemd"))?,
            settings: files_in(&root.join("packaging/etc"))?,
            monitoring: files_in(&root.join("monitoring"))?,
            copyright: fs::read(root.join("packaging/debian/copyright"))?,
            overrides: fs::read(root.join("packaging/debian/lintian-overrides"))?,
            changelog: fs::read(root.join("CHANGELOG.md"))?,
            license: fs::read(root.join("LICENSE"))?,
            pages: files_in(&root.join("docs"))?,
            install: above_docs(&fs::read_to_string(root.join("docs/install.md"))?),
        })
    }

    /// Everything below one directory, which may lie anywhere.
    pub(super) fn tarball(&self, name: &str) -> Tree {
        let mut tree = Tree::default();
        let mut put = |path: &str, mode, bytes: &[u8]| tree.file(&format!("{name}/{path}"), mode, bytes);
        put("bin/levada", 0o755, &self.binary);
        put("LICENSE", 0o644, &self.license);
        put("CHANGELOG.md", 0o644, &self.changelog);
        put("INSTALL.md", 0o644, self.install.as_bytes());
        for (page, text) in &self.pages {
            put(&format!("docs/{page}"), 0o644, text);
        }
        for (page, text) in &self.manual {
            put(&format!("share/man/man1/{page}"), 0o644, text);
        }
        for (path, script) in &self.completions {
            put(&format!("share/{path}"), 0o644, script.as_bytes());
        }
        for (unit, text) in &self.units {
            put(&format!("systemd/{unit}"), 0o644, text);
        }
        for (file, text) in &self.settings {
            put(&format!("etc/levada/{file}"), 0o644, text);
        }
        for (file, text) in &self.monitoring {
            put(&format!("share/levada/monitoring/{file}"), 0o644, text);
        }
        tree
    }

    /// The root of a machine, as Debian's policy wants it.
    pub(super) fn debian(&self, version: &str, seconds: u64) -> Result<Tree> {
        let mut tree = Tree::default();
        let changelog = debian_changelog(version, seconds)?;
        tree.file("usr/bin/levada", 0o755, self.binary.clone());
        tree.file("usr/share/doc/levada/copyright", 0o644, self.copyright.clone());
        tree.file("usr/share/doc/levada/changelog.gz", 0o644, gzip::smallest(changelog.as_bytes()));
        tree.file("usr/share/doc/levada/NEWS.md.gz", 0o644, gzip::smallest(&self.changelog));
        for (page, text) in &self.pages {
            tree.file(&format!("usr/share/doc/levada/docs/{page}"), 0o644, text.clone());
        }
        tree.file("usr/share/lintian/overrides/levada", 0o644, self.overrides.clone());
        for (page, text) in &self.manual {
            tree.file(&format!("usr/share/man/man1/{page}.gz"), 0o644, gzip::smallest(text));
        }
        for (path, script) in &self.completions {
            tree.file(&format!("usr/share/{path}"), 0o644, script.clone());
        }
        for (unit, text) in &self.units {
            tree.file(&format!("usr/lib/systemd/system/{unit}"), 0o644, text.clone());
        }
        for (file, text) in &self.settings {
            tree.file(&format!("etc/levada/{file}"), 0o644, text.clone());
        }
        for (file, text) in &self.monitoring {
            tree.file(&format!("usr/share/levada/monitoring/{file}"), 0o644, text.clone());
        }
        tree.directory("etc/levada", 0o755, Owner::default());
        Ok(tree)
    }
}

/// What Debian's tools read of a package's changes: that this version was made, when, and where its changes are told.
fn debian_changelog(version: &str, seconds: u64) -> Result<String> {
    // The format's own: `date --rfc-email`.
    let date = output(Command::new("date").args(["--utc", "--rfc-email", &format!("--date=@{seconds}")]))?;
    Ok(format!(
        "levada ({version}) unstable; urgency=medium\n\n  * What is new is in NEWS.md.gz beside this file.\n\n \
         -- {MAINTAINER}  {}\n",
        date.trim()
    ))
}

/// A page of docs/ as it is to be read from one directory higher: its links lead to the same places.
fn above_docs(page: &str) -> String {
    let below = page.replace("](", "](docs/").replace("](docs/../", "](");
    let kept = ["#", "http://", "https://"];
    kept.iter().fold(below, |page, kept| page.replace(&format!("](docs/{kept}"), &format!("]({kept}")))
}

/// Without directories, sorted by name.
fn files_in(dir: &Path) -> Result<Vec<(String, Vec<u8>)>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        if !entry.file_type()?.is_file() {
            continue;
        }
        let name = entry.file_name().into_string().map_err(|name| format!("{name:?} is no text"))?;
        files.push((name, fs::read(entry.path())?));
    }
    files.sort();
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_of_a_page_lead_to_the_same_places_from_above() {
        let page = "[a](cli.md#up), [b](#below), [c](../deploy/README.md), [d](https://e.org), [f](http-files.md)";
        let above =
            "[a](docs/cli.md#up), [b](#below), [c](deploy/README.md), [d](https://e.org), [f](docs/http-files.md)";
        assert_eq!(above_docs(page), above);
    }
}
