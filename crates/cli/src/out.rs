//! Standard output that somebody may stop reading: `chunkwise plan p.yaml | head`.

use std::io::{ErrorKind, Write};
use std::sync::atomic::{AtomicBool, Ordering};

/// Nobody reads any more.
static GONE: AtomicBool = AtomicBool::new(false);

/// Writes to standard output. A reader that has gone has seen what it wanted: the command goes on without it, and ends as it would
/// have ended. Other errors end it with a message.
pub fn write(text: std::fmt::Arguments<'_>) {
    if gone() {
        return;
    }
    let mut out = std::io::stdout().lock();
    match out.write_fmt(text).and_then(|()| out.flush()) {
        Ok(()) => {}
        Err(e) if e.kind() == ErrorKind::BrokenPipe => GONE.store(true, Ordering::Relaxed),
        Err(e) => {
            eprintln!("standard output cannot be written: {e}");
            std::process::exit(1);
        }
    }
}

/// True once nobody reads standard output any more; a command that only writes may end then.
pub fn gone() -> bool {
    GONE.load(Ordering::Relaxed)
}

/// As `print!`, without a panic if nobody reads.
macro_rules! out {
    ($($text:tt)*) => { $crate::out::write(format_args!($($text)*)) };
}

/// As `println!`, without a panic if nobody reads.
macro_rules! outln {
    ($($text:tt)*) => { $crate::out::write(format_args!("{}\n", format_args!($($text)*))) };
}

pub(crate) use {out, outln};
