//! The `chunkwise` command.

fn main() -> std::process::ExitCode {
    chunkwise_cli::main_with(|runtime| runtime)
}
