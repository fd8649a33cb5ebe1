//! Access policies as properties of a row: those of one policy share a number.

use tavola_core::{AccessPolicy, EdmValue, EntityView};

use crate::record::{Record, date_time, text};

pub(super) fn write(policies: &[AccessPolicy], record: &mut Record) {
    for (index, policy) in policies.iter().enumerate() {
        record.set_text(&format!("Policy{index}"), &policy.id);
        if let Some(start) = policy.start {
            record.set(&format!("Policy{index}Start"), EdmValue::DateTime(start));
        }
        if let Some(expiry) = policy.expiry {
            record.set(&format!("Policy{index}Expiry"), EdmValue::DateTime(expiry));
        }
        if let Some(permission) = &policy.permission {
            record.set_text(&format!("Policy{index}Permission"), permission);
        }
    }
}

pub(super) fn read(row: &dyn EntityView) -> Vec<AccessPolicy> {
    (0..).map_while(|index| read_one(row, index)).collect()
}

fn read_one(row: &dyn EntityView, index: usize) -> Option<AccessPolicy> {
    let id = row.property(&format!("Policy{index}")).and_then(text)?.to_owned();
    let at = |field: &str| row.property(&format!("Policy{index}{field}")).and_then(date_time);
    let permission =
        row.property(&format!("Policy{index}Permission")).and_then(text).map(str::to_owned);
    Some(AccessPolicy { id, start: at("Start"), expiry: at("Expiry"), permission })
}
