//! An endpoint that speaks the wire protocol of Lambda's `Invoke`, for measuring the driver (`benches/lambda_scale.py`).
//!
//! It really runs the tasks of the plan, which should be tiny, and then waits as long as a real task would have taken: log-normal, with
//! stragglers. Some invocations fail. If too many run at once, further ones are refused (429), as Lambda does.
//!
//! ```text
//! invoke_endpoint PORT CONCURRENCY MEDIAN_SECONDS SIGMA STRAGGLERS FACTOR FAILURES
//! ```

#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

use chunkwise_executor::function::{ANSWER_FORMAT, Answer, Event, RunTasksAnswer, RunTasksEvent};
use chunkwise_executor::worker::{VERSION, read_plan};
use chunkwise_storage::Stores;
use chunkwise_task::{TaskContext, run_task};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

struct Model {
    concurrency: usize,
    median: f64,
    sigma: f64,
    stragglers: f64,
    factor: f64,
    failures: f64,
}

#[derive(Default)]
struct State {
    model: OnceLock<Model>,
    stores: Stores,
    plan: OnceLock<TaskContext>,
    /// How often each task was requested.
    copies: Mutex<HashMap<(usize, u64), u64>>,
    running: AtomicUsize,
    most: AtomicUsize,
    invocations: AtomicU64,
    refused: AtomicU64,
    failed: AtomicU64,
}

/// A number from 0 to 1, the same for the same arguments.
fn uniform(a: u64, b: u64, c: u64) -> f64 {
    let mut x = a.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ b.wrapping_mul(0xC2B2_AE3D_27D4_EB4F) ^ c.wrapping_mul(0x1656_67B1_9E37_79F9);
    for _ in 0..3 {
        x ^= x >> 31;
        x = x.wrapping_mul(0x7FB5_D329_728E_A185);
        x ^= x >> 27;
    }
    ((x >> 11) as f64 + 0.5) / (1u64 << 53) as f64
}

impl Model {
    /// Seconds of one copy of a task.
    fn seconds(&self, stage: usize, task: u64, copy: u64) -> f64 {
        let key = task | (stage as u64) << 48;
        let normal = (-2.0 * uniform(key, copy, 1).ln()).sqrt() * (std::f64::consts::TAU * uniform(key, copy, 2)).cos();
        let slow = if uniform(key, copy, 3) < self.stragglers { self.factor } else { 1.0 };
        self.median * (self.sigma * normal).exp() * slow
    }

    fn fails(&self, stage: usize, task: u64, copy: u64) -> bool {
        uniform(task | (stage as u64) << 48, copy, 4) < self.failures
    }
}

async fn run(state: &State, e: &RunTasksEvent) -> Result<RunTasksAnswer, String> {
    let context =
        state.plan.get_or_init(|| TaskContext::open(&state.stores, read_plan(&state.stores, &e.plan, Some(&e.hash)).unwrap()).unwrap());
    let model = state.model.get().unwrap();
    let mut answer =
        RunTasksAnswer { format: ANSWER_FORMAT.into(), version: VERSION.into(), stage: e.stage, complete: true, ..Default::default() };
    for task in e.tasks.iter().flat_map(|r| r[0]..r[1]) {
        let copy = {
            let mut copies = state.copies.lock().unwrap();
            let n = copies.entry((e.stage, task)).or_insert(0);
            *n += 1;
            *n - 1
        };
        let mut report = run_task(context, e.stage, task, &AtomicBool::new(false)).map_err(|e| e.to_string())?;
        report.seconds = model.seconds(e.stage, task, copy);
        tokio::time::sleep(Duration::from_secs_f64(report.seconds)).await;
        if model.fails(e.stage, task, copy) {
            return Err("Runtime exited with error: exit status 1".into());
        }
        answer.seconds += report.seconds;
        answer.done += 1;
        answer.reports.push(report);
    }
    Ok(answer)
}

/// The status, further headers, and the body of an answer.
async fn answer(state: &State, line: &str, body: &[u8]) -> (u16, &'static str, String) {
    if line.contains("/stats") {
        let model = state.model.get().unwrap();
        let ideal: f64 = state.copies.lock().unwrap().keys().map(|&(s, t)| model.seconds(s, t, 0)).sum();
        let longest = state.copies.lock().unwrap().keys().map(|&(s, t)| model.seconds(s, t, 0)).fold(0.0, f64::max);
        let n = |a: &AtomicU64| a.load(Ordering::Relaxed);
        let text = serde_json::json!({
            "invocations": n(&state.invocations), "refused": n(&state.refused), "failed": n(&state.failed),
            "most": state.most.load(Ordering::Relaxed), "work": ideal, "longest": longest,
        });
        return (200, "", text.to_string());
    }
    if line.starts_with("GET") {
        return (200, "", r#"{"FunctionName": "fake", "MemorySize": 1769, "Timeout": 900}"#.into());
    }
    let Ok(Event::RunTasks(event)) = Event::from_json(body) else { return (400, "", "{}".into()) };
    let running = state.running.fetch_add(1, Ordering::Relaxed) + 1;
    state.most.fetch_max(running, Ordering::Relaxed);
    if running > state.model.get().unwrap().concurrency {
        state.running.fetch_sub(1, Ordering::Relaxed);
        state.refused.fetch_add(1, Ordering::Relaxed);
        let text = r#"{"Reason": "ConcurrentInvocationLimitExceeded", "Type": "User", "message": "Rate Exceeded."}"#;
        return (429, "x-amzn-ErrorType: TooManyRequestsException\r\n", text.into());
    }
    state.invocations.fetch_add(1, Ordering::Relaxed);
    let done = run(state, &event).await;
    state.running.fetch_sub(1, Ordering::Relaxed);
    match done {
        Ok(a) => (200, "", serde_json::to_string(&Answer::RunTasks(a)).unwrap()),
        Err(e) => {
            state.failed.fetch_add(1, Ordering::Relaxed);
            let text = serde_json::json!({"errorType": "Runtime.ExitError", "errorMessage": e});
            (200, "X-Amz-Function-Error: Unhandled\r\n", text.to_string())
        }
    }
}

async fn serve(state: Arc<State>, socket: TcpStream) -> std::io::Result<()> {
    socket.set_nodelay(true)?;
    let mut socket = BufReader::new(socket);
    loop {
        let mut first = String::new();
        if socket.read_line(&mut first).await? == 0 {
            return Ok(());
        }
        let mut length = 0;
        loop {
            let mut line = String::new();
            socket.read_line(&mut line).await?;
            if line.trim().is_empty() {
                break;
            }
            if let Some((key, value)) = line.split_once(':')
                && key.eq_ignore_ascii_case("content-length")
            {
                length = value.trim().parse().unwrap_or(0);
            }
        }
        let mut body = vec![0; length];
        socket.read_exact(&mut body).await?;
        let (status, headers, text) = answer(&state, &first, &body).await;
        let head = format!("HTTP/1.1 {status} X\r\nContent-Type: application/json\r\n{headers}Content-Length: {}\r\n\r\n", text.len());
        socket.write_all((head + &text).as_bytes()).await?;
    }
}

#[tokio::main(worker_threads = 1)]
async fn main() {
    let given: Vec<f64> = std::env::args().skip(1).map(|a| a.parse().expect("numbers")).collect();
    let [port, concurrency, median, sigma, stragglers, factor, failures] = given[..] else {
        panic!("PORT CONCURRENCY MEDIAN_SECONDS SIGMA STRAGGLERS FACTOR FAILURES");
    };
    let state = Arc::new(State::default());
    let _ = state.model.set(Model { concurrency: concurrency as usize, median, sigma, stragglers, factor, failures });
    let listener = TcpListener::bind(("127.0.0.1", port as u16)).await.expect("the port");
    println!("ready");
    while let Ok((socket, _)) = listener.accept().await {
        tokio::spawn(serve(state.clone(), socket));
    }
}
