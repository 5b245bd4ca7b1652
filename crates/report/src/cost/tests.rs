//! A plan whose cost can be worked out by hand.

use super::*;

const MIB: u64 = 1 << 20;

/// 1000 chunks of 64 MiB are read and written by as many tasks, through one step.
fn plan() -> Plan {
    let array = |role: &str| {
        serde_json::json!({
            "role": role, "url": format!("s3://b/{role}.zarr"), "dtype": "float64",
            "shape": [8_388_608_000u64], "grid": [{"regular": {"len": 8_388_608_000u64, "size": 8_388_608u64}}],
            "metadata": null,
            "encoding": {"chunks": [8_388_608u64], "codec": "none", "fill_value": {"float": 0.0}},
        })
    };
    let ty = serde_json::json!({"dtype": "float64", "shape": [8_388_608_000u64]});
    let document = serde_json::json!({
        "format": "chunkwise-plan/1",
        "spec": {"allowed_mem": 1769 * MIB, "reserved_mem": 64 * MIB, "workers": 1, "work_dir": "s3://b/work"},
        "arrays": {"in": array("input"), "out": array("output")},
        "stages": [{
            "name": "negate", "kind": "blockwise",
            "program": {"steps": [
                {"read": "in", "type": ty},
                {"kernel": {"element": {"function": "negative"}}, "inputs": [0], "type": ty},
            ]},
            "outputs": [{"step": 1, "array": "out", "tasks": [{"regular": {"len": 8_388_608_000u64, "size": 8_388_608u64}}]}],
            "projected_mem": 300 * MIB,
            "cost": {"bytes_read": 64_000 * MIB, "bytes_written": 64_000 * MIB, "gets": 8000, "puts": 1000},
        }],
    });
    Plan::from_json(&document.to_string()).unwrap()
}

fn near(a: f64, b: f64) {
    assert!((a - b).abs() <= 1e-9 * b.abs().max(1e-9), "{a} is not {b}");
}

#[test]
fn a_stage_by_hand() {
    let (plan, mut prices) = (plan(), Prices::built_in().unwrap());
    prices.rates = Rates {
        network_bytes: 128e6,
        decode_bytes: 1e9,
        encode_bytes: 1e9,
        work_bytes: 1e9,
        flops: 1e9,
        request_seconds: 0.1,
        requests_at_once: 9.0,
        invocation_seconds: 0.5,
        batch_seconds: 100.0,
    };
    let setup = Setup::of(&plan, "us-east-1");
    assert_eq!((setup.memory_mib, setup.architecture), (1769, Architecture::X86_64));
    let p = project(&plan, &setup, &prices).unwrap();
    // The network is slowest: 2 * 64000 MiB at 128 MB/s; the processor takes 3 * 67.1 s, answers 100 s.
    let seconds = 128_000.0 * MIB as f64 / 128e6;
    near(seconds, 1048.576);
    assert_eq!(p.usage.invocations, 11);
    near(p.usage.gb_seconds, (seconds + 5.5) * 1769.0 / 1024.0);
    assert_eq!((p.usage.gets, p.usage.puts), (8011, 1011));
    near(p.elapsed, seconds / 1000.0 + 0.5);
    near(p.money.function, p.usage.gb_seconds * 0.0000166667 + 11.0 * 0.2e-6);
    near(p.money.requests, 8.011 * 0.0004 + 1.011 * 0.005);
    near(p.outputs_month, 62.5 * 0.023);
    assert_eq!((p.intermediate_bytes, p.money.storage), (0, 0.0));

    // More memory is more processors and more tasks at once; what is paid for the network grows with it.
    let big = project(&plan, &Setup { memory_mib: 4 * 1769, ..setup.clone() }, &prices).unwrap();
    assert_eq!(big.stages[0].at_once, 4);
    near(big.usage.gb_seconds, 4.0 * p.usage.gb_seconds);
    // What does not fit is said.
    let small = project(&plan, &Setup { memory_mib: 256, ..setup.clone() }, &prices).unwrap();
    assert!(small.stages[0].at_once == 0 && small.summary().contains("needs more memory"));
    let arm = project(&plan, &Setup { architecture: Architecture::Arm64, ..setup }, &prices).unwrap();
    assert!(arm.money.function < 0.81 * p.money.function);
}

#[test]
fn slow_answers_and_slow_processors_count_instead() {
    let (plan, mut prices) = (plan(), Prices::built_in().unwrap());
    let setup = Setup::of(&plan, "us-east-1");
    prices.rates.network_bytes = 1e15;
    prices.rates.request_seconds = 16.0;
    prices.rates.requests_at_once = 1.0;
    near(project(&plan, &setup, &prices).unwrap().usage.task_seconds, 9000.0 * 16.0);
    prices.rates.request_seconds = 1e-9;
    (prices.rates.decode_bytes, prices.rates.encode_bytes, prices.rates.work_bytes) = (1e6, 2e6, 4e6);
    let bytes = 64_000.0 * MIB as f64;
    near(project(&plan, &setup, &prices).unwrap().usage.task_seconds, bytes / 1e6 + bytes / 2e6 + bytes / 4e6);
}

#[test]
fn what_was_used_beside_the_projection() {
    let (plan, prices) = (plan(), Prices::built_in().unwrap());
    let p = project(&plan, &Setup::of(&plan, "eu-west-1"), &prices).unwrap();
    let requests = [Requests { gets: 7000, puts: 1000, heads: 5, lists: 3 }];
    let billed = Billed { invocations: 40, gb_seconds: 5000.0 };
    let actual = Actual { task_seconds: &[1234.0], requests: &requests, elapsed: 9.0, billed: Some(billed) };
    let c = compare(&p, &actual, &prices).unwrap();
    assert_eq!((c.actual.gets, c.actual.puts, c.actual.invocations), (7045, 1043, 40));
    near(c.actual_money.function, 5000.0 * 0.0000166667 + 40.0 * 0.2e-6);
    assert!(c.summary().starts_with("cost 0.09") && c.summary().contains("5000.0 GB-seconds"), "{}", c.summary());

    // On threads: as if functions had run the same tasks. Exactly what was projected gives the projection.
    let seconds = [p.usage.task_seconds];
    let requests = [Requests { gets: 8000, puts: 1000, ..Requests::default() }];
    let c = compare(&p, &Actual { task_seconds: &seconds, requests: &requests, elapsed: p.elapsed, billed: None }, &prices).unwrap();
    near(c.actual.gb_seconds, c.projected.gb_seconds);
    near(c.actual_money.total(), c.projected_money.total());
    assert!(!c.billed && c.summary().contains("would have cost"));
    // A run that had nothing to do.
    let c = compare(&p, &Actual { task_seconds: &[0.0], ..Actual::default() }, &prices).unwrap();
    assert_eq!(c.actual.invocations, 1);
}

#[test]
fn money_is_legible() {
    for (amount, text) in
        [(0.0, "0.00 USD"), (0.000_123_4, "0.00012 USD"), (0.056, "0.056 USD"), (0.5, "0.50 USD"), (1234.567, "1234.57 USD")]
    {
        assert_eq!(usd(amount), text);
    }
    assert_eq!([1.2, 150.0, 9000.0].map(duration), ["1.2 s", "2 min", "2.5 h"]);
}
