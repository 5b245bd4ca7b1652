//! Progress: bars on a terminal, plain lines elsewhere.

use chunkwise::ByteSize;
use chunkwise::executor::{Event, StageInfo, Usage};
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

/// Shows the events of a run.
pub(crate) struct Progress {
    bars: Option<MultiProgress>,
    stages: Vec<Stage>,
    quiet: bool,
    /// When usage was last shown, and its own line below the bars.
    used: Option<Instant>,
    usage: Option<ProgressBar>,
}

struct Stage {
    info: StageInfo,
    bar: Option<ProgressBar>,
    bytes: u64,
    started: Option<Instant>,
    said: Option<Instant>,
}

impl Progress {
    pub fn new(quiet: bool) -> Progress {
        let bars = (std::io::stderr().is_terminal() && !quiet).then(MultiProgress::new);
        Progress { bars, stages: Vec::new(), quiet, used: None, usage: None }
    }

    pub fn show(&mut self, event: &Event) {
        if self.quiet {
            return;
        }
        match event {
            Event::RunStarted { id, stages } => {
                say(&format!("run {id}: {} stages, {} tasks", stages.len(), stages.iter().map(|s| s.tasks).sum::<u64>()));
                self.stages = stages
                    .iter()
                    .map(|info| {
                        let bar = self.bars.as_ref().map(|bars| {
                            let bar = bars.add(ProgressBar::new(info.tasks).with_position(info.done));
                            if let Ok(style) = ProgressStyle::with_template("{prefix:24} {bar:30} {pos}/{len} tasks  {msg}  {eta} left") {
                                bar.set_style(style);
                            }
                            bar.set_prefix(info.name.clone());
                            bar
                        });
                        Stage { info: info.clone(), bar, bytes: 0, started: None, said: None }
                    })
                    .collect();
            }
            Event::TaskFinished { stage, bytes_read, bytes_written, .. } => {
                let Some(s) = self.stages.get_mut(*stage) else { return };
                s.info.done += 1;
                s.bytes += bytes_read + bytes_written;
                let since = s.started.get_or_insert_with(Instant::now).elapsed().as_secs_f64();
                let rate = ByteSize((s.bytes as f64 / since.max(0.05)) as u64);
                if let Some(bar) = &s.bar {
                    bar.set_message(format!("{}  {rate}/s", ByteSize(s.bytes)));
                    bar.inc(1);
                    if s.info.done == s.info.tasks {
                        bar.finish();
                    }
                } else if s.info.done == s.info.tasks || s.said.is_none_or(|t| t.elapsed() > Duration::from_secs(5)) {
                    s.said = Some(Instant::now());
                    say(&format!(
                        "stage {stage} '{}': {}/{} tasks, {}, {rate}/s",
                        s.info.name,
                        s.info.done,
                        s.info.tasks,
                        ByteSize(s.bytes)
                    ));
                }
            }
            Event::TaskRetried { error, class, wait, .. } => self.line(&format!("failed ({class}), again in {wait:.1} s: {error}")),
            Event::TaskBackup { stage, task, seconds, median } => self.line(&format!(
                "stage {stage}, task {task} has run for {seconds:.1} s, where {median:.1} s are usual; a second copy was started"
            )),
            Event::Warning { message } => self.line(&format!("warning: {message}")),
            Event::ArrayPublished { url } => self.line(&format!("wrote {url}")),
            Event::Used(usage) => self.used(usage),
            Event::ArrayDeleted { .. } => {}
            Event::RunFinished(r) => {
                if let Some(u) = &r.usage {
                    self.used = None;
                    self.used(u);
                }
                self.line(&format!(
                    "finished in {:.1} s: {} tasks ({} done before), read {}, wrote {}, peak memory {}",
                    r.seconds,
                    r.tasks,
                    r.skipped,
                    ByteSize(r.bytes_read),
                    ByteSize(r.bytes_written),
                    ByteSize(r.peak_memory)
                ))
            }
        }
    }

    /// What a service has been used for so far.
    fn used(&mut self, usage: &Usage) {
        let refused = if usage.throttled > 0 { format!(", {} refused", usage.throttled) } else { String::new() };
        let text = format!("{} invocations{refused}, {:.1} GB-seconds", usage.invocations, usage.gb_seconds);
        if let Some(bars) = &self.bars {
            let bar = self.usage.get_or_insert_with(|| {
                let bar = bars.add(ProgressBar::no_length());
                bar.set_style(ProgressStyle::with_template("{msg}").unwrap_or_else(|_| ProgressStyle::default_spinner()));
                bar
            });
            bar.set_message(text);
        } else if self.used.is_none_or(|t| t.elapsed() > Duration::from_secs(10)) {
            self.used = Some(Instant::now());
            say(&text);
        }
    }

    fn line(&self, text: &str) {
        match &self.bars {
            Some(bars) => {
                let _ = bars.println(text);
            }
            None => say(text),
        }
    }
}

/// Writes a line to standard error at once: `eprintln!` writes its parts, between which there may be those of other processes.
fn say(text: &str) {
    let _ = std::io::stderr().write_all(format!("{text}\n").as_bytes());
}
