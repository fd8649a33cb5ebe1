//! What Linux knows about a process: `/proc/PID/stat` and `/proc/PID/status`.

use std::fs;
use std::time::Duration;

use tavola_load::{Context, Failure, Result};

/// `USER_HZ`: 100 on every architecture that Rust's Linux targets have, whatever the kernel's own
/// tick.
const TICKS_PER_SECOND: u32 = 100;

/// CPU time of all threads so far, user and system.
pub(crate) fn cpu_time(process: u32) -> Result<Duration> {
    let path = format!("/proc/{process}/stat");
    let text = fs::read_to_string(&path).context(|| format!("cannot read {path}"))?;
    let ticks = cpu_ticks(&text).ok_or("no CPU times in /proc/PID/stat")?;
    Ok(Duration::from_secs(1) * ticks / TICKS_PER_SECOND)
}

fn cpu_ticks(stat: &str) -> Option<u32> {
    // The name, in parentheses, may hold anything; the fields after it begin with the third.
    let (_, fields) = stat.rsplit_once(')')?;
    let mut times = fields.split_whitespace().skip(11);
    let user: u32 = times.next()?.parse().ok()?;
    let system: u32 = times.next()?.parse().ok()?;
    Some(user + system)
}

/// CPU time of this thread so far. From the scheduler, in nanoseconds; `stat` counts in hundredths of a second.
pub(crate) fn thread_cpu_time() -> Result<Duration> {
    let text = fs::read_to_string("/proc/thread-self/schedstat")
        .context(|| "this thread's CPU time".into())?;
    let nanoseconds = text.split(' ').next().and_then(|number| number.parse().ok());
    nanoseconds
        .map(Duration::from_nanos)
        .ok_or_else(|| Failure::new("this thread's CPU time cannot be read"))
}

/// Bytes that the process has caused to be written to disks so far.
pub(crate) fn written_bytes(process: u32) -> Result<u64> {
    let path = format!("/proc/{process}/io");
    let text = fs::read_to_string(&path).context(|| format!("cannot read {path}"))?;
    Ok(written(&text).ok_or("no bytes written in /proc/PID/io")?)
}

fn written(io: &str) -> Option<u64> {
    io.lines().find_map(|line| line.strip_prefix("write_bytes:"))?.trim().parse().ok()
}

/// CPU time of the whole machine so far, all that is not idle.
pub(crate) fn machine_cpu_time() -> Result<Duration> {
    let text = fs::read_to_string("/proc/stat").context(|| "cannot read /proc/stat".into())?;
    let ticks = machine_ticks(&text).ok_or("no CPU times in /proc/stat")?;
    Ok(Duration::from_secs_f64(ticks as f64 / f64::from(TICKS_PER_SECOND)))
}

/// User, nice, system, interrupts and what the hypervisor took; idle and waiting for a disk are
/// left out, and guests are counted as user time already.
fn machine_ticks(stat: &str) -> Option<u64> {
    let line = stat.lines().next()?.strip_prefix("cpu ")?;
    let fields: Vec<u64> = line.split_whitespace().map_while(|field| field.parse().ok()).collect();
    Some([0, 1, 2, 5, 6, 7].iter().filter_map(|field| fields.get(*field)).sum())
}

/// Resident memory, now and at its highest, in bytes.
#[derive(Debug, Clone, Copy, Default, serde::Serialize)]
pub(crate) struct Memory {
    pub(crate) resident_bytes: u64,
    pub(crate) peak_bytes: u64,
}

pub(crate) fn memory(process: u32) -> Result<Memory> {
    let path = format!("/proc/{process}/status");
    let text = fs::read_to_string(&path).context(|| format!("cannot read {path}"))?;
    let field = |name| kilobytes(&text, name).map(|kilobytes| kilobytes * 1024).unwrap_or_default();
    Ok(Memory { resident_bytes: field("VmRSS:"), peak_bytes: field("VmHWM:") })
}

/// A field of `/proc/PID/status` or `/proc/meminfo`.
pub(crate) fn kilobytes(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim().strip_suffix(" kB")?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_may_hold_parentheses() {
        let stat = "42 (a) b (c)) S 1 42 42 0 -1 4194560 1 0 0 0 120 30 0 0 20 0 1 0 5 6 7";
        assert_eq!(cpu_ticks(stat), Some(150));
    }

    #[test]
    fn idle_time_is_no_time() {
        assert_eq!(machine_ticks("cpu  10 20 30 4000 500 6 7 8 0 0\ncpu0 1 2 3 4\n"), Some(81));
    }

    #[test]
    fn memory_fields() {
        let text = "Name:\ttavola\nVmHWM:\t   21504 kB\nVmRSS:\t   20480 kB\n";
        assert_eq!(kilobytes(text, "VmRSS:"), Some(20480));
        assert_eq!(kilobytes(text, "VmSwap:"), None);
    }

    #[test]
    fn written_bytes_are_those_of_the_disk() {
        assert_eq!(written("wchar: 5\nwrite_bytes: 4096\ncancelled_write_bytes: 1\n"), Some(4096));
    }

    #[test]
    fn this_process_is_known() {
        assert!(memory(std::process::id()).unwrap().resident_bytes > 0);
        assert!(cpu_time(std::process::id()).is_ok());
    }
}
