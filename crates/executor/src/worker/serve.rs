//! A worker at the end of a pipe. Orders arrive line by line, and answers are sent line by line.

use super::pool::Pool;
use super::{Answer, Exit, Order, Worker, WorkerError};
use std::io::{BufRead, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, TryRecvError, channel};
use std::time::{Duration, Instant};

/// How often it checks for orders while tasks run.
const TICK: Duration = Duration::from_millis(20);
/// How often it checks for a signal to stop while no tasks run.
const IDLE: Duration = Duration::from_millis(100);
/// How often it reports the progress of running tasks to the driver.
const PROGRESS: Duration = Duration::from_secs(1);

/// Runs orders until there are no more. If the driver is gone, running tasks are abandoned.
///
/// # Errors
/// When an order is invalid, or an answer cannot be sent.
pub fn serve(
    worker: &Worker,
    input: impl BufRead + Send + 'static,
    mut output: impl Write,
    cancel: &AtomicBool,
) -> Result<Exit, WorkerError> {
    let (send, orders) = channel::<Result<Order, String>>();
    std::thread::spawn(move || {
        for line in input.lines() {
            let order = line.map_err(|e| e.to_string()).and_then(|l| serde_json::from_str(&l).map_err(|e| format!("{e}: {l}")));
            if send.send(order).is_err() {
                break;
            }
        }
    });
    let mut say = |answers: Vec<Answer>| -> Result<(), WorkerError> {
        for answer in answers {
            let mut line = serde_json::to_vec(&answer).map_err(|e| WorkerError::Usage(e.to_string()))?;
            line.push(b'\n');
            output.write_all(&line).and_then(|()| output.flush()).map_err(|e| WorkerError::Usage(format!("the driver is gone: {e}")))?;
        }
        Ok(())
    };
    say(vec![Answer::hello(&worker.id)])?;
    let mut pool = Pool::new(worker, worker.threads, None);
    let mut told = Instant::now();
    loop {
        if cancel.load(Ordering::Relaxed) {
            say(pool.cancel())?;
            pool.wind_up(&mut say)?;
            // Not even a hanging task may keep this process alive.
            std::mem::forget(pool);
            return Ok(Exit::Stopped);
        }
        let next = if pool.idle() {
            orders.recv_timeout(IDLE).map_err(|e| e == RecvTimeoutError::Disconnected)
        } else {
            orders.try_recv().map_err(|e| e == TryRecvError::Disconnected)
        };
        match next {
            Ok(Ok(Order::Run { attempt, stage, task, have })) => pool.push(attempt, stage, task, have),
            Ok(Ok(Order::Stop { attempt })) => say(pool.stop(attempt).into_iter().collect())?,
            Ok(Err(e)) => return Err(WorkerError::Usage(format!("an order that is none: {e}"))),
            // The driver has closed the pipe, or was killed.
            Err(true) if pool.idle() => return Ok(Exit::Done),
            Err(true) => {
                std::mem::forget(pool);
                return Ok(Exit::Stopped);
            }
            Err(false) => {}
        }
        if !pool.idle() {
            say(pool.step(TICK)?)?;
            if told.elapsed() >= PROGRESS {
                told = Instant::now();
                say(pool.progress())?;
            }
        }
    }
}
