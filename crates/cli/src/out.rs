//! Standard output that somebody may stop reading: `chunkwise plan p.yaml | head`.

use std::io::{ErrorKind, Write};

/// Writes to standard output. A reader that has gone has seen what it wanted: the command ends. Other errors end it with a message.
pub fn write(text: std::fmt::Arguments<'_>) {
    let mut out = std::io::stdout().lock();
    match out.write_fmt(text).and_then(|()| out.flush()) {
        Ok(()) => {}
        Err(e) if e.kind() == ErrorKind::BrokenPipe => std::process::exit(0),
        Err(e) => {
            eprintln!("standard output cannot be written: {e}");
            std::process::exit(1);
        }
    }
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
