//! A bar with rate and time left, for people: only when standard error is a terminal.

use super::output::harmless;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;
use std::sync::OnceLock;
use std::time::Duration;

#[derive(Debug, Default)]
pub(crate) struct Progress {
    bar: OnceLock<ProgressBar>,
}

impl Progress {
    /// Shows a bar of bytes from now on, unless nobody would see it.
    pub(crate) fn start(&self, quiet: bool) {
        self.show(quiet, "{spinner} {bytes}/{total_bytes} [{wide_bar}] {bytes_per_sec}, {eta} left  {msg}");
    }

    /// Shows a bar of operations.
    pub(crate) fn start_operations(&self, quiet: bool) {
        self.show(quiet, "{spinner} {human_pos}/{human_len} [{wide_bar}] {per_sec}  {msg}");
    }

    fn show(&self, quiet: bool, template: &str) {
        if quiet || !std::io::stderr().is_terminal() {
            return;
        }
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(5));
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style.progress_chars("=> "));
        }
        bar.enable_steady_tick(Duration::from_millis(500));
        let _ = self.bar.set(bar);
    }

    /// More to do has been found.
    pub(crate) fn expect(&self, amount: u64) {
        if let Some(bar) = self.bar.get() {
            // Without a length yet: a bar of nothing out of nothing looks full.
            bar.update(|state| state.set_len(state.len().unwrap_or(0) + amount));
        }
    }

    pub(crate) fn name(&self, name: &str) {
        if let Some(bar) = self.bar.get() {
            bar.set_message(harmless(name).into_owned());
        }
    }

    pub(crate) fn advance(&self, amount: u64) {
        if let Some(bar) = self.bar.get() {
            bar.inc(amount);
        }
    }

    pub(crate) fn finish(&self) {
        if let Some(bar) = self.bar.get() {
            bar.finish_and_clear();
        }
    }

    /// Runs what prints to the terminal, the bar out of its way.
    pub(crate) fn suspended(&self, print: impl FnOnce()) {
        match self.bar.get() {
            Some(bar) => bar.suspend(print),
            None => print(),
        }
    }
}
