//! Standard output and standard error. The reader of standard output may stop reading, as in `chunkwise plan p.yaml | head`, and standard
//! error may be full. Text of other people is made safe for a terminal.

use crate::text::Safely;
use std::fmt::Write as _;
use std::io::{self, ErrorKind, Write};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

/// True once the reader has stopped reading.
static GONE: AtomicBool = AtomicBool::new(false);

/// Writes text as bytes, and keeps the error.
struct Bytes<W> {
    to: W,
    failed: Option<io::Error>,
}

impl<W: Write> std::fmt::Write for Bytes<W> {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        self.to.write_all(text.as_bytes()).map_err(|e| {
            self.failed = Some(e);
            std::fmt::Error
        })
    }
}

fn safely(to: impl Write, text: std::fmt::Arguments<'_>) -> io::Result<()> {
    let mut bytes = Bytes { to, failed: None };
    let written = Safely(&mut bytes).write_fmt(text);
    match bytes.failed {
        Some(e) => Err(e),
        None if written.is_err() => Err(ErrorKind::Other.into()),
        None => bytes.to.flush(),
    }
}

/// A reader that has stopped reading has seen enough. The command goes on without it, and ends as usual. Other errors end the command with
/// a message.
fn wrote(result: io::Result<()>) {
    match result {
        Ok(()) => {}
        Err(e) if e.kind() == ErrorKind::BrokenPipe => GONE.store(true, Ordering::Relaxed),
        Err(e) => {
            errln!("standard output cannot be written: {e}");
            std::process::exit(1);
        }
    }
}

/// Writes to standard output.
pub fn write(text: std::fmt::Arguments<'_>) {
    if !gone() {
        wrote(safely(io::stdout().lock(), text));
    }
}

/// Writes text with colours to standard output. It contains no text of other people that is not [`crate::text::safe`].
pub fn write_picture(text: &str) {
    if !gone() {
        let mut out = io::stdout().lock();
        wrote(out.write_all(text.as_bytes()).and_then(|()| out.flush()));
    }
}

/// Writes to standard error. If that is full or closed, the failure cannot be reported.
pub fn write_error(text: std::fmt::Arguments<'_>) {
    let _ = safely(io::stderr().lock(), text);
}

/// Notes and warnings that people have seen. Programs get them, too.
static WARNINGS: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Keeps a note or a warning for the JSON of the command.
pub fn remember(warning: &str) {
    if let Ok(mut all) = WARNINGS.lock() {
        all.push(crate::text::message(warning));
    }
}

/// The notes and warnings so far.
pub fn warnings() -> Vec<String> {
    WARNINGS.lock().map(|all| all.clone()).unwrap_or_default()
}

/// Writes a report to standard error. The report is safe and may have colours.
pub fn write_report(report: &miette::Report) {
    let _ = writeln!(io::stderr().lock(), "{report:?}");
}

/// True once standard output has no reader. A command that only writes may end then.
pub fn gone() -> bool {
    GONE.load(Ordering::Relaxed)
}

/// As `print!`, without a panic if the output is not read any more.
macro_rules! out {
    ($($text:tt)*) => { $crate::out::write(format_args!($($text)*)) };
}

/// As `println!`, without a panic if the output is not read any more.
macro_rules! outln {
    ($($text:tt)*) => { $crate::out::write(format_args!("{}\n", format_args!($($text)*))) };
}

/// As `eprintln!`, without a panic if the output is not read any more.
macro_rules! errln {
    ($($text:tt)*) => { $crate::out::write_error(format_args!("{}\n", format_args!($($text)*))) };
}

pub(crate) use {errln, out, outln};
