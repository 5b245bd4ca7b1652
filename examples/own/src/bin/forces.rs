//! Plans the forces of a wind, and runs the plan: `forces WINDS.zarr OUT.zarr [EXECUTOR [KEY=VALUE...]]`.

use chunkwise::Runtime;
use chunkwise::executor::RunOptions;
use std::collections::BTreeMap;
use std::error::Error;
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("{e}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [winds, out, more @ ..] = &arguments[..] else { return Err("usage: forces WINDS.zarr OUT.zarr [EXECUTOR [KEY=VALUE...]]".into()) };
    let executor = more.first().map_or("threads", String::as_str);
    let options: BTreeMap<String, String> =
        more.iter().skip(1).filter_map(|o| o.split_once('=')).map(|(k, v)| (k.into(), v.into())).collect();

    // Workers run `own`, which was built beside this program.
    let worker = std::env::current_exe()?.with_file_name("own");
    let runtime = own::add(Runtime::builder()).worker_program(worker).build()?;
    let work = std::env::var("WORK_DIR").unwrap_or_else(|_| format!("{out}-work"));
    let session = runtime.session(300_000_000, 2, &work)?;

    let (u, v) = (runtime.open(&format!("{winds}/uwnd"))?, runtime.open(&format!("{winds}/vwnd"))?);
    let forces = own::forces(&u, &v).array()?;
    let plan = session.plan(&[session.request(&format!("{out}/force"), &forces)?])?;
    println!("{}", chunkwise::report::table(&plan));

    let choice = runtime.choose(executor, &options, &BTreeMap::new())?;
    let report = runtime.run_on(&choice, plan, None, &RunOptions::default(), &AtomicBool::new(false), &mut |_| {})?;
    println!("{} tasks on {} in {:.1} s", report.tasks, report.executor, report.seconds);
    Ok(())
}
