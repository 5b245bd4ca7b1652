//! The program of a function of AWS Lambda, with what this crate adds.

fn main() -> std::process::ExitCode {
    chunkwise_lambda::main_with(own::add)
}
