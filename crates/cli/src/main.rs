//! The chunkwise command.
fn main() {}
