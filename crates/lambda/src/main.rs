//! The program of the function: `bootstrap`.

fn main() -> std::process::ExitCode {
    chunkwise_lambda::main_with(|runtime| runtime)
}
