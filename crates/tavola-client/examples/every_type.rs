//! Writes each case of `tests/sdk/scenario.json` as a derived entity, or checks those that another
//! library wrote. The Python suite runs it: what one library writes, the other reads.
//!
//! `every_type write|check TABLE`, with the variables of `tests/sdk/README.md`.

use std::env;
use std::error::Error;

use serde_json::Value;
use tavola_client::{Credential, Entity, TableClient, TableServiceClient};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use uuid::Uuid;

/// One value, in the property of its type.
#[derive(Debug, Clone, PartialEq, Entity)]
#[entity(partition = "types", row = "{number:03}", rename_all = "PascalCase")]
struct Case {
    number: u32,
    int32: Option<i32>,
    int64: Option<i64>,
    double: Option<f64>,
    date_time: Option<OffsetDateTime>,
    guid: Option<Uuid>,
    binary: Option<Vec<u8>>,
    string: Option<String>,
    boolean: Option<bool>,
}

impl Case {
    fn read(number: u32, case: &Value) -> Result<Self, Box<dyn Error>> {
        let field = |name: &str| case[name].as_str().ok_or("a case has a type and a text");
        let times = usize::try_from(case["times"].as_u64().unwrap_or(1))?;
        let text = field("text")?.repeat(times);
        let mut read = Self {
            number,
            int32: None,
            int64: None,
            double: None,
            date_time: None,
            guid: None,
            binary: None,
            string: None,
            boolean: None,
        };
        match field("type")? {
            "Int32" => read.int32 = Some(text.parse()?),
            "Int64" => read.int64 = Some(text.parse()?),
            "Double" => read.double = Some(text.parse()?),
            "DateTime" => read.date_time = Some(OffsetDateTime::parse(&text, &Rfc3339)?),
            "Guid" => read.guid = Some(text.parse()?),
            "Binary" => read.binary = Some(bytes(&text)?),
            "String" => read.string = Some(text),
            "Boolean" => read.boolean = Some(text.parse()?),
            other => return Err(format!("a type `{other}`").into()),
        }
        Ok(read)
    }

    /// Also for what is not equal to itself.
    fn is_same(&self, other: &Self) -> bool {
        let is_nan = |case: &Self| case.double.is_some_and(f64::is_nan);
        self == other || (is_nan(self) && is_nan(other) && self.number == other.number)
    }
}

fn bytes(hex: &str) -> Result<Vec<u8>, Box<dyn Error>> {
    let digits = hex.as_bytes().chunks(2);
    digits.map(|pair| Ok(u8::from_str_radix(std::str::from_utf8(pair)?, 16)?)).collect()
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let variable = |name: &str| env::var(name).map_err(|_| format!("{name} is not set"));
    let [what, table] = env::args()
        .skip(1)
        .collect::<Vec<_>>()
        .try_into()
        .map_err(|_| "every_type write|check TABLE")?;
    let credential = Credential::key(variable("TAVOLA_ACCOUNT")?, variable("TAVOLA_KEY")?);
    let endpoint = variable("TAVOLA_ENDPOINT")?;
    let service = TableServiceClient::new(&endpoint, Some(credential), None)?;
    let scenario: Value =
        serde_json::from_str(&std::fs::read_to_string(variable("TAVOLA_SCENARIO")?)?)?;
    let cases = scenario["types"].as_array().ok_or("the scenario has types")?;
    let cases = (0..).zip(cases).map(|(number, case)| Case::read(number, case));
    let cases = cases.collect::<Result<Vec<_>, _>>()?;
    let table = service.table_client(table);
    match what.as_str() {
        "write" => write(&table, &cases).await?,
        "check" => check(&table, &cases).await?,
        _ => return Err("every_type write|check TABLE".into()),
    }
    println!("{} cases", cases.len());
    Ok(())
}

async fn write(table: &TableClient, cases: &[Case]) -> Result<(), Box<dyn Error>> {
    for case in cases {
        table.insert(case).await?;
    }
    Ok(())
}

async fn check(table: &TableClient, cases: &[Case]) -> Result<(), Box<dyn Error>> {
    for case in cases {
        let stored = table.get(Case::key().number(case.number)).await?;
        let stored = stored.ok_or_else(|| format!("case {} is not there", case.number))?;
        if !stored.is_same(case) || !stored.rest().is_empty() {
            return Err(format!("case {}: {stored:.200?} is not {case:.200?}", case.number).into());
        }
    }
    Ok(())
}
