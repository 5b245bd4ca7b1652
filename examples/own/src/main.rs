//! `chunkwise` with what this crate adds. It takes the same arguments, and is the program of its workers.

fn main() -> std::process::ExitCode {
    chunkwise_cli::main_with(own::add)
}
