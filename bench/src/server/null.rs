//! The baseline of everything over HTTP: see [`crate::null_server`]. It answers what our server
//! answered.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tavola_load::source::{PAGE_ENTITIES, next_page};
use tavola_load::{Client, Context, Family, Head, Result, Signer, Site, text};

use super::{BenchServer, RunningServer, this_program};
use crate::folders::Scratch;
use crate::null_server::{Recorded, WORD};
use crate::server_target::{ServerTarget, TABLE};

/// The scan that it can answer: enough that the bytes do not stay in the processor's caches.
const PAGES_MAX: usize = 100;
/// The point read, and the first request that a new server gets.
const OTHERS: usize = 2;

#[derive(Debug)]
struct Null {
    recorded: PathBuf,
}

/// Records what our server answers and starts a server that repeats it.
pub(crate) fn start(tavola: &ServerTarget, scratch: &Scratch) -> Result<ServerTarget> {
    let folder = scratch.folder("null")?;
    let recorded = folder.join("answers.jsonl");
    let answers = record(&tavola.server.site)?;
    let pages =
        answers.iter().filter(|answer| answer.request.contains(&format!("{TABLE}()"))).count();
    let lines =
        answers.iter().map(serde_json::to_string).collect::<std::result::Result<Vec<_>, _>>();
    let lines = lines.context(|| "an answer".into())?.join("\n");
    fs::write(&recorded, lines).context(|| "cannot keep the answers".into())?;
    let null = Null { recorded };
    let running = RunningServer::start(&null, &folder)?;
    let mut target = ServerTarget::on(running, "null", pages as u64 * PAGE_ENTITIES);
    target.pages.clone_from(&tavola.pages);
    target.pages.truncate(pages);
    eprintln!("Recorded a scan of {} for the null server", text::size(target.entities));
    Ok(target)
}

fn record(site: &Site) -> Result<Vec<Recorded>> {
    let (signer, mut client) = (Signer::new(site), Client::connect(site)?);
    let mut answers = Vec::new();
    let point = format!("{TABLE}{}", Family::Loaded.key(0).predicate());
    answers.push(ask(&mut client, site, &point, &signer.get(&point, ""))?.0);
    answers.push(ask(&mut client, site, "Tables", &signer.get("Tables", ""))?.0);
    let mut query = Some(String::new());
    while let Some(this) = query.take_if(|_| answers.len() < PAGES_MAX + OTHERS) {
        let target = format!("{TABLE}(){this}");
        let (answer, head) =
            ask(&mut client, site, &target, &signer.get(&format!("{TABLE}()"), &this))?;
        query = next_page(&head);
        answers.push(answer);
    }
    // The last page is the end of its scan.
    if let Some(last) = answers.last_mut() {
        last.headers
            .retain(|(name, _)| !name.to_ascii_lowercase().starts_with("x-ms-continuation"));
    }
    Ok(answers)
}

fn ask(client: &mut Client, site: &Site, target: &str, request: &[u8]) -> Result<(Recorded, Head)> {
    let status = 200;
    let reply = client.ask(request, status)?;
    let request = format!("GET {}/{target}", site.path());
    let body = String::from_utf8_lossy(reply.body).into_owned();
    Ok((Recorded { request, status, headers: reply.headers(), body }, reply.head.clone()))
}

impl BenchServer for Null {
    fn name(&self) -> &'static str {
        "null"
    }

    fn version(&self) -> &str {
        "hyper and tokio, no work"
    }

    fn command(&self, _folder: &Path) -> Result<Command> {
        let mut command = this_program()?;
        command.arg(WORD).arg(&self.recorded);
        Ok(command)
    }

    fn listening_words(&self) -> &'static str {
        "listening at "
    }

    fn metrics_words(&self) -> Option<&'static str> {
        None
    }
}
