//! What a run prints.

use super::grid::align;
use super::record::{Loaded, Ratio, Record};
use crate::authentication::Authentication;
use crate::client::Streamed;
use crate::round::Round;
use crate::target::Shape;
use tavola_load::Spread;
use tavola_load::text;

/// The kernel's own threads need a few percent of a core; more than this is another program.
const BUSY_SHARE: f64 = 0.25;

pub(crate) fn print_opening(record: &Record) {
    let machine = &record.machine;
    let memory = machine.memory_bytes as f64 / 1e9;
    println!(
        "{} cores of {}, {memory:.0} GB, {}, {}",
        machine.cores, machine.cpu, machine.kernel, machine.disk
    );
    for server in &record.servers {
        println!("{} {}", server.name, server.version);
    }
    if machine.forgets() {
        println!(
            "Attention: data folders are in memory, where a sync costs nothing; set TMPDIR to a folder on a disk"
        );
    }
    if record.servers.iter().any(|server| server.name == "azurite") {
        let size = text::size(record.settings.azurite_entities);
        println!(
            "Azurite's table has {size} entities whatever ours have, and its writes are not durable"
        );
    }
    println!();
}

pub(crate) fn print_starts(record: &Record) {
    let mut rows = vec![row(["start", "listening", "first reply", "(min–max)", "idle RSS"])];
    for server in &record.servers {
        let of = |value: fn(&crate::start::Start) -> f64| {
            Spread::of(record.starts.iter().filter(|start| start.server == server.name).map(value))
        };
        let (Some(listening), Some(first), Some(idle)) = (
            of(|start| start.listening_ms),
            of(|start| start.first_reply_ms),
            of(|start| start.idle_resident_bytes as f64),
        ) else {
            continue;
        };
        let range = format!("({}–{})", text::number(first.min), text::number(first.max));
        let ms = |spread: Spread| format!("{} ms", text::number(spread.median));
        rows.push(row([
            server.name,
            &ms(listening),
            &ms(first),
            &range,
            &text::megabytes(idle.median),
        ]));
    }
    println!("start: empty folder, median of {} starts", crate::start::STARTS);
    println!("{}", align(&rows));
}

pub(crate) fn print_series(record: &Record, shape: Shape) {
    let series = shape.series;
    println!(
        "{}: {}; connections: {}; {} rounds of {}; CPU in percent of one core",
        series.name(),
        series.title(),
        shape.connections,
        record.settings.rounds,
        text::seconds(shape.duration)
    );
    let unit = series.unit().name();
    let mut heading = row([
        "",
        unit,
        "(min–max)",
        "p50",
        "p99",
        "p99.9",
        "CPU/request",
        "server CPU",
        "generator",
        "others",
        "RSS",
    ]);
    if series.writes() {
        heading.extend(["syncs/s", "written/stored"].map(str::to_owned));
    }
    let mut rows = vec![heading];
    for target in record.targets_of(series.name()) {
        let rounds: Vec<&Round> = record.rounds_of(series.name(), &target).collect();
        rows.extend(series_row(&target, &rounds, series.writes()));
    }
    print!("{}", align(&rows));
    for ratio in record.ratios.iter().filter(|ratio| ratio.series == series.name()) {
        println!("  {}", ratio_line(ratio));
    }
    // Others are counted as others where the target is no single process.
    let others = record
        .rounds
        .iter()
        .filter(|round| round.series == series.name() && round.resident_bytes.is_some());
    let others = Spread::of(others.map(|round| round.others_cpu_seconds / round.reached.seconds));
    if let Some(others) = others.filter(|others| others.median > BUSY_SHARE) {
        println!(
            "  Attention: other programs used {} of a core meanwhile",
            text::percent(others.median)
        );
    }
    println!();
}

fn series_row(target: &str, rounds: &[&Round], writes: bool) -> Option<Vec<String>> {
    // What a target does not know is a gap.
    let of = |value: fn(&Round) -> Option<f64>| {
        Spread::of(rounds.iter().filter_map(|round| value(round)))
    };
    let cell = |value: fn(&Round) -> Option<f64>, show: fn(f64) -> String| {
        of(value)
            .filter(|spread| spread.median.is_finite())
            .map_or_else(|| "–".to_owned(), |spread| show(spread.median))
    };
    let rate = of(|round| Some(round.per_second))?;
    let mut cells = vec![
        target.to_owned(),
        text::number(rate.median),
        format!("({}–{})", text::number(rate.min), text::number(rate.max)),
        cell(|round| Some(round.reached.p50_us), text::latency),
        cell(|round| Some(round.reached.p99_us), text::latency),
        cell(|round| Some(round.reached.p999_us), text::latency),
        cell(|round| Some(round.cpu_per_request()? * 1e6), text::latency),
        cell(|round| Some(round.server_cpu_seconds? / round.reached.seconds), text::percent),
        cell(|round| Some(round.generator_cpu_seconds / round.reached.seconds), text::percent),
        cell(|round| Some(round.others_cpu_seconds / round.reached.seconds), text::percent),
        cell(|round| Some(round.resident_bytes? as f64), text::megabytes),
    ];
    if writes {
        cells.push(cell(|round| Some(round.syncs? / round.reached.seconds), text::number));
        cells.push(cell(|round| round.written_per_stored, text::number));
    }
    Some(cells)
}

fn ratio_line(ratio: &Ratio) -> String {
    let Ratio { ours, theirs, spread, goal, .. } = ratio;
    let [median, min, max] = [spread.median, spread.min, spread.max].map(text::number);
    let goal = goal.map_or_else(String::new, |goal| {
        let reached = if spread.median >= goal { "reached" } else { "missed" };
        format!("; goal {} {reached}", text::number(goal))
    });
    format!("{ours} / {theirs}: {median} × ({min}–{max}){goal}")
}

pub(crate) fn print_authentication(record: &Record) {
    let mut rows = vec![row(["", "CPU", "of a point GET", "(min–max)"])];
    for Authentication { kind, microseconds, share } in &record.authentication {
        let range = format!("({}–{})", text::percent(share.min), text::percent(share.max));
        rows.push(row([
            kind,
            &text::latency(microseconds.median),
            &text::percent(share.median),
            &range,
        ]));
    }
    println!("auth: checking a credential of an account with two keys");
    println!("{}", align(&rows));
}

pub(crate) fn print_client(record: &Record) {
    let Some(client) = &record.client else { return };
    for (workload, title, goal) in CLIENT_WORKLOADS {
        let figures = client.figures.iter().filter(|figure| figure.workload == workload);
        let mut rows = vec![row(["", "CPU of the client", "per second", "ratio", "(min–max)"])];
        rows.extend(figures.map(|figure| {
            let ratio = figure.ratio.map(|ratio| format!("{:.2}", ratio.median));
            let range = figure.ratio.map(|ratio| format!("({:.2}–{:.2})", ratio.min, ratio.max));
            row([
                figure.target,
                &text::latency(figure.cpu_us.median),
                &text::number(figure.per_second.median),
                &ratio.unwrap_or_default(),
                &range.unwrap_or_default(),
            ])
        }));
        if rows.len() > 1 {
            println!("{workload}: {title}; ratio of the first line to each{goal}");
            println!("{}", align(&rows));
        }
    }
    if let Some(Streamed { entities, per_second, early_bytes, highest_bytes }) = &client.streamed {
        let [early, highest] = [early_bytes, highest_bytes].map(|b| text::megabytes(*b as f64));
        println!(
            "client-stream: {} entities, {}/s; resident memory {early} after a tenth, {highest} at most\n",
            text::size(*entities),
            text::number(*per_second)
        );
    }
}

/// Name, title, goal.
const CLIENT_WORKLOADS: [(&str, &str, &str); 4] = [
    ("client-get", "point GET, one at a time", ", at most 1.3 for hyper"),
    ("client-decode", "one entity of a page of 1,000, from bytes", ", at most 1.3"),
    ("client-dynamic", "the same, dynamic against typed", ""),
    ("client-bulk", "one entity of a bulk upsert", " by rate, at least 0.8 for the generator"),
];

pub(crate) fn print_targets(record: &Record) {
    let mut rows = vec![row(["", "idle", "loaded", "end", "peak", "loading"])];
    for Loaded { target, load_seconds, memory, .. } in &record.targets {
        let [idle, loaded, end] =
            [memory.idle, memory.loaded, memory.end].map(|memory| memory.resident_bytes);
        let [idle, loaded, end, peak] =
            [idle, loaded, end, memory.end.peak_bytes].map(|b| text::megabytes(b as f64));
        let loading = format!("{} s", text::number(*load_seconds));
        rows.push(row([target, &idle, &loaded, &end, &peak, &loading]));
    }
    println!("rss: resident memory of each server through the run");
    println!("{}", align(&rows));
}

pub(crate) fn print_recovery(record: &Record) {
    let Some(recovery) = &record.recovery else { return };
    println!(
        "recovery: from the start of the process to the first reply, {} entities",
        text::size(recovery.entities)
    );
    for (after, times) in
        [("kill -9", &recovery.after_kill_ms), ("a clean stop", &recovery.after_stop_ms)]
    {
        let Some(spread) = Spread::of(times.iter().copied()) else { continue };
        let [median, min, max] = [spread.median, spread.min, spread.max].map(text::number);
        println!("  after {after}: {median} ms ({min}–{max})");
    }
    println!();
}

pub(crate) fn print_space(record: &Record) {
    let Some(space) = &record.space else { return };
    let per_byte = |bytes: u64| text::number(bytes as f64 / space.json_bytes as f64);
    println!("space: {} entities, merged and closed", text::size(space.entities));
    println!("  on disk per byte of JSON: {}", per_byte(space.disk_bytes));
    println!("  written until then per byte of JSON: {}\n", per_byte(space.written_bytes));
}

pub(crate) fn print_drop(record: &Record) {
    let Some(drop) = &record.drop else { return };
    println!(
        "drop: a table of {} entities, {} on disk",
        text::size(drop.entities),
        megabytes(drop.bytes_before)
    );
    println!("  reply: {} ms", text::number(drop.reply_ms));
    let seconds = text::number(drop.space_back_seconds);
    println!(
        "  space back (less than a tenth left): {seconds} s, {} left",
        megabytes(drop.bytes_after)
    );
    let (quiet, meanwhile) = (drop.quiet.p99_us, drop.meanwhile.p99_us);
    let ratio = text::number(meanwhile / quiet);
    let [quiet, meanwhile] = [quiet, meanwhile].map(text::latency);
    println!(
        "  p99 of point reads of another table: {meanwhile} meanwhile, {quiet} quiet: {ratio} ×\n"
    );
}

fn megabytes(bytes: u64) -> String {
    text::megabytes(bytes as f64)
}

fn row<const N: usize>(cells: [&str; N]) -> Vec<String> {
    cells.map(str::to_owned).to_vec()
}
