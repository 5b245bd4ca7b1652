//! Progress: a bar on a terminal, otherwise a line from time to time.

use chunkwise::ByteSize;
use chunkwise::executor::{Event, Progress as HowFar, StageInfo, Usage};
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

/// How often a line is printed if there is no terminal.
const EVERY: Duration = Duration::from_secs(5);
/// The number of steps of the bar.
const STEPS: u64 = 1000;

/// Shows the events of a run.
pub(crate) struct Progress {
    bars: Option<Bars>,
    stages: Vec<Stage>,
    quiet: bool,
    /// When the last line was printed, if there is no bar.
    said: Instant,
    /// When usage was last printed.
    used: Option<Instant>,
}

struct Bars {
    all: MultiProgress,
    /// The bar of the run.
    run: ProgressBar,
    /// A line below it, if a service is used that charges for use.
    usage: Option<ProgressBar>,
}

impl Bars {
    fn new() -> Bars {
        let all = MultiProgress::new();
        let run = all.add(ProgressBar::new(STEPS));
        if let Ok(style) = ProgressStyle::with_template("{bar:24} {percent:>3}%  {wide_msg}") {
            run.set_style(style);
        }
        run.set_message("estimating");
        Bars { all, run, usage: None }
    }
}

struct Stage {
    info: StageInfo,
    read: u64,
    written: u64,
    /// When its first task ended, or began, as far as that is known.
    since: Option<Instant>,
}

impl Progress {
    pub fn new(quiet: bool) -> Progress {
        let bars = (std::io::stderr().is_terminal() && !quiet).then(Bars::new);
        Progress { bars, stages: Vec::new(), quiet, said: Instant::now(), used: None }
    }

    pub fn show(&mut self, event: &Event) {
        if let Event::Warning { message } = event {
            crate::out::remember(message);
            if self.quiet {
                crate::out::errln!("warning: {message}");
            }
        }
        if self.quiet {
            return;
        }
        match event {
            Event::RunStarted { id, stages } => {
                let (tasks, done) = stages.iter().fold((0, 0), |(tasks, done), s| (tasks + s.tasks, done + s.done));
                let before = if done > 0 { format!(", {done} of them done before") } else { String::new() };
                self.line(&format!("run {id}: {}, {}{before}", counted(stages.len() as u64, "stage"), counted(tasks, "task")));
                let new = |info: &StageInfo| Stage { info: info.clone(), read: 0, written: 0, since: None };
                self.stages = stages.iter().map(new).collect();
            }
            Event::TaskFinished { stage, bytes_read, bytes_written, seconds, .. } => {
                let Some(s) = self.stages.get_mut(*stage) else { return };
                let began = || Instant::now().checked_sub(Duration::try_from_secs_f64(*seconds).unwrap_or_default());
                let since = *s.since.get_or_insert_with(|| began().unwrap_or_else(Instant::now));
                s.info.done += 1;
                s.read += bytes_read;
                s.written += bytes_written;
                if s.info.done == s.info.tasks {
                    let (name, tasks) = (&s.info.name, counted(s.info.tasks, "task"));
                    let text = format!(
                        "stage {stage} '{name}': {tasks}, read {}, wrote {}, {}",
                        ByteSize(s.read),
                        ByteSize(s.written),
                        duration(since.elapsed().as_secs_f64())
                    );
                    self.line(&text);
                }
            }
            Event::Progress(how_far) => self.progress(how_far),
            Event::TaskRetried { error, class, wait, .. } => self.line(&format!("failed ({class}), again in {wait:.1} s: {error}")),
            Event::TaskBackup { stage, task, seconds, median } => self.line(&format!(
                "stage {stage}, task {task} has run for {seconds:.1} s, where {median:.1} s are usual; a second copy was started"
            )),
            Event::Warning { message } => self.line(&format!("warning: {message}")),
            Event::ArrayPublished { url } => {
                // The tasks are done.
                self.end_of_bar();
                self.line(&format!("wrote {url}"));
            }
            Event::Used(usage) => self.used(usage),
            Event::ArrayDeleted { .. } => {}
            Event::RunFinished(r) => {
                if let Some(u) = &r.usage {
                    self.used = None;
                    self.used(u);
                }
                self.end_of_bar();
                self.line(&format!(
                    "finished in {}: {} ({} done before), read {}, wrote {}, peak memory {}",
                    duration(r.seconds),
                    counted(r.tasks, "task"),
                    r.skipped,
                    ByteSize(r.bytes_read),
                    ByteSize(r.bytes_written),
                    ByteSize(r.peak_memory)
                ))
            }
        }
    }

    fn progress(&mut self, how_far: &HowFar) {
        let text = told(how_far);
        let share = (how_far.done / how_far.total.max(1.0)).clamp(0.0, 1.0);
        match &self.bars {
            Some(bars) => {
                bars.run.set_position((share * STEPS as f64) as u64);
                bars.run.set_message(text);
            }
            None if self.said.elapsed() >= EVERY => {
                self.said = Instant::now();
                say(&format!("{:.0} %: {text}", (share * 100.0).floor()));
            }
            None => {}
        }
    }

    /// Removes the bar when there is nothing left to show.
    fn end_of_bar(&self) {
        if let Some(bars) = &self.bars {
            bars.run.finish_and_clear();
        }
    }

    /// Shows the use so far of a service.
    fn used(&mut self, usage: &Usage) {
        let refused = if usage.throttled > 0 { format!(", {} refused", usage.throttled) } else { String::new() };
        let text = format!("{} invocations{refused}, {:.1} GB-seconds", usage.invocations, usage.gb_seconds);
        if let Some(Bars { all, usage, .. }) = &mut self.bars {
            let bar = usage.get_or_insert_with(|| {
                let bar = all.add(ProgressBar::no_length());
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
            Some(bars) => bars.run.suspend(|| say(text)),
            None => say(text),
        }
    }
}

/// The progress of a run in words.
fn told(p: &HowFar) -> String {
    let size = |bytes: f64| ByteSize(bytes.max(0.0) as u64);
    let mut text = format!("{} of {}", size(p.done), size(p.total));
    if let Some(rate) = p.rate() {
        text += &format!(", {}/s", size(rate));
    }
    text += &format!(", {}", duration(p.seconds));
    text += &match p.left() {
        _ if p.done >= p.total => ", finishing".into(),
        // The rest takes at least a moment.
        Some(left) => format!(", about {} left", duration(left.max(1.0).round())),
        None => ", estimating".into(),
    };
    if p.memory > 0 {
        text += &format!(", memory {} of {}", ByteSize(p.memory), ByteSize(p.allowed_mem));
    }
    text
}

fn counted(n: u64, what: &str) -> String {
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
}

/// A duration in readable form.
fn duration(seconds: f64) -> String {
    match seconds {
        s if s < 10.0 && s.fract() != 0.0 => format!("{s:.1} s"),
        s if s < 120.0 => format!("{s:.0} s"),
        s if s < 7200.0 => format!("{:.0} min {:02.0} s", (s / 60.0).floor(), (s % 60.0).floor()),
        s => format!("{:.0} h {:02.0} min", (s / 3600.0).floor(), (s % 3600.0 / 60.0).floor()),
    }
}

/// Writes a line to standard error in one call. `eprintln!` writes it in parts, and output of other processes may come between them.
fn say(text: &str) {
    let _ = std::io::stderr().write_all(format!("{}\n", crate::text::message(text)).as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said() {
        let p = HowFar { total: 4e9, done: 1e9, before: 0.0, seconds: 100.0, memory: 210_000_000, allowed_mem: 500_000_000 };
        assert_eq!(told(&p), "1.0 GB of 4.0 GB, 10.0 MB/s, 100 s, about 5 min 00 s left, memory 210.0 MB of 500.0 MB");
        assert!(told(&HowFar { done: 0.0, memory: 0, ..p.clone() }).ends_with("100 s, estimating"));
        // The last second sometimes takes long; users are not told that no time is left.
        assert!(told(&HowFar { done: 3.9999e9, ..p.clone() }).contains("about 1 s left"));
        assert!(told(&HowFar { done: 4e9, ..p }).contains("finishing"));
    }

    #[test]
    fn durations() {
        let of = [
            (0.04, "0.0 s"),
            (3.0, "3 s"),
            (3.26, "3.3 s"),
            (59.9, "60 s"),
            (119.0, "119 s"),
            (125.0, "2 min 05 s"),
            (7260.0, "2 h 01 min"),
        ];
        of.iter().for_each(|(seconds, text)| assert_eq!(duration(*seconds), *text));
    }
}
